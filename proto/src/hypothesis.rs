//! Hypotheses on the wire (SPEC 1 and 3a).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A session id that is also a file name: 1 to 240 of `A-Z a-z 0-9 . _ -`, and neither `.` nor `..` (SPEC 1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct HypothesisSession(String);

impl HypothesisSession {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A session id that can't name a hypothesis store.
#[derive(Debug, thiserror::Error)]
#[error(
    "`sessionId` must be 1 to 240 characters of A-Z a-z 0-9 . _ - and neither \".\" nor \"..\"; use the sessionId that grounding_start returned"
)]
pub struct InvalidHypothesisSession;

impl TryFrom<String> for HypothesisSession {
    type Error = InvalidHypothesisSession;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=240).contains(&text.len()) && text.bytes().all(allowed);
        if fits && text != "." && text != ".." { Ok(Self(text)) } else { Err(InvalidHypothesisSession) }
    }
}

impl JsonSchema for HypothesisSession {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HypothesisSession".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[A-Za-z0-9._-]+$" })
    }
}

/// Arguments of `hypothesis_record`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisRecord {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
    /// The possible cause. 1 to 4096 characters.
    #[schemars(length(min = 1, max = 4096))]
    pub text: String,
    /// Checks that must be done before the hypothesis may be marked supported: at most 32, each 1 to 512 characters. Optional.
    #[schemars(length(max = 32), inner(length(min = 1, max = 512)))]
    pub required_checks: Option<Vec<String>>,
}

/// Arguments of `hypothesis_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisList {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
}

/// Arguments of `hypothesis_evidence`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisEvidence {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
    /// The id that hypothesis_record returned. 1 to 64 characters.
    #[schemars(length(min = 1, max = 64))]
    pub hypothesis_id: String,
    /// What was observed. 1 to 4096 characters.
    #[schemars(length(min = 1, max = 4096))]
    pub evidence: String,
    /// Where it was observed. At most 512 characters. Optional.
    #[schemars(length(max = 512))]
    pub source: Option<String>,
}

/// Arguments of `hypothesis_check_done`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisCheckDone {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
    /// The id that hypothesis_record returned. 1 to 64 characters.
    #[schemars(length(min = 1, max = 64))]
    pub hypothesis_id: String,
    /// Which required check, counted from 0.
    #[schemars(range(min = 0))]
    pub check_index: u64,
}

/// Arguments of `hypothesis_reject`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisReject {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
    /// The id that hypothesis_record returned. 1 to 64 characters.
    #[schemars(length(min = 1, max = 64))]
    pub hypothesis_id: String,
    /// Why it was ruled out; kept as evidence. At most 4096 characters. Optional.
    #[schemars(length(max = 4096))]
    pub reason: Option<String>,
}

/// Arguments of `hypothesis_support`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisSupport {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
    /// The id that hypothesis_record returned. 1 to 64 characters.
    #[schemars(length(min = 1, max = 64))]
    pub hypothesis_id: String,
}

/// Arguments of `hypothesis_reset`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisReset {
    /// The session, 1 to 240 characters of A-Z a-z 0-9 . _ -.
    pub session_id: HypothesisSession,
}

/// Answer of the hypothesis verbs that name one hypothesis: the hypothesis, or a structured error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisAnswer {
    /// What is wrong; absent when the verb was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<HypothesisProblem>,
    /// The session asked about.
    pub session_id: String,
    /// The hypothesis after the change, as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<Value>,
    /// The hypothesis asked about, beside an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypothesis_id: Option<String>,
    /// The check asked for, beside an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_index: Option<u64>,
    /// How many checks there are, beside an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_checks: Option<u64>,
    /// Rows of the file that could not be read and were kept as they are; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed_rows: Option<u64>,
}

/// Why a hypothesis verb was not carried out; a normal answer, not a tool error (SPEC 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HypothesisProblem {
    /// Nothing was recorded for the session.
    NoStoreForSession,
    /// The session has no hypothesis of that id.
    HypothesisNotFound,
    /// The hypothesis has fewer required checks.
    CheckIndexOutOfRange,
    /// Support was refused.
    HypothesisNotFoundRejectedOrChecksPending,
}

/// Answer of `hypothesis_list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisListAnswer {
    /// The session asked about.
    pub session_id: String,
    /// Counts over all hypotheses.
    pub summary: HypothesisCounts,
    /// The hypotheses as stored: id, text, status, evidence, required_checks, createdAt, updatedAt.
    pub hypotheses: Vec<Value>,
    /// Whether the first ones were left out because the answer would be too large; absent when it is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Rows of the file that could not be read and were kept as they are; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed_rows: Option<u64>,
}

/// Counts over the hypotheses of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HypothesisCounts {
    /// All hypotheses.
    pub total: u64,
    /// Those without evidence yet.
    pub unverified: u64,
    /// Those supported by evidence.
    pub supported: u64,
    /// Those ruled out.
    pub rejected: u64,
    /// Unfinished checks of all hypotheses.
    pub pending_checks: u64,
}

/// Answer of `hypothesis_reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HypothesisResetAnswer {
    /// The session asked about.
    pub session_id: String,
    /// Whether there was a store to remove.
    pub cleared: bool,
}
