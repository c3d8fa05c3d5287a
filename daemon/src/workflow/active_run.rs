//! Which run is active: the one `.ai/run` points to, else the newest of `.ai/runs` (SPEC-workflow 2 to 4).
//!
//! A pointer that is broken blocks; it never leads to another run.

use std::cmp::Ordering;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use grounding_proto::solution::{WorkflowBlocker, WorkflowRunSource};

use super::blocker::blocker;
use super::run_file::{RunFile, read};
use super::text::{excerpt, lines, trim};
use super::worktree::worktree_root;

/// A run directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Its path, symlinks resolved when a pointer named it.
    pub(super) directory: PathBuf,
    /// Its base name, which starts with a date.
    pub(super) name: String,
    /// How it was found.
    pub(super) source: WorkflowRunSource,
}

impl Run {
    /// Returns the date its name starts with, as `YYYY-MM-DD`.
    pub(super) fn date(&self) -> &str {
        self.name.get(..10).unwrap_or_default()
    }
}

/// What a search for the active run came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// There is a run.
    Found(Run),
    /// There is neither a pointer nor a dated run directory; perhaps with something to say about it.
    None(Option<String>),
    /// The pointer is broken.
    BadPointer(WorkflowBlocker),
}

/// Finds the active run of the repository at `repository`.
pub(super) fn find(repository: &Path) -> Search {
    let folder = worktree_root(repository).join(".ai");
    let pointer = folder.join("run");
    match pointed_to(&pointer) {
        Some(Ok(run)) => Search::Found(run),
        Some(Err(_)) if folder.exists() && !folder.is_dir() => {
            let sentence = "it is no directory, so there can be no pointer in it; replace it with a directory";
            Search::BadPointer(blocker("bad_pointer", ".ai", &folder, None, sentence))
        }
        Some(Err(Fault { line, reason })) => {
            let remedy = format!("{reason}; write the absolute path of the run directory into it, or delete it");
            Search::BadPointer(blocker("bad_pointer", ".ai/run", &pointer, line, &remedy))
        }
        None => newest(&repository.join(".ai/runs")),
    }
}

/// What is wrong with a pointer file, and on which line when it could be read.
struct Fault {
    line: Option<u64>,
    reason: String,
}

/// Returns the run a pointer file names, or what is wrong with it; nothing when there is no such file.
fn pointed_to(pointer: &Path) -> Option<Result<Run, Fault>> {
    let unread = |reason| Some(Err(Fault { line: None, reason }));
    let text = match read(pointer) {
        RunFile::Missing => return None,
        RunFile::Unreadable(reason) => return unread(format!("it can't be read as a file ({reason})")),
        RunFile::TooLarge => return unread("it is larger than 4 MiB".to_owned()),
        RunFile::Text(text) => text,
    };
    let filled = lines(&text).map(|line| (line.number, trim(line.text))).find(|(_, target)| !target.is_empty());
    let (line, run) =
        filled.map_or_else(|| (1, Err("it is empty".to_owned())), |(line, target)| (line, run_at(target)));
    Some(run.map_err(|reason| Fault { line: Some(line), reason }))
}

fn run_at(target: &str) -> Result<Run, String> {
    let shown = excerpt(target, 200);
    if !Path::new(target).is_absolute() {
        return Err(format!("\"{shown}\" is not an absolute path"));
    }
    let directory = Path::new(target).canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{shown} does not exist"),
        _ => format!("{shown} can't be resolved ({error})"),
    })?;
    if !directory.is_dir() {
        return Err(format!("{shown} is not a directory"));
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !is_dated(&name) {
        return Err(format!("the name of {} does not start with a date such as 2026-01-31-", directory.display()));
    }
    Ok(Run { directory, name, source: WorkflowRunSource::Pointer })
}

/// Returns the run whose name sorts last; symlinks and undated names are ignored.
fn newest(runs: &Path) -> Search {
    let entries = match runs.read_dir() {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Search::None(None);
        }
        Err(error) => return Search::None(Some(format!("{} can't be listed: {error}", runs.display()))),
    };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = directories.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let last = names.filter(|(name, _)| is_dated(name)).max_by(|(one, _), (other, _)| by_code_unit(one, other));
    match last {
        Some((name, directory)) => Search::Found(Run { directory, name, source: WorkflowRunSource::Scan }),
        None => Search::None(None),
    }
}

/// Compares as UTF-16 does, which differs from the order of code points beyond the basic plane.
fn by_code_unit(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

/// Returns whether the name starts as `YYYY-MM-DD-` does.
fn is_dated(name: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| if shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    name.len() >= 11 && name.bytes().zip(*b"0000-00-00-").all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_name_starts_with_a_date_and_a_dash() {
        for (name, expected) in [
            ("2026-09-01-slug", true),
            ("9999-99-99-", true),
            ("2026-09-01", false),
            ("2026-9-01-slug", false),
            ("x2026-09-01-slug", false),
            ("２026-09-01-slug", false),
        ] {
            assert_eq!(is_dated(name), expected, "{name}");
        }
    }

    #[test]
    fn names_are_ordered_by_code_unit() {
        assert_eq!(by_code_unit("2026-01-01-\u{1f600}", "2026-01-01-\u{ff01}"), Ordering::Less);
        assert_eq!(by_code_unit("2026-01-01-a", "2026-01-01-B"), Ordering::Greater);
    }
}
