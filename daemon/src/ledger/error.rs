//! What can go wrong with a ledger, said so that a reader knows what to do.
//!
//! SQLite's own message is the source of an error and is never repeated in its text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::BUSY_TIMEOUT;
use crate::store::StoreError;

/// A ledger operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file or its directory could not be made or tightened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another program held the database locked for too long.
    #[error(
        "the ledger {} stayed locked by another program for {} s and nothing was written; try again, or end the program that holds it",
        path.display(),
        BUSY_TIMEOUT.as_secs()
    )]
    Busy {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: Arc<sqlx::Error>,
    },
    /// The file is damaged or no database.
    #[error(
        "the ledger {} is damaged or is no SQLite database; it was left as it is: recover it with `sqlite3 {} .recover`, or move it away to start a new one",
        path.display(),
        path.display()
    )]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: Arc<sqlx::Error>,
    },
    /// The database refused the entry itself.
    #[error("the ledger {} does not admit the entry", path.display())]
    Refused {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: Arc<sqlx::Error>,
    },
    /// The file system has no locks that work.
    #[error(
        "the locks of the ledger {} do not work, which is usual on a network file system: set EVIDENCE_LEDGER_DB to a file on a local disk",
        path.display()
    )]
    Locking {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: Arc<sqlx::Error>,
    },
    /// The file can't have a write-ahead log.
    #[error(
        "the ledger {} can't have a write-ahead log where it is (SQLite keeps the journal mode {mode}): set EVIDENCE_LEDGER_DB to a file on a local disk",
        path.display()
    )]
    NoLog {
        /// The database file.
        path: PathBuf,
        /// The journal mode it has instead.
        mode: String,
    },
    /// The database could not be used.
    #[error(
        "can't {doing} the ledger {}; check that the file and its directory can be read and written and that the disk is not full",
        path.display()
    )]
    Failed {
        /// What was tried: "open", "write to", "read".
        doing: &'static str,
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: Arc<sqlx::Error>,
    },
    /// The database, or what SQLite keeps beside it, was replaced while an entry was written.
    #[error(
        "the ledger {} or its -wal or -shm file was replaced or removed while the entry was written: whether it is in the ledger is not known; look with ledger_summary before you add it again",
        path.display()
    )]
    Replaced {
        /// The database file.
        path: PathBuf,
    },
    /// The writer of the ledger ended before it answered.
    #[error("the ledger {} was closed before the entry was written; try again", path.display())]
    Closed {
        /// The database file.
        path: PathBuf,
    },
    /// A time that can't be read.
    #[error(
        "`sinceIso` must be an ISO 8601 date or time, such as 2026-01-31 or 2026-01-31T12:00:00Z, but is {value:?}"
    )]
    Since {
        /// The value as given.
        value: String,
    },
}

impl LedgerError {
    /// Returns a function that turns SQLite's error about `path` into the error that says what to do.
    pub(super) fn of(doing: &'static str, path: &Path) -> impl Fn(sqlx::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::shared(doing, &path, Arc::new(error))
    }

    /// As `of`, for an error that several calls share.
    pub(super) fn shared(doing: &'static str, path: &Path, source: Arc<sqlx::Error>) -> Self {
        let path = path.to_owned();
        match Cause::of(&source) {
            Cause::Locked => Self::Busy { path, source },
            Cause::Damaged => Self::Damaged { path, source },
            Cause::Locking => Self::Locking { path, source },
            Cause::Row => Self::Refused { path, source },
            Cause::Other => Self::Failed { doing, path, source },
        }
    }
}

/// SQLite's result code for locks that made no progress.
const PROTOCOL: u32 = 15;

/// SQLite's extended result codes for locks, and for the memory that connections share, that the file system refused:
/// `IOERR_UNLOCK`, `IOERR_RDLOCK`, `IOERR_CHECKRESERVEDLOCK`, `IOERR_LOCK`, `IOERR_SHMLOCK`, `IOERR_SHMMAP`.
const LOCK_FAILURES: [u32; 6] = [2058, 2314, 3594, 3850, 5130, 5386];

/// The kinds of SQLite errors that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Another connection holds a lock.
    Locked,
    /// The file is damaged or no database.
    Damaged,
    /// The locks themselves failed.
    Locking,
    /// A value or a row was refused; other rows may still be written.
    Row,
    /// Anything else.
    Other,
}

impl Cause {
    /// Returns the kind of an error.
    pub(super) fn of(error: &sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // The low byte of an extended result code is the primary one.
        let code = code.and_then(|code| code.parse::<u32>().ok());
        if code.is_some_and(|code| LOCK_FAILURES.contains(&code)) {
            return Self::Locking;
        }
        match code.map(|code| code & 0xff) {
            Some(5 | 6) => Self::Locked,
            Some(11 | 26) => Self::Damaged,
            Some(PROTOCOL) => Self::Locking,
            Some(18..=20) => Self::Row,
            _ => Self::Other,
        }
    }
}
