//! Open ledgers, one per path, shared by all requests.
//!
//! A ledger is opened when it is first named and again when its files were replaced. It must never acknowledge what went
//! into a file that its path no longer names, nor keep a caller waiting for a locked ledger once for each caller before it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::describe;
use grounding_proto::ledger::{
    LedgerAdd, LedgerCheckAnswer, LedgerEntry, LedgerList, LedgerListAnswer, LedgerStatusAnswer, LedgerSummary,
    LedgerSummaryAnswer,
};
use sqlx::SqlitePool;
use tokio::task::JoinHandle;

use super::LedgerError;
use super::check;
use super::open::{self, Files, Place};
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

/// The ledger of one path; held across opening, so that it is opened once.
type Slot = Arc<tokio::sync::Mutex<Content>>;

#[derive(Debug, Default)]
struct Content {
    open: Option<Open>,
    /// When it was last found locked for the whole of the time that one waits, and what SQLite said.
    locked: Option<(Instant, Arc<sqlx::Error>)>,
}

#[derive(Debug)]
struct Open {
    ledger: Arc<Ledger>,
    /// Ends when the last user of the ledger is done.
    writer_task: JoinHandle<()>,
}

#[derive(Debug)]
struct Ledger {
    path: PathBuf,
    files: Files,
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
            if let Some(open) = slot.lock().await.open.take() {
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
        let asked = Instant::now();
        let mut slot = slot.lock().await;
        if let Some(open) = slot.open.as_ref().filter(|open| open.ledger.is_current()) {
            return Ok(Arc::clone(&open.ledger));
        }
        // Who waited here while somebody found it locked has waited as long.
        if let Some((_, source)) = slot.locked.as_ref().filter(|(found, _)| asked < *found) {
            return Err(LedgerError::Busy { path: path.to_owned(), source: Arc::clone(source) });
        }
        if let Some(replaced) = slot.open.take() {
            tracing::warn!(path = %path.display(), "a file of the ledger was replaced; opening it anew");
            close(replaced).await;
        }
        let place = if self.shared.default_path.as_deref() == Some(path) { Place::Default } else { Place::Chosen };
        match Open::at(path, place).await {
            Ok(open) => Ok(Arc::clone(&slot.open.insert(open).ledger)),
            Err(error) => {
                if let LedgerError::Busy { source, .. } = &error {
                    slot.locked = Some((Instant::now(), Arc::clone(source)));
                }
                Err(error)
            }
        }
    }

    /// Passes a result on; a ledger that turned out damaged is let go, so that the next call sees a repaired one.
    async fn settle<T>(&self, ledger: Arc<Ledger>, result: Result<T, LedgerError>) -> Result<T, LedgerError> {
        if let Err(LedgerError::Damaged { path, .. }) = &result {
            // Whoever closes the ledger holds its slot until every user is done, so this use ends first.
            let used = Arc::downgrade(&ledger);
            drop(ledger);
            let slot = self.slots().get(path).cloned();
            if let Some(slot) = slot {
                slot.lock().await.open.take_if(|open| Weak::ptr_eq(&Arc::downgrade(&open.ledger), &used));
            }
        }
        result
    }
}

impl Open {
    async fn at(path: &Path, place: Place) -> Result<Self, LedgerError> {
        open::prepare(path, place)?;
        let named = || Files::at(path).map_err(StoreError::io("open", path));
        let before = named()?;
        let connection = open::writer(path).await?;
        let files = named()?;
        if !files.same_database(&before) {
            return Err(StoreError::unusable(path, "was replaced while it was opened").into());
        }
        let (writer, writer_task) = Writer::start(path, files.clone(), connection);
        let ledger = Ledger { path: path.to_owned(), files, writer, readers: open::readers(path) };
        Ok(Self { ledger: Arc::new(ledger), writer_task })
    }
}

impl Ledger {
    /// Returns whether the path still names the files that are open, and the writer lives.
    fn is_current(&self) -> bool {
        self.files.are_in_place() && !self.writer.has_ended()
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
