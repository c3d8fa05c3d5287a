//! Open ledgers, one per path, shared by all requests.
//!
//! A ledger is opened when it is first named and again when its file was replaced. It must never write into a file that
//! its path no longer names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::error::describe;
use grounding_proto::ledger::{
    LedgerAdd, LedgerCheckAnswer, LedgerEntry, LedgerList, LedgerListAnswer, LedgerStatusAnswer, LedgerSummary,
    LedgerSummaryAnswer,
};
use sqlx::SqlitePool;
use tokio::task::JoinHandle;

use super::LedgerError;
use super::check;
use super::open::{self, FileIdentity, Place};
use super::reader::{self, Evidence};
use super::writer::Writer;
use crate::store::StoreError;

/// All open ledgers; cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledgers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The one ledger whose directory is tightened.
    default_path: Option<PathBuf>,
    /// Never held across an await.
    slots: Mutex<HashMap<PathBuf, Slot>>,
}

/// The open ledger of one path; held across opening, so that it is opened once.
type Slot = Arc<tokio::sync::Mutex<Option<Open>>>;

#[derive(Debug)]
struct Open {
    ledger: Arc<Ledger>,
    /// Ends when the last user of the ledger is done.
    writer_task: JoinHandle<()>,
}

#[derive(Debug)]
struct Ledger {
    path: PathBuf,
    file: FileIdentity,
    writer: Writer,
    readers: SqlitePool,
}

impl Ledgers {
    /// Returns a handle without open ledgers. `default_path` is the default ledger file: only its directory is tightened.
    #[must_use]
    pub fn new(default_path: Option<PathBuf>) -> Self {
        Self { shared: Arc::new(Shared { default_path, slots: Mutex::default() }) }
    }

    /// Adds an entry; it is on disk when this returns. Once it is queued it is written, whether or not the caller waits.
    ///
    /// # Errors
    /// When the ledger can't be opened, stays locked for 5 s, or does not admit the entry; nothing is then written.
    pub async fn add(&self, path: &Path, add: LedgerAdd) -> Result<LedgerEntry, LedgerError> {
        let ledger = self.ledger(path).await?;
        let result = ledger.writer.add(add).await;
        self.settle(ledger, result).await
    }

    /// Returns entries and counts of a session (SPEC 4 and 9.8).
    ///
    /// # Errors
    /// When the ledger can't be opened or read, or `sinceIso` is no time.
    pub async fn summary(&self, path: &Path, request: &LedgerSummary) -> Result<LedgerSummaryAnswer, LedgerError> {
        let ledger = self.ledger(path).await?;
        let result = reader::summary(&ledger.readers, path, request).await;
        self.settle(ledger, result).await
    }

    /// Returns the newest entries, of all sessions or one.
    ///
    /// # Errors
    /// When the ledger can't be opened or read.
    pub async fn list(&self, path: &Path, request: &LedgerList) -> Result<LedgerListAnswer, LedgerError> {
        let ledger = self.ledger(path).await?;
        let result = reader::list(&ledger.readers, path, request).await;
        self.settle(ledger, result).await
    }

    /// Reads the whole file and says whether it is sound, within `limit`; one that can't be opened is answered, too.
    pub async fn check(&self, path: &Path, limit: Duration) -> LedgerCheckAnswer {
        match self.ledger(path).await {
            Ok(_ledger) => check::check(path, limit).await,
            Err(error) => check::unusable(&error),
        }
    }

    /// Returns what the entries of a session prove.
    ///
    /// # Errors
    /// When the ledger can't be opened or read.
    pub async fn evidence(&self, path: &Path, session: &str) -> Result<Evidence, LedgerError> {
        let ledger = self.ledger(path).await?;
        let result = reader::evidence(&ledger.readers, path, session).await;
        self.settle(ledger, result).await
    }

    /// Returns the state of a ledger; one that can't be used is answered, too.
    pub async fn status(&self, path: &Path) -> LedgerStatusAnswer {
        let answer = async {
            let ledger = self.ledger(path).await?;
            let result = reader::status(&ledger.readers, path).await;
            self.settle(ledger, result).await
        };
        answer.await.unwrap_or_else(|error| LedgerStatusAnswer::error(describe(&error)))
    }

    /// Closes all ledgers after their queued entries are written.
    pub async fn close(&self) {
        let slots: Vec<_> = self.slots().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            if let Some(open) = slot.lock().await.take() {
                close(open).await;
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<PathBuf, Slot>> {
        // No code panics while it holds the lock, and the map is whole between any two statements.
        self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open ledger of a path; opens it when it is not open or its file was replaced.
    async fn ledger(&self, path: &Path) -> Result<Arc<Ledger>, LedgerError> {
        let known = self.slots().get(path).cloned();
        let slot = known.unwrap_or_else(|| Arc::clone(self.slots().entry(path.to_owned()).or_default()));
        let mut slot = slot.lock().await;
        if let Some(open) = slot.as_ref().filter(|open| open.ledger.is_current()) {
            return Ok(Arc::clone(&open.ledger));
        }
        if let Some(replaced) = slot.take() {
            tracing::warn!(path = %path.display(), "the ledger file was replaced; opening it anew");
            close(replaced).await;
        }
        let place = if self.shared.default_path.as_deref() == Some(path) { Place::Default } else { Place::Chosen };
        let open = Open::at(path, place).await?;
        Ok(Arc::clone(&slot.insert(open).ledger))
    }

    /// Passes a result on; a ledger that turned out damaged is let go, so that the next call sees a repaired one.
    async fn settle<T>(&self, ledger: Arc<Ledger>, result: Result<T, LedgerError>) -> Result<T, LedgerError> {
        if let Err(LedgerError::Damaged { path, .. }) = &result {
            // Whoever closes the ledger holds its slot until every user is done, so this use ends first.
            let used = Arc::downgrade(&ledger);
            drop(ledger);
            let slot = self.slots().get(path).cloned();
            if let Some(slot) = slot {
                slot.lock().await.take_if(|open| Weak::ptr_eq(&Arc::downgrade(&open.ledger), &used));
            }
        }
        result
    }
}

impl Open {
    async fn at(path: &Path, place: Place) -> Result<Self, LedgerError> {
        open::prepare(path, place)?;
        let vanished = || StoreError::unusable(path, "vanished while it was opened");
        let file = FileIdentity::at(path).ok_or_else(vanished)?;
        let (writer, writer_task) = Writer::start(path, open::writer(path).await?);
        let ledger = Ledger { path: path.to_owned(), file, writer, readers: open::readers(path) };
        Ok(Self { ledger: Arc::new(ledger), writer_task })
    }
}

impl Ledger {
    /// Returns whether the path still names the file that is open, and the writer lives.
    fn is_current(&self) -> bool {
        FileIdentity::at(&self.path) == Some(self.file) && !self.writer.has_ended()
    }
}

/// Closes a ledger after its queued entries are written and its last user is done.
async fn close(open: Open) {
    let Open { ledger, writer_task } = open;
    // The readers first: the writer empties the log when it ends, which a reader would keep it from.
    ledger.readers.close().await;
    let path = ledger.path.clone();
    drop(ledger);
    if let Err(error) = writer_task.await {
        tracing::warn!(path = %path.display(), %error, "the ledger was not closed cleanly");
    }
}
