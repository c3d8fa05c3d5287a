//! Grounding sessions on the wire (SPEC 1 and 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Arguments of `grounding_start`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroundingStart {
    /// The domain of the problem in a word or two, such as "deploy-panel" or "auth". 1 to 64 characters, at least one of them a letter a-z or a digit. It decides the tool sequence and the guardrails.
    #[schemars(length(min = 1, max = 64))]
    pub keyword: String,
    /// What is wrong, as it was reported. 1 to 262144 characters.
    #[schemars(length(min = 1, max = 262_144))]
    pub problem: String,
    /// The workspace the session belongs to, kept as given. At most 4096 characters. Optional.
    #[schemars(length(min = 1, max = 4096))]
    pub workspace: Option<String>,
}

/// Arguments of `grounding_advance`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroundingAdvance {
    /// The sessionId that grounding_start returned. 1 to 256 characters.
    #[schemars(length(min = 1, max = 256))]
    pub session_id: String,
}

/// Arguments of `grounding_guardrail_check`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroundingGuardrailCheck {
    /// The sessionId that grounding_start returned. 1 to 256 characters.
    #[schemars(length(min = 1, max = 256))]
    pub session_id: String,
    /// The guardrail to look for.
    pub guardrail: Guardrail,
}

/// A rule that a session may put in force (SPEC 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Guardrail {
    /// No root cause is stated before the README was read.
    NoRootCauseBeforeReadme,
    /// Phases are walked in order.
    NoStepSkipping,
    /// Nothing is said of the architecture before its documents were read.
    NoArchitectureClaimBeforeDocs,
    /// Nothing is said of a token before the configuration was looked at.
    NoTokenClaimBeforeConfigCheck,
    /// Nothing is said of the network before the process was looked at.
    NoNetworkClaimBeforeProcessCheck,
}

impl Guardrail {
    /// Returns the name as it stands in session files and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRootCauseBeforeReadme => "no-root-cause-before-readme",
            Self::NoStepSkipping => "no-step-skipping",
            Self::NoArchitectureClaimBeforeDocs => "no-architecture-claim-before-docs",
            Self::NoTokenClaimBeforeConfigCheck => "no-token-claim-before-config-check",
            Self::NoNetworkClaimBeforeProcessCheck => "no-network-claim-before-process-check",
        }
    }
}

/// Answer of `grounding_start` and `grounding_advance`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Identifies the session in every other tool.
    pub session_id: String,
    /// The keyword as given.
    pub keyword: String,
    /// The problem as given.
    pub problem: String,
    /// The phase the session is in.
    pub current_phase: String,
    /// Tools of the debug method, in order.
    pub mandatory_sequence: Vec<String>,
    /// Guardrails in force for the whole session.
    pub active_guardrails: Vec<String>,
    /// Status (pending, active, done or skipped) per phase, in phase order.
    pub phase_status: Map<String, Value>,
    /// The steps of the current phase.
    pub current_steps: Vec<CurrentStep>,
    /// The workspace given at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A step of the current phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentStep {
    /// The tool of the debug method.
    pub tool: String,
    /// What to do, in one sentence.
    pub description: String,
    /// Whether the method demands the step.
    pub mandatory: bool,
}

/// Answer of `grounding_guardrail_check`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailAnswer {
    /// The session asked about.
    pub session_id: String,
    /// The guardrail asked about.
    pub guardrail: Guardrail,
    /// Whether it is in force in this session.
    pub active: bool,
}

/// Most sessions of one list, and how many when nothing else is asked for.
pub const MAX_SESSIONS: u32 = 1000;
/// See `MAX_SESSIONS`.
pub const DEFAULT_SESSIONS: u32 = 50;

/// Question of `POST /v1/sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// At most so many sessions, 1 to `MAX_SESSIONS`.
    pub limit: u32,
}

/// Answer of `POST /v1/sessions`: the sessions of a directory, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionListAnswer {
    /// The directory.
    pub directory: String,
    /// The newest sessions.
    pub sessions: Vec<SessionRow>,
    /// How many session files there are, unreadable ones included.
    pub total: u64,
    /// Whether any were left out.
    pub truncated: bool,
    /// Files that are no sessions; they were left as they are.
    pub unreadable: Vec<UnreadableSession>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Identifies the session.
    pub session_id: String,
    /// The keyword as given.
    pub keyword: String,
    /// The first 200 characters of the problem.
    pub problem: String,
    /// The phase the session is in.
    pub current_phase: String,
    /// When it was started, as its file says.
    pub started_at: Option<String>,
    /// The workspace given at start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A file among the sessions that is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableSession {
    /// Its name.
    pub file: String,
    /// What is wrong with it, with its path.
    pub problem: String,
}

/// Answer of `POST /v1/sessions/{sessionId}/details`: a session as people look at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionDetails {
    /// What the tools answer of it.
    #[serde(flatten)]
    pub summary: SessionSummary,
    /// When it was started, as its file says.
    pub started_at: Option<String>,
    /// What the keyword was taken to be about.
    pub resolved_scope: Option<Value>,
    /// All steps of the plan, in order.
    pub steps: Vec<SessionStep>,
}

/// A step of a session's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStep {
    /// The phase it belongs to.
    pub phase: String,
    /// The tool of the debug method.
    pub tool: String,
    /// What to do, in one sentence.
    pub description: String,
    /// Whether the method demands it.
    pub mandatory: bool,
}
