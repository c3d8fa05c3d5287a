//! Opens a ledger: the file with its permissions, the connections with their settings.
//!
//! Must never open the database file by any other means than SQLite once a connection to it is open: closing such a
//! descriptor would drop SQLite's locks.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};

use super::error::Cause;
use super::{LedgerError, schema};
use crate::points;
use crate::store::{self, StoreError};

/// How long a locked database is waited for.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads at once.
const MAX_READERS: u32 = 4;

/// Rows that SQLite's thread hands over ahead of their reader: enough that neither waits for the other at each row.
const ROW_BUFFER: usize = 200;

/// Largest ledger that is read whole whenever it is opened, in bytes: a matter of a second. A larger one is read whole
/// once, when another program made it.
const MAX_CHECKED_BYTES: u64 = 256 * 1024 * 1024;

/// How often opening is tried again while the database is locked.
const OPEN_POLL: Duration = Duration::from_millis(10);

/// The files of an open ledger: the database, and the log and its index that SQLite keeps beside it while it is open. What
/// is written after one of them was replaced or removed is in files that no other program finds.
#[derive(Debug, Clone)]
pub(super) struct Files([(PathBuf, Option<Identity>); 3]);

/// Device and inode.
type Identity = (u64, u64);

impl Files {
    /// Notes which files a path names now.
    ///
    /// # Errors
    /// When there is no database.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        // Beside a database that a symlink stands for, SQLite's files are beside the target.
        let real = fs::canonicalize(path)?;
        let beside = |suffix: &str| {
            let mut name = real.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let noted = |path: PathBuf| (path.clone(), identity(&path));
        Ok(Self([noted(path.to_owned()), noted(beside("-wal")), noted(beside("-shm"))]))
    }

    /// Returns whether the database is still the one that was noted.
    pub(super) fn same_database(&self, other: &Self) -> bool {
        self.0[0] == other.0[0]
    }

    /// Returns whether each file is still the one that was noted.
    pub(super) fn are_in_place(&self) -> bool {
        self.0.iter().all(|(path, noted)| identity(path) == *noted)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Whether the directory of a ledger is ours to tighten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The default directory: tightened to 0700 when the user owns it.
    Default,
    /// A directory that was chosen: left as it is.
    Chosen,
}

/// Makes the file and its directory where they are absent, and tightens what is ours.
///
/// # Errors
/// When one can't be made or tightened, or the path names no regular file or is not UTF-8.
pub(super) fn prepare(path: &Path, place: Place) -> Result<(), StoreError> {
    if path.to_str().is_none() {
        return Err(StoreError::unusable(path, "is no ledger path: SQLite opens UTF-8 paths only"));
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    store::ensure_dir(dir)?;
    if place == Place::Default {
        tighten(dir, 0o700)?;
    }
    // Made before SQLite opens it, so that nobody can read it in between.
    let created = points::touch("create", path)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path));
    match created {
        Ok(_) => File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::io("create", path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Who chose a path may have put a link there; nobody chose the default one, so a link there was planted.
            let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
            if is_link && place == Place::Default {
                let problem = "is a symlink, which is not followed; name the file itself with EVIDENCE_LEDGER_DB";
                return Err(StoreError::unusable(path, problem));
            }
            let metadata = fs::metadata(path).map_err(StoreError::io("open", path))?;
            if !metadata.is_file() {
                return Err(StoreError::unusable(path, "is not a regular file, so it can't be the ledger"));
            }
            tighten(path, 0o600)
        }
        Err(error) => Err(StoreError::io("create", path)(error)),
    }
}

/// Takes all permissions but `mode` from a file or directory of the user.
fn tighten(path: &Path, mode: u32) -> Result<(), StoreError> {
    let metadata = fs::metadata(path).map_err(StoreError::io("open", path))?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || metadata.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(StoreError::io("tighten", path))
}

/// Opens the connection that writes, with the table in place.
///
/// # Errors
/// When the database can't be opened, is damaged, stays locked, or is no ledger.
pub(super) async fn writer(path: &Path) -> Result<SqliteConnection, LedgerError> {
    let failed = LedgerError::of("open", path);
    let options = options(path).synchronous(SqliteSynchronous::Full);
    let mut connection = options.connect().await.map_err(&failed)?;
    // Before anything is written: what is no ledger is left as it is.
    let lack = schema::examine(&mut connection, path).await?;
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut connection).await.map_err(&failed)?;
    let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_CHECKED_BYTES);
    if is_small || mode != "wal" {
        check_pages(&mut connection, path).await?;
    }
    if mode != "wal" {
        let mode = turn_on_log(&mut connection).await.map_err(&failed)?;
        if mode != "wal" {
            return Err(LedgerError::NoLog { path: path.to_owned(), mode });
        }
    }
    schema::complete(&mut connection, lack, path).await?;
    // The first read makes the log and its index, which then stay in their places until the connection is closed.
    sqlx::query("SELECT 1 FROM sqlite_schema").fetch_all(&mut connection).await.map_err(&failed)?;
    Ok(connection)
}

/// Reads the whole of a database before it is written: a damaged page elsewhere would not keep entries from being added
/// to a file that can't be read any more.
async fn check_pages(connection: &mut SqliteConnection, path: &Path) -> Result<(), LedgerError> {
    let finding = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(connection).await;
    let finding: String = finding.map_err(LedgerError::of("open", path))?;
    // A row that breaks a constraint is reported, too, but does no harm to others; a broken page does.
    if finding.to_lowercase().contains("page") {
        let source = Arc::new(sqlx::Error::Protocol(finding));
        return Err(LedgerError::Damaged { path: path.to_owned(), source });
    }
    Ok(())
}

/// Turns on the write-ahead log, which the file then keeps. Returns the mode that the file has now: where the log is not
/// possible, SQLite says so by leaving the old one.
async fn turn_on_log(connection: &mut SqliteConnection) -> sqlx::Result<String> {
    let waiting_since = Instant::now();
    loop {
        match sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await {
            Ok(mode) => return Ok(mode),
            // SQLite itself does not wait for this lock.
            Err(error) if Cause::of(&error) == Cause::Locked && waiting_since.elapsed() < BUSY_TIMEOUT => {
                tokio::time::sleep(OPEN_POLL).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the connections that read; each is opened when it is first needed.
pub(super) fn readers(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(MAX_READERS)
        .acquire_timeout(2 * BUSY_TIMEOUT)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(reader(path))
}

/// Returns how one connection that reads is opened.
pub(super) fn reader(path: &Path) -> SqliteConnectOptions {
    options(path).pragma("query_only", "ON")
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(ROW_BUFFER)
        .disable_statement_logging()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field report: charmbracelet/crush#3461. The file system gives no shared memory, as this way of locking does.
    #[tokio::test]
    async fn a_log_that_is_not_possible_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(&directory.path().join("ledger.db")).create_if_missing(true);
        let mut connection = options.vfs("unix-dotfile").connect().await.unwrap();
        assert_eq!(turn_on_log(&mut connection).await.unwrap(), "delete");
    }
}
