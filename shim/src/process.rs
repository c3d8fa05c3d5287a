//! Child processes: the one module of the clients that makes a command, and where the daemon's executable is found.
//!
//! A daemon is started with the client's environment, away from its working directory, and shares nothing with it but the
//! readiness pipe. This module never waits for a daemon or judges what it says; `launch` does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use grounding_proto::environment::{Environment, SERVICE_VARIABLES, find_program, is_executable};

/// The daemon's executable.
pub const DAEMON: &str = "groundingd";

/// No executable of that name next to this one, nor on PATH.
#[derive(Debug, thiserror::Error)]
#[error("can't find {name}: it is neither next to {} nor on PATH; install it beside this program", client.display())]
pub struct ProgramNotFound {
    /// The program looked for.
    pub name: String,
    /// This process's own executable.
    pub client: PathBuf,
}

/// Finds an executable next to this process's own, symlinks resolved, else on PATH.
///
/// # Errors
/// When there is none.
pub fn sibling(environment: &Environment, name: &str) -> Result<PathBuf, ProgramNotFound> {
    let client = std::env::current_exe().and_then(std::fs::canonicalize).or_else(|_| std::env::current_exe());
    let client = client.unwrap_or_default();
    let beside = client.parent().map(|directory| directory.join(name)).filter(|path| is_executable(path));
    let found = beside.or_else(|| find_program(environment.get("PATH")?, name));
    found.ok_or(ProgramNotFound { name: name.to_owned(), client })
}

/// Returns the command that starts the daemon: its stdout is the readiness pipe, nothing else is shared with it.
///
/// The client's environment is passed on, less what a service manager told the client; descriptors from 3 up are marked to be closed, in case this process was handed some.
#[must_use]
pub fn daemon(program: &Path, environment: &Environment) -> tokio::process::Command {
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = plain(program);
    let passed = environment.variables().iter().filter(|(name, _)| !SERVICE_VARIABLES.iter().any(|own| name == own));
    command.env_clear().envs(passed.cloned());
    command.arg("serve").current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.into()
}

/// Returns a command that inherits everything.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that makes a command")]
pub fn plain(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// A short program that failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It can't be started.
    #[error("can't start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// Why not.
        source: std::io::Error,
    },
    /// It ended with an error.
    #[error("`{command}` failed: {output}")]
    Failed {
        /// The command line.
        command: String,
        /// What it printed.
        output: String,
    },
}

/// Runs a program without stdin to its end and returns what it printed on stdout; it is killed when the future is dropped.
///
/// # Errors
/// When it can't be started or fails.
pub async fn run(mut command: Command) -> Result<String, RunError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    command.stdin(Stdio::null());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await;
    let output = output.map_err(|source| RunError::Start { command: shown.clone(), source })?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let said = format!("{}{stdout}", String::from_utf8_lossy(&output.stderr));
    Err(RunError::Failed { command: shown, output: format!("{} ({})", said.trim(), output.status) })
}
