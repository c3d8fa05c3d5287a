//! A call that brought no success: every way it can fail, in words that say what to do.
//!
//! It owns the line between a request that was not carried out and one whose outcome is not known, and for the latter how
//! to find out. It never retries; `client` decides that. What a command's exit code is, `command::failure` says.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use grounding_proto::environment::EnvironmentError;
use grounding_proto::wire::{ErrorBody, ErrorCode, PROTOCOL, ProtocolRange, VersionAnswer};

use crate::connection::ExchangeError;
use crate::context::{VERSION, WorkingDirectoryGone};
use crate::launch::StartError;
use crate::state::StateError;

/// How long a call waits for another process that starts the daemon, or for a draining daemon to make room.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A call that brought no success.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The environment leads to no state directory.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The state directory can't be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The working directory is gone.
    #[error(transparent)]
    WorkingDirectory(#[from] WorkingDirectoryGone),
    /// The socket is there and can't be used.
    #[error("can't connect to {}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No daemon listens, and this client may not start one.
    #[error("groundingd is not running (no one listens on {})", socket.display())]
    NotRunning {
        /// The socket.
        socket: PathBuf,
    },
    /// Starting is forbidden.
    #[error("groundingd was stopped by `groundingctl stop`; run `groundingctl start`")]
    Stopped,
    /// Starting failed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Starting failed moments ago and is not tried again yet.
    #[error("{text} (seen moments ago; not tried again yet, except by `groundingctl start`)")]
    StartFailedBefore {
        /// What it said then.
        text: String,
    },
    /// It neither serves nor makes room.
    #[error(
        "groundingd did not become available within {} s; `groundingctl status` shows how it is, {} what it did",
        PATIENCE.as_secs(),
        log.display()
    )]
    Unavailable {
        /// Its log.
        log: PathBuf,
    },
    /// It accepts connections and does not answer.
    #[error(
        "groundingd listens on {} but did not answer within {seconds} s; it hangs or is suspended: end its process, then call again",
        socket.display()
    )]
    Silent {
        /// The socket.
        socket: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Client and daemon share no protocol version.
    #[error(
        "this is build {VERSION} (protocol {} to {}), but the running groundingd is build {} (protocol {} to {}); {}",
        PROTOCOL.oldest, PROTOCOL.newest, daemon.version, daemon.protocol.oldest, daemon.protocol.newest,
        remedy(daemon.protocol)
    )]
    Incompatible {
        /// What the daemon says of itself.
        daemon: VersionAnswer,
    },
    /// The request may or may not have been carried out.
    #[error("the connection to groundingd broke during {what}: whether it was carried out is not known. {look}")]
    OutcomeUnknown {
        /// The request.
        what: String,
        /// How to find out.
        look: &'static str,
        /// What broke.
        source: ExchangeError,
    },
    /// The daemon answered with an error.
    #[error("{}", refusal(.0))]
    Refused(ErrorBody),
    /// The daemon answered with something that is neither.
    #[error("groundingd answered {path} with something unexpected (HTTP status {status})")]
    Unexpected {
        /// The request's path.
        path: String,
        /// The HTTP status.
        status: u16,
        /// What is wrong with the body.
        source: serde_json::Error,
    },
}

/// Returns the error and its causes as one sentence.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    chain_of(error).collect::<Vec<_>>().join(": ")
}

/// Returns the text of the error and of each of its causes, outermost first.
pub fn chain_of(error: &(dyn std::error::Error + 'static)) -> impl Iterator<Item = String> {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string)
}

fn refusal(body: &ErrorBody) -> String {
    match body.code {
        ErrorCode::Internal => format!("{} (requestId {})", body.message, body.request_id),
        _ => body.message.clone(),
    }
}

fn remedy(daemon: ProtocolRange) -> &'static str {
    if daemon.newest < PROTOCOL.oldest {
        "it is older: run `groundingctl restart` to replace it"
    } else {
        "it is newer: upgrade this program to the daemon's build"
    }
}

/// How to find out whether a request was carried out.
pub(crate) fn look(what: &str) -> &'static str {
    match what {
        "ledger_add" => "Look with ledger_summary before you add the entry again.",
        "solution_evaluate" => "Ask solution_evaluate_status with the same id; calling again joins a live attempt.",
        "grounding_start" => "Calling again opens a further session and harms none.",
        "grounding_advance" => "claim_evaluate_from_session shows in derivedContext which phases are done.",
        name if name.starts_with("hypothesis_") => "Look with hypothesis_list before you call it again.",
        _ => "`groundingctl status` shows how the daemon is.",
    }
}
