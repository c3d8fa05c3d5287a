//! `groundingctl preflight`.

use std::path::PathBuf;

use clap::Subcommand;
use grounding_proto::environment::Environment;

use super::failure::CommandError;
use super::gate::become_daemon;

/// Check a repository with the built-in checks; works without a running daemon.
#[derive(Debug, clap::Args)]
pub struct Preflight {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Run),
}

/// Run every check and say whether the repository is ready.
///
/// Exit code 0: ready; 1: not ready; 2: the checks could not be run.
#[derive(Debug, clap::Args)]
struct Run {
    /// The repository.
    #[arg(default_value = ".")]
    repo: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Preflight {
    /// Becomes `groundingd preflight run`.
    ///
    /// # Errors
    /// When that can't be run.
    pub fn run(self, environment: &Environment) -> Result<u8, CommandError> {
        let Verb::Run(run) = self.verb;
        let mut arguments = vec!["preflight".into(), "run".into()];
        if run.json {
            arguments.push("--json".into());
        }
        arguments.extend(["--".into(), run.repo.into_os_string()]);
        become_daemon(environment, &arguments)
    }
}
