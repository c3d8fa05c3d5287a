//! Paths of memories: resolved inside a root, component by component, without ever looking outside it.
//!
//! A relative value may leave the root neither lexically nor through symlinks. Where it would, nothing beyond that
//! point is looked at, so the answer can't tell what exists there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::file;
use super::walk::Root;

/// As many links in one path as Linux follows.
const MAX_LINKS: usize = 40;

/// A path of a memory, and a line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathReference {
    pub(super) path: PathBuf,
    pub(super) line: Option<u64>,
}

/// What stands at a path.
#[derive(Debug)]
pub(super) enum Found {
    /// Something: where the answer finds it, and when it was last modified.
    Present { path: PathBuf, modified: Option<std::time::SystemTime> },
    /// Nothing.
    Absent,
    /// The way leads out of the root.
    Escapes,
    /// Links lead to each other.
    Loops,
    /// Something on the way can't be read.
    Unreadable(std::io::Error),
}

/// What is known of a line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineFound {
    Present,
    /// The file has only so many.
    Beyond(u64),
    /// The file could not be counted through.
    Unknown,
}

/// Reads the value as `file:line` and as `file:line:column`, as far as its end allows.
pub(super) fn with_line(value: &str) -> Vec<PathReference> {
    let split = |text: &str| {
        let (head, number) = text.rsplit_once(':')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        // A number that does not fit is beyond any file's end.
        (is_number && !head.is_empty()).then(|| (head.to_owned(), number.parse().unwrap_or(u64::MAX)))
    };
    let short = split(value);
    let long = short.as_ref().and_then(|(head, _)| split(head));
    let read = |(path, line): (String, u64)| PathReference { path: path.into(), line: Some(line) };
    // The longer name is tried first; the shorter one is what the value means when neither is there.
    short.into_iter().chain(long).map(read).collect()
}

/// Looks for a path; a relative one inside the root, an absolute one as it is.
pub(super) fn find(root: &Root, path: &Path) -> Found {
    if path.is_absolute() {
        return match path.metadata() {
            Ok(metadata) => Found::Present { path: path.components().collect(), modified: metadata.modified().ok() },
            Err(error) => failure(error),
        };
    }
    let mut depth = 0_usize;
    for component in path.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return Found::Escapes,
            Component::ParentDir => depth -= 1,
            _ => {}
        }
    }
    match resolve(root, path) {
        Ok(real) => match real.symlink_metadata() {
            // `file/` names a directory.
            Ok(metadata) if !metadata.is_dir() && names_directory(path) => Found::Absent,
            Ok(metadata) => Found::Present { path: shown(root, path, &real), modified: metadata.modified().ok() },
            Err(error) => failure(error),
        },
        Err(found) => found,
    }
}

/// Returns whether the file has that line, counting for as long as `stopped` lets it.
pub(super) fn find_line(path: &Path, line: u64, stopped: &dyn Fn() -> bool) -> LineFound {
    let Some((file, size)) = path.canonicalize().ok().and_then(|real| file::open(&real).ok()) else {
        return LineFound::Unknown;
    };
    let (mut reader, mut chunk) = (file::decoded(file.take(size)), vec![0; 64 * 1024]);
    let (mut lines, mut last) = (0_u64, b'\n');
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                lines += memchr::memchr_iter(b'\n', &chunk[..count]).count() as u64;
                last = chunk[count - 1];
            }
            Err(_) => return LineFound::Unknown,
        }
        if stopped() {
            return LineFound::Unknown;
        }
    }
    lines += u64::from(last != b'\n');
    if (1..=lines).contains(&line) { LineFound::Present } else { LineFound::Beyond(lines) }
}

/// Returns where a relative path leads, with every symlink followed. While a link is followed, the way may pass through
/// the directories above the root, but nothing is looked at there.
fn resolve(root: &Root, path: &Path) -> Result<PathBuf, Found> {
    let mut ahead: VecDeque<OsString> = path.components().filter_map(step).collect();
    let mut at = root.real.clone();
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(&name);
        if !at.starts_with(&root.real) {
            if root.real.starts_with(&at) {
                continue;
            }
            return Err(Found::Escapes);
        }
        if at == root.real {
            continue;
        }
        let metadata = at.symlink_metadata().map_err(failure)?;
        if metadata.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Found::Loops);
            }
            let target = at.read_link().map_err(failure)?;
            at.pop();
            let rest = match target.strip_prefix(&root.path) {
                // An absolute link that names the root as the caller does.
                Ok(rest) if target.is_absolute() => {
                    at.clone_from(&root.real);
                    rest.to_owned()
                }
                _ => {
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    target
                }
            };
            for name in rest.components().rev().filter_map(step) {
                ahead.push_front(name);
            }
        } else if !metadata.is_dir() && !ahead.is_empty() {
            return Err(Found::Absent);
        }
    }
    if at.starts_with(&root.real) { Ok(at) } else { Err(Found::Escapes) }
}

fn names_directory(path: &Path) -> bool {
    [b"/".as_slice(), b"/."].iter().any(|end| path.as_os_str().as_bytes().ends_with(end))
}

fn step(component: Component<'_>) -> Option<OsString> {
    match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    }
}

/// Returns the path as the answer names it: below the root as it was given, unless `..` follows a link.
fn shown(root: &Root, path: &Path, real: &Path) -> PathBuf {
    if path.components().any(|component| component == Component::ParentDir) {
        let below = real.strip_prefix(&root.real).unwrap_or(real);
        return root.path.join(below).components().collect();
    }
    root.path.join(path).components().collect()
}

fn failure(error: std::io::Error) -> Found {
    use std::io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    match error.kind() {
        // A name with a NUL byte, or longer than the file system has them, can't exist.
        NotFound | NotADirectory | InvalidInput | InvalidFilename => Found::Absent,
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Found::Loops,
        _ => Found::Unreadable(error),
    }
}
