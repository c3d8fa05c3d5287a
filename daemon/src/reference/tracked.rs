//! Which files git tracks, read from the index of a work tree; git itself is asked where the index has a form that is
//! not read here (split, or newer than we know).
//!
//! The index is untrusted: its size is bounded, every offset is checked, and a name that leaves the work tree is left
//! out. Nothing here writes, and no lock is taken.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use grounding_proto::environment::Environment;

use super::file;
use super::walk::Root;
use crate::process::ClientEnvironment;
use crate::solution::repository::Repository;

/// Largest index that is read, in bytes.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Longest name that a path can have, in bytes: the names of version 4 repeat each other and could grow without end.
const MAX_NAME: usize = 4096;

/// What git tracks in a work tree, in the order of the index; names are relative to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tracked {
    /// Regular files.
    pub(super) files: Vec<Vec<u8>>,
    /// Work trees of submodules.
    pub(super) submodules: Vec<Vec<u8>>,
}

/// What git tracks could not be learned.
#[derive(Debug, thiserror::Error)]
#[error("can't learn what git tracks in {}", .0.display())]
pub(super) struct Unknown(PathBuf);

/// Returns what git tracks in a work tree. Blocks; must run where a runtime's handle is at hand.
///
/// # Errors
/// When neither the index can be read nor git can be asked.
pub(super) fn tracked(work_tree: &Path) -> Result<Tracked, Unknown> {
    let unknown = || Unknown(work_tree.to_owned());
    let index = git_dir(work_tree).ok_or_else(unknown)?.join("index");
    if let Err(error) = index.symlink_metadata()
        && error.kind() == std::io::ErrorKind::NotFound
    {
        // Nothing was ever added.
        return Ok(Tracked::default());
    }
    let (open, size) = file::open(&index).map_err(|_| unknown())?;
    if size > MAX_BYTES {
        return Err(unknown());
    }
    let mut bytes = Vec::new();
    open.take(size).read_to_end(&mut bytes).map_err(|_| unknown())?;
    match parse(&bytes, 20).or_else(|| parse(&bytes, 32)) {
        Some(tracked) => Ok(tracked),
        None => ask_git(work_tree).ok_or_else(unknown),
    }
}

/// Returns about how many files the index of a work tree holds, by its size alone; nothing when there is no index.
pub(super) fn estimate(work_tree: &Path) -> Option<u64> {
    // An entry has 62 bytes and the file's path.
    const ENTRY: u64 = 100;
    Some(git_dir(work_tree)?.join("index").metadata().ok()?.len() / ENTRY)
}

/// Returns the tracked files below the root that a walk did not come to, sorted: those in directories that are left out,
/// and those that match an ignore rule; `nested` are the repositories that it came by. Also returns a work tree whose
/// tracked files are not known. Nothing is listed that is reached through a symlink.
pub(super) fn not_visited(
    root: &Root,
    nested: BTreeSet<PathBuf>,
    visited: &dyn Fn(&Path) -> bool,
) -> (BTreeSet<PathBuf>, Option<PathBuf>) {
    let (mut left, mut untold) = (BTreeSet::new(), None);
    let mut trees: Vec<PathBuf> = nested.iter().chain(&root.work_tree).cloned().collect();
    let mut known = nested;
    // The root may be below the top of its work tree, and be called by another name than git's.
    let inside = root.work_tree.as_ref().and_then(|top| root.real.strip_prefix(top).ok());
    let inside = inside.map(|inside| inside.as_os_str().as_bytes()).unwrap_or_default();
    let mut plain_directories = BTreeSet::new();
    while let Some(tree) = trees.pop() {
        let Ok(tracked) = tracked(&tree) else {
            untold = Some(tree);
            continue;
        };
        let is_own = root.work_tree.as_ref() == Some(&tree);
        let base = if is_own { &root.path } else { &tree };
        let place = |name: &[u8]| {
            if is_own && !inside.is_empty() {
                below(base, name.strip_prefix(inside)?.strip_prefix(b"/")?)
            } else {
                below(base, name)
            }
        };
        for path in tracked.files.iter().filter_map(|name| place(name)) {
            if !visited(&path) && has_plain_parents(base, &path, &mut plain_directories) {
                left.insert(path);
            }
        }
        for path in tracked.submodules.iter().filter_map(|name| place(name)) {
            let git = path.join(".git");
            let is_plain = has_plain_parents(base, &git, &mut plain_directories);
            if is_plain && git.exists() && known.insert(path.clone()) {
                trees.push(path);
            }
        }
    }
    (left, untold)
}

/// Returns the path of a tracked name below `directory`, or nothing when it is none: `..`, an absolute name, an empty
/// one.
pub(super) fn below(directory: &Path, name: &[u8]) -> Option<PathBuf> {
    let name = Path::new(std::ffi::OsStr::from_bytes(name));
    let plain = name.components().all(|part| matches!(part, Component::Normal(part) if part != ".git"));
    (plain && !name.as_os_str().is_empty()).then(|| directory.join(name))
}

/// Returns whether every directory between `base` and the file is one, and no symlink. `plain` remembers the answers.
fn has_plain_parents(base: &Path, path: &Path, plain: &mut BTreeSet<PathBuf>) -> bool {
    let Some(parent) = path.parent() else { return false };
    if parent == base || plain.contains(parent) {
        return true;
    }
    let is_plain = parent.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let is_whole = is_plain && has_plain_parents(base, parent, plain);
    if is_whole {
        plain.insert(parent.to_owned());
    }
    is_whole
}

