//! Where the output of commands goes: a directory for each run, outside the repository.
//!
//! Nothing is written inside the repository, and no log that another run may still write is removed.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::configuration::FILE;
use crate::store;

/// What the directories of runs are called: nothing else beside them, in a `logDir` that others use, is ever removed.
const PREFIX: &str = "grounding-run-";
/// How many of them stay, and how old the others must be to go.
const MAX_RUNS: usize = 50;
const LEAST_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// There is no directory for logs.
#[derive(Debug, thiserror::Error)]
#[error("can't make a directory for logs in {}", directory.display())]
pub struct LogError {
    directory: PathBuf,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// The logs of one run.
#[derive(Debug)]
pub struct Logs {
    directory: PathBuf,
}

/// Where logs may go.
#[derive(Debug, Clone, Copy)]
pub struct LogPlaces<'a> {
    /// What the configuration names.
    pub configured: Option<&'a str>,
    /// The user's home directory.
    pub home: Option<&'a Path>,
    /// The state directory.
    pub state_dir: Option<&'a Path>,
    /// The repository, in which nothing is written.
    pub repository: &'a Path,
}

impl Logs {
    /// Makes a directory for one run: below `logDir`, else below the state directory, else below the system's
    /// temporary one. A limitation is returned when `logDir` can't be used.
    ///
    /// # Errors
    /// When no directory can be made.
    pub fn create(places: LogPlaces<'_>) -> Result<(Self, Option<String>), LogError> {
        let mut limitation = None;
        if let Some(named) = places.configured {
            match places
                .usable(named)
                .and_then(|directory| Self::create_in(&directory).map_err(|error| error.to_string()))
            {
                Ok(logs) => return Ok((logs, None)),
                Err(why) => limitation = Some(format!("`logDir` in {FILE} was not used: {why}")),
            }
        }
        let state = places.state_dir.map(|state| state.join("preflight-logs"));
        if let Some(state) = state.filter(|state| !places.holds(state))
            && store::ensure_own_dir(&state).is_ok()
            && let Ok(logs) = Self::create_in(&state)
        {
            return Ok((logs, limitation));
        }
        let temporary = std::env::temp_dir();
        let temporary = if places.holds(&temporary) { PathBuf::from("/tmp") } else { temporary };
        Ok((Self::create_in(&temporary)?, limitation))
    }

    /// Returns the path of the log of a command; the number keeps equal names apart.
    #[must_use]
    pub fn path(&self, number: usize, name: &str) -> PathBuf {
        let plain = |it: char| if it.is_ascii_alphanumeric() || "-_.".contains(it) { it } else { '_' };
        let name: String = name.chars().map(plain).take(60).collect();
        self.directory.join(format!("{number:02}-{name}.log"))
    }

    fn create_in(directory: &Path) -> Result<Self, LogError> {
        let error = |source| LogError { directory: directory.to_owned(), source };
        // Missing parents are for their owner alone, as the state directory must be.
        store::ensure_dir(directory).map_err(|source| error(source.into()))?;
        prune(directory);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(directory);
        let made = made.map_err(|source| error(source.into()))?;
        Ok(Self { directory: made.keep() })
    }
}

impl LogPlaces<'_> {
    /// Returns the directory that the configuration names, when it is outside the repository.
    fn usable(&self, named: &str) -> Result<PathBuf, String> {
        let directory = match (named.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.repository.join(named),
        };
        if self.holds(&directory) { Err(format!("{named} is inside the repository")) } else { Ok(directory) }
    }

    /// Returns whether the repository holds a path, symlinks resolved as far as the path exists.
    fn holds(&self, path: &Path) -> bool {
        let inside = |path: &Path| path.starts_with(self.repository);
        inside(&lexical(path)) || inside(&resolved(path))
    }
}

fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

fn resolved(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return lexical(&real.join(rest));
        }
    }
    lexical(path)
}

/// Removes the directories of old runs; what can't be removed stays.
fn prune(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let dated =
        ours.filter_map(|entry| Some((entry.metadata().ok().filter(|it| it.is_dir())?.modified().ok()?, entry.path())));
    let mut runs: Vec<_> = dated.collect();
    runs.sort();
    let now = SystemTime::now();
    let old = |modified: &SystemTime| now.duration_since(*modified).is_ok_and(|age| age > LEAST_AGE);
    for (_, path) in runs.iter().rev().skip(MAX_RUNS).filter(|(modified, _)| old(modified)) {
        // One more old log harms nothing.
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_stay_out_of_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (repository, state) = (root.join("repo"), root.join("state"));
        std::fs::create_dir_all(repository.join("sub")).unwrap();
        std::os::unix::fs::symlink(&repository, root.join("link")).unwrap();
        let place = |named| {
            let (home, state_dir) = (Some(root.as_path()), Some(state.as_path()));
            let places = LogPlaces { configured: named, home, state_dir, repository: &repository };
            let (logs, limitation) = Logs::create(places).unwrap();
            (logs.directory.parent().unwrap().to_owned(), limitation.is_some())
        };
        let default = state.join("preflight-logs");
        assert_eq!(place(None), (default.clone(), false));
        let absolute = repository.join("x");
        for inside in [".preflight-logs", "sub/../x", "../link/x", absolute.to_str().unwrap()] {
            assert_eq!(place(Some(inside)), (default.clone(), true), "{inside}");
        }
        assert_eq!(place(Some("~/logs")), (root.join("logs"), false));
        assert_eq!(place(Some("../beside")), (repository.join("../beside"), false));
        assert_eq!(std::fs::read_dir(&repository).unwrap().count(), 1);
    }

    #[test]
    fn a_name_can_not_lead_elsewhere() {
        let logs = Logs { directory: "/logs".into() };
        assert_eq!(logs.path(3, "../a b"), Path::new("/logs/03-.._a_b.log"));
    }
}
