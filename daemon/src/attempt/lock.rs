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
use crate::json;
use crate::store::{self, StoreError};

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
    /// What becomes `dir` when the lock is taken; touched by the holder of the flock alone.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Compromised {
    /// The directory is gone.
    #[error("the attempt lost its lock: the lock directory is gone")]
    Gone,
    /// Another program dated the directory.
    #[error("the attempt lost its lock: another program took it over")]
    TakenOver,
    /// The directory can't be read or dated.
    #[error("the attempt lost its lock: the lock directory can't be read or dated")]
    Unreadable,
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
                self.remove_dir(&self.dir)?;
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
        let anchor = options.open(&self.anchor).map_err(StoreError::io("open", &self.anchor))?;
        if anchor.metadata().map_err(StoreError::io("read", &self.anchor))?.is_file() {
            Ok(anchor)
        } else {
            Err(StoreError::unusable(&self.anchor, "is not a regular file").into())
        }
    }

    fn mtime_ms(&self) -> Result<Option<i64>, LockError> {
        match fs::symlink_metadata(&self.dir) {
            Ok(metadata) => Ok(Some(rounded_ms(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &self.dir)(error).into()),
        }
    }

    fn create_dir(&self, dir: &Path) -> Result<bool, LockError> {
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(StoreError::io("create", dir)(error).into()),
        }
    }

    fn remove_dir(&self, dir: &Path) -> Result<(), LockError> {
        match fs::remove_dir(dir) {
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
            Err(_) => Err(Compromised::Unreadable),
        }
    }

    /// Checks that the lock is still ours and dates it anew; due every `LockPlace::heartbeat`.
    ///
    /// # Errors
    /// As `check`.
    pub fn beat(&mut self) -> Result<(), Compromised> {
        self.check()?;
        let (dir, next) = (self.place.dir.clone(), now_ms(self.clock.as_ref()));
        self.date(&dir, next).map_err(|_| Compromised::Unreadable)
    }

    /// Gives the lock back; a lost one is left to its new owner.
    ///
    /// # Errors
    /// When the directory can't be removed; the flock is given back all the same.
    pub fn release(&self) -> Result<(), LockError> {
        let removed = self.check().map_or(Ok(()), |()| self.place.remove_dir(&self.place.dir));
        // The record names a directory that is gone; without it no later directory can be taken for ours.
        let write = |source| StoreError::Io { doing: "write", path: self.place.anchor.clone(), source };
        self.anchor.set_len(0).and_then(|()| self.anchor.unlock()).map_err(write)?;
        removed
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
            match rustix::fs::renameat_with(CWD, &fresh, CWD, &place.dir, RenameFlags::NOREPLACE) {
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
            self.anchor.set_len(0).map_err(StoreError::io("write", &place.anchor))?;
        }
        named
    }

    /// Writes the record, then dates the directory: whenever we die, one of the two recorded times is its own.
    fn date(&mut self, dir: &Path, next: i64) -> Result<(), StoreError> {
        let last = if self.mtime_ms == 0 { next } else { self.mtime_ms };
        self.holder.mtimes_ms = [last, next];
        let record = json::compact(&self.holder);
        let write = |source| StoreError::Io { doing: "write", path: self.place.anchor.clone(), source };
        self.anchor.write_all_at(record.as_bytes(), 0).map_err(write)?;
        self.anchor.set_len(record.len() as u64).map_err(write)?;
        let time = Timespec { tv_sec: next.div_euclid(1000), tv_nsec: next.rem_euclid(1000) * 1_000_000 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, dir, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| StoreError::io("date", dir)(error.into()))?;
        self.mtime_ms = next;
        Ok(())
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::manual::ManualClock;

    const STALE: Duration = Duration::from_secs(30);

    struct Place {
        dir: tempfile::TempDir,
        place: LockPlace,
        clock: Arc<ManualClock>,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let place = LockPlace::new(&super::Place::of(dir.path(), "t").unwrap(), STALE);
            Self { dir, place, clock: ManualClock::at("2026-01-01T12:00:00Z") }
        }

        fn lock_dir(&self) -> PathBuf {
            self.dir.path().join("t.attempt-lock.lock")
        }

        fn take(&self) -> Acquired {
            self.take_at(&self.clock)
        }

        fn take_at(&self, clock: &Arc<ManualClock>) -> Acquired {
            self.place.acquire(&(clock.clone() as SharedClock), holder(), None).unwrap()
        }

        fn date(&self, ms: i64) {
            let time = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, self.lock_dir(), &times, AtFlags::empty()).unwrap();
        }
    }

    fn holder() -> Holder {
        Holder {
            who: HolderKind::Supervisor,
            pid: 1,
            id: "t".into(),
            repo_path: Some("/repo".into()),
            attempt_id: Some("a".into()),
            mtimes_ms: [0, 0],
        }
    }

    fn held(acquired: Acquired) -> HeldLock {
        match acquired {
            Acquired::Lock(lock) => lock,
            Acquired::Held(by) => panic!("held by {by:?}"),
        }
    }

    /// Dies the way SIGKILL does: the flock goes, the directory and the record stay.
    fn die(lock: HeldLock) {
        drop(lock);
    }

    #[test]
    fn one_holder_at_a_time_and_a_released_lock_leaves_only_the_anchor() {
        let place = Place::new();
        let lock = held(place.take());
        assert!(
            matches!(place.take(), Acquired::Held(HeldBy::Ours(Some(by))) if by.attempt_id.as_deref() == Some("a"))
        );
        assert!(matches!(place.place.probe(place.clock.as_ref()).unwrap(), Some(HeldBy::Ours(_))));
        lock.release().unwrap();
        assert!(!place.lock_dir().exists());
        assert_eq!(place.place.probe(place.clock.as_ref()).unwrap(), None);
        assert_eq!(fs::read(place.dir.path().join("t.attempt-lock")).unwrap(), b"");
        held(place.take()).release().unwrap();
    }

    #[test]
    fn a_dead_holder_of_ours_is_replaced_at_once() {
        let place = Place::new();
        let mut lock = held(place.take());
        place.clock.advance(Duration::from_secs(3));
        lock.beat().unwrap();
        die(lock);
        assert_eq!(place.place.probe(place.clock.as_ref()).unwrap(), None);
        held(place.take());
    }

    #[test]
    fn a_lock_appears_recorded_and_dated_and_what_was_left_half_made_is_used() {
        let place = Place::new();
        fs::create_dir(place.dir.path().join("t.attempt-lock.new")).unwrap();
        let lock = held(place.take());
        let mtime_ms = rounded_ms(&fs::metadata(place.lock_dir()).unwrap());
        assert_eq!(mtime_ms, place.clock.now().as_millisecond());
        assert_eq!(
            read_holder(&File::open(place.dir.path().join("t.attempt-lock")).unwrap()).unwrap().mtimes_ms,
            [mtime_ms; 2]
        );
        let mut names: Vec<_> =
            fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["t.attempt-lock", "t.attempt-lock.lock"]);
        lock.release().unwrap();
    }

    #[test]
    fn a_lock_that_another_program_has_leaves_no_record_of_ours() {
        let place = Place::new();
        fs::create_dir(place.lock_dir()).unwrap();
        place.date(place.clock.now().as_millisecond());
        let anchor = place.place.open_anchor().unwrap();
        let clock = place.clock.clone() as SharedClock;
        let mut lock = HeldLock { place: place.place.clone(), anchor, clock, holder: holder(), mtime_ms: 0 };
        assert!(!lock.take().unwrap());
        assert_eq!(fs::read(place.dir.path().join("t.attempt-lock")).unwrap(), b"");
        assert!(place.lock_dir().exists());
        assert!(!place.dir.path().join("t.attempt-lock.new").exists());
    }

    #[test]
    fn clocks_an_hour_apart_never_steal_a_live_lock() {
        let place = Place::new();
        let mut lock = held(place.take());
        for time in ["2026-01-01T13:00:00Z", "2026-01-01T11:00:00Z"] {
            let other = ManualClock::at(time);
            assert!(matches!(place.take_at(&other), Acquired::Held(HeldBy::Ours(_))));
        }
        place.clock.set_wall("2026-01-01T09:00:00Z".parse().unwrap());
        lock.beat().unwrap();
        lock.check().unwrap();
        lock.release().unwrap();
    }

    #[test]
    fn a_foreign_lock_is_respected_until_it_is_stale() {
        let place = Place::new();
        fs::create_dir(place.lock_dir()).unwrap();
        let now = place.clock.now().as_millisecond();
        place.date(now);
        assert!(matches!(place.take(), Acquired::Held(HeldBy::Foreign { mtime_ms }) if mtime_ms == now));
        place.clock.advance(STALE + Duration::from_millis(1));
        held(place.take());
    }

    #[test]
    fn a_foreign_lock_of_the_future_is_stale_once_it_was_seen_unchanged_for_long() {
        let place = Place::new();
        fs::create_dir(place.lock_dir()).unwrap();
        let future = 4_070_908_800_000;
        place.date(future);
        let clock = place.clock.clone() as SharedClock;
        let take = |unchanged| place.place.acquire(&clock, holder(), unchanged).unwrap();
        assert!(matches!(take(None), Acquired::Held(HeldBy::Foreign { .. })));
        assert!(matches!(take(Some(future - 1)), Acquired::Held(HeldBy::Foreign { .. })));
        held(take(Some(future)));
    }

    #[test]
    fn a_stale_directory_with_content_is_an_error() {
        let place = Place::new();
        fs::create_dir(place.lock_dir()).unwrap();
        fs::write(place.lock_dir().join("x"), "").unwrap();
        place.date(1_000);
        let error = place.place.acquire(&(place.clock.clone() as SharedClock), holder(), None).unwrap_err();
        assert!(matches!(error, LockError::NotEmpty(_)), "{error}");
    }

    #[test]
    fn a_holder_that_lost_the_directory_knows_and_deletes_nothing() {
        let place = Place::new();
        let mut lock = held(place.take());
        place.date(1_000);
        assert_eq!(lock.beat(), Err(Compromised::TakenOver));
        lock.release().unwrap();
        assert!(place.lock_dir().exists());

        fs::remove_dir(place.lock_dir()).unwrap();
        let mut lock = held(place.take());
        fs::remove_dir(place.lock_dir()).unwrap();
        assert_eq!(lock.beat(), Err(Compromised::Gone));
    }

    #[test]
    fn noise_below_the_millisecond_is_not_a_takeover() {
        let place = Place::new();
        let lock = held(place.take());
        let ms = place.clock.now().as_millisecond();
        let time = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 + 300_000 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, place.lock_dir(), &times, AtFlags::empty()).unwrap();
        lock.check().unwrap();
    }

    #[test]
    fn two_reclaimers_of_a_dead_lock_never_both_win() {
        let place = Place::new();
        die(held(place.take()));
        for round in 0..1_000 {
            let barrier = std::sync::Barrier::new(2);
            let winners = std::sync::Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        barrier.wait();
                        if let Acquired::Lock(lock) = place.take() {
                            lock.check().unwrap();
                            winners.lock().unwrap().push(lock);
                        }
                    });
                }
            });
            let winners = winners.into_inner().unwrap();
            assert_eq!(winners.len(), 1, "round {round}");
            winners.into_iter().for_each(die);
        }
    }

    #[test]
    fn a_symlinked_anchor_is_refused() {
        let place = Place::new();
        std::os::unix::fs::symlink("/etc/hostname", place.dir.path().join("t.attempt-lock")).unwrap();
        assert!(place.place.acquire(&(place.clock.clone() as SharedClock), holder(), None).is_err());
        assert!(place.place.probe(place.clock.as_ref()).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_anchor_that_is_a_pipe_holds_nobody_up() {
        let place = Place::new();
        let anchor = place.dir.path().join("t.attempt-lock");
        rustix::fs::mknodat(CWD, &anchor, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(place.place.acquire(&(place.clock.clone() as SharedClock), holder(), None).is_err());
        assert!(place.place.probe(place.clock.as_ref()).is_err());
    }

    #[test]
    fn a_probe_creates_nothing() {
        let place = Place::new();
        assert_eq!(place.place.probe(place.clock.as_ref()).unwrap(), None);
        assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
    }
}
