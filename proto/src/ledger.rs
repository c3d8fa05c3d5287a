//! The evidence ledger on the wire (SPEC 1 and 4).
//!
//! It owns the arguments and answers of the ledger tools, and the words for an entry's type and confidence. How entries
//! are stored, and what is bounded when they are read, is the daemon's; no type here knows a database.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryType {
    /// Something observed.
    Fact,
    /// Something supposed.
    Hypothesis,
    /// An alternative that was ruled out.
    Rejected,
    /// Something that is not known yet.
    Unknown,
    /// A decision of policy, written by other programs.
    PolicyDecision,
}

/// How sure the writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Seen directly.
    High,
    /// Likely.
    #[default]
    Medium,
    /// A guess.
    Low,
}

/// Arguments of `ledger_add`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerAdd {
    /// The session whose namespace the entry goes to; usually the one grounding_start returned. 1 to 256 characters.
    #[schemars(length(min = 1, max = 256))]
    pub session_id: String,
    /// fact: observed; hypothesis: supposed; rejected: an alternative ruled out (say why in content); unknown: still open; policy_decision: kept for other programs.
    #[serde(rename = "type")]
    pub entry_type: EntryType,
    /// The statement itself. 1 to 262144 characters.
    #[schemars(length(min = 1, max = 262_144))]
    pub content: String,
    /// Where it was seen: a file, a command, an address. At most 4096 characters. Optional.
    #[schemars(length(max = 4096))]
    pub source: Option<String>,
    /// How sure you are. Default: medium.
    pub confidence: Option<Confidence>,
}

/// Arguments of `ledger_summary`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerSummary {
    /// The session whose entries to return. 1 to 256 characters.
    #[schemars(length(min = 1, max = 256))]
    pub session_id: String,
    /// Only entries of this ISO 8601 date or time and later; without an offset it is UTC. Optional.
    #[schemars(length(max = 64))]
    pub since_iso: Option<String>,
    /// Only entries whose content starts with this text, case-sensitive; empty means no filter. At most 262144 characters. Optional.
    #[schemars(length(max = 262_144))]
    pub content_prefix: Option<String>,
    /// Only entries of these types; counts are not affected; empty means all. Optional.
    #[schemars(length(max = 5))]
    pub types: Option<Vec<EntryType>>,
    /// At most so many entries, 1 to 10000: the newest, or with afterId the next. Default: the newest 200; with sinceIso, contentPrefix or afterId as many as fit the answer.
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<u32>,
    /// Only entries with a larger id, in id order: pass nextAfterId of the answer before, or 0 to read from the start. Optional.
    #[schemars(range(min = 0))]
    pub after_id: Option<i64>,
}

/// Arguments of `ledger_status`: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerStatus {}

/// A stored entry; answer of `ledger_add`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Unique in the ledger, never used twice.
    pub id: i64,
    /// What the entry says.
    #[serde(rename = "type")]
    pub entry_type: EntryType,
    /// The statement.
    pub content: String,
    /// Where it was seen.
    pub source: Option<String>,
    /// How sure the writer was.
    pub confidence: Confidence,
    /// The session's namespace.
    pub session: String,
    /// UTC, `YYYY-MM-DD HH:MM:SS`.
    pub created_at: String,
    /// UTC, `YYYY-MM-DD HH:MM:SS`.
    pub updated_at: String,
}

/// Answer of `ledger_summary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerSummaryAnswer {
    /// The session asked about.
    pub session_id: String,
    /// Number of entries per type that match sinceIso and contentPrefix, whatever limit, types and afterId say.
    pub counts: EntryCounts,
    /// The entries, oldest first within each type.
    pub entries: EntryGroups,
    /// Whether entries were left out of `entries`.
    pub truncated: bool,
    /// Pass as afterId to read on; given with afterId alone, and absent when nothing follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_after_id: Option<i64>,
}

/// Number of entries per type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryCounts {
    /// Entries of type fact.
    pub facts: u64,
    /// Entries of type hypothesis.
    pub hypotheses: u64,
    /// Entries of type rejected.
    pub rejected: u64,
    /// Entries of type unknown.
    pub unknowns: u64,
    /// Entries of type policy_decision.
    pub policy_decisions: u64,
}

/// Entries by type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryGroups {
    /// Entries of type fact.
    pub facts: Vec<LedgerEntry>,
    /// Entries of type hypothesis.
    pub hypotheses: Vec<LedgerEntry>,
    /// Entries of type rejected.
    pub rejected: Vec<LedgerEntry>,
    /// Entries of type unknown.
    pub unknowns: Vec<LedgerEntry>,
    /// Entries of type policy_decision.
    pub policy_decisions: Vec<LedgerEntry>,
}

/// Answer of `ledger_status`: the first three facts when the status is ok, else the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerStatusAnswer {
    /// Whether the ledger opened and answered.
    pub status: LedgerHealth,
    /// Absolute path of the database file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_path: Option<String>,
    /// Number of entries of all sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_count: Option<u64>,
    /// The largest creation time as stored; null when the ledger is empty.
    #[serde(default, deserialize_with = "null_is_present", skip_serializing_if = "Option::is_none")]
    pub last_write_at: Option<Option<String>>,
    /// What is wrong, with the file's path and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Reads a key that is there, so that `null` stays apart from a key that is not.
fn null_is_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl LedgerStatusAnswer {
    /// A ledger that can't be used, and why.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            status: LedgerHealth::Error,
            db_path: None,
            entry_count: None,
            last_write_at: None,
            message: Some(message.into()),
        }
    }
}

/// Whether the ledger can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerHealth {
    /// It opened and answered.
    Ok,
    /// It did not.
    Error,
}

/// Most entries of one list, and how many when nothing else is asked for.
pub const MAX_LISTED_ENTRIES: u32 = 10_000;
/// See `MAX_LISTED_ENTRIES`.
pub const DEFAULT_LISTED_ENTRIES: u32 = 50;

/// Question of `POST /v1/ledger/entries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerList {
    /// Only entries of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only entries of these types; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<EntryType>,
    /// At most so many entries, 1 to `MAX_LISTED_ENTRIES`.
    pub limit: u32,
}

/// Answer of `POST /v1/ledger/entries`: entries of all sessions or one, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerListAnswer {
    /// The newest entries, as many as fit 4 MiB.
    pub entries: Vec<LedgerEntry>,
    /// How many entries there are of what was asked for.
    pub total: u64,
    /// Whether any were left out.
    pub truncated: bool,
}

/// Question of `POST /v1/ledger/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerCheck {
    /// How long the check may take, in milliseconds; 60000 at most.
    pub limit_ms: u64,
}

/// Answer of `POST /v1/ledger/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerCheckAnswer {
    /// What was found.
    pub outcome: LedgerCheckOutcome,
    /// What is wrong, or why it was not found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a check of the ledger's file found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerCheckOutcome {
    /// The database is sound.
    Sound,
    /// It is not.
    Damaged,
    /// The time was up before all of it was read.
    Unfinished,
    /// It could not be looked at.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_ledger_passes_on_that_nothing_was_written() {
        for json in [
            r#"{"status":"ok","dbPath":"/l","entryCount":0,"lastWriteAt":null}"#,
            r#"{"status":"error","message":"m"}"#,
        ] {
            let answer: LedgerStatusAnswer = serde_json::from_str(json).expect("an answer");
            assert_eq!(serde_json::to_string(&answer).expect("JSON"), json);
        }
    }
}
