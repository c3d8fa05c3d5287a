//! The socket: bound by the one instance, watched, and closed without losing who had connected.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use notify::Watcher;
use rustix::net::Shutdown;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::ServeError;

/// The socket, and the file it is bound to.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Listener {
    /// Binds the socket, replacing a file that no daemon listens on any more. The caller holds the instance lock.
    ///
    /// # Errors
    /// When the path can't be bound.
    pub(super) fn bind(path: &Path) -> Result<Self, ServeError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(ServeError::io("remove", path)(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(ServeError::io("bind", path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(ServeError::io("protect", path))?;
        let inode = fs::symlink_metadata(path).map_err(ServeError::io("read", path))?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Tells of every change in the socket's directory; without news, somebody has to look from time to time.
    pub(super) fn watch(&self, changes: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
        let watcher = notify::recommended_watcher(move |_| {
            // A full channel already holds the news.
            let _ = changes.try_send(());
        });
        let watched = watcher.and_then(|mut watcher| {
            watcher.watch(self.path.parent().unwrap_or(&self.path), notify::RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        watched.inspect_err(|error| tracing::warn!(%error, "the socket's directory can't be watched")).ok()
    }

    /// Returns whether the socket file is the one that was bound.
    pub(super) fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode)
    }

    /// Lets nobody connect any more, and returns who had connected before.
    pub(super) fn close(&self) -> Vec<UnixStream> {
        // A listener that can't be shut is closed with what is queued when it is dropped.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Read);
        // Asked directly: the runtime waits for news of a listener, and a shut one has none.
        let queued = std::iter::from_fn(|| rustix::net::accept(&self.listener).ok());
        queued.filter_map(|socket| adopt(socket).ok()).collect()
    }

    /// Removes the socket file, if it is still the one that was bound.
    pub(super) fn remove(&self) {
        if self.is_in_place() {
            // Left behind, it is replaced by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Hands an accepted socket to the runtime.
fn adopt(socket: OwnedFd) -> io::Result<UnixStream> {
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
