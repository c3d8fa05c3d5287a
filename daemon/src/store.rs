//! Durable, atomic files: the one way the daemon writes anything but the ledger (SPEC 2).
//!
//! A reader sees the old content or the new, never a part; an acknowledged write survives power loss. Directories made
//! here are 0700 and files 0600. A file that does not parse is reported and never overwritten or deleted. Temporary
//! names never contain an id.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::OFlags;
use serde_json::Value;

use crate::{json, points};

/// Largest JSON file that is read, in bytes; none that a client can cause is near it.
const MAX_JSON_BYTES: u64 = 64 * 1024 * 1024;

/// How long a lock is waited for; whoever holds one does so for some file operations only.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// What temporary files are called, around random characters.
const TEMPORARY: (&str, &str) = (".grounding-", ".tmp");

/// Age from which a temporary file counts as left behind: no write takes as long.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// How often a lock that is held is tried again.
const LOCK_POLL: Duration = Duration::from_millis(2);

/// A file operation that failed, with the path it was about.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("can't {doing} {}", path.display())]
    Io {
        /// What was tried: "read", "write", "create", "remove", "lock".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The operation was done, and the disk did not confirm it.
    #[error("{} was {done}, but the disk did not confirm it, so that a loss of power may undo it: look before you repeat it", path.display())]
    Unconfirmed {
        /// What was done: "written" or "removed".
        done: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it is not confirmed.
        source: io::Error,
    },
    /// The file is not what it should be; it was left as it is.
    #[error("{} {problem}; it was left as it is: repair it or move it away", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, as a predicate.
        problem: String,
    },
}

impl StoreError {
    /// Returns a function that turns an I/O error about `path` into a `StoreError`.
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// Returns an error for a file that is not what it should be; `problem` is a predicate, such as "is a symlink".
    pub fn unusable(path: &Path, problem: impl fmt::Display) -> Self {
        Self::Unusable { path: path.to_owned(), problem: problem.to_string() }
    }
}

/// The one safe file-name segment that an id is reduced to (SPEC 2); an id is never a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey(String);

impl FileKey {
    /// Returns the segment for an id, or nothing when the id can't name a file: empty, `.` or `..`.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        let plain = |unit: u16| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') => char::from(byte),
            _ => '_',
        };
        let key: String = id.encode_utf16().map(plain).collect();
        (!matches!(key.as_str(), "" | "." | "..")).then_some(Self(key))
    }

    /// Returns the path of the file `<segment><suffix>` in a directory.
    #[must_use]
    pub fn path_in(&self, dir: &Path, suffix: &str) -> PathBuf {
        dir.join(format!("{}{suffix}", self.0))
    }

    /// Returns the segment.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Creates a directory and its missing parents, 0700 each; existing ones are left as they are.
///
/// # Errors
/// When one can't be created.
pub fn ensure_dir(dir: &Path) -> Result<(), StoreError> {
    let made = points::touch("create-directory", dir)
        .and_then(|()| fs::DirBuilder::new().recursive(true).mode(0o700).create(dir));
    made.map_err(StoreError::io("create", dir))
}

/// As `ensure_dir`, for a directory that is ours alone: one that a symlink stands for is refused.
///
/// # Errors
/// When it can't be created, or is a symlink.
pub fn ensure_own_dir(dir: &Path) -> Result<(), StoreError> {
    ensure_dir(dir)?;
    let metadata = fs::symlink_metadata(dir).map_err(StoreError::io("read", dir))?;
    if metadata.is_symlink() { Err(StoreError::unusable(dir, "is a symlink")) } else { Ok(()) }
}

/// Reads a whole regular file; a symlink in the last component is not followed. Returns nothing when it is absent.
///
/// # Errors
/// When it is a symlink, no regular file, larger than `limit` bytes, or can't be read.
pub fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(file) = open_regular(path)? else { return Ok(None) };
    read_opened(file, path, limit).map(Some)
}

