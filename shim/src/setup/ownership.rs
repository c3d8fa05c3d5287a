//! Which files of a data directory are ours: found out from what is in them, since an override may name any directory.
//!
//! A symlink is never followed, and what is not certainly ours counts as somebody else's. Nothing is changed here.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::data::Kind;

/// Largest file whose content is looked at, in bytes; ours are far smaller.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What every database of SQLite starts with.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// What a marker holds beside its signature.
const VERDICT_KEYS: [&str; 7] = ["id", "head", "ready", "confidence", "blockers", "timestamp", "source"];

/// What is in a place.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    /// Files of ours.
    pub(super) files: Vec<PathBuf>,
    /// Directories that are ours to remove once they are empty, the innermost first.
    pub(super) directories: Vec<PathBuf>,
    /// How many other things there are.
    pub(super) others: usize,
    /// Symlinks that stand where something of ours is expected.
    pub(super) links: Vec<PathBuf>,
}

/// Finds out what is in a place.
pub(super) fn contents(kind: Kind, path: &Path) -> Contents {
    let mut found = Contents::default();
    let directory = if kind == Kind::Ledger { path.parent().unwrap_or(Path::new("/")) } else { path };
    if directory.is_symlink() {
        found.links.push(directory.to_owned());
        return found;
    }
    match kind {
        Kind::Ledger => found.add_ledger(path),
        Kind::Verdicts => {
            let results = path.join("results");
            if is_directory(&results) {
                found.add(&results, is_result);
            }
            found.add(path, is_verdict);
        }
        Kind::Sessions => found.add(path, is_session),
        Kind::Hypotheses => found.add(path, is_hypotheses),
        Kind::PreflightLogs => {
            for run in entries(path).into_iter().filter(|run| is_run(run)) {
                found.add(&run, |_| true);
            }
            found.add(path, |_| false);
        }
    }
    if kind == Kind::Ledger {
        found.directories.push(directory.to_owned());
    }
    // `~/.grounding-mcp` has no other purpose than to hold two of them.
    found.directories.extend(
        directory
            .parent()
            .filter(|parent| parent.ends_with(".grounding-mcp") && is_directory(parent))
            .map(Path::to_owned),
    );
    found
}

impl Contents {
    /// Adds a directory, in which these files are ours.
    fn add(&mut self, directory: &Path, is_ours: impl Fn(&Path) -> bool) {
        for path in entries(directory) {
            if path.is_symlink() {
                self.links.push(path);
            } else if is_directory(&path) {
                if is_lock_directory(&path) {
                    self.directories.push(path);
                } else if !self.directories.contains(&path) {
                    self.others += 1;
                }
            } else if path.is_file() && (is_temporary(&path) || is_ours(&path)) {
                self.files.push(path);
            } else {
                self.others += 1;
            }
        }
        self.directories.push(directory.to_owned());
    }

    fn add_ledger(&mut self, path: &Path) {
        if path.is_symlink() {
            self.links.push(path.to_owned());
            return;
        }
        if !is_database(path) {
            self.others += 1;
            return;
        }
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            let file = PathBuf::from(name);
            if file.is_symlink() {
                self.links.push(file);
            } else if file.is_file() {
                self.files.push(file);
            }
        }
    }
}

/// Returns the paths in a directory.
pub(super) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// What an interrupted write left.
fn is_temporary(path: &Path) -> bool {
    name(path).starts_with(".grounding-") && name(path).ends_with(".tmp")
}

/// The directory of one run of checks.
fn is_run(path: &Path) -> bool {
    name(path).starts_with("grounding-run-") && is_directory(path)
}

fn is_lock_directory(path: &Path) -> bool {
    [".attempt-lock.lock", ".attempt-lock.new"].iter().any(|ending| name(path).ends_with(ending))
        && entries(path).is_empty()
}

