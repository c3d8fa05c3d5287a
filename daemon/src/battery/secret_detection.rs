//! secret-detection: no file that the branch changed holds what looks like a secret.
//!
//! Only regular files below the root are read, in bounded memory, never through a symlink. A secret itself is in no
//! message: a place and a rule name it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::glob::PathList;
use super::read::{Content, read};
use super::report::{Kind, Outcome, Status};
use super::secret_rules::{self, Hit};

const NAME: &str = "secret-detection";
/// Largest file that is searched, in bytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// How far a NUL byte is looked for, in bytes.
const PROBE: usize = 8 * 1024;
/// Most places that are listed.
const MAX_LISTED: usize = 30;

/// What became of the files.
#[derive(Debug, Default)]
struct Tally {
    hits: Vec<(PathBuf, Hit)>,
    searched: usize,
    binary: usize,
    huge: usize,
    repositories: usize,
    missing: usize,
    unreadable: usize,
}

/// What became of one file.
enum Looked {
    Searched(Vec<Hit>),
    Binary,
    Huge,
    /// A directory where git lists a file: a submodule, or a repository of its own.
    Repository,
    /// git lists it, and it is not there.
    Missing,
    Unreadable,
    /// A symlink or a pipe: git keeps nothing of what it leads to.
    Nothing,
}

