//! Two clocks, planted directories and dying holders: what the lock does with each.

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
    assert!(matches!(place.take(), Acquired::Held(HeldBy::Ours(Some(by))) if by.attempt_id.as_deref() == Some("a")));
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
    let mut names: Vec<_> = fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
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
    assert!(matches!(&error, LockError::NotEmpty(dir) if *dir == place.lock_dir()), "{error}");
    assert!(place.lock_dir().join("x").exists(), "it stays as it was");
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

/// A clock that does something the first time it is read: `acquire` reads it between its look at the directory and the
/// removal of a stale one.
struct Interrupting {
    clock: Arc<ManualClock>,
    once: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Interrupting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Interrupting")
    }
}

impl Clock for Interrupting {
    fn now(&self) -> jiff::Timestamp {
        let interrupt = self.once.lock().unwrap().take();
        if let Some(interrupt) = interrupt {
            interrupt();
        }
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

impl Place {
    /// Takes the lock, and does something between the look at the directory and the removal of a stale one.
    fn take_interrupted(&self, interrupt: impl FnOnce() + Send + 'static) -> Acquired {
        let once = std::sync::Mutex::new(Some(Box::new(interrupt) as Box<dyn FnOnce() + Send>));
        let clock: SharedClock = Arc::new(Interrupting { clock: self.clock.clone(), once });
        self.place.acquire(&clock, holder(), None).unwrap()
    }
}

/// Field report: moxystudio/node-proper-lockfile#121. One reclaimer stands between its look and its removal while the
/// other goes all the way.
#[test]
fn a_reclaimer_that_paused_before_its_removal_never_removes_the_lock_of_another() {
    let place = Place::new();
    die(held(place.take()));
    for round in 0..1_000 {
        let (other, clock) = (place.place.clone(), place.clock.clone() as SharedClock);
        let (sender, others) = std::sync::mpsc::channel();
        let first = place.take_interrupted(move || sender.send(other.acquire(&clock, holder(), None)).unwrap());
        let second = others.recv().unwrap().unwrap();
        match (first, second) {
            (Acquired::Lock(lock), Acquired::Held(HeldBy::Ours(_))) => {
                lock.check().unwrap();
                die(lock);
            }
            both => panic!("round {round}: {both:?}"),
        }
    }
}

/// The same with a reclaimer of another program, which knows nothing of the flock.
#[test]
fn a_lock_that_another_program_took_after_the_look_is_left_to_it() {
    let place = Place::new();
    for round in 0..1_000 {
        fs::create_dir(place.lock_dir()).unwrap();
        place.date(place.clock.now().as_millisecond() - millis(STALE) - 1);
        let (dir, theirs) = (place.lock_dir(), place.clock.now().as_millisecond() + 500);
        let taken = place.take_interrupted(move || {
            fs::remove_dir(&dir).unwrap();
            fs::create_dir(&dir).unwrap();
            let time = Timespec { tv_sec: theirs / 1000, tv_nsec: theirs % 1000 * 1_000_000 };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, &dir, &times, AtFlags::empty()).unwrap();
        });
        assert!(
            matches!(taken, Acquired::Held(HeldBy::Foreign { mtime_ms }) if mtime_ms == theirs),
            "round {round}: {taken:?}"
        );
        assert_eq!(rounded_ms(&fs::metadata(place.lock_dir()).unwrap()), theirs, "round {round}");
        assert!(!place.dir.path().join("t.attempt-lock.new").exists(), "round {round}");
        fs::remove_dir(place.lock_dir()).unwrap();
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
