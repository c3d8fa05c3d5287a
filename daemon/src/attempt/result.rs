//! Full results of settled attempts, `<verdict dir>/results/<attemptId>.json`, and the stderr logs beside them (SPEC 6).
//!
//! They let an answer survive the daemon; they are no authority for the gate, which reads the signed marker alone. Only
//! names that are UUIDs reach the file system.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use grounding_proto::solution::{AttemptStatus, Diagnostics, OutcomeClass, Verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::store::{self, StoreError};

/// How an attempt ended, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptResult {
    /// Names the attempt.
    pub attempt_id: String,
    /// The id.
    pub id: String,
    /// The repository.
    pub repo_path: String,
    /// UTC with milliseconds.
    pub started_at: String,
    /// UTC with milliseconds.
    pub terminal_at: String,
    /// completed or failed.
    pub status: AttemptStatus,
    /// How it ended.
    pub outcome_class: OutcomeClass,
    /// The outcome in counts.
    pub summary: String,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// Where its marker was written.
    pub marker_path: Option<String>,
    /// What is known of the preflight run.
    pub diagnostics: Diagnostics,
}

/// Returns the path of an attempt's result, or nothing when the name is no UUID.
#[must_use]
pub fn result_path(verdict_dir: &Path, attempt_id: &str) -> Option<PathBuf> {
    path(verdict_dir, attempt_id, "json")
}

/// Returns the path of an attempt's stderr log, or nothing when the name is no UUID.
#[must_use]
pub fn log_path(verdict_dir: &Path, attempt_id: &str) -> Option<PathBuf> {
    path(verdict_dir, attempt_id, "log")
}

fn path(verdict_dir: &Path, attempt_id: &str, extension: &str) -> Option<PathBuf> {
    let uuid = Uuid::parse_str(attempt_id).ok()?.hyphenated().to_string();
    (uuid == attempt_id).then(|| verdict_dir.join("results").join(format!("{uuid}.{extension}")))
}

/// Writes a result.
///
/// # Errors
/// When it can't be written, or its attempt's name is no UUID.
pub fn write(verdict_dir: &Path, result: &AttemptResult) -> Result<(), StoreError> {
    let path = result_path(verdict_dir, &result.attempt_id)
        .ok_or_else(|| StoreError::unusable(verdict_dir, "can't hold a result whose attempt is not named by a UUID"))?;
    // Compact: indented, a large answer could grow past what is read back.
    store::ensure_own_dir(path.parent().unwrap_or(verdict_dir))?;
    let mut text = serde_json::to_string(result)
        .map_err(|error| StoreError::unusable(&path, format_args!("can't be written as JSON ({error})")))?;
    text.push('\n');
    store::replace(&path, text.as_bytes())
}

/// Reads a result; nothing when there is none.
///
/// # Errors
/// When the file can't be read or is no result.
pub fn read(verdict_dir: &Path, attempt_id: &str) -> Result<Option<AttemptResult>, StoreError> {
    let Some(path) = result_path(verdict_dir, attempt_id) else { return Ok(None) };
    let Some(object) = store::read_object(&path)? else { return Ok(None) };
    let result = serde_json::from_value(object.into());
    result.map(Some).map_err(|error| StoreError::unusable(&path, format_args!("is no result ({error})")))
}

/// Removes the results and logs of these attempts; what is absent is passed over.
///
/// # Errors
/// When one can't be removed; the others are tried all the same.
pub fn remove(verdict_dir: &Path, attempts: &HashSet<String>) -> Result<(), StoreError> {
    let paths = attempts.iter().flat_map(|attempt| [result_path(verdict_dir, attempt), log_path(verdict_dir, attempt)]);
    let removed: Vec<_> = paths.flatten().map(|path| store::remove(&path)).collect();
    removed.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
}

/// Removes the results and logs that were last written before a time: those of ids that nobody evaluates any more, whose
/// attempt logs are therefore never compacted. What can't be looked at or removed is passed over.
pub fn sweep(verdict_dir: &Path, before: Timestamp) {
    let Ok(entries) = std::fs::read_dir(verdict_dir.join("results")) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let attempt = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let named = [result_path(verdict_dir, attempt), log_path(verdict_dir, attempt)].contains(&Some(path.clone()));
        let old = path.symlink_metadata().is_ok_and(|metadata| metadata.mtime() < before.as_second());
        if named && old {
            // It takes up room and harms nothing.
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid_names_a_file() {
        let dir = Path::new("/verdicts");
        assert!(result_path(dir, "b2f5385a-b484-4360-8d9a-e5189fb70371").is_some());
        for name in
            ["", "..", "../x", "nope", "B2F5385A-b484-4360-8d9a-e5189fb70371", "b2f5385ab48443608d9ae5189fb70371"]
        {
            assert_eq!(result_path(dir, name), None, "{name}");
        }
    }

    #[test]
    fn results_are_read_back_whole_and_removed_with_their_logs() {
        let dir = tempfile::tempdir().unwrap();
        let attempt_id = Uuid::new_v4().to_string();
        let payload = serde_json::json!({"z": 1, "a": [0.1, 1e300]});
        let result = AttemptResult {
            attempt_id: attempt_id.clone(),
            id: "t".into(),
            repo_path: "/repo".into(),
            started_at: String::new(),
            terminal_at: String::new(),
            status: AttemptStatus::Failed,
            outcome_class: OutcomeClass::Error,
            summary: String::new(),
            error: Some("e".into()),
            verdict: None,
            marker_path: None,
            diagnostics: Diagnostics { payload: Some(payload), ..Diagnostics::default() },
        };
        write(dir.path(), &result).unwrap();
        std::fs::write(log_path(dir.path(), &attempt_id).unwrap(), "x").unwrap();
        assert_eq!(read(dir.path(), &attempt_id).unwrap(), Some(result));
        remove(dir.path(), &HashSet::from([attempt_id.clone(), "nope".to_owned()])).unwrap();
        assert_eq!(read(dir.path(), &attempt_id).unwrap(), None);
        assert_eq!(std::fs::read_dir(dir.path().join("results")).unwrap().count(), 0);
    }

    #[test]
    fn a_sweep_removes_old_results_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("results");
        std::fs::create_dir(&results).unwrap();
        let attempt = Uuid::new_v4();
        let names = [format!("{attempt}.json"), format!("{attempt}.log"), format!("{attempt}.txt"), "x.json".into()];
        for name in &names {
            std::fs::write(results.join(name), "").unwrap();
        }
        sweep(dir.path(), Timestamp::now() - jiff::SignedDuration::from_secs(60));
        assert_eq!(std::fs::read_dir(&results).unwrap().count(), 4);
        sweep(dir.path(), Timestamp::now() + jiff::SignedDuration::from_secs(60));
        assert_eq!(names.map(|name| results.join(name).exists()), [false, false, true, true]);
        sweep(&results, Timestamp::now());
    }
}
