//! The state directory as a client sees it: the socket's directory, the start lock, and the two small notes beside it.
//!
//! A client creates the directories (0700) when they are absent, and refuses what it finds when it is not private. It
//! never removes a lock or a socket.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grounding_proto::environment::{Environment, EnvironmentError};
use serde::{Deserialize, Serialize};

/// How long a failed start is remembered at the least, so that calls do not each pay for it.
pub const FAILURE_MEMORY: Duration = Duration::from_secs(5);

/// How many times as long as it took a failed start is remembered: one that failed slowly must not slow down every call.
const FAILURE_MEMORY_FACTOR: u32 = 6;

/// Returns how long a failed start is remembered that took that long.
#[must_use]
pub fn failure_memory(took: Duration) -> Duration {
    FAILURE_MEMORY.max(took * FAILURE_MEMORY_FACTOR)
}
/// Most that is read of the note of a failed start.
const MAX_NOTE_BYTES: u64 = 64 * 1024;

/// The paths a client needs below the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    directory: PathBuf,
    run_directory: PathBuf,
    socket: PathBuf,
    instance_lock: PathBuf,
    log_file: PathBuf,
}

/// A state directory that can't be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Something that is not ours alone stands where the socket belongs.
    #[error("refusing to use {}: it {problem}", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// A file or directory may not be written here.
    #[error(
        "can't {action} {}: allow this program to write there, as a sandbox does by a setting of its own, or set GROUNDING_STATE_DIR to a directory that it may write",
        path.display()
    )]
    NotWritable {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file or directory can't be used.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl StateError {
    fn io(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::NotWritable { action, path, source },
            _ => Self::Io { action, path, source },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct FailedStart {
    at_ms: u64,
    /// Until when it is not tried again; a note of an earlier build has none.
    #[serde(default)]
    until_ms: Option<u64>,
    text: String,
}

impl State {
    /// Returns the paths that follow from the environment.
    ///
    /// # Errors
    /// When there is no state directory or the socket path is too long.
    pub fn new(environment: &Environment) -> Result<Self, EnvironmentError> {
        Ok(Self {
            directory: environment.state_dir()?,
            run_directory: environment.run_dir()?,
            socket: environment.socket_path()?,
            instance_lock: environment.instance_lock()?,
            log_file: environment.log_file()?,
        })
    }

    /// Returns the daemon's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the file whose lock makes a daemon the only one.
    #[must_use]
    pub fn instance_lock(&self) -> &Path {
        &self.instance_lock
    }

    /// Returns the daemon's log file.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.log_file.clone()
    }

    /// Checks that the socket's directory is a directory of ours that no other user may enter; absent is fine.
    ///
    /// # Errors
    /// When it is something else, or can't be looked at.
    pub fn check_run_directory(&self) -> Result<(), StateError> {
        let path = self.run_directory.clone();
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(StateError::Io { action: "look at", path, source }),
        };
        let problem = if !metadata.is_dir() {
            "is not a directory (a symlink is not followed); remove it"
        } else if metadata.uid() != rustix::process::geteuid().as_raw() {
            "belongs to another user; remove it, or set GROUNDING_STATE_DIR to a directory of yours"
        } else if metadata.mode() & 0o077 != 0 {
            "may be entered by other users; run `chmod 700` on it"
        } else {
            return Ok(());
        };
        Err(StateError::NotPrivate { path, problem })
    }

    /// Creates the state directory and the socket's directory where they are absent, and checks the latter.
    ///
    /// # Errors
    /// When one can't be created or is not private.
    pub fn create_directories(&self) -> Result<(), StateError> {
        let path = self.run_directory.clone();
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        self.check_run_directory()?;
        created.map_err(|source| StateError::io("create the directory", path, source))
    }

    /// Takes the start lock if no other process has it; it is released when the file is dropped.
    ///
    /// # Errors
    /// When the lock file can't be opened or locked.
    pub fn try_start_lock(&self) -> Result<Option<File>, StateError> {
        try_lock(self.directory.join("start.lock"))
    }

    /// Returns whether no daemon holds the single-instance lock.
    ///
    /// To be asked with the start lock held: for an instant it holds the lock itself.
    ///
    /// # Errors
    /// When the lock file can't be opened or locked.
    pub fn daemon_is_gone(&self) -> Result<bool, StateError> {
        Ok(try_lock(self.instance_lock.clone())?.is_some())
    }

    /// Returns whether `groundingctl stop` suppresses the start of the daemon.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped_file().exists()
    }

    /// Suppresses the start of the daemon until `clear_stopped`.
    ///
    /// # Errors
    /// When the note can't be written.
    pub fn write_stopped(&self) -> Result<(), StateError> {
        let path = self.stopped_file();
        let written = open_own(OpenOptions::new().create(true).truncate(false).write(true), &path);
        written.map(drop).map_err(|source| StateError::io("write", path, source))
    }

    /// Lets clients start the daemon again.
    ///
    /// # Errors
    /// When the note can't be removed.
    pub fn clear_stopped(&self) -> Result<(), StateError> {
        let path = self.stopped_file();
        remove(&path).map_err(|source| StateError::io("remove", path, source))
    }

    /// Returns the text of a failed start that is still remembered.
    #[must_use]
    pub fn recent_failure(&self) -> Option<String> {
        let note = self.failure_note()?;
        let now = now_ms();
        let until = note.until_ms.unwrap_or_else(|| note.at_ms.saturating_add(milliseconds(FAILURE_MEMORY)));
        // A note of the future was written by a clock that has been set back since: it would be remembered for ever.
        (note.at_ms <= now && now < until).then_some(note.text)
    }

    /// Returns the last start if it failed, however long ago: its age in milliseconds and its text.
    #[must_use]
    pub fn last_failure(&self) -> Option<(u64, String)> {
        let note = self.failure_note()?;
        Some((now_ms().saturating_sub(note.at_ms), note.text))
    }

    fn failure_note(&self) -> Option<FailedStart> {
        let mut text = Vec::new();
        let note = open_own(OpenOptions::new().read(true), &self.failure_file()).ok()?;
        note.take(MAX_NOTE_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Remembers a failed start for other processes, for that long; one that can't be written is only paid for again.
    pub fn remember_failure(&self, text: &str, memory: Duration) {
        let at_ms = now_ms();
        let until_ms = Some(at_ms.saturating_add(milliseconds(memory)));
        let note = FailedStart { at_ms, until_ms, text: text.to_owned() };
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.as_file().set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(serde_json::to_string(&note)?.as_bytes())?;
            file.persist(self.failure_file())?;
            Ok(())
        };
        // Without the note the next client tries again and fails by itself.
        let _ = write();
    }

    /// Forgets a failed start; a note that can't be removed expires by itself.
    pub fn forget_failure(&self) {
        // As said: it expires.
        let _ = remove(&self.failure_file());
    }

    fn stopped_file(&self) -> PathBuf {
        self.directory.join("stopped")
    }

    fn failure_file(&self) -> PathBuf {
        self.directory.join("start-failed")
    }
}