fn git_dir(work_tree: &Path) -> Option<PathBuf> {
    let path = work_tree.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let mut text = String::new();
    file::open(&path).ok()?.0.take(8192).read_to_string(&mut text).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim();
    Some(work_tree.join(target))
}

/// Parses an index of version 2, 3 or 4 whose object names have this many bytes; nothing when it is not quite so.
fn parse(bytes: &[u8], hash_length: usize) -> Option<Tracked> {
    let (header, content) = bytes.split_at_checked(12)?;
    let content = content.get(..content.len().checked_sub(hash_length)?)?;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let (version, count) = (number(&header[4..8])?, number(&header[8..12])?);
    if &header[..4] != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut tracked = Tracked::default();
    let (mut at, mut name) = (0_usize, Vec::new());
    for _ in 0..count {
        let mode = number(content.get(at + 24..at + 28)?)?;
        let flags_at = at + 40 + hash_length;
        let flags = content.get(flags_at..flags_at + 2)?;
        let is_extended = version >= 3 && flags[0] & 0x40 != 0;
        let name_at = flags_at + if is_extended { 4 } else { 2 };
        if version == 4 {
            let (cut, suffix_at) = offset(content, name_at)?;
            let length = memchr::memchr(0, content.get(suffix_at..)?)?;
            name.truncate(name.len().checked_sub(cut)?);
            name.extend_from_slice(&content[suffix_at..suffix_at + length]);
            at = suffix_at + length + 1;
        } else {
            let length = memchr::memchr(0, content.get(name_at..)?)?;
            name.clear();
            name.extend_from_slice(&content[name_at..name_at + length]);
            // One to eight NUL bytes end an entry at a multiple of eight.
            let next = at + (name_at + length - at) / 8 * 8 + 8;
            if content.get(name_at + length..next)?.iter().any(|byte| *byte != 0) {
                return None;
            }
            at = next;
        }
        let stated = usize::from(flags[0] & 0x0f) << 8 | usize::from(flags[1]);
        if name.is_empty() || name.len() > MAX_NAME || stated != name.len().min(0xfff) {
            return None;
        }
        match mode & 0o170_000 {
            0o100_000 => tracked.files.push(name.clone()),
            0o160_000 => tracked.submodules.push(name.clone()),
            // Symlinks, and directories of a sparse index, which are not in the work tree.
            _ => {}
        }
    }
    // A file in conflict has an entry for each side.
    tracked.files.dedup();
    extensions_are_whole(content.get(at..)?).then_some(tracked)
}

/// Decodes version 4's variable length number; returns it and where it ends.
fn offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

/// Returns whether the extensions are well formed and none of them means that entries are kept elsewhere.
fn extensions_are_whole(mut bytes: &[u8]) -> bool {
    while let Some((head, rest)) = bytes.split_at_checked(8) {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if &head[..4] == b"link" || rest.len() < length {
            return false;
        }
        bytes = &rest[length..];
    }
    bytes.is_empty()
}

fn ask_git(work_tree: &Path) -> Option<Tracked> {
    let environment = ClientEnvironment::new(Environment::of_process().variables().iter().cloned());
    let repository = Repository::at(work_tree, &environment).ok()?;
    // A file system monitor is a program that the repository may name.
    let listing = repository.git(&["ls-files", "-s", "-z"]);
    let listed = tokio::runtime::Handle::try_current().ok()?.block_on(listing).ok()?;
    if listed.code != Some(0) || listed.truncated {
        return None;
    }
    let mut tracked = Tracked::default();
    for entry in listed.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let tab = memchr::memchr(b'\t', entry)?;
        let (head, name) = (&entry[..tab], entry[tab + 1..].to_vec());
        if head.starts_with(b"100") {
            tracked.files.push(name);
        } else if head.starts_with(b"160") {
            tracked.submodules.push(name);
        }
    }
    Some(tracked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(names: &[&str]) -> Vec<u8> {
        let mut bytes = [b"DIRC\0\0\0\x02".as_slice(), &u32::try_from(names.len()).unwrap().to_be_bytes()].concat();
        for name in names {
            let start = bytes.len();
            bytes.extend([0; 24]);
            bytes.extend(0o100_644_u32.to_be_bytes());
            bytes.extend([0; 32]);
            bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            bytes.extend(name.as_bytes());
            let padding = 8 - (bytes.len() - start) % 8;
            bytes.extend(vec![0; padding]);
        }
        bytes.extend([0; 20]);
        bytes
    }

    #[test]
    fn names_that_leave_the_work_tree_are_no_paths() {
        for name in ["../x", "/etc/passwd", "a/../../x", ".git/config", "a/.git/x", ""] {
            assert_eq!(below(Path::new("/r"), name.as_bytes()), None, "{name}");
        }
        assert_eq!(below(Path::new("/r"), b"a/b"), Some("/r/a/b".into()));
    }

    proptest! {
        #[test]
        fn no_index_breaks_the_reader(changes in prop::collection::vec((0_usize..400, any::<u8>()), 0..6), cut in 0_usize..400) {
            let mut bytes = index(&["a", "dist/b.js", "src/deep/name.rs"]);
            prop_assert_eq!(parse(&bytes, 20).unwrap().files.len(), 3);
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            // Whatever it says, it ends without a panic.
            for length in [20, 32] {
                if let Some(tracked) = parse(&bytes, length) {
                    prop_assert!(tracked.files.iter().all(|name| !name.is_empty()));
                }
            }
        }
    }
}