/// Reads a whole opened file.
///
/// # Errors
/// When it is larger than `limit` bytes or can't be read.
pub fn read_opened(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let read = points::touch("read", path).and_then(|()| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(StoreError::io("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(StoreError::unusable(path, format_args!("is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a piece of a regular file: at most `most` bytes from the offset on. Returns nothing when it is absent.
///
/// # Errors
/// When it is a symlink, no regular file, or can't be read.
pub fn read_piece(path: &Path, from: u64, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(mut file) = open_regular(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = file.seek(io::SeekFrom::Start(from)).and_then(|_| file.take(most).read_to_end(&mut bytes));
    read.map_err(StoreError::io("read", path))?;
    Ok(Some(bytes))
}

/// Reads a JSON object; returns nothing when the file is absent.
///
/// # Errors
/// When the file can't be read or does not hold a JSON object.
pub fn read_object(path: &Path) -> Result<Option<serde_json::Map<String, Value>>, StoreError> {
    let Some(bytes) = read_file(path, MAX_JSON_BYTES)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(StoreError::unusable(path, "does not hold a JSON object")),
        Err(error) => Err(StoreError::unusable(path, format_args!("is not valid JSON ({error})"))),
    }
}

/// Replaces a file: temporary file in the same directory, fsync, rename, fsync of the directory.
///
/// # Errors
/// When any step fails. The old content then stands; or the new one, whole, when the error says that it is unconfirmed:
/// the caller who must not leave the new one removes the file.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = temporary_with(path, bytes)?;
    points::touch("rename", path).map_err(StoreError::io("write", path))?;
    temporary.persist(path).map_err(|error| StoreError::io("write", path)(error.error))?;
    confirm("written", path)
}

/// Creates a file with its whole content at once; returns false when the path is taken.
///
/// # Errors
/// When any step fails; no file is then left behind, or the whole one when the error says that it is unconfirmed: it is
/// not removed again, because others may have read it.
pub fn create(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    let temporary = temporary_with(path, bytes)?;
    points::touch("rename", path).map_err(StoreError::io("create", path))?;
    match temporary.persist_noclobber(path) {
        Ok(_) => confirm("written", path).map(|()| true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(StoreError::io("create", path)(error.error)),
    }
}

/// Removes a file; returns whether there was one.
///
/// # Errors
/// When it can't be removed.
pub fn remove(path: &Path) -> Result<bool, StoreError> {
    match points::touch("remove", path).and_then(|()| fs::remove_file(path)) {
        Ok(()) => confirm("removed", path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("remove", path)(error)),
    }
}

/// Writes a JSON value the way the files of SPEC 2 are written: two-space indentation.
///
/// # Errors
/// As `replace`.
pub fn replace_json(path: &Path, value: &Value) -> Result<(), StoreError> {
    replace(path, json::pretty(value).as_bytes())
}

/// Takes the lock of an existing file, so that a read, change and replacement is one; returns nothing when it is absent.
///
/// It is advisory and excludes threads and other processes that take it too. The file itself is locked, so no lock file
/// is left behind; a file that was replaced while this waited is locked anew.
///
/// # Errors
/// When the file is a symlink, can't be opened, or stays locked for 10 s.
pub fn lock(path: &Path) -> Result<Option<FileLock>, StoreError> {
    let waiting_since = Instant::now();
    loop {
        // For writing too: network file systems give an exclusive lock to writers only.
        let Some(file) = open(OpenOptions::new().read(true).write(true), path)? else { return Ok(None) };
        points::touch("lock", path).map_err(StoreError::io("lock", path))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(Some(FileLock { _file: file })),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if waiting_since.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_POLL),
            Err(error) => return Err(StoreError::io("lock", path)(error.into())),
        }
    }
}

/// The held lock of a file; dropping it lets go.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

/// Opens a file that is no symlink, without waiting for the other end of a pipe; returns nothing when it is absent.
/// Opens or creates a regular file of our own with these options; a symlink in the last component is not followed, and a
/// pipe holds nobody up.
///
/// # Errors
/// When it is a symlink, no regular file, or can't be opened.
pub fn open_own(options: &mut OpenOptions, path: &Path) -> Result<File, StoreError> {
    let file = open(options, path)?.ok_or_else(|| StoreError::unusable(path, "has no directory"))?;
    let metadata = file.metadata().map_err(StoreError::io("read", path))?;
    if metadata.is_file() { Ok(file) } else { Err(StoreError::unusable(path, "is not a regular file")) }
}

/// Opens a regular file to be read, or nothing when it is absent.
///
/// # Errors
/// When it is a symlink, no regular file, or can't be opened.
pub fn open_regular(path: &Path) -> Result<Option<File>, StoreError> {
    let Some(file) = open(OpenOptions::new().read(true), path)? else { return Ok(None) };
    let metadata = file.metadata().map_err(StoreError::io("read", path))?;
    if metadata.is_file() { Ok(Some(file)) } else { Err(StoreError::unusable(path, "is not a regular file")) }
}

fn open(options: &mut OpenOptions, path: &Path) -> Result<Option<File>, StoreError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match options.custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            Err(StoreError::unusable(path, "is a symlink"))
        }
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Returns whether a path still names the opened file.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((&file.metadata(), &path.symlink_metadata()), (Ok(file), Ok(path)) if identity(file) == identity(path))
}

