//! Which files of a tree a scan visits: the walk, in parallel, and the directories it leaves out (SPEC 7).
//!
//! It owns the root that is looked in and the lists of dependency and build directories, and tells what it met and did
//! not enter, so that others can say so. It never follows a symlink and never opens a pipe that stands where an
//! ignore file would.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{WalkBuilder, WalkParallel};

/// Directories left out inside a repository, as far as git does not track what they hold.
const SKIPPED: &[&str] = &[
    "node_modules",
    "dist",
    "build",
    ".next",
    "coverage",
    ".venv",
    "__pycache__",
    ".turbo",
    ".cache",
    "target",
    "vendor",
];

/// Directories left out elsewhere.
const SKIPPED_OUTSIDE: &[&str] = &["node_modules", ".venv", "__pycache__", "target"];

/// Largest ignore file that is obeyed, in bytes.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// The directory that is looked in.
#[derive(Debug, Clone)]
pub(super) struct Root {
    /// As the answer names it: absolute.
    pub(super) path: PathBuf,
    /// The same place without a symlink.
    pub(super) real: PathBuf,
    /// The top of the work tree that holds it, without a symlink.
    pub(super) work_tree: Option<PathBuf>,
}

/// Which files a walk visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Those that git would not ignore.
    NotIgnored,
    /// All but dependency and build directories.
    Everything,
}

/// What a walk met and did not enter; shared by its threads.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed(Arc<Mutex<PassedOver>>);

#[derive(Debug, Default)]
pub(super) struct PassedOver {
    /// Dependency and build directories.
    pub(super) dependency_dirs: BTreeSet<PathBuf>,
    /// Work trees of repositories below the root.
    pub(super) work_trees: BTreeSet<PathBuf>,
}

impl Root {
    /// Finds the directory; a relative one is resolved against `cwd`.
    ///
    /// # Errors
    /// When it is absent, no directory or unreadable.
    pub(super) fn find(cwd: &Path, given: Option<&str>) -> std::io::Result<Self> {
        let joined = given.map_or_else(|| cwd.to_owned(), |given| cwd.join(given));
        let real = joined.canonicalize()?;
        // Also tells a directory that can't be listed, and a file.
        std::fs::read_dir(&real)?;
        let plain: PathBuf = joined.components().collect();
        let climbs = plain.components().any(|component| component == std::path::Component::ParentDir);
        let path = if climbs || !plain.is_absolute() { real.clone() } else { plain };
        let work_tree = real.ancestors().find(|directory| directory.join(".git").exists()).map(Path::to_owned);
        Ok(Self { path, real, work_tree })
    }
}

impl Passed {
    /// Returns what was passed over until now, and forgets it.
    pub(super) fn take(&self) -> PassedOver {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PassedOver> {
        // Only inserts happen under the lock, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the walk over the root; symlinks are never followed.
pub(super) fn walk(root: &Root, extent: Extent, threads: usize, passed: &Passed) -> WalkParallel {
    let git = extent == Extent::NotIgnored && root.path.ancestors().all(has_plain_ignore_files);
    let skipped = if root.work_tree.is_some() { SKIPPED } else { SKIPPED_OUTSIDE };
    let (passed, top) = (passed.clone(), root.path.clone());
    let mut builder = WalkBuilder::new(&root.path);
    builder
        .standard_filters(false)
        .git_ignore(git)
        .git_exclude(git)
        .git_global(git)
        .parents(git)
        .threads(threads)
        // Where patterns of the user's own ignore file are anchored.
        .current_dir(root.work_tree.as_ref().unwrap_or(&root.real))
        .filter_entry(move |entry| {
            if entry.file_name() == ".git" {
                if let Some(work_tree) = entry.path().parent().filter(|parent| *parent != top) {
                    passed.lock().work_trees.insert(work_tree.to_owned());
                }
                return false;
            }
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            let skip = is_dir && skipped.iter().any(|name| entry.file_name() == *name);
            if skip {
                passed.lock().dependency_dirs.insert(entry.path().to_owned());
            }
            // Left to the second pass, which reads no ignore files.
            !skip && (!git || !is_dir || has_plain_ignore_files(entry.path()))
        });
    builder.build_parallel()
}

/// Returns whether the walk may read the directory's ignore files: opening a pipe would wait for a writer.
fn has_plain_ignore_files(directory: &Path) -> bool {
    [".gitignore", ".git/info/exclude"].iter().all(|name| {
        let metadata = directory.join(name).metadata();
        metadata.map_or(true, |file| file.is_dir() || file.is_file() && file.len() <= MAX_IGNORE_FILE)
    })
}
