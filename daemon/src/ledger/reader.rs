//! What is read from a ledger: summary, status, and what a session's entries prove.
//!
//! Answers are bounded and say when they are cut (SPEC 9.8). Nothing here writes.

use std::path::Path;

use futures_util::TryStreamExt as _;
use grounding_proto::ledger::{
    EntryCounts, EntryGroups, EntryType, LedgerEntry, LedgerHealth, LedgerList, LedgerListAnswer, LedgerStatusAnswer,
    LedgerSummary, LedgerSummaryAnswer,
};
use sqlx::{FromRow, QueryBuilder, Row, Sqlite, SqliteConnection, SqlitePool};

use super::LedgerError;
use super::entry::{COLUMNS, Entry, TYPES, type_name};
use super::since::stored_time;
use crate::json;

/// Entries of a summary that names no filter.
const DEFAULT_ENTRIES: usize = 200;

/// Most JSON bytes of the entries of one summary: 4 MiB less room for what stands around them.
const MAX_ENTRY_BYTES: usize = 4 * 1024 * 1024 - 4096;

/// What a session's entries prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// At least one fact is recorded.
    pub facts: bool,
    /// At least one alternative was ruled out.
    pub rejected: bool,
}

/// The filters that counts and entries share.
struct Filter<'request> {
    session: &'request str,
    since: Option<String>,
    prefix: Option<&'request str>,
}

/// Answers `ledger_summary`.
///
/// With afterId it reads on from there in id order; else it shows the newest entries that fit, oldest first.
pub(super) async fn summary(
    readers: &SqlitePool,
    path: &Path,
    request: &LedgerSummary,
) -> Result<LedgerSummaryAnswer, LedgerError> {
    let filter = Filter {
        session: &request.session_id,
        since: request.since_iso.as_deref().map(stored_time).transpose()?,
        prefix: request.content_prefix.as_deref().filter(|prefix| !prefix.is_empty()),
    };
    read(readers, &filter, request).await.map_err(LedgerError::of("read", path))
}

async fn read(readers: &SqlitePool, filter: &Filter<'_>, request: &LedgerSummary) -> sqlx::Result<LedgerSummaryAnswer> {
    // One transaction, so that counts and entries describe the same moment.
    let mut transaction = readers.begin().await?;
    let counts = counts(&mut transaction, filter).await?;
    let (mut entries, truncated) = entries(&mut transaction, filter, request).await?;
    let mut next_after_id = None;
    if request.after_id.is_none() {
        entries.reverse();
    } else if truncated {
        next_after_id = entries.last().map(|entry| entry.id);
    }
    let mut groups = EntryGroups::default();
    for entry in entries {
        match entry.entry_type {
            EntryType::Fact => groups.facts.push(entry),
            EntryType::Hypothesis => groups.hypotheses.push(entry),
            EntryType::Rejected => groups.rejected.push(entry),
            EntryType::Unknown => groups.unknowns.push(entry),
            EntryType::PolicyDecision => groups.policy_decisions.push(entry),
        }
    }
    let session_id = request.session_id.clone();
    Ok(LedgerSummaryAnswer { session_id, counts, entries: groups, truncated, next_after_id })
}

async fn counts(connection: &mut SqliteConnection, filter: &Filter<'_>) -> sqlx::Result<EntryCounts> {
    let mut query = QueryBuilder::<Sqlite>::new("SELECT ");
    let mut columns = query.separated(", ");
    for entry_type in TYPES {
        columns.push("COUNT(*) FILTER (WHERE type = '").push_unseparated(type_name(entry_type)).push_unseparated("')");
    }
    query.push(" FROM entries");
    filter.push_onto(&mut query);
    let row = query.build().fetch_one(connection).await?;
    let count = |column: usize| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
    Ok(EntryCounts {
        facts: count(0)?,
        hypotheses: count(1)?,
        rejected: count(2)?,
        unknowns: count(3)?,
        policy_decisions: count(4)?,
    })
}

/// Returns the entries asked for, as many as fit, and whether any were left out.
async fn entries(
    connection: &mut SqliteConnection,
    filter: &Filter<'_>,
    request: &LedgerSummary,
) -> sqlx::Result<(Vec<LedgerEntry>, bool)> {
    let is_filtered = filter.since.is_some() || filter.prefix.is_some() || request.after_id.is_some();
    let default = if is_filtered { usize::MAX } else { DEFAULT_ENTRIES };
    let limit = request.limit.map_or(default, |limit| limit as usize);

    let mut query = QueryBuilder::<Sqlite>::new("SELECT ");
    query.push(COLUMNS).push(" FROM entries");
    filter.push_onto(&mut query);
    // The plus keeps the type from choosing the index: a session is far fewer rows than a type.
    query.push(" AND +type IN (");
    let mut names = query.separated(", ");
    let types = request.types.as_deref().filter(|types| !types.is_empty());
    for entry_type in types.unwrap_or(&TYPES) {
        names.push_bind(type_name(*entry_type));
    }
    query.push(")");
    match request.after_id {
        Some(id) => query.push(" AND id > ").push_bind(id).push(" ORDER BY id"),
        None => query.push(" ORDER BY created_at DESC, id DESC"),
    };
    // No LIMIT: SQLite sorts twice as fast without one, and reading stops after the row that tells that more are left.

    let mut entries = Vec::new();
    let mut bytes = 0;
    let query = query.build();
    let mut rows = query.fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let Entry(entry) = Entry::from_row(&row)?;
        bytes += json::length(&entry) + 1;
        // The first is always shown: who reads on must get ahead.
        if entries.len() == limit || (bytes > MAX_ENTRY_BYTES && !entries.is_empty()) {
            return Ok((entries, true));
        }
        entries.push(entry);
    }
    Ok((entries, false))
}

