//! How a command fails: its exit code and its hint, decided in one place.

use std::io;
use std::path::{Path, PathBuf};

use grounding_proto::environment::EnvironmentError;
use grounding_proto::exit;
use grounding_proto::wire::ErrorCode;

use super::demo::DemoError;
use crate::error::ClientError;
use crate::process::ProgramNotFound;
use crate::service::ServiceError;
use crate::setup::error::SetupError;
use crate::state::StateError;

/// A command that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The daemon was not reached or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An executable is missing.
    #[error(transparent)]
    Program(#[from] ProgramNotFound),
    /// The service manager did not do what it was asked.
    #[error("the user's service manager failed")]
    Service(#[from] ServiceError),
    /// Stdout can't be written.
    #[error("can't write to stdout")]
    Output(#[from] io::Error),
    /// An executable can't be run.
    #[error("can't run {program}")]
    Exec {
        /// The executable.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// An argument is wrong.
    #[error("{0}")]
    Usage(String),
    /// The daemon did not end in time.
    #[error("groundingd (pid {pid}) still runs after {seconds} s: it finishes the calls it has before it ends")]
    StillRunning {
        /// Its process.
        pid: u32,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Another process starts or stops the daemon and does not come to an end.
    #[error("another process has been starting or stopping groundingd for {seconds} s")]
    Busy {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The daemon is of a newer build.
    #[error("the running groundingd is build {daemon}, newer than this program's {own}: not replaced")]
    Newer {
        /// The daemon's build.
        daemon: String,
        /// This program's build.
        own: &'static str,
    },
    /// A file or directory can't be used.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no log to show.
    #[error("there is no log at {}: no daemon has run with this state directory", path.display())]
    NoLog {
        /// Where it would be.
        path: PathBuf,
    },
    /// Ctrl-C can't be heard.
    #[error("can't listen for signals")]
    Signals(#[source] io::Error),
    /// The demonstration met a surprise.
    #[error(transparent)]
    Demo(DemoError),
    /// Setting up or removing went wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl From<StateError> for CommandError {
    fn from(error: StateError) -> Self {
        Self::Client(error.into())
    }
}

impl From<EnvironmentError> for CommandError {
    fn from(error: EnvironmentError) -> Self {
        Self::Client(error.into())
    }
}

impl From<DemoError> for CommandError {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::Output(error) => Self::Output(error),
            other => Self::Demo(other),
        }
    }
}

impl CommandError {
    /// Returns a function that turns an I/O error about `path` into the error that names it.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns the exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Client(ClientError::Refused(_)) => exit::NEGATIVE,
            Self::Client(
                ClientError::NotRunning { .. }
                | ClientError::Stopped
                | ClientError::Start(_)
                | ClientError::StartFailedBefore { .. }
                | ClientError::Connect { .. }
                | ClientError::Silent { .. }
                | ClientError::Unavailable { .. },
            ) => exit::DOWN,
            _ => exit::FAILED,
        }
    }

    /// Returns what to do, where the error does not say it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Client(ClientError::NotRunning { .. }) | Self::NoLog { .. } => {
                Some("start it with `groundingctl start`")
            }
            Self::Client(ClientError::Refused(body)) if body.code == ErrorCode::Internal => {
                Some("the daemon's log has the causes under this requestId")
            }
            Self::StillRunning { .. } => Some("look again with `groundingctl status`"),
            Self::Newer { .. } => {
                Some("upgrade this program, or run `groundingctl stop` and then `groundingctl start`")
            }
            _ => None,
        }
    }
}
