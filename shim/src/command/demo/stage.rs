//! The temporary home and git repository of a demonstration, the environment that leads there, and how it is cleared.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::environment::{
    EVIDENCE_LEDGER_DB, Environment, GROUNDING_STATE_DIR, HARNESS_HOME, SOLUTION_PREFLIGHT_BIN,
};
use grounding_proto::solution::AttemptStatus;
use grounding_proto::wire::AttemptRow;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::super::attempts;
use super::super::failure::CommandError;
use super::DemoError;
use crate::client::{Client, StartPolicy};
use crate::error::ClientError;
use crate::process;
use crate::stop::{self, StopError};

/// Prefixes of variables that would lead out of the stage, and whole names.
const FOREIGN_PREFIXES: &[&str] = &["CLAUDE_", "GIT_", "GROUNDING_", "SOLUTION_", "XDG_"];
const FOREIGN: &[&str] = &[EVIDENCE_LEDGER_DB, HARNESS_HOME, "HOME", "NOTIFY_SOCKET"];

/// Longest temporary directory below which a socket path surely fits, in bytes.
const MAX_DIRECTORY_BYTES: usize = 60;

/// How long the daemon may take to end.
const END: Duration = Duration::from_secs(15);

/// What the first commit, on main, holds.
const BASE: &[(&str, &str)] = &[("README.md", "# greeting\n\nGreets visitors by name.\n")];

/// What the branch adds. Its checks need a shell and nothing else; without dependencies there is nothing to audit.
const CHANGE: &[(&str, &str)] = &[
    (".preflight.json", include_str!("preflight.json.txt")),
    ("src/greeting.sh", include_str!("greeting.sh.txt")),
    ("tests/greeting_test.sh", include_str!("greeting_test.sh.txt")),
];

/// The stage.
pub(super) struct Stage {
    directory: TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl Stage {
    /// Makes the temporary directory and the environment that leads to it.
    ///
    /// # Errors
    /// When the directory can't be made.
    pub(super) fn build(environment: &Environment) -> Result<Self, DemoError> {
        let make = |parent: &Path| tempfile::Builder::new().prefix("grounding-").tempdir_in(parent);
        let parent = std::env::temp_dir();
        let parent = if parent.as_os_str().len() > MAX_DIRECTORY_BYTES { Path::new("/tmp").into() } else { parent };
        let directory = make(&parent).map_err(DemoError::io(format!("make a directory in {}", parent.display())))?;
        let mut variables: Vec<_> =
            environment.variables().iter().filter(|(name, _)| !is_foreign(name)).cloned().collect();
        let mut set = |name: &str, value: &OsStr| variables.push((name.into(), value.into()));
        set("HOME", directory.path().join("home").as_os_str());
        set(GROUNDING_STATE_DIR, directory.path().join("state").as_os_str());
        if let Some(named) = environment.get(SOLUTION_PREFLIGHT_BIN) {
            set(SOLUTION_PREFLIGHT_BIN, &absolute(named));
        }
        // Short bounds, so that the demonstration shows a call that does not wait and the polls after it.
        set("GROUNDING_ATTEMPT_WAIT_MS", OsStr::new("300"));
        set("GROUNDING_ATTEMPT_POLL_MS", OsStr::new("400"));
        Ok(Self { directory, variables })
    }

    /// Returns the environment of the stage.
    pub(super) fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Returns the repository.
    pub(super) fn repository(&self) -> PathBuf {
        self.directory.path().join("greeting")
    }

    /// Makes the repository: a commit on main, and the branch feature/demo with one more.
    ///
    /// # Errors
    /// When a file can't be written or git fails.
    pub(super) async fn prepare_repository(&self) -> Result<(), DemoError> {
        for directory in [self.directory.path().join("home"), self.repository()] {
            std::fs::create_dir(&directory).map_err(DemoError::io(format!("create {}", directory.display())))?;
        }
        self.git(&["init", "--quiet", "--initial-branch", "main"]).await?;
        self.commit(BASE, "chore: begin").await?;
        self.git(&["switch", "--quiet", "--create", "feature/demo"]).await?;
        self.commit(CHANGE, "feat: greet visitors by name").await
    }

    /// Writes the files and commits them.
    ///
    /// # Errors
    /// When a file can't be written or git fails.
    pub(super) async fn commit(&self, files: &[(&str, &str)], message: &str) -> Result<(), DemoError> {
        for (name, content) in files {
            let path = self.repository().join(name);
            let write = || {
                path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(&path, content)
            };
            write().map_err(DemoError::io(format!("write {}", path.display())))?;
        }
        self.git(&["add", "--all"]).await?;
        self.git(&["commit", "--quiet", "--message", message]).await.map(drop)
    }

    /// Runs git in the repository and returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub(super) async fn git(&self, arguments: &[&str]) -> Result<String, DemoError> {
        let mut command = process::plain("git");
        command.env_clear().envs(self.variables.iter().cloned()).current_dir(self.repository());
        command.args(["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false"]);
        command.args(arguments);
        Ok(process::run(command).await?)
    }

    /// Ends what runs on the stage and removes it.
    ///
    /// # Errors
    /// When the daemon does not end or the directory can't be removed.
    pub(super) async fn clear(self) -> Result<(), DemoError> {
        let client = Client::new(Environment::of_variables(self.variables.clone()), StartPolicy::Never);
        cancel_attempts(&client).await;
        end_daemon(&client).await?;
        let path = self.directory.path().to_owned();
        self.directory.close().map_err(DemoError::io(format!("remove {}", path.display())))
    }
}

/// A path is taken from where the user is, who is not on the stage; a bare name is looked up on PATH.
fn absolute(named: &OsStr) -> OsString {
    let bare = Path::new(named).components().count() == 1;
    let absolute = if bare { None } else { std::path::absolute(named).ok() };
    absolute.map_or_else(|| named.to_owned(), PathBuf::into_os_string)
}

fn is_foreign(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    FOREIGN.contains(&&*name) || FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Cancels what still runs; only an interrupted demonstration leaves something, and what can't be cancelled ends by
/// itself.
async fn cancel_attempts(client: &Client) {
    let Ok(path) = attempts::path(client.environment(), "/v1/attempts") else { return };
    let Ok(rows) = client.get::<Vec<AttemptRow>>(&path).await else { return };
    for row in rows.iter().filter(|row| row.status == AttemptStatus::Running) {
        if let Ok(path) = attempts::path(client.environment(), &format!("/v1/attempts/{}/cancel", row.attempt_id)) {
            // As said: it ends by itself.
            let _ = client.post::<Value>(&path).await;
        }
    }
}

/// Ends the daemon of the stage; one that does not end in time is killed, and told of.
async fn end_daemon(client: &Client) -> Result<(), DemoError> {
    let failed = |error: CommandError| DemoError::Daemon(Box::new(error));
    let pid = match client.version().await {
        Ok(version) => version.pid,
        Err(ClientError::NotRunning { .. }) => return Ok(()),
        Err(error) => return Err(failed(error.into())),
    };
    let state = client.state().map_err(|error| failed(error.into()))?;
    match tokio::time::timeout(END, stop::end(client, &state)).await {
        Ok(ended) => ended.map(drop).map_err(|error| failed(error.into())),
        Err(_) => {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It ended this very moment when it can't be killed.
                let _ = kill_process(pid, Signal::KILL);
            }
            Err(failed(StopError::StillRunning { pid, seconds: END.as_secs() }.into()))
        }
    }
}
