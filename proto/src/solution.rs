//! The solution gate on the wire (SPEC 1 and 6).
//!
//! It owns the arguments and answers of the solution tools, and the verdict and diagnostics inside them, which files hold
//! as well: a name that changes here changes what earlier builds wrote. It never judges: what allows a solution is the
//! daemon's gate's to say. What bytes a signature covers is the daemon's signing's alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// Arguments of `solution_evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionEvaluate {
    /// Names the task, such as "task-42"; the verdict is kept under it. 1 to 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub id: String,
    /// The repository to evaluate; relative to the working directory of the client. At most 4096 characters. Default: the working directory.
    #[schemars(length(min = 1, max = 4096))]
    pub repo_path: Option<String>,
    /// Ask for a new attempt; refused while one is live. Default: false. Never needed to poll.
    pub force_new_attempt: Option<bool>,
}

/// Arguments of `solution_gate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionGate {
    /// The id that was evaluated. 1 to 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub id: String,
    /// The repository whose HEAD counts; relative to the working directory of the client. At most 4096 characters. Default: the working directory.
    #[schemars(length(min = 1, max = 4096))]
    pub repo_path: Option<String>,
}

/// Arguments of `solution_evaluate_status` and `solution_evaluate_result`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionLookup {
    /// The id that was evaluated. 1 to 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub id: String,
    /// The attempt that solution_evaluate named. 1 to 64 characters. Default: the latest attempt of the id.
    #[schemars(length(min = 1, max = 64))]
    pub attempt_id: Option<String>,
}

/// A verdict as it is answered: the marker's fields without its signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The id that was evaluated.
    pub id: String,
    /// The commit it speaks of: 40 or 64 hex digits.
    pub head: String,
    /// Whether the solution may be called done at that commit.
    pub ready: bool,
    /// How much of what can be checked was checked, 0 to 1.
    #[serde(serialize_with = "as_ecmascript")]
    pub confidence: f64,
    /// What stands in the way; empty when ready.
    pub blockers: Vec<String>,
    /// When it was produced, UTC with milliseconds.
    pub timestamp: String,
    /// Which program checked.
    pub source: String,
}

/// Writes a whole number without a fraction, as ECMAScript does, so that an answer and a marker read alike.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
#[expect(clippy::cast_possible_truncation, reason = "guarded: whole and within 0..=1")]
fn as_ecmascript<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && (0.0..=1.0).contains(number) {
        serializer.serialize_u8(*number as u8)
    } else {
        serializer.serialize_f64(*number)
    }
}

/// Where an evaluation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptStatus {
    /// An attempt is live and named by attemptId.
    Running,
    /// The id's lock is held, but no attempt is known to hold it.
    RunningUnconfirmed,
    /// The checks ran and a verdict was written.
    Completed,
    /// No verdict was produced; the error says why.
    Failed,
    /// The attempt's fate was never established, or nothing is known of it.
    Unknown,
    /// The attempt ended and its details were pruned.
    Expired,
    /// A new attempt was asked for, or another one stands in the way, while one is live.
    Refused,
}

/// How a settled attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeClass {
    /// A ready verdict.
    Ready,
    /// A verdict that is not ready.
    NotReady,
    /// No verdict.
    Error,
    /// The attempt lost its lock; no verdict.
    Compromised,
    /// Never established; only of a pruned attempt.
    Unknown,
}

/// How the preflight process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Its exit code; null when it was ended by a signal or never ran.
    pub exit_code: Option<i32>,
    /// The signal that ended it, such as SIGKILL.
    pub signal: Option<String>,
    /// What went wrong around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether preflight's answer could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// `payload` holds it.
    Available,
    /// There is none.
    #[default]
    Unavailable,
}

/// Which preflight ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightProgram {
    /// The program's path.
    pub path: String,
    /// How it was found: SOLUTION_PREFLIGHT_BIN, PATH, or builtin when neither names one.
    pub found_by: String,
    /// Its version; absent when it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What is known of one preflight run beside its verdict; advisory, never part of the marker (SPEC 6).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostics {
    /// Whether preflight's answer could be read.
    pub availability: Availability,
    /// Whether the answer has the whole documented shape; says nothing about readiness.
    pub complete: bool,
    /// preflight's answer as it was, unknown keys kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// How the process ended.
    pub execution: Execution,
    /// One sentence per deviation.
    pub issues: Vec<String>,
    /// Which preflight ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightProgram>,
    /// Names of the checks that preflight skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_checks: Option<Vec<String>>,
    /// Files steering the checks (`.preflight.json`, `.ai/solution-acceptance.json`) that the change touches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_files_changed: Option<Vec<String>>,
    /// What the orchestrator-workflow arm found; absent when it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowReport>,
}

/// What the orchestrator-workflow arm found (SPEC-workflow).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowReport {
    /// Whether a run, or its absence, counted.
    pub enforced: bool,
    /// Whether nothing blocks.
    pub complete: bool,
    /// Base name of the run directory.
    pub run_name: Option<String>,
    /// How the run was found: pointer, scan, or null.
    pub run_source: Option<WorkflowRunSource>,
    /// The recorded base of the change.
    pub run_base: Option<String>,
    /// What the run-base markers amount to.
    pub run_base_kind: Option<RunBaseKind>,
    /// What blocks, in order.
    pub blockers: Vec<WorkflowBlocker>,
    /// What could not be checked and does not block.
    pub notes: Vec<String>,
}

