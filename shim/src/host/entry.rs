//! The entry of a host: its name, what may be done with it, and why that is refused.
//!
//! An entry counts as ours by its command's file name alone, since no file is looked at here. An entry that is not ours
//! is never changed.

use std::path::Path;

use crate::process::SERVER;

/// The name of our entry in every host.
pub const NAME: &str = "grounding";

/// What stands in a host's configuration under our name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// Nothing.
    Absent,
    /// An entry of ours with everything it should have but perhaps another command.
    Present {
        /// The command.
        command: String,
    },
    /// An entry of ours that lacks something beside the command.
    Incomplete {
        /// The command.
        command: String,
    },
    /// An entry of somebody else.
    Foreign {
        /// What it starts, as far as that can be said.
        starts: String,
    },
}

/// A change of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Our entry starts this command; further keys of an entry that is there stay.
    Register {
        /// The absolute path of the program.
        command: &'a str,
    },
    /// Our entry is not there.
    Unregister {
        /// What becomes of the table of servers when nothing is left in it.
        emptied: Emptied,
    },
}

/// What becomes of the table of servers when our entry was its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emptied {
    /// It stays, empty.
    Stays,
    /// It goes, because our entry brought it.
    Goes,
}

/// A configuration that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is not what its name says.
    #[error("it is not valid {format}: {why}; mend it")]
    Syntax {
        /// The format.
        format: &'static str,
        /// What is wrong, and where.
        why: String,
    },
    /// Something of another type stands where a table belongs.
    #[error("{place} is {found}, where {expected} belongs; mend it")]
    WrongType {
        /// What stands there.
        place: String,
        /// Its type.
        found: &'static str,
        /// The right type.
        expected: &'static str,
    },
    /// A key stands twice, and hosts differ in which they read.
    #[error("`{key}` stands in it twice; remove one")]
    Twice {
        /// The key.
        key: String,
    },
    /// The entry is another program's.
    #[error("its entry `{NAME}` starts another program, {starts}; rename or remove that entry")]
    Foreign {
        /// What it starts.
        starts: String,
    },
    /// It is written in a way that no edit of ours fits.
    #[error("{place} is written in a form that can't be edited without touching the rest; make the change by hand")]
    Form {
        /// The place.
        place: String,
    },
}

/// Returns whether a command names our program: by its file name, wherever it is.
#[must_use]
pub fn is_ours(command: &str) -> bool {
    Path::new(command).file_name().is_some_and(|name| name == SERVER)
}

/// Sorts an entry by its command.
pub(super) fn registration(command: String, is_complete: IsComplete) -> Registration {
    match is_complete {
        _ if !is_ours(&command) => Registration::Foreign { starts: format!("`{command}`") },
        IsComplete::Yes => Registration::Present { command },
        IsComplete::No => Registration::Incomplete { command },
    }
}

/// Whether an entry has what it should have beside the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsComplete {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_ours_by_its_file_name() {
        for ours in ["grounding-mcp", "/home/me/.local/bin/grounding-mcp", "~/x y/grounding-mcp"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["", "/", "npx", "grounding-mcp.js", "/x/grounding-mcp/..", "grounding-mcp --x"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
