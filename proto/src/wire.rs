//! The HTTP bodies around the tools, and what the daemon says of itself (DESIGN, HTTP API).
//!
//! It owns what client and daemon of different builds must agree on: the protocol's range, the bound of a body, what a
//! client tells of itself with each call, and the defaults of the settings. Paths and variables travel as `OsText`, so
//! that no byte is lost on the way. It never resolves a root or reads a variable; `environment` does.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The range of wire protocol versions this build speaks, oldest first.
///
/// The newest is raised with every change that an older peer would misread; the golden tool list fails with each change,
/// so that it is not forgotten.
pub const PROTOCOL: ProtocolRange = ProtocolRange { oldest: 1, newest: 1 };

/// What the daemon's last status to a service manager begins with when it can't serve; the reason follows.
pub const FAILED_STATUS: &str = "Failed: ";

/// Largest request body the daemon reads, in bytes.
pub const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// A range of protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest version spoken.
    pub oldest: u32,
    /// The newest version spoken.
    pub newest: u32,
}

impl ProtocolRange {
    /// Returns whether both ranges hold a version in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

/// Body of `POST /v1/tools/{tool}`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ToolRequest {
    /// The tool's arguments as the agent gave them.
    #[serde(default)]
    pub arguments: Value,
    /// Where and for whom the tool is called.
    pub context: Context,
}

/// Body of the requests that need to know nothing but where and for whom they are made.
#[derive(Debug, Serialize, Deserialize)]
pub struct ContextRequest {
    /// Where and for whom the request is made.
    pub context: Context,
}

/// Body of the requests that ask for something in particular and change nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question<Q> {
    /// Where and for whom it is asked.
    pub context: Context,
    /// What is asked.
    #[serde(flatten)]
    pub question: Q,
}

/// Answer of `POST /v1/attempts/{attemptId}/cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelAnswer {
    /// The attempt that was asked to end.
    pub attempt_id: String,
}

/// What a client knows and the daemon must not guess.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The client's working directory, absolute.
    pub cwd: OsText,
    /// The client's storage roots.
    pub roots: Roots,
    /// The client's settings.
    #[serde(default)]
    pub settings: Settings,
    /// The client's environment; sent with the tools of `catalogue::carries_environment` alone, kept in memory alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(OsText, OsText)>>,
}

/// Storage roots as a client resolved them (SPEC 2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Roots {
    /// Directory of the session files.
    pub sessions: Root,
    /// Directory of the hypothesis files.
    pub hypotheses: Root,
    /// The ledger's database file.
    pub ledger: Root,
    /// Directory of verdicts, attempt logs and locks.
    pub verdicts: Root,
    /// The signing key file.
    pub signing_key: Root,
}

/// One storage root, or why the client refuses to use it: only the tools that need it fail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Root {
    /// An absolute path.
    Path(OsText),
    /// A sentence that names the variable and what to do.
    Refused(String),
}

/// Bounds of an attempt, in milliseconds (SPEC 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How long `solution_evaluate` waits before it answers running.
    pub wait_bound_ms: u64,
    /// How long a caller is told to wait between two polls.
    pub poll_after_ms: u64,
    /// Time between two progress pings; used by the client alone.
    pub progress_ms: u64,
    /// How long attempts are kept; the larger of this and 100 polls counts.
    pub retention_ms: u64,
    /// When a lock without a heartbeat is stale; at least 2000.
    pub stale_ms: u64,
    /// How long one preflight run may take.
    pub run_limit_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wait_bound_ms: 45_000,
            poll_after_ms: 5_000,
            progress_ms: 10_000,
            retention_ms: 24 * 60 * 60 * 1000,
            stale_ms: 30_000,
            run_limit_ms: 60 * 60 * 1000,
        }
    }
}

/// Text of the operating system: a JSON string when it is UTF-8, else its bytes, so that nothing is lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OsText(pub OsString);

impl OsText {
    /// Returns the text as a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl From<PathBuf> for OsText {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string())
    }
}

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => self.0.as_bytes().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string or an array of bytes")]
        enum Form {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into(),
            Form::Bytes(bytes) => OsString::from_vec(bytes),
        }))
    }
}

/// Machine codes of error bodies; a client decides by them, never by the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// An argument is missing, of the wrong type or out of bounds.
    InvalidArgument,
    /// The request itself can't be read.
    InvalidRequest,
    /// No such tool, session, attempt or path.
    NotFound,
    /// A file or directory can't be used as it is; the message names it.
    Storage,
    /// The daemon is draining; the request was not executed.
    Draining,
    /// Something else went wrong in the daemon; its log has the causes.
    Internal,
}

/// Body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// One or two sentences: what was wrong, where, what to do.
    pub message: String,
    /// Finds the request in the daemon's log.
    pub request_id: String,
}

/// Body of `GET /v1/version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionAnswer {
    /// The build's version.
    pub version: String,
    /// The protocol versions it speaks.
    pub protocol: ProtocolRange,
    /// The daemon's process.
    pub pid: u32,
    /// Whether it drains: finishes what it has and then exits.
    pub draining: bool,
}

/// How the daemon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// All is well.
    Ok,
    /// It answers, and something it needs does not.
    Degraded,
    /// It does not answer; said by clients alone.
    Down,
}

/// Body of `GET /v1/health`, and with `status: down` what `groundingctl status --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthAnswer {
    /// How the daemon is.
    pub status: Health,
    /// The build's version.
    pub version: String,
    /// The protocol versions it speaks.
    pub protocol: ProtocolRange,
    /// The daemon's process.
    pub pid: Option<u32>,
    /// Time since it started, in milliseconds.
    pub uptime_ms: Option<u64>,
    /// The socket's path.
    pub socket: String,
    /// The ledger of the client that asked.
    pub ledger: Option<crate::ledger::LedgerStatusAnswer>,
    /// Attempts the daemon knows of.
    pub attempts: Option<AttemptCounts>,
    /// Connected clients, the asking one included.
    pub clients: Option<u64>,
    /// Live attempts, the oldest first, at most `MAX_RUNNING_ATTEMPTS` of them; an older daemon tells none.
    #[serde(default)]
    pub running_attempts: Option<Vec<RunningAttempt>>,
}

/// Most live attempts that health lists; `AttemptCounts::running` counts them all.
pub const MAX_RUNNING_ATTEMPTS: usize = 100;

/// A live attempt as health tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningAttempt {
    /// Names the attempt.
    pub attempt_id: String,
    /// The id that is evaluated.
    pub id: String,
    /// The repository, where it is known.
    pub repo_path: Option<String>,
    /// When it started, UTC with milliseconds; absent until its record is written.
    pub started_at: Option<String>,
    /// Time since then, in milliseconds.
    pub elapsed_ms: Option<u64>,
}

/// Attempts the daemon knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptCounts {
    /// Live ones.
    pub running: u64,
    /// Those that ended since the daemon started.
    pub finished: u64,
}

/// One row of `GET /v1/attempts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRow {
    /// Names the attempt.
    pub attempt_id: String,
    /// The id that is evaluated.
    pub id: String,
    /// Where it stands.
    pub status: crate::solution::AttemptStatus,
    /// The repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_path: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// When it started, UTC with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, UTC with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_class: Option<crate::solution::OutcomeClass>,
    /// The outcome in counts, or the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}
