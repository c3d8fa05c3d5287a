//! Reads the whole of a ledger's file and says whether it is sound.
//!
//! On a connection of its own, so that neither readers nor the writer wait for it, and bounded in time: SQLite itself
//! asks now and then whether to go on. Must never change the file.

use std::path::Path;
use std::time::{Duration, Instant};

use grounding_proto::ledger::{LedgerCheckAnswer, LedgerCheckOutcome};
use sqlx::{ConnectOptions, Connection};

use super::error::Cause;
use super::{LedgerError, open};
use crate::error::describe;

/// How many steps of its machine SQLite takes between two questions whether to go on.
const STEPS: i32 = 10_000;

/// What SQLite answers of a database without a fault.
const SOUND: &str = "ok";

/// Checks a ledger that is open already.
pub(super) async fn check(path: &Path, limit: Duration) -> LedgerCheckAnswer {
    let until = Instant::now() + limit;
    match read_all(path, until).await {
        Ok(finding) if finding == SOUND => LedgerCheckAnswer { outcome: LedgerCheckOutcome::Sound, message: None },
        Ok(finding) => answer(LedgerCheckOutcome::Damaged, format!("{}: {finding}", path.display())),
        Err(_) if Instant::now() >= until => {
            let message = format!("{} was not read to its end within {} s", path.display(), limit.as_secs_f64());
            answer(LedgerCheckOutcome::Unfinished, message)
        }
        Err(error) if Cause::of(&error) == Cause::Damaged => unusable(&LedgerError::of("read", path)(error)),
        Err(error) => answer(LedgerCheckOutcome::Failed, describe(&LedgerError::of("read", path)(error))),
    }
}

/// Answers for a ledger that can't be opened.
pub(super) fn unusable(error: &LedgerError) -> LedgerCheckAnswer {
    let outcome = match error {
        LedgerError::Damaged { .. } => LedgerCheckOutcome::Damaged,
        _ => LedgerCheckOutcome::Failed,
    };
    answer(outcome, describe(error))
}

async fn read_all(path: &Path, until: Instant) -> sqlx::Result<String> {
    let mut connection = open::reader(path).connect().await?;
    connection.lock_handle().await?.set_progress_handler(STEPS, move || Instant::now() < until);
    let finding = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut connection).await;
    connection.lock_handle().await?.remove_progress_handler();
    // Nothing was written, so nothing is lost when it can't be closed in order.
    let _ = connection.close().await;
    finding
}

fn answer(outcome: LedgerCheckOutcome, message: String) -> LedgerCheckAnswer {
    LedgerCheckAnswer { outcome, message: Some(message) }
}
