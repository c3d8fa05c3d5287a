//! The user's service manager, and our unit there: what it knows, and the few things that are asked of it.
//!
//! On Linux that is `systemd --user` (`systemd`), on macOS launchd (`launchd`); both offer the same functions under the
//! name `ServiceManager`. This module knows what a unit is and in how many ways it can be of no use. It never decides
//! whether the daemon is started through a manager or directly (`launch` does), and each question it asks is bounded in time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::environment::Environment;

use crate::process::RunError;

pub mod launchd;
pub mod systemd;

#[cfg(target_os = "macos")]
pub use launchd::Launchd as ServiceManager;
#[cfg(not(target_os = "macos"))]
pub use systemd::Systemd as ServiceManager;

/// How long a manager may take to answer a question.
pub const PROMPT: Duration = Duration::from_secs(2);
/// How long a manager may take to start or stop the daemon: longer than the daemon's own bounds for either.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Why there is no service manager to ask.
#[derive(Debug, thiserror::Error)]
pub enum NoManager {
    /// Nothing here is one.
    #[error("this user has no service manager: {why}")]
    Absent {
        /// What was looked for in vain.
        why: String,
    },
    /// There seems to be one, and it does not answer.
    #[error("the user's service manager does not answer")]
    Silent(#[source] ServiceError),
    /// It answers, and belongs to another home directory.
    #[error("the user's service manager runs with HOME={}, not {}", manager.display(), ours.display())]
    OtherHome {
        /// Its home directory.
        manager: PathBuf,
        /// This environment's.
        ours: PathBuf,
    },
}

/// Something that the service manager was asked and did not do.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Its command failed.
    #[error(transparent)]
    Command(#[from] RunError),
    /// Its command did not end.
    #[error("`{command}` did not end within {} s", limit.as_secs())]
    TimedOut {
        /// The command line.
        command: String,
        /// The time it was given.
        limit: Duration,
    },
    /// The unit can't name this program.
    #[error("no unit can name the program {}: its path {problem}; install it elsewhere", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What is wrong, as a predicate.
        problem: &'static str,
    },
    /// The unit's file can't be used.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// What the manager knows of one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its file; nothing when the manager knows no such unit.
    pub file: Option<PathBuf>,
    /// The program that it starts, where it names one.
    pub program: Option<PathBuf>,
    /// Whether it is started with the user's session.
    pub enablement: Enablement,
    /// What it does now.
    pub activity: Activity,
    /// Its main process.
    pub main_pid: Option<u32>,
    /// The manager's word for how it ended last: `success`, `exit-code` with the code, `watchdog` and others.
    pub result: String,
    /// The last words of the daemon to the manager.
    pub status_text: Option<String>,
    /// The unit's own variables, as the manager shows them.
    pub variables: String,
    /// Whether the file is as the manager read it.
    pub freshness: Freshness,
}

/// Whether a unit is started with the user's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enablement {
    /// It is.
    Enabled,
    /// Somebody or something has to start it.
    Disabled,
    /// The user forbade to start it at all.
    Masked,
}

/// What a unit does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It serves or listens.
    Active,
    /// It gets ready, or is about to be started again.
    Starting,
    /// It is about to end.
    Stopping,
    /// Nothing.
    Inactive,
    /// Nothing, and it ended badly.
    Failed,
}

/// Whether a unit's file is as the manager read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It is.
    Current,
    /// The file was changed since; the manager has to be told to read it again.
    Changed,
}

/// Why an installed unit does not start the daemon that belongs to this build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Staleness {
    /// Its program is gone.
    Gone(PathBuf),
    /// It starts another program than the one next to this client.
    Other(PathBuf),
    /// Its file was changed and not read again.
    Changed,
    /// The manager can't make sense of its file.
    Unreadable,
}

/// Whether the user's services outlive the user's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lingering {
    /// They do.
    On,
    /// They end with the last session.
    Off,
    /// Nobody could say.
    Unknown,
}

/// Whether a file had to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was written.
    Written,
    /// It was there, byte for byte.
    Unchanged,
}

impl Unit {
    /// Returns whether the manager knows the unit.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        self.file.is_some()
    }

    /// Returns why the unit does not start `ours`, the daemon next to this client; nothing when it does or is absent.
    #[must_use]
    pub fn staleness(&self, ours: &Path) -> Option<Staleness> {
        self.file.as_ref()?;
        let Some(program) = self.program.clone() else { return Some(Staleness::Unreadable) };
        if !program.exists() {
            return Some(Staleness::Gone(program));
        }
        let same = program == ours || program.canonicalize().ok() == ours.canonicalize().ok();
        if !same {
            return Some(Staleness::Other(program));
        }
        (self.freshness == Freshness::Changed).then_some(Staleness::Changed)
    }
}

impl std::fmt::Display for Staleness {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(program) => write!(formatter, "the unit starts {}, which is gone", program.display()),
            Self::Other(program) => {
                write!(formatter, "the unit starts {}, which is not the one beside this program", program.display())
            }
            Self::Changed => formatter.write_str("the unit's file was changed and not read again"),
            Self::Unreadable => formatter.write_str("the unit's file names no program to start"),
        }
    }
}

/// Returns the manager through which the daemon of this environment is started, and what it knows of its unit: our unit is
/// installed there, and its daemon would have the same state directory. Nothing means that clients start the daemon
/// themselves, also when a manager can't be asked.
pub async fn responsible(environment: &Environment) -> Option<(ServiceManager, Unit)> {
    let manager = ServiceManager::find(environment).await.ok()?;
    let unit = manager.unit().await.ok()?;
    let is_ours = unit.is_installed() && unit.enablement != Enablement::Masked && manager.serves_the_same_state(&unit);
    is_ours.then_some((manager, unit))
}

/// Returns whether a manager is about to start or to end the daemon of this environment.
pub async fn is_changing(environment: &Environment) -> bool {
    let responsible = responsible(environment).await;
    responsible.is_some_and(|(_, unit)| matches!(unit.activity, Activity::Starting | Activity::Stopping))
}

/// Writes a file atomically and durably, readable by all as units are; its directories are made where they are absent.
fn write_file(path: &Path, text: &str) -> Result<Change, ServiceError> {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    if std::fs::read(path).is_ok_and(|content| content == text.as_bytes()) {
        return Ok(Change::Unchanged);
    }
    let failed = |action: &'static str| {
        let path = path.to_owned();
        move |source| ServiceError::Io { action, path, source }
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory).map_err(failed("create the directory of"))?;
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(text.as_bytes())?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        std::fs::File::open(directory)?.sync_all()
    };
    write().map_err(failed("write"))?;
    Ok(Change::Written)
}

/// Removes a file; one that is gone already is fine.
fn remove_file(path: &Path) -> Result<Change, ServiceError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(Change::Written),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Change::Unchanged),
        Err(source) => Err(ServiceError::Io { action: "remove", path: path.to_owned(), source }),
    }
}
