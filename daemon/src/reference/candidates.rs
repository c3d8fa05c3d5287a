//! Where else a file of the same name is, when a path is absent: tracked files first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ignore::WalkState;

use super::path::{self, Found};
use super::tracked::{below, tracked};
use super::walk::{Extent, Passed, Root, walk};

/// Most candidates of an answer.
const MAX_CANDIDATES: usize = 20;

/// What was found of a name, and where it was not looked for.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Sorted: tracked files come first.
    pub(super) paths: Vec<String>,
    /// Dependency and build directories; of these only what git tracks is known.
    pub(super) left_out: BTreeSet<PathBuf>,
    /// Files and directories that could not be read.
    pub(super) unreadable: u64,
    /// Whether the time ran out, or there was none.
    pub(super) is_cut: bool,
}

impl Candidates {
    /// Looks for up to 20 files and directories of that base name below the root: tracked ones, then those that git
    /// would not ignore; ignored ones only when there is no other.
    pub(super) fn find(root: &Root, path: &Path, threads: usize, stopped: &(dyn Fn() -> bool + Sync)) -> Self {
        let Some(name) = path.file_name() else { return Self::default() };
        let first = of_git(root, name);
        let mut search = Walked::default();
        let mut others = search.walk(root, name, Extent::NotIgnored, threads, stopped);
        if first.is_empty() && others.is_empty() {
            search = Walked::default();
            others = search.walk(root, name, Extent::Everything, threads, stopped);
        }
        let rest = others.difference(&first);
        let named = |path: &PathBuf| path.to_string_lossy().into_owned();
        Self {
            paths: first.iter().chain(rest).take(MAX_CANDIDATES).map(named).collect(),
            left_out: search.passed.take().dependency_dirs,
            unreadable: search.unreadable.into_inner(),
            is_cut: stopped(),
        }
    }

    /// Nothing was looked at.
    pub(super) fn unknown() -> Self {
        Self { is_cut: true, ..Self::default() }
    }
}

/// Returns whether this is a link inside the root to nothing.
fn dangles(root: &Root, path: &Path) -> bool {
    let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    is_link && path.strip_prefix(&root.path).is_ok_and(|below| matches!(path::find(root, below), Found::Absent))
}

fn of_git(root: &Root, name: &OsStr) -> BTreeSet<PathBuf> {
    let Some(top) = &root.work_tree else { return BTreeSet::new() };
    // Without knowledge of what is tracked, the order is lost and nothing else.
    let files = tracked(top).map(|tracked| tracked.files).unwrap_or_default();
    let there = |file: &Vec<u8>| {
        let real = below(top, file).filter(|file| file.file_name() == Some(name))?;
        let path = root.path.join(real.strip_prefix(&root.real).ok()?);
        (path.symlink_metadata().is_ok() && !dangles(root, &path)).then_some(path)
    };
    files.iter().filter_map(there).collect()
}

/// One walk for a name.
#[derive(Default)]
struct Walked {
    passed: Passed,
    unreadable: AtomicU64,
}

impl Walked {
    fn walk(
        &self,
        root: &Root,
        name: &OsStr,
        extent: Extent,
        threads: usize,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> BTreeSet<PathBuf> {
        let found = Mutex::new(BTreeSet::new());
        walk(root, extent, threads, &self.passed).run(|| {
            Box::new(|entry| {
                if stopped() {
                    return WalkState::Quit;
                }
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        let is_gone = error.io_error().is_some_and(|error| error.kind() == ErrorKind::NotFound);
                        self.unreadable.fetch_add(u64::from(!is_gone), Ordering::Relaxed);
                        return WalkState::Continue;
                    }
                };
                if entry.depth() > 0
                    && entry.file_name() == name
                    && !dangles(root, entry.path())
                    && let Ok(mut found) = found.lock()
                {
                    found.insert(entry.into_path());
                    if found.len() > MAX_CANDIDATES {
                        found.pop_last();
                    }
                }
                WalkState::Continue
            })
        });
        found.into_inner().unwrap_or_default()
    }
}
