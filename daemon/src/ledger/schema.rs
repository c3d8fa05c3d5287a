//! The table `entries`: made when it is absent, checked when it is there, widened once when it is old (SPEC 4).
//!
//! An extra column, index, trigger or table of another program stays; none of ours is added but the two indexes.

use std::path::Path;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::LedgerError;
use crate::store::StoreError;

const CREATE: &str = "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS entries (
      id          INTEGER PRIMARY KEY AUTOINCREMENT,
      type        TEXT    NOT NULL CHECK(type IN ('fact','hypothesis','rejected','unknown','policy_decision')),
      content     TEXT    NOT NULL,
      source      TEXT,
      confidence  TEXT    NOT NULL DEFAULT 'medium' CHECK(confidence IN ('high','medium','low')),
      session     TEXT    NOT NULL DEFAULT 'default',
      created_at  TEXT    NOT NULL DEFAULT (datetime('now')),
      updated_at  TEXT    NOT NULL DEFAULT (datetime('now'))
    );
    CREATE INDEX IF NOT EXISTS idx_session ON entries(session);
    CREATE INDEX IF NOT EXISTS idx_type    ON entries(type);
    COMMIT;
";

const NEEDED_COLUMNS: [&str; 8] =
    ["id", "type", "content", "source", "confidence", "session", "created_at", "updated_at"];

/// What a database lacks to be a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// Nothing.
    Nothing,
    /// The table or one of its indexes.
    Table,
    /// The type `policy_decision`, and perhaps an index.
    Type,
}

/// Looks at a database, and changes nothing.
///
/// # Errors
/// When it can't be read, or holds an `entries` that is no ledger.
pub(super) async fn examine(connection: &mut SqliteConnection, path: &Path) -> Result<Lack, LedgerError> {
    let failed = LedgerError::of("open", path);
    let Some(definition) = definition(connection).await.map_err(&failed)? else { return Ok(Lack::Table) };
    check_columns(connection, path).await?;
    if widened(&definition).is_some() {
        return Ok(Lack::Type);
    }
    let indexes = "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'index' AND name IN ('idx_session', 'idx_type')";
    let indexes: i64 = sqlx::query_scalar(indexes).fetch_one(connection).await.map_err(&failed)?;
    Ok(if indexes < 2 { Lack::Table } else { Lack::Nothing })
}

/// Adds what a database lacks. On an error the connection must be dropped, which ends its transaction.
///
/// # Errors
/// When the database can't be written.
pub(super) async fn complete(connection: &mut SqliteConnection, lack: Lack, path: &Path) -> Result<(), LedgerError> {
    let failed = LedgerError::of("open", path);
    if lack == Lack::Nothing {
        return Ok(());
    }
    if lack == Lack::Type {
        widen(connection).await.map_err(&failed)?;
    }
    sqlx::raw_sql(CREATE).execute(connection).await.map(drop).map_err(failed)
}

/// Returns the text that defines the table; empty when `entries` is not a table.
async fn definition(connection: &mut SqliteConnection) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT iif(type = 'table', sql, '') FROM sqlite_schema WHERE name = 'entries'")
        .fetch_optional(connection)
        .await
}

async fn columns(connection: &mut SqliteConnection) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar("SELECT name FROM pragma_table_xinfo('entries')").fetch_all(connection).await
}

async fn check_columns(connection: &mut SqliteConnection, path: &Path) -> Result<(), LedgerError> {
    let columns = columns(connection).await.map_err(LedgerError::of("open", path))?;
    let absent: Vec<_> =
        NEEDED_COLUMNS.into_iter().filter(|needed| !columns.iter().any(|column| column == needed)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let problem = format!("is no evidence ledger: its table `entries` has no column {}", absent.join(", "));
    Err(StoreError::unusable(path, problem).into())
}

/// Admits `policy_decision` in the CHECK of the type, in one transaction.
///
/// SQLite has no statement for it. Writing the definition keeps rows, ids, times, the AUTOINCREMENT high-water mark and
/// whatever other programs hung on the table, because nothing is copied.
async fn widen(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    // Read again: another program may have done it while this one waited for the lock.
    let Some(widened) = definition(&mut transaction).await?.as_deref().and_then(widened) else {
        return transaction.rollback().await;
    };
    let columns_before = columns(&mut transaction).await?;
    let version: i64 = sqlx::query_scalar("PRAGMA schema_version").fetch_one(&mut *transaction).await?;
    sqlx::raw_sql("PRAGMA writable_schema = ON").execute(&mut *transaction).await?;
    sqlx::query("UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = 'entries'")
        .bind(widened)
        .execute(&mut *transaction)
        .await?;
    // Every connection of every program reads the definition anew when the version changed. A pragma takes no bound value.
    let next_version = format!("PRAGMA schema_version = {}; PRAGMA writable_schema = RESET", version + 1);
    sqlx::raw_sql(AssertSqlSafe(next_version)).execute(&mut *transaction).await?;
    // Reading it here first proves that it is sound before anything is committed.
    if columns(&mut transaction).await? != columns_before {
        return Err(sqlx::Error::Protocol("the widened table has other columns".to_owned()));
    }
    transaction.commit().await
}

/// Returns a table definition whose list of types gains `policy_decision`, or nothing when it admits it already or has no
/// such list.
fn widened(definition: &str) -> Option<String> {
    if definition.contains("policy_decision") {
        return None;
    }
    let start = definition.find("'fact'")?;
    let end = start + definition[start..].find(')')?;
    let list = &definition[start..end];
    let is_plain = |character: char| character.is_ascii_alphabetic() || "', \t\r\n".contains(character);
    let is_list = list.contains("'unknown'") && list.chars().all(is_plain);
    is_list.then(|| {
        format!(
            "{list_and_before},'policy_decision'{rest}",
            list_and_before = &definition[..end],
            rest = &definition[end..]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_the_old_types_is_widened() {
        assert_eq!(
            widened("CREATE TABLE entries (type TEXT CHECK(type IN ( 'fact', 'unknown' )), x TEXT)").as_deref(),
            Some("CREATE TABLE entries (type TEXT CHECK(type IN ( 'fact', 'unknown' ,'policy_decision')), x TEXT)")
        );
        for other in [
            CREATE,
            "CREATE TABLE entries (type TEXT)",
            "CREATE TABLE entries (type TEXT DEFAULT ('fact'))",
            "CREATE TABLE entries (type TEXT CHECK(type = 'fact' OR type = 'unknown'))",
        ] {
            assert_eq!(widened(other), None, "{other}");
        }
    }
}