/// Returns the object that a file `<stem>.json` holds, and the stem.
fn object(path: &Path) -> Option<(Map<String, Value>, &str)> {
    let stem = name(path).strip_suffix(".json")?;
    let mut content = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut content).ok()?;
    Some((serde_json::from_slice(&content).ok()?, stem))
}

fn is_session(path: &Path) -> bool {
    object(path).is_some_and(|(object, stem)| {
        object.get("id").and_then(Value::as_str) == Some(stem) && object.contains_key("phase_status")
    })
}

fn is_hypotheses(path: &Path) -> bool {
    object(path).is_some_and(|(object, stem)| {
        object.get("session").and_then(Value::as_str) == Some(stem)
            && object.get("hypotheses").is_some_and(Value::is_array)
    })
}

fn is_verdict(path: &Path) -> bool {
    let is_named = |ending| name(path).strip_suffix(ending).is_some_and(is_key);
    if is_named(".attempts.jsonl") || is_named(".attempt-lock") {
        return true;
    }
    object(path).is_some_and(|(object, stem)| {
        let is_ours = object.get("alg").is_some_and(|algorithm| algorithm == "hmac-sha256-v1");
        let has_all = || VERDICT_KEYS.iter().chain(&["signature"]).all(|key| object.contains_key(*key));
        is_key(stem) && (is_ours || has_all())
    })
}

/// Returns whether a text can be what an id is reduced to.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn is_result(path: &Path) -> bool {
    let stem = [".json", ".log"].iter().find_map(|ending| name(path).strip_suffix(ending));
    stem.is_some_and(|stem| {
        let is_digit = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        stem.len() == 36 && stem.bytes().enumerate().all(is_digit)
    })
}

/// Returns whether a file is a database, or an empty one, which SQLite makes a database of.
fn is_database(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SQLITE.len() as u64).read_to_end(&mut start));
    read.is_ok() && (start.is_empty() || start == SQLITE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_what_is_in_them() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = include_str!("../../../tests/fixtures/original-files/session.json");
        let hypotheses = include_str!("../../../tests/fixtures/original-files/hypotheses.json");
        let marker = include_str!("../../../tests/fixtures/original-files/marker.json");
        let stem =
            |text: &str, key: &str| serde_json::from_str::<Value>(text).unwrap()[key].as_str().unwrap().to_owned();
        let mine = format!("{}.json", stem(sessions, "id"));
        let tracked = format!("{}.json", stem(hypotheses, "session"));
        let id = "0d9c2a66-3a5c-4b0f-9d0e-0a8a1b2c3d4e";
        for (is_ours, ours, name, content) in [
            (is_session as fn(&Path) -> bool, true, mine.as_str(), sessions),
            (is_session, false, "other.json", sessions),
            (is_session, false, "package.json", r#"{"id": "package"}"#),
            (is_session, false, "list.json", "[1]"),
            (is_session, false, "torn.json", "{"),
            (is_hypotheses, true, &tracked, hypotheses),
            (is_hypotheses, false, "notes.json", hypotheses),
            (is_hypotheses, false, "h.json", r#"{"session": "h", "hypotheses": {}}"#),
            (is_verdict, true, "t.json", marker),
            (is_verdict, true, "t.json", r#"{"alg": "hmac-sha256-v1"}"#),
            (is_verdict, false, "package.json", r#"{"id": "package", "source": "x"}"#),
            (is_verdict, true, "t.attempts.jsonl", ""),
            (is_verdict, false, "events.jsonl", ""),
            (is_result, true, &format!("{id}.json"), ""),
            (is_result, true, &format!("{id}.log"), ""),
            (is_result, false, &format!("{id}.txt"), ""),
            (is_result, false, "build.log", ""),
            (is_database, true, "ledger.db", "SQLite format 3\0..."),
            (is_database, true, "ledger.db", ""),
            (is_database, false, "ledger.db", "a text"),
        ] {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(is_ours(&path), ours, "{name}: {content}");
        }
    }
}
