//! Why a daemon can't serve, in words for whoever started it.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// A daemon that can't serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The environment names no usable directory.
    #[error(transparent)]
    Environment(#[from] grounding_proto::environment::EnvironmentError),
    /// A directory is not safe to use.
    #[error("{} {problem}; make it a directory of yours with mode 0700, or set GROUNDING_STATE_DIR", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong, as a predicate.
        problem: &'static str,
    },
    /// A file or socket can't be made.
    #[error("can't {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process holds the lock and serves nobody.
    #[error(
        "another process holds {} and does not serve (it wrote: \"{holder}\"); end that process, then try again",
        path.display()
    )]
    Stuck {
        /// The lock.
        path: PathBuf,
        /// What it wrote there: its process id and version.
        holder: String,
    },
    /// A service manager handed over something else than the daemon's socket.
    #[error(
        "the service manager handed over {problem}; groundingd takes one listening Unix stream socket at {}: \
         see groundingd.socket", path.display()
    )]
    Handed {
        /// What it was.
        problem: String,
        /// The daemon's socket path.
        path: PathBuf,
    },
    /// Another instance serves.
    #[error("another groundingd holds {}", .0.display())]
    Busy(PathBuf),
}

impl ServeError {
    /// Returns a function that turns an I/O error about `path` into a `ServeError`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}
