//! A private home and everything that runs in it.
//!
//! Programs see PATH, HOME and the variables a test sets, nothing else. When the environment is dropped, every process
//! that still runs with its home is ended.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use grounding_proto::environment::Environment;
use grounding_proto::wire::HealthAnswer;
use tempfile::TempDir;

use crate::process::{self, processes_of};
use crate::wait::wait_for;
use crate::{Repository, Shim, binaries};

/// A private home directory with a path short enough for a socket.
#[derive(Debug)]
pub struct TestEnvironment {
    home: TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl Default for TestEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl TestEnvironment {
    /// Makes an empty home.
    #[must_use]
    pub fn new() -> Self {
        // TMPDIR may be long, and a socket path has 100 bytes.
        let home = tempfile::Builder::new().prefix("g").tempdir_in("/tmp").expect("a directory in /tmp");
        let path = Environment::of_process().get("PATH").map(OsStr::to_owned).expect("PATH is set");
        let variables = vec![("PATH".into(), path), ("HOME".into(), home.path().into())];
        Self { home, variables }
    }

    /// Sets a variable for every program that is started from now on.
    pub fn set(&mut self, variable: &str, value: impl Into<OsString>) {
        self.variables.retain(|(name, _)| name != variable);
        self.variables.push((variable.into(), value.into()));
    }

    /// Returns the home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns a path below the home directory.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.home().join(relative)
    }

    /// Returns the environment as the programs see it.
    #[must_use]
    pub fn environment(&self) -> Environment {
        Environment::of_variables(self.variables.clone())
    }

    /// Returns a command that runs in this environment, in the home directory.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = process::command(program);
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).current_dir(self.home());
        command
    }

    /// Starts a shim and opens it with `initialize`.
    #[must_use]
    pub fn shim(&self) -> Shim {
        self.shim_with(&[])
    }

    /// Starts a shim with further variables and opens it with `initialize`.
    #[must_use]
    pub fn shim_with(&self, variables: &[(&str, &OsStr)]) -> Shim {
        let mut shim = self.unopened_shim(variables);
        shim.initialize();
        shim
    }

    /// Starts a shim that has not been spoken to.
    #[must_use]
    pub fn unopened_shim(&self, variables: &[(&str, &OsStr)]) -> Shim {
        let mut command = self.command(binaries::grounding_mcp());
        command.envs(variables.iter().copied());
        Shim::spawn(command)
    }

    /// Runs `groundingctl` to its end, without input.
    #[must_use]
    pub fn groundingctl(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(binaries::groundingctl());
        command.args(arguments).stdin(Stdio::null()).output().expect("groundingctl starts")
    }

    /// Returns what `groundingctl status --json` prints.
    #[must_use]
    pub fn status(&self) -> HealthAnswer {
        let output = self.groundingctl(&["status", "--json"]);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("groundingctl status --json: {error}: {}", shown(&output)))
    }

    /// Returns the process id of the daemon.
    #[must_use]
    pub fn daemon(&self) -> u32 {
        self.status().pid.expect("the daemon runs")
    }

    /// Returns the process ids of all daemons of this home.
    #[must_use]
    pub fn daemons(&self) -> Vec<u32> {
        let serves = |line: &String| line.contains("groundingd serve");
        processes_of(self.home()).into_iter().filter(|(_, line)| serves(line)).map(|(pid, _)| pid).collect()
    }

    /// Ends the daemon with SIGKILL and returns the process id it had.
    pub fn kill_daemon(&self) -> u32 {
        let pid = self.daemon();
        process::kill(pid);
        pid
    }

    /// Returns the socket path.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.environment().socket_path().expect("a short home has a socket path")
    }

    /// Makes a git repository with one commit on the branch `feature/work`.
    #[must_use]
    pub fn repository(&self, relative: &str) -> Repository<'_> {
        Repository::init(self, relative)
    }

    /// Writes an executable shell script and returns its path.
    #[must_use]
    pub fn script(&self, relative: &str, body: &str) -> PathBuf {
        let path = self.path(relative);
        self.write(relative, format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a script is made executable");
        path
    }

    /// Writes a file below the home directory, with its directories.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        let parent = path.parent().expect("a file has a directory");
        std::fs::create_dir_all(parent).expect("a directory below the home");
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Returns the text of a file below the home directory.
    #[must_use]
    pub fn read(&self, relative: &str) -> String {
        let path = self.path(relative);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        // The daemon is asked first, then whatever is left is killed: a supervisor or a daemon that just started.
        let mut stop = self.command(binaries::groundingctl());
        let stopped = stop.arg("stop").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        drop(stopped);
        wait_for_none(self.home());
    }
}

fn wait_for_none(home: &Path) {
    if std::thread::panicking() {
        for (pid, _) in processes_of(home) {
            process::kill(pid);
        }
        return;
    }
    wait_for("the processes of a test to end", || {
        let processes = processes_of(home);
        for (pid, _) in &processes {
            process::kill(*pid);
        }
        if processes.is_empty() { Ok(()) } else { Err(format!("{processes:?}")) }
    });
}

/// Says on stderr that a test could not be run, and what it takes. The test then passes, having shown nothing.
pub fn not_run_here(why: &str) {
    // Not by a macro: what a passing test says so would be swallowed. Nobody may read stderr.
    let _ = writeln!(std::io::stderr(), "COULD NOT BE RUN HERE: {why}");
}

/// Returns what a program printed and how it ended, for the message of a failure.
#[must_use]
pub fn shown(output: &Output) -> String {
    format!(
        "{}\nstdout: {}\nstderr: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