/// How the active run was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowRunSource {
    /// By `.ai/run`.
    Pointer,
    /// As the newest directory of `.ai/runs`.
    Scan,
}

/// What the run-base markers of a run amount to (SPEC-workflow 19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunBaseKind {
    /// A value to verify.
    Sha,
    /// The placeholder is still there.
    Todo,
    /// No marker.
    Absent,
    /// Keyed markers, none of them for this repository.
    UnmatchedKeyed,
    /// Only markers that can't be read.
    Malformed,
}

/// One blocker of the orchestrator-workflow arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowBlocker {
    /// Machine code, such as `status_missing`.
    pub code: String,
    /// keyed or phrase, of `run_base_malformed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The sentence that stands among the verdict's blockers.
    pub message: String,
    /// The file it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line it is about, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Answer of `solution_evaluate`.
///
/// completed and failed carry verdict, markerPath and diagnostics; running carries attemptId and pollAfterMs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionEvaluateAnswer {
    /// The verdict, null when none was produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Option<Verdict>>,
    /// Where the signed marker is, null when none was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker_path: Option<Option<String>>,
    /// Why there is no verdict, or why the call was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is known of the preflight run; advisory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Diagnostics>,
    /// Where the evaluation stands.
    pub status: AttemptStatus,
    /// The id as given.
    pub id: String,
    /// Names the attempt in solution_evaluate_status and solution_evaluate_result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<String>,
    /// How long to wait before asking again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_after_ms: Option<u64>,
    /// What was left out because the answer would be too large.
    #[serde(flatten)]
    pub omitted: Omitted,
}

/// What was left out of an answer because it would be too large (SPEC 9.8).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Omitted {
    /// Whether diagnostics.payload was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_omitted: Option<bool>,
    /// How many blockers were left out; the marker has all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blockers_omitted: Option<u64>,
    /// The file that holds the whole answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_file: Option<String>,
}

/// Answer of `solution_evaluate_status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionStatusAnswer {
    /// Where the attempt stands.
    pub status: AttemptStatus,
    /// The id as given.
    pub id: String,
    /// The attempt this speaks of, or the one asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<String>,
    /// The commit it evaluates; null when it has none or was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Option<String>>,
    /// When it started, UTC with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its last record was written, UTC with milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated_at: Option<String>,
    /// Whether it is the latest attempt of the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_latest_for_id: Option<bool>,
    /// How long to wait before asking again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_after_ms: Option<u64>,
    /// Why there is no verdict, or why nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Answer of `solution_evaluate_result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionResultAnswer {
    /// Where the attempt stands.
    pub status: AttemptStatus,
    /// The id as given.
    pub id: String,
    /// The attempt this speaks of, or the one asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<String>,
    /// Whether it is the latest attempt of the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_latest_for_id: Option<bool>,
    /// Whether the id has a marker right now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker_present: Option<bool>,
    /// How the attempt ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_class: Option<OutcomeClass>,
    /// The outcome in counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why there is no verdict, or why nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The verdict, null when none was produced; of the latest attempt only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Option<Verdict>>,
    /// Where the signed marker is, null when none was written; of the latest attempt only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker_path: Option<Option<String>>,
    /// What is known of the preflight run; of the latest attempt only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Diagnostics>,
    /// How long to wait before asking again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_after_ms: Option<u64>,
    /// What was left out because the answer would be too large.
    #[serde(flatten)]
    pub omitted: Omitted,
}

/// Why the gate denies, or `ready` (SPEC 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateCode {
    /// Allowed.
    Ready,
    /// Nothing was evaluated under the id.
    NoVerdict,
    /// The marker can't be read as one.
    InvalidMarker,
    /// The signature does not match.
    Forged,
    /// The signing key can't be read.
    KeyUnavailable,
    /// The verdict is not ready.
    NotReady,
    /// The repository's HEAD can't be resolved.
    HeadUnresolved,
    /// The verdict speaks of another commit.
    StaleHead,
    /// The id can't name a verdict.
    InvalidId,
}

/// Whether tracked files differ from HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Worktree {
    /// They do not.
    Clean,
    /// They do.
    Dirty,
    /// It could not be established.
    Unknown,
}

/// Answer of `solution_gate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SolutionGateAnswer {
    /// Whether the solution may be called done.
    pub allowed: bool,
    /// Why, in a sentence or two.
    pub reason: String,
    /// The verdict, when its signature was verified.
    pub verdict: Option<Verdict>,
    /// The repository's HEAD now.
    pub current_head: Option<String>,
    /// The reason as a code.
    pub code: GateCode,
    /// Whether tracked files differ from HEAD now; advisory.
    pub worktree: Worktree,
    /// Tracked files that differ from HEAD now, at most 20; advisory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<String>>,
    /// How many of the verdict's blockers were left out because the answer would be too large; the marker has all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blockers_omitted: Option<u64>,
}
