//! Looking through a tree: the files that git would not ignore, then, when they hold nothing, the rest.
//!
//! A scan counts what it could not look at, so that "absent" is only said of what was read. It ends at its deadline,
//! or as soon as nobody waits for it; what was found until then stands.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grep_matcher::Matcher;
use grounding_proto::reference::{Coverage, SkippedFiles};

use super::file::{Content, Judging, Outcome};
use super::hits::{Hits, Standing};
use super::pass::Pass;
use super::tracked::{estimate, not_visited};
use super::walk::{Extent, Passed, Root, walk};

/// Up to so many files one thread is faster than several, which wait for each other a millisecond at a time.
const FEW_FILES: usize = 2000;

/// Most paths that a summary names.
const MAX_NAMED: usize = 3;

/// One look through a tree; shared by its threads and by whoever waits for it.
#[derive(Debug)]
pub struct Scan {
    pub(super) root: Root,
    pub(super) threads: usize,
    started: Instant,
    limit: Duration,
    cancelled: Arc<AtomicBool>,
    hasher: RandomState,
    pub(super) counts: Counts,
    /// Files that are done with, as hashes of their paths: bounded memory for trees of any size.
    pub(super) done: Mutex<Vec<u64>>,
    /// Files that hold a NUL byte and wait for the second pass, likewise.
    pub(super) binary: Mutex<Vec<u64>>,
    /// Tracked files that the first walk did not come to, sorted; its pass searched them all the same.
    left: Mutex<Vec<PathBuf>>,
    /// Those of them that hold a NUL byte and wait for the second pass.
    pub(super) binary_left: Mutex<Vec<PathBuf>>,
    hits: Mutex<Hits>,
    obstacles: Mutex<Obstacles>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    files: AtomicU64,
    bytes: AtomicU64,
    pub(super) binary: AtomicU64,
    unreadable: AtomicU64,
    pub(super) unreadable_dirs: AtomicU64,
    too_large: AtomicU64,
    special: AtomicU64,
}

/// What kept a scan from being complete, for its summary.
#[derive(Debug, Default, Clone)]
pub(super) struct Obstacles {
    /// The first files and directories that could not be looked at.
    pub(super) paths: BTreeSet<String>,
    /// Dependency and build directories without a tracked file.
    pub(super) dependency_dirs: BTreeSet<PathBuf>,
    /// Those with tracked files, which were searched, and others, which were not.
    pub(super) partly_tracked_dirs: BTreeSet<PathBuf>,
    /// A work tree whose tracked files are not known.
    pub(super) untold: Option<PathBuf>,
}

impl Scan {
    /// Returns a scan that has not begun; its time runs from `started`.
    pub(super) fn new(root: Root, threads: usize, started: Instant, limit: Duration) -> Self {
        Self {
            root,
            threads,
            started,
            limit,
            cancelled: Arc::default(),
            hasher: RandomState::new(),
            counts: Counts::default(),
            done: Mutex::default(),
            binary: Mutex::default(),
            left: Mutex::default(),
            binary_left: Mutex::default(),
            hits: Mutex::default(),
            obstacles: Mutex::default(),
        }
    }

