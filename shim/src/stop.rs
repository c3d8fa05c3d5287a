//! Ends the daemon, and keeps clients from starting it meanwhile.
//!
//! It asks the daemon to drain and waits until its lock is free; it never kills one. `command::stop`, `command::restart`
//! and `setup` decide what comes before and after.

use std::fs::File;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::error::ClientError;
use crate::state::{State, StateError};

/// How long the daemon may take to finish what it has.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A daemon that was not ended.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It can't be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The state directory can't be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// It did not end in time.
    #[error("groundingd (pid {pid}) still runs after {seconds} s: it finishes the calls it has before it ends")]
    StillRunning {
        /// Its process.
        pid: u32,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Another process starts or stops the daemon and does not come to an end.
    #[error("another process has been starting or stopping groundingd for {seconds} s")]
    Busy {
        /// How long it was waited for.
        seconds: u64,
    },
}

/// Takes the start lock: while it is held, no client starts a daemon.
///
/// # Errors
/// When another process keeps it.
pub async fn start_lock(state: &State) -> Result<File, StopError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = state.try_start_lock()? {
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            return Err(StopError::Busy { seconds: PATIENCE.as_secs() });
        }
        sleep(PAUSE).await;
    }
}

/// Drains the daemon and returns its pid when it is gone; nothing when none ran. To be called with the start lock held.
/// Where a service manager listens for the daemon, another one may have taken its place.
///
/// # Errors
/// When it can't be asked or does not end in time.
pub async fn end(client: &Client, state: &State) -> Result<Option<u32>, StopError> {
    let pid = match client.version().await {
        Err(ClientError::NotRunning { .. }) => return Ok(None),
        other => other?.pid,
    };
    match client.drain().await {
        // It ended on its own meanwhile, which may also cost the answer.
        Ok(()) | Err(ClientError::NotRunning { .. } | ClientError::OutcomeUnknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.version().await {
            Err(ClientError::NotRunning { .. }) if state.daemon_is_gone()? => return Ok(Some(pid)),
            Ok(version) if version.pid != pid => return Ok(Some(pid)),
            _ => {}
        }
        if Instant::now() >= deadline {
            return Err(StopError::StillRunning { pid, seconds: PATIENCE.as_secs() });
        }
        sleep(PAUSE).await;
    }
}
