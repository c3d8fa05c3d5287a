//! The user's data: where it is, and how it is deleted when that is asked for.
//!
//! Only files that `ownership` knows as ours are deleted, and directories only when they are empty, because an override
//! may name a directory that holds other things. The signing key is never deleted: other programs sign with it.

use std::fs::File;
use std::path::PathBuf;

use grounding_proto::environment::{Environment, EnvironmentError};
use grounding_proto::wire::Root;

use super::error::SetupError;
use super::files::{remove_empty_directory, remove_file};
use super::ownership::{contents, entries};

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

/// Returns a sentence for what stays of data that is deleted; nothing when nothing does.
#[must_use]
pub fn staying(data: &Data) -> Vec<String> {
    let contents = contents(data.kind, &data.path);
    let directory = data.path.display();
    let mut sentences: Vec<_> = contents
        .links
        .iter()
        .map(|link| format!("{} is a symlink, which is not followed: it stays, and what it leads to.", link.display()))
        .collect();
    match (data.kind, contents.others) {
        (_, 0) => {}
        (Kind::Ledger, _) => sentences.push(format!("{directory} is no database of SQLite, so it stays.")),
        (_, 1) => sentences.push(format!("1 other file stays in {directory}, and the directory with it.")),
        (_, some) => sentences.push(format!("{some} other files stay in {directory}, and the directory with them.")),
    }
    sentences
}

/// Deletes data, as far as it is ours.
///
/// # Errors
/// When a file can't be deleted.
pub fn delete(data: &Data) -> Result<(), SetupError> {
    let contents = contents(data.kind, &data.path);
    for file in &contents.files {
        remove_file(file)?;
    }
    contents.directories.iter().try_for_each(|directory| remove_empty_directory(directory))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MARKER: &str = r#"{"alg": "hmac-sha256-v1"}"#;

    #[test]
    fn only_what_is_ours_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("verdicts");
        std::fs::create_dir_all(path.join("results")).unwrap();
        std::fs::create_dir(path.join("x.attempt-lock.lock")).unwrap();
        let result = "results/0d9c2a66-3a5c-4b0f-9d0e-0a8a1b2c3d4e.log";
        for name in ["x.attempts.jsonl", "x.attempt-lock", result, "package.json", "results/build.log"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        std::fs::write(path.join("x.json"), MARKER).unwrap();
        let data = Data { kind: Kind::Verdicts, path: path.clone() };
        let lock = File::open(path.join("x.attempt-lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(running_attempts(std::slice::from_ref(&data)), 1);
        drop(lock);
        assert_eq!(running_attempts(std::slice::from_ref(&data)), 0);
        assert!(staying(&data)[0].starts_with("2 other files stay in"), "{:?}", staying(&data));
        delete(&data).unwrap();
        let mut left = entries(&path);
        left.sort();
        assert_eq!(left, [path.join("package.json"), path.join("results")]);
        assert_eq!(entries(&path.join("results")), [path.join("results/build.log")]);
        std::fs::remove_dir_all(path.join("results")).unwrap();
        std::fs::remove_file(path.join("package.json")).unwrap();
        delete(&data).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_symlink_is_left_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let [real, link, marker] = ["real", "link", "real/x.json"].map(|name| directory.path().join(name));
        std::fs::create_dir(&real).unwrap();
        std::fs::write(&marker, MARKER).unwrap();
        symlink(&real, &link).unwrap();
        symlink("x.json", real.join("y.json")).unwrap();
        for (path, named) in [(&link, &link), (&real, &real.join("y.json"))] {
            let data = Data { kind: Kind::Verdicts, path: path.clone() };
            let said = staying(&data);
            assert!(said.len() == 1 && said[0].starts_with(named.to_str().unwrap()), "{said:?}");
            assert!(marker.is_file());
            delete(&data).unwrap();
        }
        assert!(link.is_symlink() && real.join("y.json").is_symlink() && !marker.exists());
    }

    #[test]
    fn the_logs_of_runs_go_with_their_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs");
        std::fs::create_dir_all(path.join("grounding-run-1")).unwrap();
        std::fs::write(path.join("grounding-run-1/1.log"), "").unwrap();
        let data = Data { kind: Kind::PreflightLogs, path: path.clone() };
        assert_eq!(staying(&data), Vec::<String>::new());
        delete(&data).unwrap();
        assert!(!path.exists());
    }
}
