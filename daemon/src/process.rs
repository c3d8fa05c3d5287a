//! Child processes and the environment they are given: the one module of the daemon that makes a `Command`.
//!
//! A client's environment lives in memory alone: it is never written to disk, logged, or shown by `Debug`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use grounding_proto::environment::{self, SERVICE_VARIABLES};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Variables that would point git at another repository than the one asked about: what `git rev-parse
/// --local-env-vars` lists, without GIT_CONFIG*, plus two that move discovery and refs (DESIGN 7).
const GIT_LOCAL_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// What Linux calls the executable of whoever asks, also after its file was replaced.
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// What our own processes are called.
const NAME: &str = "groundingd";

/// The variables that children started for a client are given; cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientEnvironment(Arc<[(OsString, OsString)]>);

impl fmt::Debug for ClientEnvironment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClientEnvironment({} variables)", self.0.len())
    }
}

impl ClientEnvironment {
    /// Keeps a client's variables, less those that point git elsewhere and those of a service manager.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let foreign = |name: &OsStr| GIT_LOCAL_VARIABLES.iter().chain(SERVICE_VARIABLES).any(|local| name == *local);
        Self(variables.into_iter().filter(|(name, _)| !foreign(name)).collect())
    }

    /// Returns the value of a variable; a blank one counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        environment::lookup(&self.0, name)
    }

    /// Returns all variables.
    #[must_use]
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.0
    }

    /// Finds an executable file of that name on this environment's PATH; empty and relative entries are passed over.
    #[must_use]
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        environment::find_program(self.get("PATH")?, name)
    }
}

/// Returns a command that inherits nothing: the given environment, no stdin, output thrown away.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that makes a command")]
pub fn command(program: &Path, environment: &ClientEnvironment, cwd: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.env_clear().envs(environment.variables().iter().map(|(name, value)| (name, value)));
    command.current_dir(cwd).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

/// Returns a command that inherits everything but stdin, for a process that stands between two others.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that makes a command")]
pub fn inheriting(program: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.stdin(Stdio::null());
    if program == Path::new(OWN_EXECUTABLE) {
        command.arg0(NAME);
    }
    command
}

/// Returns a command that starts this very build again, also after its file was replaced by an upgrade.
///
/// # Errors
/// When the system can't name the running executable.
pub fn this_build(environment: &ClientEnvironment, cwd: &Path) -> std::io::Result<tokio::process::Command> {
    let mut command = command(&own_executable()?, environment, cwd);
    command.arg0(NAME);
    Ok(command)
}

/// Returns the path that starts this very build, from this process or a child of this build.
///
/// # Errors
/// When the system can't name the running executable.
pub fn own_executable() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from(OWN_EXECUTABLE)) } else { std::env::current_exe() }
}

/// From now on SIGTERM and SIGINT no longer end this process: the future that is returned ends at the first of them.
///
/// # Errors
/// When the signals can't be heard.
pub fn termination() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// From now on a write past the file size limit is an error to this process (EFBIG), not its end. Children are not affected.
///
/// # Errors
/// When the signal can't be heard.
pub fn survive_file_size_limit() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // Once heard it is heard for good: the runtime never gives a signal back.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// What a short, quiet program printed.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; nothing when a signal ended it.
    pub code: Option<i32>,
    /// The first bytes of its stdout.
    pub stdout: Vec<u8>,
    /// The first bytes of its stderr.
    pub stderr: Vec<u8>,
    /// Whether stdout was longer than the bound.
    pub truncated: bool,
}

/// A program that gave no output to read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error("can't start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its output could not be read.
    #[error("can't read the output of {}", program.display())]
    Read {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It did not end in time and was killed.
    #[error("{} did not end within {} s and was killed", program.display(), limit.as_secs())]
    TimedOut {
        /// The program.
        program: PathBuf,
        /// The time it was given.
        limit: Duration,
    },
}

/// Runs a short program to its end and returns the first `most_bytes` of its output; the rest is read and dropped.
///
/// # Errors
/// When it can't be started, or does not end within `limit`.
pub async fn run(mut command: tokio::process::Command, limit: Duration, most_bytes: usize) -> Result<Output, RunError> {
    let program = PathBuf::from(command.as_std().get_program());
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|source| RunError::Start { program: program.clone(), source })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let finish =
        async { tokio::try_join!(read_bounded(stdout, most_bytes), read_bounded(stderr, most_bytes), child.wait()) };
    match tokio::time::timeout(limit, finish).await {
        Err(_) => Err(RunError::TimedOut { program, limit }),
        Ok(Err(source)) => Err(RunError::Read { program, source }),
        Ok(Ok(((stdout, truncated), (stderr, _), status))) => {
            Ok(Output { code: status.code(), stdout, stderr, truncated })
        }
    }
}

async fn read_bounded(stream: Option<impl AsyncRead + Unpin>, most: usize) -> std::io::Result<(Vec<u8>, bool)> {
    let Some(mut stream) = stream else { return Ok((Vec::new(), false)) };
    let (mut kept, mut truncated, mut chunk) = (Vec::new(), false, vec![0; 16 * 1024]);
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Ok((kept, truncated));
        }
        let room = most.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&chunk[..room]);
        truncated |= room < count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> ClientEnvironment {
        ClientEnvironment::new(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())))
    }

    #[tokio::test]
    async fn git_lists_no_local_variable_that_is_kept() {
        let environment = environment(&[("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GIT_DIR", "/elsewhere")]);
        let git = environment.find_program("git").expect("git is on PATH");
        let mut command = command(&git, &environment, Path::new("/"));
        command.args(["rev-parse", "--local-env-vars"]);
        let output = run(command, Duration::from_secs(10), 4096).await.unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.contains("GIT_DIR"));
        for name in listed.lines().filter(|name| !name.starts_with("GIT_CONFIG")) {
            assert!(GIT_LOCAL_VARIABLES.contains(&name), "{name}");
        }
    }

    #[tokio::test]
    async fn output_is_bounded_and_time_is_bounded() {
        let environment = environment(&[("PATH", "/usr/bin:/bin")]);
        let shell = |script: &str| {
            let mut command = command(Path::new("/bin/sh"), &environment, Path::new("/"));
            command.args(["-c", script]);
            command
        };
        let output =
            run(shell("head -c 100000 /dev/zero; echo oops >&2; exit 3"), Duration::from_secs(10), 10).await.unwrap();
        assert_eq!((output.code, output.stdout.len(), output.truncated), (Some(3), 10, true));
        assert_eq!(output.stderr, b"oops\n");
        let error = run(shell("exec sleep 60"), Duration::from_millis(50), 10).await.unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }

    #[test]
    fn debug_never_shows_a_value() {
        assert_eq!(format!("{:?}", environment(&[("TOKEN", "secret")])), "ClientEnvironment(1 variables)");
    }
}
