//! What people see of sessions: the list of a directory, and one in full.
//!
//! A file that is no session is named beside the others and hides none of them. Nothing here writes.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use grounding_proto::session::{SessionDetails, SessionListAnswer, SessionRow, SessionStep, UnreadableSession};
use serde_json::{Map, Value};

use super::SessionError;
use super::records::{path_of, read, summary, text};
use crate::error::describe;
use crate::store::{self, StoreError};

/// Most files that are read for one list: those that were changed last.
const MAX_READ: usize = 10_000;
/// Most files that are named as unreadable.
const MAX_UNREADABLE: usize = 100;
/// Characters of a problem that a list shows.
const PROBLEM_CHARACTERS: usize = 200;

/// Lists the sessions of a directory, the newest first; one that is absent holds none.
///
/// # Errors
/// When the directory can't be read.
pub fn list(dir: &Path, limit: usize) -> Result<SessionListAnswer, SessionError> {
    let mut files = files(dir)?;
    let total = files.len();
    files.sort_by_key(|(changed, name)| (Reverse(*changed), name.clone()));
    files.truncate(MAX_READ);
    let (mut sessions, mut unreadable) = (Vec::new(), Vec::new());
    for (_, file) in files {
        match row(dir, &file) {
            Ok(Some(row)) => sessions.push(row),
            // Removed since the directory was read.
            Ok(None) => {}
            Err(error) => unreadable.push(UnreadableSession { file, problem: describe(&error) }),
        }
    }
    let whole = total <= MAX_READ && sessions.len() <= limit && unreadable.len() <= MAX_UNREADABLE;
    sessions.sort_by(|a, b| (&b.started_at, &b.session_id).cmp(&(&a.started_at, &a.session_id)));
    sessions.truncate(limit);
    unreadable.truncate(MAX_UNREADABLE);
    let directory = dir.display().to_string();
    Ok(SessionListAnswer { directory, sessions, total: total as u64, truncated: !whole, unreadable })
}

/// Reads a session with all of its plan.
///
/// # Errors
/// When there is no such session, or its file can't be read or is no session.
pub fn details(dir: &Path, session_id: &str) -> Result<SessionDetails, SessionError> {
    let unknown = || SessionError::Unknown { session_id: session_id.to_owned(), dir: dir.to_owned() };
    let path = path_of(dir, session_id).ok_or_else(unknown)?;
    let record = read(&path, session_id)?.ok_or_else(unknown)?;
    let summary = summary(&path, &record)?;
    let steps = record.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    let steps = steps.iter().map(|step| SessionStep {
        phase: word(step, "phase"),
        tool: word(step, "tool"),
        description: word(step, "description"),
        mandatory: step["mandatory"].as_bool().unwrap_or(true),
    });
    Ok(SessionDetails {
        steps: steps.collect(),
        started_at: started_at(&record),
        resolved_scope: record.get("resolved_scope").cloned(),
        summary,
    })
}

/// Returns the names of the files that sessions may have, and when each was last changed.
fn files(dir: &Path) -> Result<Vec<(SystemTime, String)>, StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("read", dir)(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("read", dir))?;
        // No session has a name that is not plain ASCII.
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || !name.ends_with(".json") {
            continue;
        }
        let changed = entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        files.push((changed, name));
    }
    Ok(files)
}

fn row(dir: &Path, file: &str) -> Result<Option<SessionRow>, StoreError> {
    let path = dir.join(file);
    let Some(record) = store::read_object(&path)? else { return Ok(None) };
    let session_id = text(&path, &record, "id")?;
    if path_of(dir, &session_id).as_deref() != Some(path.as_path()) {
        let problem = format_args!("holds the session {session_id:?}, which no tool looks for there");
        return Err(StoreError::unusable(&path, problem));
    }
    Ok(Some(SessionRow {
        keyword: text(&path, &record, "keyword")?,
        problem: text(&path, &record, "problem")?.chars().take(PROBLEM_CHARACTERS).collect(),
        current_phase: text(&path, &record, "current_phase")?,
        started_at: started_at(&record),
        workspace: record.get("workspace").and_then(Value::as_str).map(str::to_owned),
        session_id,
    }))
}

fn started_at(record: &Map<String, Value>) -> Option<String> {
    record.get("started_at").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use grounding_proto::session::GroundingStart;

    use super::*;
    use crate::clock::manual::ManualClock;
    use crate::session::{advance, start};

    fn started(dir: &Path, keyword: &str, at: &str) -> String {
        let arguments = GroundingStart { keyword: keyword.to_owned(), problem: "p".repeat(300), workspace: None };
        start(&*ManualClock::at(at), dir, arguments).unwrap().session_id
    }

    #[test]
    fn the_newest_session_comes_first_whatever_was_changed_last() {
        let dir = tempfile::tempdir().unwrap();
        let old = started(dir.path(), "old", "2026-11-01T00:00:00Z");
        let new = started(dir.path(), "new", "2026-12-01T00:00:00Z");
        advance(dir.path(), &old).unwrap();
        let answer = list(dir.path(), 10).unwrap();
        assert_eq!(answer.sessions.iter().map(|row| row.session_id.as_str()).collect::<Vec<_>>(), [&new, &old]);
        assert_eq!(answer.sessions[0].started_at.as_deref(), Some("2026-12-01T00:00:00.000Z"));
        assert_eq!(answer.sessions[0].problem.len(), PROBLEM_CHARACTERS);
        assert!(!answer.truncated);

        let answer = list(dir.path(), 1).unwrap();
        assert_eq!((answer.sessions.len(), answer.total, answer.truncated), (1, 2, true));
    }

    #[test]
    fn a_broken_file_is_named_and_the_rest_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        started(dir.path(), "a", "2026-12-01T00:00:00Z");
        fs::write(dir.path().join("torn.json"), "{").unwrap();
        fs::write(dir.path().join("moved.json"), r#"{"id":"elsewhere"}"#).unwrap();
        fs::write(dir.path().join("notes.txt"), "no session").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link.json")).unwrap();
        let answer = list(dir.path(), 10).unwrap();
        assert_eq!(answer.sessions.len(), 1);
        let mut named: Vec<_> = answer.unreadable.iter().map(|it| it.file.as_str()).collect();
        named.sort_unstable();
        assert_eq!(named, ["link.json", "moved.json", "torn.json"]);
        for file in &answer.unreadable {
            assert!(file.problem.contains(&file.file) && file.problem.contains("left as it is"), "{}", file.problem);
        }
    }

    #[test]
    fn a_directory_that_is_absent_holds_none() {
        let dir = tempfile::tempdir().unwrap();
        let answer = list(&dir.path().join("none"), 10).unwrap();
        assert_eq!((answer.total, answer.truncated), (0, false));
    }

    #[test]
    fn details_hold_the_whole_plan() {
        let dir = tempfile::tempdir().unwrap();
        let id = started(dir.path(), "my-server", "2026-12-01T00:00:00Z");
        let details = details(dir.path(), &id).unwrap();
        assert_eq!(details.started_at.as_deref(), Some("2026-12-01T00:00:00.000Z"));
        assert_eq!(details.steps.len(), details.summary.mandatory_sequence.len());
        assert!(details.steps.iter().all(|step| details.summary.phase_status.contains_key(&step.phase)));
        assert!(matches!(super::details(dir.path(), "../x"), Err(SessionError::Unknown { .. })));
    }
}
