//! The lock of an id (SPEC 6): a directory that other programs respect, and a flock that tells who of ours is alive.
//!
//! The directory protocol is proper-lockfile's, to the millisecond. On top of it each of our holders keeps a flock on
//! the anchor file and a record in it, so that a dead holder of ours is replaced at once and a live one never, whatever
//! the clocks say. A holder that lost the directory deletes nothing. Never probes a process id.
//!
//! A directory that another program dated in the future and left behind blocks for one stale time from the moment somebody
//! first asked, by a clock that never jumps; the next one who asks after that takes it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::clock::{Clock, SharedClock};
use crate::error::describe;
use crate::store::{self, StoreError};
use crate::{json, points};

const MAX_RECORD_BYTES: u64 = 64 * 1024;
const MIN_STALE: Duration = Duration::from_secs(2);
const MIN_HEARTBEAT: Duration = Duration::from_secs(1);
/// No symlink is followed, and no pipe is waited for.
const ANCHOR_FLAGS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
/// How often a flock is tried, and the time in between.
const LOOKS: u32 = 4;
const LOOK: Duration = Duration::from_millis(2);

/// Where an id's lock is, and when it is stale.
#[derive(Debug, Clone)]
pub struct LockPlace {
    anchor: PathBuf,
    dir: PathBuf,
    /// What becomes `dir` when the lock is taken, and what a stale `dir` becomes before it is removed; touched by the
    /// holder of the flock alone.
    fresh: PathBuf,
    stale: Duration,
}

/// Who holds a lock, as our holders write it into the anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// What the holder is doing.
    pub who: HolderKind,
    /// Its process; informational, and the address of a cancellation.
    pub pid: u32,
    /// The id.
    pub id: String,
    /// The repository.
    pub repo_path: Option<String>,
    /// The attempt it runs.
    pub attempt_id: Option<String>,
    /// The directory's modification times last set and next to be set, in milliseconds since 1970.
    #[serde(default)]
    pub mtimes_ms: [i64; 2],
}

/// What a holder is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HolderKind {
    /// It runs an attempt.
    Supervisor,
    /// It settles attempts whose holder is gone; a matter of milliseconds.
    Reconciler,
}

/// What an attempt to take a lock came to.
#[derive(Debug)]
pub enum Acquired {
    /// It is ours.
    Lock(HeldLock),
    /// Someone else's.
    Held(HeldBy),
}

/// Who holds a lock that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldBy {
    /// One of our programs, alive; its record when it could be read.
    Ours(Option<Holder>),
    /// Another program; the directory's modification time in milliseconds.
    Foreign {
        /// The directory's modification time, in milliseconds since 1970.
        mtime_ms: i64,
    },
}

/// A lock that could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A file operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stale lock directory has content.
    #[error("the stale lock directory {} is not empty; look into it and remove it", .0.display())]
    NotEmpty(PathBuf),
}

/// Why a holder lost its lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Compromised {
    /// The directory is gone.
    #[error("the attempt lost its lock: the lock directory is gone")]
    Gone,
    /// Another program dated the directory.
    #[error("the attempt lost its lock: another program took it over")]
    TakenOver,
    /// The directory can't be read or dated, or the record can't be written; why.
    #[error("the attempt lost its lock: {0}")]
    Unreadable(String),
}

impl LockPlace {
    /// Returns the lock of an id; a stale time under 2 s counts as 2 s, as in the library other programs use.
    #[must_use]
    pub fn new(place: &Place, stale: Duration) -> Self {
        Self {
            anchor: place.anchor(),
            dir: place.lock_dir(),
            fresh: place.fresh_lock_dir(),
            stale: stale.max(MIN_STALE),
        }
    }