/// Writes a temporary file beside a path; dropping it removes it.
fn temporary_with(path: &Path, bytes: &[u8]) -> Result<tempfile::NamedTempFile, StoreError> {
    let dir = parent(path);
    ensure_dir(dir)?;
    sweep_once(dir);
    let (prefix, suffix) = TEMPORARY;
    let written = points::touch("create", path).and_then(|()| {
        // tempfile creates with mode 0600.
        let mut temporary = tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile_in(dir)?;
        points::write(path, bytes, |bytes| temporary.write_all(bytes))?;
        points::touch("sync", path)?;
        temporary.as_file().sync_all()?;
        Ok(temporary)
    });
    written.map_err(StoreError::io("write", path))
}

/// Removes the temporary files that writers left in a directory when they were killed; once per process and directory.
fn sweep_once(dir: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(dir.to_owned()) {
        sweep(dir, SystemTime::now() - ABANDONED);
    }
}

/// Removes the temporary files that were last written before a time. What can't be looked at or removed is passed over.
fn sweep(dir: &Path, before: SystemTime) {
    let is_temporary = |name: &str| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let old = || entry.metadata().and_then(|it| Ok(it.is_file() && it.modified()? < before)).unwrap_or(false);
        if entry.file_name().to_str().is_some_and(is_temporary) && old() {
            // It takes up room and harms nothing.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the name of a new file durable.
///
/// # Errors
/// When its directory can't be synced.
pub fn sync_parent(path: &Path) -> Result<(), StoreError> {
    sync_name(path).map_err(StoreError::io("sync the directory of", path))
}

fn confirm(done: &'static str, path: &Path) -> Result<(), StoreError> {
    sync_name(path).map_err(|source| StoreError::Unconfirmed { done, path: path.to_owned(), source })
}

fn sync_name(path: &Path) -> io::Result<()> {
    points::touch("sync-directory", path)?;
    File::open(parent(path))?.sync_all()
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn ids_become_file_names_as_recorded() {
        let fixture: Value = serde_json::from_str(include_str!("../../tests/fixtures/verdict-ids.json")).unwrap();
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let key = FileKey::of(case["id"].as_str().unwrap());
            assert_eq!(key.as_ref().map(FileKey::as_str), case["key"].as_str(), "{case}");
        }
    }

    #[test]
    fn a_replaced_file_is_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/deep/file.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn what_killed_writers_left_is_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let names = [".grounding-a1.tmp", ".grounding-b2.tmp", ".grounding-notes", "x.tmp", "session.json"];
        let long_ago = SystemTime::now() - 2 * ABANDONED;
        for name in names {
            let file = File::create(dir.path().join(name)).unwrap();
            if name != names[1] {
                file.set_modified(long_ago).unwrap();
            }
        }
        replace(&dir.path().join("session.json"), b"{}").unwrap();
        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [false, true, true, true, true], "a young one may still be written");
    }

    #[test]
    fn create_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(create(&path, b"one").unwrap());
        assert!(!create(&path, b"two").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/etc/hostname", &link).unwrap();
        assert!(read_file(&link, 10).unwrap_err().to_string().contains("is a symlink"));
        assert!(read_file(dir.path(), 10).unwrap_err().to_string().contains("is not a regular file"));
        let large = dir.path().join("large");
        fs::write(&large, "0123456789a").unwrap();
        assert!(read_file(&large, 10).unwrap_err().to_string().contains("larger than 10 bytes"));
        assert!(read_file(&dir.path().join("absent"), 10).unwrap().is_none());
    }

    #[test]
    fn a_lock_is_of_the_file_that_stands_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counter");
        assert!(lock(&path).unwrap().is_none(), "nothing to lock");
        fs::write(&path, "0").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let _lock = lock(&path).unwrap().unwrap();
                        let count: u32 = fs::read_to_string(&path).unwrap().parse().unwrap();
                        replace(&path, (count + 1).to_string().as_bytes()).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "40");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no lock file is left");
    }

    #[test]
    fn a_file_that_does_not_parse_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broken.json");
        fs::write(&path, "{").unwrap();
        let message = read_object(&path).unwrap_err().to_string();
        assert!(message.contains("broken.json") && message.contains("left as it is"), "{message}");
        fs::write(&path, "[]").unwrap();
        assert!(read_object(&path).is_err());
    }
}
