//! One pass of a scan: its threads, and what each of them does with a file that it comes to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grep_matcher::Matcher;
use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkState};

use super::file::{Content, FileSearch, Judging, Outcome};
use super::hits::Standing;
use super::scan::{Scan, Settled, lock};
use super::walk::Extent;

/// One pass of a scan.
pub(super) struct Pass<'a, M> {
    pub(super) scan: &'a Scan,
    pub(super) matcher: &'a M,
    pub(super) judging: Judging,
    pub(super) extent: Extent,
    /// What an earlier pass was done with, sorted.
    pub(super) done: &'a [u64],
    /// What it left because of NUL bytes, sorted.
    pub(super) binary: &'a [u64],
    /// How many files one thread may search.
    pub(super) most: usize,
    /// Whether it came to more.
    pub(super) is_cut: AtomicBool,
}

impl<'a, M: Matcher + Sync> Pass<'a, M> {
    pub(super) fn new(scan: &'a Scan, matcher: &'a M, judging: Judging, extent: Extent) -> Self {
        Self {
            scan,
            matcher,
            judging,
            extent,
            done: &[],
            binary: &[],
            most: usize::MAX,
            is_cut: AtomicBool::new(false),
        }
    }

    fn file_search(&self, content: Content) -> FileSearch<'_, M> {
        FileSearch::new(self.matcher, self.judging, content)
    }

    /// Searches files that no walk comes to, in parallel.
    pub(super) fn search_all(&self, paths: &[PathBuf], content: Content) {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut search = self.file_search(content);
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (outcome, bytes) = search.search(path, &|| self.scan.stopped());
                if content == Content::Bytes && matches!(outcome, Outcome::Searched(_)) {
                    self.scan.counts.binary.fetch_sub(1, Ordering::Relaxed);
                }
                match self.scan.settle(path, outcome, bytes, Standing::NotIgnored) {
                    Settled::Done => {}
                    Settled::Binary => lock(&self.scan.binary_left).push(path.clone()),
                    Settled::Stopped => return,
                }
                // Binary ones too: the second pass takes them from their own list, whether or not it comes by.
                lock(&self.scan.done).push(self.scan.hash(path));
            }
        };
        match paths.len() {
            0 => {}
            1..16 => work(),
            _ => std::thread::scope(|scope| {
                for _ in 0..self.scan.threads {
                    scope.spawn(work);
                }
            }),
        }
    }
}

impl<'s, M: Matcher + Sync> ParallelVisitorBuilder<'s> for &'s Pass<'s, M> {
    fn build(&mut self) -> Box<dyn ParallelVisitor + 's> {
        let content = match self.extent {
            Extent::NotIgnored => Content::Text,
            Extent::Everything => Content::Bytes,
        };
        Box::new(Visitor { pass: *self, search: self.file_search(content), done: Vec::new(), binary: Vec::new() })
    }
}

/// One thread of a walk.
struct Visitor<'a, M> {
    pass: &'a Pass<'a, M>,
    search: FileSearch<'a, M>,
    done: Vec<u64>,
    binary: Vec<u64>,
}

impl<M: Matcher + Sync> ParallelVisitor for Visitor<'_, M> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        let scan = self.pass.scan;
        if scan.stopped() {
            return WalkState::Quit;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                if error.io_error().is_none_or(|error| error.kind() != std::io::ErrorKind::NotFound) {
                    scan.counts.unreadable_dirs.fetch_add(1, Ordering::Relaxed);
                    if let Some(path) = path_of(&error) {
                        scan.name(path);
                    }
                }
                return WalkState::Continue;
            }
        };
        match entry.file_type() {
            Some(kind) if kind.is_dir() || kind.is_symlink() => return WalkState::Continue,
            _ => {}
        }
        let hash = scan.hash(entry.path());
        if self.pass.done.binary_search(&hash).is_ok() {
            return WalkState::Continue;
        }
        if self.done.len() >= self.pass.most {
            self.pass.is_cut.store(true, Ordering::Relaxed);
            return WalkState::Quit;
        }
        let was_binary = self.pass.binary.binary_search(&hash).is_ok();
        let standing = match self.pass.extent {
            Extent::Everything if !was_binary => Standing::Ignored,
            Extent::Everything | Extent::NotIgnored => Standing::NotIgnored,
        };
        let (outcome, bytes) = match entry.file_type() {
            Some(kind) if !kind.is_file() => (Outcome::Special, 0),
            _ => self.search.search(entry.path(), &|| scan.stopped()),
        };
        if was_binary && !matches!(outcome, Outcome::Stopped) {
            scan.counts.binary.fetch_sub(1, Ordering::Relaxed);
        }
        match scan.settle(entry.path(), outcome, bytes, standing) {
            Settled::Done => self.done.push(hash),
            Settled::Binary => self.binary.push(hash),
            Settled::Stopped => return WalkState::Quit,
        }
        WalkState::Continue
    }
}

impl<M> Drop for Visitor<'_, M> {
    fn drop(&mut self) {
        lock(&self.pass.scan.done).append(&mut self.done);
        lock(&self.pass.scan.binary).append(&mut self.binary);
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}