    /// Returns the time between two heartbeats.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        (self.stale / 2).max(MIN_HEARTBEAT)
    }

    /// Returns the time after which a lock without a heartbeat is stale.
    #[must_use]
    pub fn stale(&self) -> Duration {
        self.stale
    }

    /// Takes the lock, or says who holds it. `unchanged_mtime_ms` is the modification time at which the caller has seen
    /// the directory for longer than the stale time on a clock that never jumps: one dated in the future.
    ///
    /// # Errors
    /// When a file can't be made or read, or a stale directory is not empty.
    pub fn acquire(
        &self,
        clock: &SharedClock,
        holder: Holder,
        unchanged_mtime_ms: Option<i64>,
    ) -> Result<Acquired, LockError> {
        let anchor = self.open_anchor()?;
        if !self.lock_anchor(&anchor)? {
            return Ok(Acquired::Held(HeldBy::Ours(read_holder(&anchor))));
        }
        // From here on no other program of ours can be in this function for this id.
        let dead = read_holder(&anchor);
        let mut lock = HeldLock { place: self.clone(), anchor, clock: clock.clone(), holder, mtime_ms: 0 };
        let mut last_mtime_ms = 0;
        for round in 0..2 {
            if let Some(mtime_ms) = self.mtime_ms()? {
                last_mtime_ms = mtime_ms;
                let ours_and_dead = dead.as_ref().is_some_and(|holder| holder.mtimes_ms.contains(&mtime_ms));
                let old = mtime_ms < now_ms(clock.as_ref()) - millis(self.stale);
                if round > 0 || !(ours_and_dead || old || unchanged_mtime_ms == Some(mtime_ms)) {
                    break;
                }
                if !self.remove_stale(mtime_ms)? {
                    break;
                }
            }
            if lock.take()? {
                return Ok(Acquired::Lock(lock));
            }
        }
        Ok(Acquired::Held(HeldBy::Foreign { mtime_ms: self.mtime_ms()?.unwrap_or(last_mtime_ms) }))
    }

    /// Returns who holds the lock now, or nothing when it is free or left by a dead holder of ours. Creates no file.
    ///
    /// # Errors
    /// When the anchor or the directory can't be read.
    pub fn probe(&self, clock: &dyn Clock) -> Result<Option<HeldBy>, LockError> {
        let mut dead = None;
        if let Some(anchor) = store::open_regular(&self.anchor)? {
            match anchor.try_lock_shared() {
                Ok(()) => dead = read_holder(&anchor),
                Err(TryLockError::WouldBlock) => return Ok(Some(HeldBy::Ours(read_holder(&anchor)))),
                Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &self.anchor)(error).into()),
            }
        }
        let Some(mtime_ms) = self.mtime_ms()? else { return Ok(None) };
        let ours_and_dead = dead.is_some_and(|holder| holder.mtimes_ms.contains(&mtime_ms));
        let old = mtime_ms < now_ms(clock) - millis(self.stale);
        Ok((!ours_and_dead && !old).then_some(HeldBy::Foreign { mtime_ms }))
    }

    /// Takes the flock; returns false when a program of ours keeps it.
    fn lock_anchor(&self, anchor: &File) -> Result<bool, LockError> {
        for round in 0..LOOKS {
            // One who merely looks holds it for less than that; what a dead holder wrote must not be read as his.
            if round > 0 {
                std::thread::sleep(LOOK);
            }
            match anchor.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &self.anchor)(error).into()),
            }
        }
        Ok(false)
    }

    fn open_anchor(&self) -> Result<File, LockError> {
        store::ensure_dir(self.anchor.parent().unwrap_or(Path::new("/")))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(ANCHOR_FLAGS);
        let opened = points::touch("open", &self.anchor).and_then(|()| options.open(&self.anchor));
        let anchor = opened.map_err(StoreError::io("open", &self.anchor))?;
        if anchor.metadata().map_err(StoreError::io("read", &self.anchor))?.is_file() {
            Ok(anchor)
        } else {
            Err(StoreError::unusable(&self.anchor, "is not a regular file").into())
        }
    }

    fn mtime_ms(&self) -> Result<Option<i64>, LockError> {
        mtime_ms_of(&self.dir)
    }

    /// Removes the directory that was judged by its modification time; returns false when another one stands there.
    ///
    /// Another program may find the same directory stale and put its own in that place after we looked. So it is taken
    /// aside first: what is looked at again can't be replaced any more, and a live lock is put back.
    fn remove_stale(&self, judged_mtime_ms: i64) -> Result<bool, LockError> {
        // One who died between this and the removal left an empty directory there, which the renaming replaces.
        match points::touch("rename", &self.fresh).and_then(|()| fs::rename(&self.dir, &self.fresh)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(StoreError::io("remove", &self.dir)(error).into()),
        }
        if mtime_ms_of(&self.fresh)? != Some(judged_mtime_ms) {
            self.put_back()?;
            return Ok(false);
        }
        match self.remove_dir(&self.fresh) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.put_back()?;
                Err(match error {
                    LockError::NotEmpty(_) => LockError::NotEmpty(self.dir.clone()),
                    LockError::Store(_) => error,
                })
            }
        }
    }

    /// Gives the directory that was taken aside its place again, unless somebody made another one meanwhile.
    fn put_back(&self) -> Result<(), LockError> {
        match rename_new(&self.fresh, &self.dir) {
            Ok(()) => Ok(()),
            // Its owner finds another one in its place, as after any takeover, and writes nothing.
            Err(Errno::EXIST) => self.remove_dir(&self.fresh),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                fs::rename(&self.fresh, &self.dir).map_err(|error| StoreError::io("put back", &self.dir)(error).into())
            }
            Err(error) => Err(StoreError::io("put back", &self.dir)(error.into()).into()),
        }
    }

    fn create_dir(&self, dir: &Path) -> Result<bool, LockError> {
        match points::touch("create-directory", dir).and_then(|()| fs::DirBuilder::new().mode(0o700).create(dir)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(StoreError::io("create", dir)(error).into()),
        }
    }

    fn remove_dir(&self, dir: &Path) -> Result<(), LockError> {
        match points::touch("remove", dir).and_then(|()| fs::remove_dir(dir)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(LockError::NotEmpty(dir.to_owned())),
            Err(error) => Err(StoreError::io("remove", dir)(error).into()),
        }
    }
}