/// Searches files, given relative to the root, on all cores.
#[must_use]
pub fn check(root: &Path, files: &[PathBuf], allowed: &PathList) -> Outcome {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let work = || {
        let mut buffer = Vec::new();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if allowed.holds(file) {
                continue;
            }
            let looked = look(&root.join(file), &mut buffer);
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            match looked {
                Looked::Searched(hits) => {
                    tally.searched += 1;
                    let hits = hits.into_iter().filter(|hit| !allowed.holds_line(file, hit.line));
                    tally.hits.extend(hits.map(|hit| (file.clone(), hit)));
                }
                Looked::Binary => tally.binary += 1,
                Looked::Huge => tally.huge += 1,
                Looked::Repository => tally.repositories += 1,
                Looked::Missing => tally.missing += 1,
                Looked::Unreadable => tally.unreadable += 1,
                Looked::Nothing => {}
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..cores.min(files.len()) {
            scope.spawn(work);
        }
        work();
    });
    outcome(tally.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn outcome(mut tally: Tally) -> Outcome {
    tally.hits.sort();
    let place = |(file, hit): &(PathBuf, Hit)| format!("{}:{} {}", file.display(), hit.line, hit.rule);
    let mut details: Vec<_> = tally.hits.iter().take(MAX_LISTED).map(place).collect();
    if tally.hits.len() > MAX_LISTED {
        details.push(format!("and {} more", tally.hits.len() - MAX_LISTED));
    }
    details.push(format!(
        "{} files searched; passed over: {} binary, {} over {} MiB",
        tally.searched,
        tally.binary,
        tally.huge,
        MAX_BYTES >> 20
    ));
    let mut outcome = match tally.hits.len() {
        0 => Outcome::pass(NAME, Kind::SecretDetection),
        count => {
            let what = if count == 1 { "1 place looks".to_owned() } else { format!("{count} places look") };
            let message =
                format!("{what} like a secret; remove and revoke it, or name a reviewed place in secretAllowlist");
            Outcome::new(NAME, Kind::SecretDetection, Status::Fail, Some(message))
        }
    };
    outcome.check.details = details;
    if tally.huge > 0 {
        outcome.limitations.push(format!("{NAME} passed over {} files over {} MiB", tally.huge, MAX_BYTES >> 20));
    }
    if tally.repositories > 0 {
        outcome.limitations.push(format!("{NAME} did not search {} repositories inside this one", tally.repositories));
    }
    if tally.missing > 0 {
        outcome.limitations.push(format!("{NAME} did not find {} files that git lists", tally.missing));
    }
    if tally.unreadable > 0 {
        outcome.limitations.push(format!("{NAME} could not read {} files", tally.unreadable));
    }
    outcome
}

fn look(path: &Path, buffer: &mut Vec<u8>) -> Looked {
    match read(path, MAX_BYTES, buffer) {
        Ok(Content::Whole) => {
            let probe = &buffer[..buffer.len().min(PROBE)];
            if let Some(text) = decoded(buffer) {
                // Both ways: the mark alone does not make it UTF-16.
                let mut hits = [secret_rules::scan(text.as_bytes()), secret_rules::scan(buffer)].concat();
                hits.sort();
                hits.dedup();
                Looked::Searched(hits)
            } else if memchr::memchr(0, probe).is_some() {
                Looked::Binary
            } else {
                Looked::Searched(secret_rules::scan(buffer))
            }
        }
        Ok(Content::TooLarge) => Looked::Huge,
        Ok(Content::NoFile) if path.symlink_metadata().is_ok_and(|it| it.is_dir()) => Looked::Repository,
        Ok(Content::NoFile) => Looked::Nothing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Looked::Missing,
        Err(_) => Looked::Unreadable,
    }
}

/// Returns the text of a file that begins with the mark of UTF-16; what is none becomes replacement characters.
fn decoded(bytes: &[u8]) -> Option<String> {
    let (mark, rest) = bytes.split_first_chunk()?;
    // The mark of UTF-32, which is passed over as binary.
    if rest.starts_with(&[0, 0]) {
        return None;
    }
    let unit: fn([u8; 2]) -> u16 = match mark {
        [0xff, 0xfe] => u16::from_le_bytes,
        [0xfe, 0xff] => u16::from_be_bytes,
        _ => return None,
    };
    let units = rest.as_chunks().0.iter().map(|pair| unit(*pair));
    Some(char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn places_are_named_and_allowed_ones_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let secret = format!("x = '{}{}'\n", "ghp_", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        for name in ["a.py", "b.py", "c.py"] {
            std::fs::write(dir.path().join(name), format!("\n{secret}")).unwrap();
        }
        std::fs::write(dir.path().join("d.bin"), format!("\0{secret}")).unwrap();
        std::fs::write(dir.path().join("e.txt"), "nothing").unwrap();
        std::os::unix::fs::symlink("a.py", dir.path().join("link")).unwrap();
        let files = ["a.py", "b.py", "c.py", "d.bin", "e.txt", "link", "gone", "."].map(PathBuf::from);
        let (allowed, _) = PathList::parse(&["a.py:2".to_owned(), "b.*".to_owned()]);
        let outcome = check(dir.path(), &files, &allowed);
        assert_eq!(outcome.check.status, Status::Fail);
        assert_eq!(outcome.check.details[0], "c.py:2 github-token");
        assert!(outcome.check.details[1].starts_with("3 files searched; passed over: 1 binary, 0"), "{outcome:?}");
        assert_eq!(outcome.limitations.len(), 2, "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("aB3dE5"));
    }

    #[test]
    fn a_path_may_hold_any_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let secret = format!("x = '{}{}'\n", "ghp_", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        let files = [b"caf\xe9.txt".as_slice(), b"d\xe9/a.py"].map(|name| PathBuf::from(OsStr::from_bytes(name)));
        std::fs::create_dir(dir.path().join(OsStr::from_bytes(b"d\xe9"))).unwrap();
        for file in &files {
            std::fs::write(dir.path().join(file), &secret).unwrap();
        }
        let outcome = check(dir.path(), &files, &PathList::parse(&[]).0);
        assert_eq!(outcome.check.details[..2], ["caf\u{fffd}.txt:1 github-token", "d\u{fffd}/a.py:1 github-token"]);
    }

    #[test]
    fn utf_16_is_decoded() {
        let dir = tempfile::tempdir().unwrap();
        let secret = format!("\u{feff}a\nx = '{}{}'\n", "ghp_", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        let bytes = |of: fn(u16) -> [u8; 2]| secret.encode_utf16().flat_map(of).collect::<Vec<_>>();
        let odd = [b"\xff\xfe\n".as_slice(), secret.as_bytes()].concat();
        let contents = [
            ("be", bytes(u16::to_be_bytes)),
            ("le", bytes(u16::to_le_bytes)),
            ("no mark", bytes(u16::to_le_bytes)[2..].to_vec()),
            ("odd", odd),
            ("short", b"\xff\xfe\xd8".to_vec()),
            ("utf-32", b"\xff\xfe\0\0a\0\0\0".to_vec()),
            ("tiny", b"\xff".to_vec()),
        ];
        for (name, content) in &contents {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let files = contents.map(|(name, _)| PathBuf::from(name));
        let outcome = check(dir.path(), &files, &PathList::parse(&[]).0);
        let found = ["be:2 github-token", "le:2 github-token", "odd:3 github-token"];
        assert_eq!(outcome.check.details[..3], found, "{outcome:?}");
        assert!(outcome.check.details[3].starts_with("5 files searched; passed over: 2 binary,"), "{outcome:?}");
    }

    #[test]
    fn a_huge_file_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::File::create(dir.path().join("huge")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let outcome = check(dir.path(), &[PathBuf::from("huge")], &PathList::parse(&[]).0);
        assert_eq!(outcome.check.status, Status::Pass);
        assert!(outcome.limitations[0].contains("1 files over"), "{outcome:?}");
    }
}
