//! Where an id's files are: their names in the verdict directory (SPEC 6), each spelled here alone.
//!
//! Results are files of an attempt, not of an id; `result` names them. Never touches the file system.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::wire::Settings;

use super::lock::LockPlace;
use crate::solution::verdict;
use crate::store::FileKey;

const LOG: &str = ".attempts.jsonl";
const ANCHOR: &str = ".attempt-lock";
const LOCK_DIR: &str = ".attempt-lock.lock";
const FRESH_LOCK_DIR: &str = ".attempt-lock.new";

/// Where an id's files are. Ids that are reduced to one file name share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Where verdicts are.
    pub verdict_dir: PathBuf,
    /// The id's file name.
    pub key: FileKey,
}

impl Place {
    /// Returns the place of an id, or nothing when the id can't name a verdict.
    #[must_use]
    pub fn of(verdict_dir: &Path, id: &str) -> Option<Self> {
        Some(Self { verdict_dir: verdict_dir.to_owned(), key: FileKey::of(id)? })
    }

    /// Returns the place whose attempt log has that file name, or nothing when it is no log's.
    #[must_use]
    pub fn of_log(verdict_dir: &Path, file_name: &str) -> Option<Self> {
        Self::of(verdict_dir, file_name.strip_suffix(LOG)?)
    }

    /// Returns the path of the attempt log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.key.path_in(&self.verdict_dir, LOG)
    }

    /// Returns the path of the marker.
    #[must_use]
    pub fn marker(&self) -> PathBuf {
        verdict::marker_path(&self.verdict_dir, &self.key)
    }

    /// Returns the path of the file whose flock our holders keep.
    #[must_use]
    pub fn anchor(&self) -> PathBuf {
        self.key.path_in(&self.verdict_dir, ANCHOR)
    }

    /// Returns the path of the directory that is the lock to other programs.
    #[must_use]
    pub fn lock_dir(&self) -> PathBuf {
        self.key.path_in(&self.verdict_dir, LOCK_DIR)
    }

    /// Returns the path of the directory that becomes `lock_dir` when the lock is taken.
    #[must_use]
    pub fn fresh_lock_dir(&self) -> PathBuf {
        self.key.path_in(&self.verdict_dir, FRESH_LOCK_DIR)
    }

    /// Returns the lock.
    #[must_use]
    pub fn lock(&self, settings: &Settings) -> LockPlace {
        LockPlace::new(self, Duration::from_millis(settings.stale_ms))
    }
}