/// A lock that is held. Dropping it gives back the flock alone, as the death of its process does; `release` gives back
/// the lock.
#[derive(Debug)]
pub struct HeldLock {
    place: LockPlace,
    anchor: File,
    clock: SharedClock,
    holder: Holder,
    mtime_ms: i64,
}

impl HeldLock {
    /// Checks that the lock is still ours.
    ///
    /// # Errors
    /// When it was lost; the holder then writes no marker and deletes nothing.
    pub fn check(&self) -> Result<(), Compromised> {
        match self.place.mtime_ms() {
            Ok(Some(mtime_ms)) if mtime_ms == self.mtime_ms => Ok(()),
            Ok(Some(_)) => Err(Compromised::TakenOver),
            Ok(None) => Err(Compromised::Gone),
            Err(error) => Err(Compromised::Unreadable(describe(&error))),
        }
    }

    /// Checks that the lock is still ours and dates it anew; due every `LockPlace::heartbeat`.
    ///
    /// # Errors
    /// As `check`.
    pub fn beat(&mut self) -> Result<(), Compromised> {
        self.check()?;
        let (dir, next) = (self.place.dir.clone(), now_ms(self.clock.as_ref()));
        self.date(&dir, next).map_err(|error| Compromised::Unreadable(describe(&error)))
    }

