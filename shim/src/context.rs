//! What a client tells the daemon about itself with each call: working directory, storage roots, settings, environment.
//!
//! The daemon must not guess any of it, because it may run in another environment. The variables themselves go along only
//! with the tools that start programs; nothing here writes them anywhere.

use std::path::PathBuf;

use grounding_proto::catalogue;
use grounding_proto::environment::{CLAUDE_PROJECT_DIR, Environment};
use grounding_proto::wire::{Context, OsText};

/// This build's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A working directory that is no longer there.
#[derive(Debug, thiserror::Error)]
#[error(
    "the working directory of this process can't be resolved; it was removed or moved: change to a directory that exists and start again"
)]
pub struct WorkingDirectoryGone {
    source: std::io::Error,
}

/// Returns the context of a call of that tool.
///
/// The working directory is CLAUDE_PROJECT_DIR when that names an existing directory by an absolute path, else the
/// process's own. A tool that resolves no path against it is called even when it is gone.
///
/// # Errors
/// When the tool needs the working directory and it is gone.
pub fn of_tool(environment: &Environment, tool: &str) -> Result<Context, WorkingDirectoryGone> {
    let cwd = match working_directory(environment) {
        Err(_) if !catalogue::needs_working_directory(tool) => PathBuf::from("/"),
        other => other?,
    };
    let variables = || environment.variables().iter().map(|(name, value)| (name.clone().into(), value.clone().into()));
    let env = catalogue::carries_environment(tool).then(|| variables().collect());
    Ok(Context { cwd: OsText::from(cwd), roots: environment.roots(), settings: environment.settings().0, env })
}

fn working_directory(environment: &Environment) -> Result<PathBuf, WorkingDirectoryGone> {
    let project = environment.get(CLAUDE_PROJECT_DIR).map(PathBuf::from);
    match project.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(path) => Ok(path),
        None => std::env::current_dir().map_err(|source| WorkingDirectoryGone { source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::of_variables(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn only_tools_that_start_programs_carry_the_environment() {
        let environment = environment(&[("HOME", "/h"), ("TOKEN", "secret")]);
        let env = |tool| of_tool(&environment, tool).unwrap().env;
        assert_eq!(env("solution_evaluate").unwrap().len(), 2);
        assert_eq!(env("solution_gate").unwrap().len(), 2);
        assert!(env("ledger_add").is_none());
    }

    #[test]
    fn the_project_directory_wins_when_it_exists() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = |project: &str| {
            let environment = environment(&[("HOME", "/h"), ("CLAUDE_PROJECT_DIR", project)]);
            of_tool(&environment, "solution_gate").unwrap().cwd.as_path().to_owned()
        };
        assert_eq!(cwd(directory.path().to_str().unwrap()), directory.path());
        let own = std::env::current_dir().unwrap();
        assert_eq!(cwd("/nowhere/at/all"), own);
        assert_eq!(cwd("."), own);
    }
}