    /// Returns a scan of a directory by this many threads, for measurements of its passes.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn of(directory: &Path, threads: usize, limit: Duration) -> std::io::Result<Self> {
        Ok(Self::new(Root::find(directory, None)?, threads, Instant::now(), limit))
    }

    /// Looks through the files that git would not ignore, tracked ones in directories that are left out included.
    pub fn first_pass<M: Matcher + Sync>(&self, matcher: &M) {
        self.look(matcher, Judging::Keywords);
    }

    /// As `first_pass`, with another judgment of what defines the name.
    pub(super) fn look<M: Matcher + Sync>(&self, matcher: &M, judging: Judging) {
        let passed = Passed::default();
        let few = self.root.work_tree.as_deref().and_then(estimate).is_some_and(|number| number < FEW_FILES as u64 / 2);
        let pass = Pass::new(self, matcher, judging, Extent::NotIgnored);
        if few {
            // There may be many more that git does not track: then all threads go on from here.
            let pass = Pass { most: FEW_FILES, ..pass };
            walk(&self.root, Extent::NotIgnored, 1, &passed).visit(&mut &pass);
            if pass.is_cut.load(Ordering::Relaxed) {
                self.counts.unreadable_dirs.store(0, Ordering::Relaxed);
                let mut done = [lock(&self.done).as_slice(), lock(&self.binary).as_slice()].concat();
                done.sort_unstable();
                let pass = Pass { done: &done, ..Pass::new(self, matcher, judging, Extent::NotIgnored) };
                walk(&self.root, Extent::NotIgnored, self.threads, &passed).visit(&mut &pass);
            }
        } else {
            walk(&self.root, Extent::NotIgnored, self.threads, &passed).visit(&mut &pass);
        }
        let met = passed.take();
        lock(&self.done).sort_unstable();
        lock(&self.binary).sort_unstable();
        self.find_left(met.work_trees);
        self.leave_out(met.dependency_dirs);
        let left = lock(&self.left).clone();
        Pass::new(self, matcher, judging, Extent::NotIgnored).search_all(&left, Content::Text);
    }

    /// Looks through what the first pass left: ignored files, and those with NUL bytes as bytes. Dependency and build
    /// directories stay out.
    pub fn second_pass<M: Matcher + Sync>(&self, matcher: &M) {
        self.look_further(matcher, Judging::Keywords);
    }

    /// As `second_pass`, with another judgment of what defines the name.
    pub(super) fn look_further<M: Matcher + Sync>(&self, matcher: &M, judging: Judging) {
        if self.stopped() {
            return;
        }
        self.counts.unreadable_dirs.store(0, Ordering::Relaxed);
        let passed = Passed::default();
        let mut done = std::mem::take(&mut *lock(&self.done));
        done.sort_unstable();
        let binary = std::mem::take(&mut *lock(&self.binary));
        let threads = if done.len() < FEW_FILES { 1 } else { self.threads };
        let pass = Pass { done: &done, binary: &binary, ..Pass::new(self, matcher, judging, Extent::Everything) };
        walk(&self.root, Extent::Everything, threads, &passed).visit(&mut &pass);
        let left = std::mem::take(&mut *lock(&self.binary_left));
        pass.search_all(&left, Content::Bytes);
        let met = passed.take().dependency_dirs;
        let partly = met.iter().filter(|directory| self.holds_tracked(directory) && self.holds_others(directory));
        lock(&self.obstacles).partly_tracked_dirs.extend(partly.cloned());
        self.leave_out(met);
    }

    /// Returns a scan of the same root in the same time, for another question.
    pub(super) fn another(&self) -> Self {
        let other = Self::new(self.root.clone(), self.threads, self.started, self.limit);
        Self { cancelled: Arc::clone(&self.cancelled), ..other }
    }

    /// Takes the answer to another question as what was found.
    pub(super) fn adopt(&self, hits: Hits) {
        *lock(&self.hits) = hits;
    }

    /// Returns what was found until now.
    #[must_use]
    pub fn hits(&self) -> Hits {
        lock(&self.hits).clone()
    }

    /// Returns what was looked at until now.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let skipped = SkippedFiles {
            ignored: 0,
            binary: read(&self.counts.binary),
            unreadable: read(&self.counts.unreadable) + read(&self.counts.unreadable_dirs),
            too_large: read(&self.counts.too_large),
            special: read(&self.counts.special),
            dependency_dirs: {
                let obstacles = lock(&self.obstacles);
                (obstacles.dependency_dirs.len() + obstacles.partly_tracked_dirs.len()) as u64
            },
        };
        let passed_over = skipped.binary + skipped.unreadable + skipped.too_large + skipped.special;
        Coverage {
            files_scanned: read(&self.counts.files),
            bytes_scanned: read(&self.counts.bytes),
            skipped,
            elapsed_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            complete: passed_over == 0 && !self.stopped() && lock(&self.obstacles).untold.is_none(),
        }
    }

    pub(super) fn obstacles(&self) -> Obstacles {
        lock(&self.obstacles).clone()
    }

    /// Ends the scan at the next file or read.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn stopped(&self) -> bool {
        if self.cancelled.load(Ordering::Relaxed) {
            return true;
        }
        let late = self.started.elapsed() >= self.limit;
        if late {
            self.cancel();
        }
        late
    }

    pub(super) fn hash(&self, path: &Path) -> u64 {
        self.hasher.hash_one(path.as_os_str().as_bytes())
    }

    /// Lists the tracked files that the walk did not come to.
    fn find_left(&self, nested: BTreeSet<PathBuf>) {
        if self.stopped() {
            return;
        }
        let (done, binary) = (lock(&self.done).clone(), lock(&self.binary).clone());
        let visited = |path: &Path| {
            let hash = self.hash(path);
            done.binary_search(&hash).is_ok() || binary.binary_search(&hash).is_ok()
        };
        let (left, untold) = not_visited(&self.root, nested, &visited);
        *lock(&self.left) = left.into_iter().collect();
        lock(&self.obstacles).untold = untold;
    }

    /// Keeps the dependency and build directories that were met and hold no tracked file.
    fn leave_out(&self, met: BTreeSet<PathBuf>) {
        let left_out: Vec<_> = met.into_iter().filter(|directory| !self.holds_tracked(directory)).collect();
        lock(&self.obstacles).dependency_dirs.extend(left_out);
    }

    fn holds_tracked(&self, directory: &Path) -> bool {
        let left = lock(&self.left);
        let next = left.partition_point(|file| file.as_path() < directory);
        left.get(next).is_some_and(|file| file.starts_with(directory))
    }

    /// Returns whether a directory that no pass enters holds a regular file that git does not track.
    fn holds_others(&self, directory: &Path) -> bool {
        let mut ahead = vec![directory.to_owned()];
        while let Some(directory) = ahead.pop() {
            // What can't be listed may hold anything.
            let Ok(entries) = directory.read_dir() else { return true };
            for entry in entries.filter_map(Result::ok).filter(|entry| entry.file_name() != ".git") {
                if self.stopped() {
                    return true;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => ahead.push(entry.path()),
                    Ok(kind) if kind.is_file() && lock(&self.left).binary_search(&entry.path()).is_err() => {
                        return true;
                    }
                    _ => {}
                }
            }
        }
        false
    }

    pub(super) fn settle(&self, path: &Path, outcome: Outcome, bytes: u64, standing: Standing) -> Settled {
        let counted = match outcome {
            Outcome::Searched(found) => {
                self.counts.files.fetch_add(1, Ordering::Relaxed);
                self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
                if let Some(found) = found {
                    lock(&self.hits).add(path, found, standing);
                }
                return Settled::Done;
            }
            Outcome::Nothing => return Settled::Done,
            Outcome::Stopped => return Settled::Stopped,
            Outcome::Binary => {
                self.counts.binary.fetch_add(1, Ordering::Relaxed);
                return Settled::Binary;
            }
            Outcome::Unreadable => &self.counts.unreadable,
            Outcome::TooLarge => &self.counts.too_large,
            Outcome::Special => &self.counts.special,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        self.name(path);
        Settled::Done
    }

    pub(super) fn name(&self, path: &Path) {
        let mut obstacles = lock(&self.obstacles);
        obstacles.paths.insert(path.to_string_lossy().into_owned());
        if obstacles.paths.len() > MAX_NAMED {
            obstacles.paths.pop_last();
        }
    }
}

/// What is left to do with a file.
pub(super) enum Settled {
    Done,
    Binary,
    Stopped,
}

/// A panic of another thread leaves counts and lists whole: each change is a single step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