impl Filter<'_> {
    fn push_onto(&self, query: &mut QueryBuilder<Sqlite>) {
        query.push(" WHERE session = ").push_bind(self.session);
        if let Some(since) = &self.since {
            query.push(" AND created_at >= ").push_bind(since);
        }
        if let Some(prefix) = self.prefix {
            // A range, because LIKE and GLOB know wildcards and substr stops at a NUL.
            query.push(" AND content >= ").push_bind(prefix);
            if let Some(end) = end_of_prefix(prefix) {
                query.push(" AND content < ").push_bind(end);
            }
        }
    }
}

/// Returns the smallest text greater than every text that starts with a prefix, or nothing when there is none.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The range steps over the surrogates, which are no characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// Returns the newest entries, of all sessions or one.
pub(super) async fn list(
    readers: &SqlitePool,
    path: &Path,
    request: &LedgerList,
) -> Result<LedgerListAnswer, LedgerError> {
    read_list(readers, request).await.map_err(LedgerError::of("read", path))
}

async fn read_list(readers: &SqlitePool, request: &LedgerList) -> sqlx::Result<LedgerListAnswer> {
    // One transaction, so that count and entries describe the same moment.
    let mut transaction = readers.begin().await?;
    let mut query = QueryBuilder::<Sqlite>::new("SELECT COUNT(*) FROM entries");
    push_listed(&mut query, request);
    let total: i64 = query.build_query_scalar().fetch_one(&mut *transaction).await?;

    let mut query = QueryBuilder::<Sqlite>::new("SELECT ");
    query.push(COLUMNS).push(" FROM entries");
    push_listed(&mut query, request);
    query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(request.limit));
    let mut entries = Vec::new();
    let mut bytes = 0;
    let query = query.build();
    let mut rows = query.fetch(&mut *transaction);
    while let Some(row) = rows.try_next().await? {
        let Entry(entry) = Entry::from_row(&row)?;
        bytes += json::length(&entry) + 1;
        if bytes > MAX_ENTRY_BYTES && !entries.is_empty() {
            break;
        }
        entries.push(entry);
    }
    let total = total.cast_unsigned();
    Ok(LedgerListAnswer { truncated: (entries.len() as u64) < total, entries, total })
}

fn push_listed(query: &mut QueryBuilder<Sqlite>, request: &LedgerList) {
    query.push(" WHERE 1");
    if let Some(session) = &request.session_id {
        query.push(" AND session = ").push_bind(session.clone());
    }
    if !request.types.is_empty() {
        // The plus keeps the type from choosing the index, as above.
        query.push(" AND +type IN (");
        let mut names = query.separated(", ");
        for entry_type in &request.types {
            names.push_bind(type_name(*entry_type));
        }
        query.push(")");
    }
}

/// Answers `ledger_status` for a ledger that opened.
pub(super) async fn status(readers: &SqlitePool, path: &Path) -> Result<LedgerStatusAnswer, LedgerError> {
    let failed = LedgerError::of("read", path);
    let query = "SELECT (SELECT COUNT(*) FROM entries), (SELECT MAX(created_at) FROM entries)";
    let (count, last_write_at): (i64, Option<String>) =
        sqlx::query_as(query).fetch_one(readers).await.map_err(failed)?;
    Ok(LedgerStatusAnswer {
        status: LedgerHealth::Ok,
        db_path: Some(path.display().to_string()),
        entry_count: Some(count.cast_unsigned()),
        last_write_at: Some(last_write_at),
        message: None,
    })
}

/// Returns what the entries of a session prove.
pub(super) async fn evidence(readers: &SqlitePool, path: &Path, session: &str) -> Result<Evidence, LedgerError> {
    let query = "SELECT EXISTS (SELECT 1 FROM entries WHERE session = ?1 AND +type = 'fact'),
        EXISTS (SELECT 1 FROM entries WHERE session = ?1 AND +type = 'rejected')";
    let (facts, rejected) =
        sqlx::query_as(query).bind(session).fetch_one(readers).await.map_err(LedgerError::of("read", path))?;
    Ok(Evidence { facts, rejected })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_range_of_a_prefix_holds_what_starts_with_it(
            prefix in "[\u{0}a\u{d7ff}\u{e000}\u{10ffff}]{1,3}",
            content in "[\u{0}a\u{d7ff}\u{e000}\u{10ffff}]{0,5}",
        ) {
            let in_range = content >= prefix && end_of_prefix(&prefix).is_none_or(|end| content < end);
            prop_assert_eq!(in_range, content.starts_with(&prefix));
        }
    }
}
