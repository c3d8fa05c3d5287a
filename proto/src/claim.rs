//! The claim gate on the wire (SPEC 1 and 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of statement a claim is; the kind decides its prerequisites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimType {
    /// About the structure of the system.
    Architecture,
    /// Names the cause of the problem.
    RootCause,
    /// About security.
    Security,
    /// About the network.
    Network,
    /// About configuration or environment.
    Configuration,
    /// About a running (or not running) process.
    Process,
    /// About something being up or down.
    Availability,
    /// About a token, key or secret.
    Token,
    /// None of the others.
    Generic,
}

/// A condition that a claim may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prerequisite {
    /// The README and the documents were read.
    ReadmeRead,
    /// The process was looked at while it ran.
    ProcessChecked,
    /// The configuration in force was looked at.
    ConfigChecked,
    /// The health of the service was looked at.
    HealthChecked,
    /// At least one fact is recorded.
    HasEvidence,
    /// At least one alternative was ruled out.
    AlternativesConsidered,
}

/// Which prerequisites are met; one that is not given is not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the wire contract is six booleans")]
pub struct ClaimContext {
    /// The README and the documents were read. Default: false.
    pub readme_read: bool,
    /// The process was looked at while it ran. Default: false.
    pub process_checked: bool,
    /// The configuration in force was looked at. Default: false.
    pub config_checked: bool,
    /// The health of the service was looked at. Default: false.
    pub health_checked: bool,
    /// At least one fact is recorded. Default: false.
    pub has_evidence: bool,
    /// At least one alternative was ruled out. Default: false.
    pub alternatives_considered: bool,
}

/// Arguments of `claim_evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimEvaluate {
    /// The statement you are about to make. 1 to 262144 characters.
    #[schemars(length(min = 1, max = 262_144))]
    pub claim: String,
    /// The kind of claim. Default: detected from its words.
    #[serde(rename = "type")]
    pub claim_type: Option<ClaimType>,
    /// Which prerequisites are met. Default: none.
    pub context: Option<ClaimContext>,
}

/// Arguments of `claim_evaluate_from_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimEvaluateFromSession {
    /// The sessionId that grounding_start returned. 1 to 256 characters.
    #[schemars(length(min = 1, max = 256))]
    pub session_id: String,
    /// The statement you are about to make. 1 to 262144 characters.
    #[schemars(length(min = 1, max = 262_144))]
    pub claim: String,
    /// The kind of claim. Default: detected from its words.
    #[serde(rename = "type")]
    pub claim_type: Option<ClaimType>,
}

/// Answer of `claim_evaluate` and, with `derivedContext`, of `claim_evaluate_from_session`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimAnswer {
    /// The claim as given.
    pub claim: String,
    /// The kind given or detected.
    #[serde(rename = "type")]
    pub claim_type: ClaimType,
    /// Whether the claim may be made.
    pub allowed: bool,
    /// One sentence per missing prerequisite.
    pub reasons: Vec<String>,
    /// What to do about each, in the same order.
    pub next_steps: Vec<String>,
    /// Share of the prerequisites that are met, 0 to 100.
    pub score: u32,
    /// Keys of the missing prerequisites, in the same order.
    pub missing: Vec<Prerequisite>,
    /// What the session and its ledger say is met.
    #[serde(rename = "derivedContext", skip_serializing_if = "Option::is_none")]
    pub derived_context: Option<ClaimContext>,
}
