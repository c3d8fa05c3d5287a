//! Cancelling an attempt: SIGTERM to the process that holds its lock, and to nobody else.
//!
//! A process id alone proves nothing. The process is pinned first, then the lock is looked at again: if the same holder
//! still has it, the pinned process is that holder.

use std::path::Path;

use grounding_proto::solution::AttemptStatus;
use grounding_proto::wire::{AttemptRow, Settings};

use super::lock::{HeldBy, Holder, LockError};
use super::place::Place;
use crate::clock::SystemClock;

/// An attempt that can't be cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// It does not run.
    #[error("the attempt does not run any more")]
    NotRunning,
    /// Another program runs it.
    #[error("the attempt is run by another program; end it there")]
    Foreign,
    /// The lock can't be read.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The process can't be signalled.
    #[error("the attempt's process can't be signalled")]
    Signal(#[source] std::io::Error),
}

/// Asks a running attempt to end; it then fails with the error `cancelled`.
///
/// # Errors
/// When it does not run, or is not one of ours.
pub fn cancel(verdict_dir: &Path, row: &AttemptRow, settings: &Settings) -> Result<(), CancelError> {
    if row.status != AttemptStatus::Running {
        return Err(CancelError::NotRunning);
    }
    let place = Place::of(verdict_dir, &row.id).ok_or(CancelError::NotRunning)?;
    let holder = holder_of(&place, &row.attempt_id, settings)?;
    let pinned = signal::pin(holder.pid).map_err(CancelError::Signal)?;
    let again = holder_of(&place, &row.attempt_id, settings)?;
    if again.pid != holder.pid {
        return Err(CancelError::NotRunning);
    }
    pinned.terminate().map_err(CancelError::Signal)
}

fn holder_of(place: &Place, attempt_id: &str, settings: &Settings) -> Result<Holder, CancelError> {
    let lock = place.lock(settings);
    match lock.probe(SystemClock::shared().as_ref())? {
        Some(HeldBy::Ours(Some(holder))) if holder.attempt_id.as_deref() == Some(attempt_id) => Ok(holder),
        Some(HeldBy::Foreign { .. }) => Err(CancelError::Foreign),
        Some(HeldBy::Ours(_)) | None => Err(CancelError::NotRunning),
    }
}

#[cfg(target_os = "linux")]
mod signal {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, Signal};

    /// A process that can't be mistaken for a later one of the same number.
    pub(super) struct Pinned(OwnedFd);

    pub(super) fn pin(pid: u32) -> io::Result<Pinned> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Pinned(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    impl Pinned {
        pub(super) fn terminate(&self) -> io::Result<()> {
            Ok(rustix::process::pidfd_send_signal(&self.0, Signal::TERM)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod signal {
    use std::io;

    use rustix::process::{Pid, Signal};

    /// A process by its number: between the second look at the lock and the signal it can only have ended.
    pub(super) struct Pinned(Pid);

    pub(super) fn pin(pid: u32) -> io::Result<Pinned> {
        Ok(Pinned(i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?))
    }

    impl Pinned {
        pub(super) fn terminate(&self) -> io::Result<()> {
            Ok(rustix::process::kill_process(self.0, Signal::TERM)?)
        }
    }
}
