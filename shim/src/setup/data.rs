//! The user's data: where it is, and how it is deleted when that is asked for.
//!
//! Only files that look like ours are deleted, and directories only when they are empty, because an override may name a
//! directory that holds other things. The signing key is never deleted: other programs sign with it.

use std::fs::File;
use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, EnvironmentError};
use grounding_proto::wire::Root;

use super::error::SetupError;
use super::files::{remove_empty_directory, remove_file};

/// A kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Session files.
    Sessions,
    /// Hypothesis files.
    Hypotheses,
    /// The ledger's database.
    Ledger,
    /// Verdicts, attempt logs, results.
    Verdicts,
    /// What checks printed.
    PreflightLogs,
}

/// Data that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Which.
    pub kind: Kind,
    /// Its file or directory.
    pub path: PathBuf,
}

impl Kind {
    /// Returns what people call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Hypotheses => "hypotheses",
            Self::Ledger => "evidence ledger",
            Self::Verdicts => "verdicts and attempts",
            Self::PreflightLogs => "logs of checks",
        }
    }

    /// Returns whether a file name in its directory is one of its own.
    fn owns(self, name: &str) -> bool {
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        // What an interrupted write left.
        let left = name.starts_with(".grounding-");
        left || match self {
            Self::Sessions | Self::Hypotheses => ends(&[".json"]),
            Self::Ledger => false,
            Self::Verdicts => ends(&[".json", ".attempts.jsonl", ".attempt-lock"]),
            Self::PreflightLogs => true,
        }
    }
}

/// Returns the data that is there.
///
/// # Errors
/// When there is no state directory.
pub fn present(environment: &Environment) -> Result<Vec<Data>, EnvironmentError> {
    let roots = environment.roots();
    let path = |root: Root| match root {
        Root::Path(path) => Some(path.as_path().to_owned()),
        Root::Refused(_) => None,
    };
    let logs = environment.state_dir()?.join("preflight-logs");
    let all = [
        (Kind::Sessions, path(roots.sessions)),
        (Kind::Hypotheses, path(roots.hypotheses)),
        (Kind::Ledger, path(roots.ledger)),
        (Kind::Verdicts, path(roots.verdicts)),
        (Kind::PreflightLogs, Some(logs)),
    ];
    let there =
        all.into_iter().filter_map(|(kind, path)| Some(Data { kind, path: path.filter(|path| path.exists())? }));
    Ok(there.collect())
}

/// Returns the signing key, if there is one.
#[must_use]
pub fn signing_key(environment: &Environment) -> Option<PathBuf> {
    match environment.roots().signing_key {
        Root::Path(path) => Some(path.as_path().to_owned()).filter(|path| path.exists()),
        Root::Refused(_) => None,
    }
}

/// Returns how many attempts run: the ids whose lock is held.
#[must_use]
pub fn running_attempts(data: &[Data]) -> usize {
    let verdicts = data.iter().filter(|data| data.kind == Kind::Verdicts);
    let names = verdicts.flat_map(|data| entries(&data.path));
    let is_held = |path: &PathBuf| {
        // Shared for an instant, and let go with the file. A pipe of that name is no lock and must hold nobody up.
        path.is_file()
            && File::open(path)
                .is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
    };
    names.filter(|path| path.extension().is_some_and(|extension| extension == "attempt-lock")).filter(is_held).count()
}

/// Deletes data.
///
/// # Errors
/// When a file can't be deleted.
pub fn delete(data: &Data) -> Result<(), SetupError> {
    let Data { kind, path } = data;
    match kind {
        Kind::Ledger => {
            for suffix in ["", "-wal", "-shm", "-journal"] {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                remove_file(Path::new(&name))?;
            }
        }
        Kind::Verdicts => {
            delete_files(*kind, path)?;
            for entry in entries(path) {
                let is_lock =
                    entry.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".attempt-lock.lock"));
                if is_lock {
                    remove_empty_directory(&entry)?;
                }
            }
            let results = path.join("results");
            delete_files(Kind::PreflightLogs, &results)?;
            remove_empty_directory(&results)?;
        }
        Kind::Sessions | Kind::Hypotheses | Kind::PreflightLogs => delete_files(*kind, path)?,
    }
    let directory = if *kind == Kind::Ledger { path.parent() } else { Some(path.as_path()) };
    directory.map_or(Ok(()), remove_empty_directory)?;
    // `~/.grounding-mcp` has no other purpose than to hold two of them.
    match directory.and_then(Path::parent) {
        Some(parent) if parent.file_name().is_some_and(|name| name == ".grounding-mcp") => {
            remove_empty_directory(parent)
        }
        _ => Ok(()),
    }
}

fn delete_files(kind: Kind, directory: &Path) -> Result<(), SetupError> {
    for path in entries(directory) {
        let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| kind.owns(name)) {
            remove_file(&path)?;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_ours_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("verdicts");
        std::fs::create_dir_all(path.join("results")).unwrap();
        std::fs::create_dir(path.join("x.attempt-lock.lock")).unwrap();
        for name in ["x.json", "x.attempts.jsonl", "x.attempt-lock", "results/y.log", "notes.txt"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        let data = Data { kind: Kind::Verdicts, path: path.clone() };
        let lock = File::open(path.join("x.attempt-lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(running_attempts(std::slice::from_ref(&data)), 1);
        drop(lock);
        assert_eq!(running_attempts(std::slice::from_ref(&data)), 0);
        delete(&data).unwrap();
        assert_eq!(entries(&path), [path.join("notes.txt")]);
        std::fs::remove_file(path.join("notes.txt")).unwrap();
        delete(&data).unwrap();
        assert!(!path.exists());
    }
}
