//! Which preflight an evaluation will use, by the rules of the daemon: `SOLUTION_PREFLIGHT_BIN`, else `preflight` on PATH,
//! else the built-in checks.
//!
//! For who says it beforehand, `setup` and `doctor`; the daemon decides it anew for each evaluation. Runs nothing.

use std::path::PathBuf;

use grounding_proto::environment::{Environment, SOLUTION_PREFLIGHT_BIN, is_executable};

/// What checks solutions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preflight {
    /// The built-in checks.
    BuiltIn(FoundBy),
    /// A program. A relative one is looked up in the directory of each evaluation; whether it can be run is not said.
    Program {
        /// Its path.
        path: PathBuf,
        /// What leads to it.
        found_by: FoundBy,
    },
}

/// What leads to a preflight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// What is on PATH, or is not.
    Path,
    /// `SOLUTION_PREFLIGHT_BIN`.
    Variable,
}

/// Finds what checks solutions for a client in this environment.
#[must_use]
pub fn find(environment: &Environment) -> Preflight {
    let Some(named) = environment.get(SOLUTION_PREFLIGHT_BIN) else {
        return match environment.find_program("preflight") {
            Some(path) => Preflight::Program { path, found_by: FoundBy::Path },
            None => Preflight::BuiltIn(FoundBy::Path),
        };
    };
    if named == "builtin" {
        return Preflight::BuiltIn(FoundBy::Variable);
    }
    let is_bare = !named.as_encoded_bytes().contains(&b'/');
    let found = named.to_str().filter(|_| is_bare).and_then(|name| environment.find_program(name));
    Preflight::Program { path: found.unwrap_or_else(|| named.into()), found_by: FoundBy::Variable }
}

/// Returns a sentence that says which checks run for a client in this environment.
#[must_use]
pub fn said(environment: &Environment) -> String {
    match find(environment) {
        Preflight::BuiltIn(FoundBy::Path) => {
            "Solutions are checked by the built-in checks: there is no `preflight` on PATH.".to_owned()
        }
        Preflight::BuiltIn(FoundBy::Variable) => {
            format!("Solutions are checked by the built-in checks, as {SOLUTION_PREFLIGHT_BIN} says.")
        }
        Preflight::Program { path, found_by: FoundBy::Path } => {
            format!("Solutions are checked by {}, found on PATH.", path.display())
        }
        Preflight::Program { path, .. } if !path.is_absolute() => format!(
            "Solutions are checked by {}, looked up in the directory of each evaluation, as {SOLUTION_PREFLIGHT_BIN} \
             says.",
            path.display()
        ),
        Preflight::Program { path, .. } if is_executable(&path) => {
            format!("Solutions are checked by {}, as {SOLUTION_PREFLIGHT_BIN} says.", path.display())
        }
        Preflight::Program { path, .. } => format!(
            "No solution can be checked: {SOLUTION_PREFLIGHT_BIN} names {}, which is no executable file; correct or \
             unset it.",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_daemon() {
        let said = |pairs: &[(&str, &str)]| {
            super::said(&Environment::of_variables(
                pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ))
        };
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().to_str().unwrap();
        std::os::unix::fs::symlink("/bin/sh", directory.path().join("preflight")).unwrap();
        assert!(said(&[("PATH", "/nowhere")]).contains("built-in"));
        assert!(said(&[("PATH", bin)]).contains(&format!("{bin}/preflight, found on PATH")));
        for (named, words) in [
            ("builtin", "built-in checks, as"),
            ("preflight", &*format!("{bin}/preflight, as")),
            ("/bin/sh", "/bin/sh, as"),
            ("./preflight", "each evaluation"),
            ("/nowhere/preflight", "No solution"),
        ] {
            let text = said(&[("PATH", bin), (SOLUTION_PREFLIGHT_BIN, named)]);
            assert!(text.contains(words) && text.contains(SOLUTION_PREFLIGHT_BIN), "{text}");
        }
    }
}