    /// Gives the lock back; a lost one is left to its new owner.
    ///
    /// # Errors
    /// When the directory can't be removed; the flock is given back all the same.
    pub fn release(&self) -> Result<(), LockError> {
        let removed = self.check().map_or(Ok(()), |()| self.place.remove_dir(&self.place.dir));
        // The record names a directory that is gone; without it no later directory can be taken for ours. One that could
        // not be removed keeps its record, by which the next of us takes it at once.
        let emptied = if removed.is_ok() { self.empty_record() } else { Ok(()) };
        self.anchor.unlock().map_err(StoreError::io("unlock", &self.place.anchor))?;
        removed.and(emptied.map_err(LockError::from))
    }

    fn empty_record(&self) -> Result<(), StoreError> {
        let emptied = points::touch("truncate", &self.place.anchor).and_then(|()| self.anchor.set_len(0));
        emptied.map_err(StoreError::io("write", &self.place.anchor))
    }

    /// Makes the directory; returns false when there is one.
    ///
    /// It is made under a name of ours, recorded and dated, and only then given its own: whenever we die, a directory of
    /// that name that is ours is one that the record knows.
    fn take(&mut self) -> Result<bool, LockError> {
        let (place, fresh) = (self.place.clone(), self.place.fresh.clone());
        if !place.create_dir(&fresh)? {
            // One who died before he gave it its name left it; nobody else is here while we have the flock.
            place.remove_dir(&fresh)?;
            place.create_dir(&fresh)?;
        }
        let named = self.date(&fresh, now_ms(self.clock.as_ref())).map_err(LockError::from).and_then(|()| {
            points::touch("rename", &place.dir).map_err(StoreError::io("create", &place.dir))?;
            match rename_new(&fresh, &place.dir) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                // Not on this file system: the directory is made and then dated, and dying in between costs a stale time.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if place.create_dir(&place.dir)? => {
                    self.date(&place.dir, self.mtime_ms)?;
                    Ok(true)
                }
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
                Err(error) => Err(StoreError::io("create", &place.dir)(error.into()).into()),
            }
        });
        place.remove_dir(&fresh)?;
        if !matches!(named, Ok(true)) {
            // A record of a time that is not ours could be taken for one.
            self.empty_record()?;
        }
        named
    }

    /// Writes the record, then dates the directory: whenever we die, one of the two recorded times is its own.
    fn date(&mut self, dir: &Path, next: i64) -> Result<(), StoreError> {
        let last = if self.mtime_ms == 0 { next } else { self.mtime_ms };
        self.holder.mtimes_ms = [last, next];
        let record = json::compact(&self.holder);
        let write = |source| StoreError::Io { doing: "write", path: self.place.anchor.clone(), source };
        let written = points::write(&self.place.anchor, record.as_bytes(), |part| self.anchor.write_all_at(part, 0));
        written.map_err(write)?;
        self.anchor.set_len(record.len() as u64).map_err(write)?;
        let time = Timespec { tv_sec: next.div_euclid(1000), tv_nsec: next.rem_euclid(1000) * 1_000_000 };
        let times = Timestamps { last_access: time, last_modification: time };
        let dated = points::touch("date", dir)
            .and_then(|()| Ok(rustix::fs::utimensat(CWD, dir, &times, AtFlags::SYMLINK_NOFOLLOW)?));
        dated.map_err(StoreError::io("date", dir))?;
        self.mtime_ms = next;
        Ok(())
    }
}

/// Renames a directory to a name that nothing bears.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

fn mtime_ms_of(dir: &Path) -> Result<Option<i64>, LockError> {
    match fs::symlink_metadata(dir) {
        Ok(metadata) => Ok(Some(rounded_ms(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", dir)(error).into()),
    }
}

fn read_holder(anchor: &File) -> Option<Holder> {
    let mut bytes = Vec::new();
    anchor.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Milliseconds, rounded: other programs' times carry noise below them.
fn rounded_ms(metadata: &fs::Metadata) -> i64 {
    metadata.mtime() * 1000 + (metadata.mtime_nsec() + 500_000) / 1_000_000
}

fn now_ms(clock: &dyn Clock) -> i64 {
    clock.now().as_millisecond()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests;
