//! Child processes: the one module of the clients that makes a command, and where the daemon's executable is found.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use grounding_proto::environment::Environment;

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
    beside.or_else(|| on_path(environment, name)).ok_or(ProgramNotFound { name: name.to_owned(), client })
}

/// Finds an executable file of that name on PATH; empty and relative entries are passed over.
#[must_use]
pub fn on_path(environment: &Environment, name: &str) -> Option<PathBuf> {
    let directories = std::env::split_paths(environment.get("PATH")?).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).find(|path| is_executable(path))
}

/// Returns whether the path is a file that someone may execute.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns the command that starts the daemon: its stdout is the readiness pipe, nothing else is shared with it.
///
/// The environment is passed on; descriptors from 3 up are marked to be closed, in case this process was handed some.
#[must_use]
pub fn daemon(program: &Path) -> tokio::process::Command {
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = plain(program);
    command.arg("serve").current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.into()
}

/// Returns a command that inherits everything.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that makes a command")]
pub fn plain(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}
