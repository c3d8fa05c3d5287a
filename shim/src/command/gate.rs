//! `groundingctl gate`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use grounding_proto::environment::Environment;

use super::failure::CommandError;
use crate::process;

/// Tell whether a solution may be called done; works without a running daemon.
///
/// Exit code 0: allowed; 1: denied.
#[derive(Debug, clap::Args)]
pub struct Gate {
    #[command(flatten)]
    question: VerdictQuestion,
}

/// Which verdict a command asks the daemon's executable about.
#[derive(Debug, clap::Args)]
pub struct VerdictQuestion {
    /// The id that was evaluated.
    id: OsString,
    /// The repository whose HEAD the verdict is compared with; default: the working directory.
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Gate {
    /// Becomes `groundingd gate`.
    ///
    /// # Errors
    /// When that can't be run.
    pub fn run(self, environment: &Environment) -> Result<u8, CommandError> {
        self.question.ask(environment, "gate")
    }
}

impl VerdictQuestion {
    /// Becomes the daemon's command of that name.
    ///
    /// # Errors
    /// When that can't be run.
    pub fn ask(self, environment: &Environment, command: &str) -> Result<u8, CommandError> {
        let mut arguments = vec![command.into()];
        if let Some(repo) = self.repo {
            arguments.extend(["--repo".into(), repo.into_os_string()]);
        }
        if self.json {
            arguments.push("--json".into());
        }
        arguments.extend(["--".into(), self.id]);
        become_daemon(environment, &arguments)
    }
}

/// Replaces this process by the daemon's executable with these arguments; its exit code becomes ours.
///
/// # Errors
/// When it can't be run.
pub fn become_daemon(environment: &Environment, arguments: &[OsString]) -> Result<u8, CommandError> {
    let program = process::sibling(environment, process::DAEMON)?;
    let source = process::plain(&program).args(arguments).exec();
    Err(CommandError::Exec { program: program.display().to_string(), source })
}
