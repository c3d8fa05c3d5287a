//! How setting up or removing fails: what, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use grounding_proto::environment::EnvironmentError;

use crate::host::entry::EditError;
use crate::process::RunError;
use crate::service::ServiceError;

/// Something that was not done.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The environment leads nowhere.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A file or directory can't be used.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not what it must be.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// A host's file can't be edited.
    #[error("{} was left as it is", path.display())]
    Edit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: EditError,
    },
    /// A host's own command failed.
    #[error("the host's own command failed; mend what it says, then run this again")]
    Host(#[source] RunError),
    /// A host's own command did not end.
    #[error("`{command}` did not end within {seconds} s; run it by hand, then run this again")]
    HostHangs {
        /// The command line.
        command: String,
        /// The time it was given.
        seconds: u64,
    },
    /// A host's own command ended well, and its file does not show it.
    #[error("`{command}` ended without an error, but {} does not show what it did", path.display())]
    HostDiffers {
        /// The command line.
        command: String,
        /// The file.
        path: PathBuf,
    },
    /// The service manager refused.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The daemon does not start.
    #[error("the daemon was not started")]
    Daemon(#[source] RunError),
    /// Another set-up or removal is under way, or was since this one looked.
    #[error("another `groundingctl setup` or `uninstall` is under way; wait for its end, then run this again")]
    Busy,
    /// Data can't be deleted under an attempt.
    #[error(
        "attempts are running, so no data was deleted and nothing else was done: wait for their end, or end them with \
         `groundingctl attempt cancel`"
    )]
    AttemptsRun,
    /// The daemon does not end.
    #[error("the daemon was not stopped")]
    Stop(#[source] Box<crate::command::failure::CommandError>),
}

impl SetupError {
    /// Returns a closure that makes the error of a failed file operation.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
