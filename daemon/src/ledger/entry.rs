//! A row of the table `entries` as the entry on the wire.
//!
//! Rows stay private to the ledger; a type or confidence that the contract does not know is an error, never a guess.

use grounding_proto::ledger::{Confidence, EntryType, LedgerEntry};
use sqlx::error::BoxDynError;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

/// The columns of an entry, in the order in which `Entry` reads them.
pub(super) const COLUMNS: &str = "id, type, content, source, confidence, session, created_at, updated_at";

/// An entry read from a row of `COLUMNS`.
pub(super) struct Entry(pub(super) LedgerEntry);

impl FromRow<'_, SqliteRow> for Entry {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let entry_type: &str = row.try_get(1)?;
        let confidence: &str = row.try_get(4)?;
        Ok(Self(LedgerEntry {
            id: row.try_get(0)?,
            entry_type: parse_type(entry_type).ok_or_else(|| unknown("type", entry_type))?,
            content: text(row, 2)?.unwrap_or_default(),
            source: text(row, 3)?,
            confidence: parse_confidence(confidence).ok_or_else(|| unknown("confidence", confidence))?,
            session: row.try_get(5)?,
            created_at: row.try_get(6)?,
            updated_at: row.try_get(7)?,
        }))
    }
}

/// Returns a text; what another program stored as bytes, or is not UTF-8, is shown as far as it can be: it must not keep the
/// other entries of its session from being read.
fn text(row: &SqliteRow, column: usize) -> sqlx::Result<Option<String>> {
    match row.try_get(column) {
        Err(sqlx::Error::ColumnDecode { .. }) => {
            let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
            Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
        other => other,
    }
}

/// All types, in the order of the contract.
pub(super) const TYPES: [EntryType; 5] =
    [EntryType::Fact, EntryType::Hypothesis, EntryType::Rejected, EntryType::Unknown, EntryType::PolicyDecision];

/// Returns a type as it is stored.
pub(super) fn type_name(entry_type: EntryType) -> &'static str {
    match entry_type {
        EntryType::Fact => "fact",
        EntryType::Hypothesis => "hypothesis",
        EntryType::Rejected => "rejected",
        EntryType::Unknown => "unknown",
        EntryType::PolicyDecision => "policy_decision",
    }
}

/// Returns a confidence as it is stored.
pub(super) fn confidence_name(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

fn parse_type(name: &str) -> Option<EntryType> {
    TYPES.into_iter().find(|entry_type| type_name(*entry_type) == name)
}

fn parse_confidence(name: &str) -> Option<Confidence> {
    [Confidence::High, Confidence::Medium, Confidence::Low]
        .into_iter()
        .find(|confidence| confidence_name(*confidence) == name)
}

fn unknown(column: &str, value: &str) -> sqlx::Error {
    let source: BoxDynError = format!("{value:?} is not a known {column}").into();
    sqlx::Error::ColumnDecode { index: column.to_owned(), source }
}
