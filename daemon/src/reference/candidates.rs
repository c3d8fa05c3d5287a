//! Where else a file of the same name is, when a path is absent: tracked files first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ignore::WalkState;

use super::tracked::{below, tracked};
use super::walk::{Extent, Passed, Root, walk};

/// Most candidates of an answer.
const MOST: usize = 20;

/// Returns up to 20 files and directories of that base name below the root: tracked ones, then those that git would not
/// ignore; ignored ones only when there is no other.
pub(super) fn candidates(root: &Root, path: &Path, threads: usize, stopped: &(dyn Fn() -> bool + Sync)) -> Vec<String> {
    let Some(name) = path.file_name() else { return Vec::new() };
    let first = of_git(root, name);
    let mut others = walked(root, name, Extent::NotIgnored, threads, stopped);
    if first.is_empty() && others.is_empty() {
        others = walked(root, name, Extent::Everything, threads, stopped);
    }
    let rest = others.difference(&first);
    first.iter().chain(rest).take(MOST).map(|path| path.to_string_lossy().into_owned()).collect()
}

fn of_git(root: &Root, name: &OsStr) -> BTreeSet<PathBuf> {
    let Some(top) = &root.work_tree else { return BTreeSet::new() };
    // Without knowledge of what is tracked, the order is lost and nothing else.
    let files = tracked(top).map(|tracked| tracked.files).unwrap_or_default();
    let there = |file: &Vec<u8>| {
        let real = below(top, file).filter(|file| file.file_name() == Some(name))?;
        let path = root.path.join(real.strip_prefix(&root.real).ok()?);
        path.symlink_metadata().is_ok().then_some(path)
    };
    files.iter().filter_map(there).collect()
}

fn walked(
    root: &Root,
    name: &OsStr,
    extent: Extent,
    threads: usize,
    stopped: &(dyn Fn() -> bool + Sync),
) -> BTreeSet<PathBuf> {
    let found = Mutex::new(BTreeSet::new());
    walk(root, extent, threads, &Passed::default()).run(|| {
        Box::new(|entry| {
            if stopped() {
                return WalkState::Quit;
            }
            if let Ok(entry) = entry
                && entry.depth() > 0
                && entry.file_name() == name
                && let Ok(mut found) = found.lock()
            {
                found.insert(entry.into_path());
                if found.len() > MOST {
                    found.pop_last();
                }
            }
            WalkState::Continue
        })
    });
    found.into_inner().unwrap_or_default()
}