fn try_lock(path: PathBuf) -> Result<Option<File>, StateError> {
    let opened = open_own(OpenOptions::new().create(true).truncate(false).write(true), &path);
    let file = opened.map_err(|source| StateError::io("open", path.clone(), source))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(source)) => Err(StateError::Io { action: "lock", path, source }),
    }
}

/// Opens or makes a file of ours, 0600: no symlink is followed, and a pipe in its place holds nobody up.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file; remove it")) }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    milliseconds(now)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(home: &Path) -> State {
        let variables = vec![("HOME".into(), home.as_os_str().to_owned())];
        State::new(&Environment::of_variables(variables)).unwrap()
    }

    #[test]
    fn the_socket_directory_is_created_private_and_refused_otherwise() {
        let home = tempfile::tempdir().unwrap();
        let state = state(home.path());
        state.check_run_directory().unwrap();
        state.create_directories().unwrap();
        let run = state.run_directory.clone();
        assert_eq!(run.metadata().unwrap().mode() & 0o777, 0o700);

        std::fs::set_permissions(&run, Permissions::from_mode(0o750)).unwrap();
        let error = state.create_directories().unwrap_err().to_string();
        assert!(error.contains(run.to_str().unwrap()) && error.contains("chmod 700"), "{error}");

        std::fs::remove_dir(&run).unwrap();
        std::os::unix::fs::symlink(home.path(), &run).unwrap();
        assert!(matches!(state.check_run_directory(), Err(StateError::NotPrivate { .. })));
        std::fs::remove_file(&run).unwrap();
        std::fs::write(&run, "").unwrap();
        assert!(matches!(state.create_directories(), Err(StateError::NotPrivate { .. })));
    }

    #[test]
    fn notes_come_and_go() {
        let home = tempfile::tempdir().unwrap();
        let state = state(home.path());
        state.create_directories().unwrap();
        assert!(!state.is_stopped());
        state.clear_stopped().unwrap();
        state.write_stopped().unwrap();
        state.write_stopped().unwrap();
        assert!(state.is_stopped());
        state.clear_stopped().unwrap();
        assert!(!state.is_stopped());

        assert_eq!(state.recent_failure(), None);
        state.remember_failure("no ledger", FAILURE_MEMORY);
        assert_eq!(state.recent_failure().as_deref(), Some("no ledger"));
        std::fs::write(state.failure_file(), r#"{"at_ms":1,"text":"long ago"}"#).unwrap();
        assert_eq!(state.recent_failure(), None);
        state.remember_failure("over", Duration::ZERO);
        assert_eq!(state.recent_failure(), None);
        state.forget_failure();
        assert!(!state.failure_file().exists());
        assert_eq!(failure_memory(Duration::from_millis(1)), FAILURE_MEMORY);
        assert_eq!(failure_memory(Duration::from_secs(10)), Duration::from_secs(60));
    }

    #[test]
    fn the_start_lock_is_held_by_one() {
        let home = tempfile::tempdir().unwrap();
        let state = state(home.path());
        state.create_directories().unwrap();
        let held = state.try_start_lock().unwrap();
        assert!(held.is_some());
        assert!(state.try_start_lock().unwrap().is_none());
        drop(held);
        assert!(state.try_start_lock().unwrap().is_some());
        assert!(state.daemon_is_gone().unwrap());
    }
}
