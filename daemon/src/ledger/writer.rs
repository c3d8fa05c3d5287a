//! The one task that adds to a ledger: it takes everything that is queued and commits it at once.
//!
//! An add is answered only after its commit, so an answer means that the entry is on disk, in the file that the path still
//! named after the commit. One statement per commit, in autocommit: SQLite then undoes a failed one by itself, and there is
//! no transaction that could stay open. Nobody waits for a locked database much longer than one commit does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use grounding_proto::ledger::{LedgerAdd, LedgerEntry};
use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::LedgerError;
use super::entry::{COLUMNS, Entry, confidence_name, type_name};
use super::error::Cause;
use super::open::{BUSY_TIMEOUT, Files};
use crate::points;

/// Most entries of one commit; each size has its own prepared statement.
const MAX_BATCH: usize = 64;

/// Most entries that wait; who adds more waits to get in.
const MAX_QUEUED: usize = 1024;

/// An entry to add, and where its answer goes.
struct Job {
    add: LedgerAdd,
    /// When it was asked for.
    asked: Instant,
    reply: oneshot::Sender<Result<LedgerEntry, LedgerError>>,
}

/// The queue to the task.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the task over a connection; it ends when the writer is dropped and the queue is empty.
    pub(super) fn start(
        path: &Path,
        files: Files,
        connection: SqliteConnection,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (jobs, queue) = mpsc::channel(MAX_QUEUED);
        let task = tokio::spawn(run(path.to_owned(), files, connection, queue));
        (Self { path: path.to_owned(), jobs }, task)
    }

    /// Adds an entry. Once it is queued it is written, whether or not the caller still waits.
    pub(super) async fn add(&self, add: LedgerAdd) -> Result<LedgerEntry, LedgerError> {
        let closed = || LedgerError::Closed { path: self.path.clone() };
        let (reply, answer) = oneshot::channel();
        let asked = Instant::now();
        self.jobs.send(Job { add, asked, reply }).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Returns whether the task has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.jobs.is_closed()
    }
}

async fn run(path: PathBuf, files: Files, mut connection: SqliteConnection, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(MAX_BATCH);
    loop {
        if jobs.is_empty() && queue.recv_many(&mut jobs, MAX_BATCH).await == 0 {
            break;
        }
        let (adds, replies): (Vec<_>, Vec<_>) = jobs.drain(..).map(|job| (job.add, job.reply)).unzip();
        points::reach("ledger-writing");
        let mut answers = commit(&path, &mut connection, &adds).await;
        // Looked at after the commit: until then the entries may have gone into a file that nobody will find.
        if !files.are_in_place() {
            answers = adds.iter().map(|_| Err(LedgerError::Replaced { path: path.clone() })).collect();
        }
        let locked = answers.iter().find_map(|answer| match answer {
            Err(LedgerError::Busy { source, .. }) => Some(Arc::clone(source)),
            _ => None,
        });
        for (answer, reply) in answers.into_iter().zip(replies) {
            // A caller that hung up does not need its answer.
            let _ = reply.send(answer);
        }
        if let Some(source) = locked {
            jobs.extend(refuse_waiting(&path, &source, &mut queue));
        }
    }
    // Into the file that is open, wherever it was moved: a log that stays behind would be taken for the log of the file
    // that is at the path now.
    let emptied = sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await;
    if let Err(error) = async { emptied.map(drop).and(connection.close().await) }.await {
        tracing::warn!(path = %path.display(), %error, "the ledger was not closed cleanly");
    }
}

/// Answers those who waited in the queue for as long as the database is waited for, while it was locked; returns the first
/// who did not.
fn refuse_waiting(path: &Path, source: &Arc<sqlx::Error>, queue: &mut mpsc::Receiver<Job>) -> Option<Job> {
    while let Ok(job) = queue.try_recv() {
        if job.asked.elapsed() < BUSY_TIMEOUT {
            return Some(job);
        }
        // As in `run`.
        let _ = job.reply.send(Err(LedgerError::Busy { path: path.to_owned(), source: Arc::clone(source) }));
    }
    None
}

/// Writes entries in one commit; returns their answers in the same order.
async fn commit(
    path: &Path,
    connection: &mut SqliteConnection,
    adds: &[LedgerAdd],
) -> Vec<Result<LedgerEntry, LedgerError>> {
    match insert(connection, adds).await {
        Ok(entries) => entries.into_iter().map(Ok).collect(),
        Err(error) if adds.len() > 1 && Cause::of(&error) == Cause::Row => {
            // One of them was refused and none is written: each stands for itself.
            let mut answers = Vec::with_capacity(adds.len());
            for add in adds {
                let entry = insert(connection, std::slice::from_ref(add)).await;
                let entry = entry.and_then(|mut entries| entries.pop().ok_or(sqlx::Error::RowNotFound));
                answers.push(entry.map_err(LedgerError::of("write to", path)));
            }
            answers
        }
        Err(error) => {
            let error = Arc::new(error);
            adds.iter().map(|_| Err(LedgerError::shared("write to", path, Arc::clone(&error)))).collect()
        }
    }
}

/// Inserts entries and reads them back, in one statement that is one transaction.
async fn insert(connection: &mut SqliteConnection, adds: &[LedgerAdd]) -> sqlx::Result<Vec<LedgerEntry>> {
    let mut statement =
        QueryBuilder::<Sqlite>::new("INSERT INTO entries (type, content, source, confidence, session) ");
    statement.push_values(adds, |mut row, add| {
        row.push_bind(type_name(add.entry_type))
            .push_bind(&add.content)
            .push_bind(&add.source)
            .push_bind(confidence_name(add.confidence.unwrap_or_default()))
            .push_bind(&add.session_id);
    });
    statement.push(" RETURNING ").push(COLUMNS);
    // All rows are fetched, to the end of the statement: it commits there, and an error of the commit is reported there.
    let rows: Vec<Entry> = statement.build_query_as().fetch_all(connection).await?;
    let mut entries: Vec<_> = rows.into_iter().map(|Entry(entry)| entry).collect();
    // Rows are inserted in order and returned in any; ids only grow.
    entries.sort_unstable_by_key(|entry| entry.id);
    Ok(entries)
}
