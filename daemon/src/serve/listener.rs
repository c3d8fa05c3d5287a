//! The socket: bound by the one instance or handed to it, watched, and closed without losing who had connected.
//!
//! It owns who may remove the file and shut the socket: the one who made them. It also owns who may connect at all.

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
    owner: Owner,
}

/// Who made the socket and its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// This daemon.
    Daemon,
    /// A service manager, which keeps the socket beyond this daemon's end.
    Manager,
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
        Ok(Self { listener, path: path.to_owned(), inode, owner: Owner::Daemon })
    }

    /// Serves the socket that a manager handed over. When its file is gone or leads elsewhere, nobody can reach it any more:
    /// then a socket of the daemon's own is bound in its place, and who had connected before is returned. The caller holds
    /// the instance lock.
    ///
    /// # Errors
    /// When neither can be used.
    pub(super) fn adopt(
        handed: std::os::unix::net::UnixListener,
        path: &Path,
    ) -> Result<(Self, Vec<UnixStream>), ServeError> {
        let listener = UnixListener::from_std(handed).map_err(ServeError::io("use the socket handed over at", path))?;
        let inode = fs::symlink_metadata(path).map(|metadata| metadata.ino());
        // No other instance listens here: whoever answers has this socket's queue. It sees a connection that ends at once.
        let is_reachable = match std::os::unix::net::UnixStream::connect(path) {
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => true,
        };
        match inode {
            Ok(inode) if is_reachable => {
                Ok((Self { listener, path: path.to_owned(), inode, owner: Owner::Manager }, Vec::new()))
            }
            _ => {
                tracing::warn!("the file of the socket that was handed over is gone; its unit should be restarted");
                Ok((Self::bind(path)?, queued(&listener)))
            }
        }
    }

    /// Returns who made the socket.
    pub(super) fn owner(&self) -> Owner {
        self.owner
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

    /// Ends the listening and returns who had connected before. A socket of a manager is left as it is: who connected and was
    /// not accepted is served by the next daemon.
    pub(super) fn close(&self) -> Vec<UnixStream> {
        if self.owner == Owner::Manager {
            return Vec::new();
        }
        // A listener that can't be shut is closed with what is queued when it is dropped.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Read);
        queued(&self.listener)
    }

    /// Returns who had connected to a socket whose file is gone.
    pub(super) fn abandon(self) -> Vec<UnixStream> {
        queued(&self.listener)
    }

    /// Removes the socket file, if it is still the one that was bound here.
    pub(super) fn remove(&self) {
        if self.owner == Owner::Daemon && self.is_in_place() {
            // Left behind, it is replaced by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes in who is queued. Asked directly: the runtime waits for news of a listener, and a shut one has none.
fn queued(listener: &UnixListener) -> Vec<UnixStream> {
    let sockets = std::iter::from_fn(|| rustix::net::accept(listener).ok());
    sockets.filter_map(|socket| adopt(socket).ok()).collect()
}

/// Returns the process that listens on a socket, as its clients see it.
#[cfg(target_os = "linux")]
pub(super) fn listening_process(listener: &std::os::unix::net::UnixListener) -> Option<i32> {
    rustix::net::sockopt::socket_peercred(listener).ok().map(|credentials| credentials.pid.as_raw_nonzero().get())
}

/// Returns nothing: here no manager hands over sockets.
#[cfg(not(target_os = "linux"))]
pub(super) fn listening_process(_listener: &std::os::unix::net::UnixListener) -> Option<i32> {
    None
}

/// Why a connection is not served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    /// It is another user's.
    #[error("a connection of user {0}")]
    Other(u32),
    /// Nobody knows whose it is.
    #[error("a connection of an unknown user")]
    Unknown,
}

/// Lets the daemon's own user and root connect, and nobody else (DESIGN 2). The kernel says who it is, so this holds whatever
/// became of the permissions of socket and directory.
pub(super) fn admit(own: u32, peer: Option<u32>) -> Result<(), Stranger> {
    match peer {
        Some(peer) if peer == own || peer == 0 => Ok(()),
        Some(peer) => Err(Stranger::Other(peer)),
        None => Err(Stranger::Unknown),
    }
}

/// Hands an accepted socket to the runtime.
fn adopt(socket: OwnedFd) -> io::Result<UnixStream> {
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_and_root_are_admitted_and_nobody_else() {
        assert_eq!(admit(1000, Some(1000)), Ok(()));
        assert_eq!(admit(1000, Some(0)), Ok(()));
        assert_eq!(admit(1000, Some(1001)), Err(Stranger::Other(1001)));
        assert_eq!(admit(0, Some(1000)), Err(Stranger::Other(1000)));
        assert_eq!(admit(1000, None), Err(Stranger::Unknown));
        assert_eq!(admit(0, None), Err(Stranger::Unknown));
    }

    fn handed(path: &Path) -> std::os::unix::net::UnixListener {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    #[tokio::test]
    async fn a_managers_socket_is_left_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let manager = handed(&path);
        assert_eq!(listening_process(&manager), cfg!(target_os = "linux").then(|| std::process::id() as i32));
        let (listener, waiting) = Listener::adopt(manager.try_clone().unwrap(), &path).unwrap();
        assert!(waiting.is_empty() && listener.owner() == Owner::Manager && listener.is_in_place());
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        listener.remove();
        assert!(listener.close().is_empty() && path.exists());
        drop(listener);
        // The look at the file when it was adopted, and the client.
        assert!(manager.accept().is_ok() && manager.accept().is_ok() && manager.accept().is_err());
    }

    #[tokio::test]
    async fn a_managers_socket_that_nobody_can_reach_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let manager = handed(&path);
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (listener, waiting) = Listener::adopt(manager.try_clone().unwrap(), &path).unwrap();
        assert_eq!((waiting.len(), listener.owner()), (1, Owner::Daemon));
        drop(listener);
        // A file that a dead daemon left leads nowhere either.
        assert!(path.exists());
        let (listener, waiting) = Listener::adopt(manager, &path).unwrap();
        assert!(waiting.is_empty() && listener.owner() == Owner::Daemon);
        listener.remove();
        assert!(!path.exists());
    }
}
