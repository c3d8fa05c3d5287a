//! What makes a daemon the only one, and its directories safe to use.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::text::printable;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::ServeError;
use super::readiness::Readiness;
use crate::api::health::VERSION;
use crate::store;

/// How long a starting daemon waits for another one that is about to end.
const TAKEOVER: Duration = Duration::from_secs(15);

/// The lock that makes this the one instance, held while it lives.
#[derive(Debug)]
pub(super) struct Instance {
    file: File,
    path: PathBuf,
}

impl Instance {
    /// Returns whether the lock file is still at its path: without it, another instance can lock another file.
    pub(super) fn is_in_place(&self) -> bool {
        store::is_at(&self.file, &self.path)
    }

    /// Takes the lock; waits a little for an instance that is about to end. `listening` is the process that listens on the
    /// socket that this one was handed, if it was: to reach that one is no sign of another instance.
    ///
    /// # Errors
    /// When another instance serves, or the lock file can't be used.
    pub(super) async fn take(
        path: PathBuf,
        socket: &Path,
        listening: Option<i32>,
        readiness: &Readiness,
    ) -> Result<Self, ServeError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = store::open_own(&mut options, &path)?;
        let started = Instant::now();
        let mut said = 0;
        let mut look = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    let content = format!("{} {}\n", std::process::id(), VERSION);
                    // For people who look; the lock itself is the kernel's.
                    let _ = file.set_len(0).and_then(|()| (&file).write_all(content.as_bytes()));
                    return Ok(Self { file, path });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(ServeError::io("lock", &path)(error)),
            }
            if Instant::now() >= look {
                if is_served(socket, listening).await {
                    return Err(ServeError::Busy(path));
                }
                // Each look at a socket that was handed over leaves a connection in its queue.
                look = Instant::now() + if listening.is_some() { Duration::from_millis(500) } else { Duration::ZERO };
            }
            if started.elapsed() >= TAKEOVER {
                let holder = std::io::read_to_string(&file).unwrap_or_default();
                return Err(ServeError::Stuck { path, holder: printable(holder.trim()) });
            }
            if started.elapsed().as_secs() > said {
                said += 1;
                readiness.say("waiting");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Returns whether another process listens on the socket.
async fn is_served(socket: &Path, listening: Option<i32>) -> bool {
    let Ok(stream) = UnixStream::connect(socket).await else { return false };
    listening.is_none() || stream.peer_cred().ok().and_then(|peer| peer.pid()) != listening
}

/// Where a state directory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The default place.
    Default,
    /// The user's choice.
    Chosen,
}

/// Creates the state directory. The default one may be there already, made by another program with other permissions:
/// it is tightened. One that was chosen is left as it is, but must not be writable by others, who could replace the locks.
pub(super) fn create_state_dir(dir: &Path, origin: Origin) -> Result<(), ServeError> {
    let mode = create_own(dir)?;
    if origin == Origin::Default && mode & 0o077 != 0 {
        return fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(ServeError::io("tighten", dir));
    }
    refuse_if(mode & 0o022 != 0, dir, "can be written by other users")
}

/// Creates a private directory, or checks that the one there is private.
pub(super) fn create_private(dir: &Path) -> Result<(), ServeError> {
    let mode = create_own(dir)?;
    refuse_if(mode & 0o077 != 0, dir, "is open to other users")
}

/// Creates a directory, or checks that the one there is the user's own; returns its mode.
fn create_own(dir: &Path) -> Result<u32, ServeError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir).map_err(ServeError::io("create", dir))?;
    let metadata = fs::symlink_metadata(dir).map_err(ServeError::io("read", dir))?;
    refuse_if(metadata.is_symlink(), dir, "is a symlink")?;
    refuse_if(metadata.uid() != rustix::process::geteuid().as_raw(), dir, "belongs to another user")?;
    Ok(metadata.mode())
}

fn refuse_if(refused: bool, dir: &Path, problem: &'static str) -> Result<(), ServeError> {
    if refused { Err(ServeError::Unsafe { path: dir.to_owned(), problem }) } else { Ok(()) }
}
