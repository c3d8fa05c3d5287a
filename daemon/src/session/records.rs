//! Session files: made by start, walked by advance, read by the rest (SPEC 3).
//!
//! Every change is a read, a change and a replacement under the lock of the file, so that two advances at once advance
//! two phases. Must never change a key it does not know, nor the file of another session.

use std::path::{Path, PathBuf};

use grounding_proto::session::{
    CurrentStep, GroundingGuardrailCheck, GroundingStart, Guardrail, GuardrailAnswer, SessionSummary,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::plan::{COMPLETE, PHASES, guardrails, scope, slug, steps};
use crate::clock::{Clock, iso};
use crate::json;
use crate::store::{self, FileKey, StoreError};

/// Longest file name that file systems take, in bytes.
const MAX_FILE_NAME: usize = 255;

/// A session operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The keyword has nothing to name a session by.
    #[error("`keyword` must hold at least one letter a-z or digit, but is {keyword:?}")]
    Keyword {
        /// The keyword as given.
        keyword: String,
    },
    /// There is no such session.
    #[error(
        "there is no grounding session {session_id:?} in {}; use the sessionId that grounding_start returned, or call grounding_start",
        dir.display()
    )]
    Unknown {
        /// The id as given.
        session_id: String,
        /// Where sessions are kept.
        dir: PathBuf,
    },
    /// The session's file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Starts a session: plans it and creates its file.
///
/// # Errors
/// When nothing of the keyword can name a session, or the file can't be written.
pub fn start(clock: &dyn Clock, dir: &Path, arguments: GroundingStart) -> Result<SessionSummary, SessionError> {
    let Some(slug) = slug(&arguments.keyword) else {
        return Err(SessionError::Keyword { keyword: arguments.keyword });
    };
    let started_at = clock.now();
    let mut record = planned(started_at, arguments);
    let mut moment = started_at.as_millisecond().cast_unsigned();
    loop {
        let id = format!("gs-{slug}-{}", base36(moment));
        let path = dir.join(format!("{id}.json"));
        // Inserted again, a key keeps its place.
        record.insert("id".to_owned(), id.into());
        if store::create(&path, json::pretty(&Value::Object(record.clone())).as_bytes())? {
            return Ok(summary(&path, &record)?);
        }
        // Another session was started in the same millisecond.
        moment = moment.wrapping_add(1);
    }
}

/// Moves a session to its next phase; a complete one stays as it is.
///
/// # Errors
/// When there is no such session, or its file can't be read, is no session, or can't be written.
pub fn advance(dir: &Path, session_id: &str) -> Result<SessionSummary, SessionError> {
    let unknown = || SessionError::Unknown { session_id: session_id.to_owned(), dir: dir.to_owned() };
    let path = path_of(dir, session_id).ok_or_else(unknown)?;
    let _lock = store::lock(&path)?.ok_or_else(unknown)?;
    let mut record = read(&path, session_id)?.ok_or_else(unknown)?;
    if step_on(&path, &mut record)? {
        store::replace_json(&path, &Value::Object(record.clone()))?;
    }
    Ok(summary(&path, &record)?)
}

/// Returns whether a guardrail is in force in a session.
///
/// # Errors
/// As `load`.
pub fn guardrail_check(dir: &Path, arguments: GroundingGuardrailCheck) -> Result<GuardrailAnswer, SessionError> {
    let session = load(dir, &arguments.session_id)?;
    let active = session.active_guardrails.iter().any(|name| name == arguments.guardrail.name());
    Ok(GuardrailAnswer { session_id: arguments.session_id, guardrail: arguments.guardrail, active })
}

/// Reads a session.
///
/// # Errors
/// When there is no such session, or its file can't be read or is no session.
pub fn load(dir: &Path, session_id: &str) -> Result<SessionSummary, SessionError> {
    let unknown = || SessionError::Unknown { session_id: session_id.to_owned(), dir: dir.to_owned() };
    let path = path_of(dir, session_id).ok_or_else(unknown)?;
    let record = read(&path, session_id)?.ok_or_else(unknown)?;
    Ok(summary(&path, &record)?)
}

/// Returns the record of a new session, all but its id.
fn planned(started_at: Timestamp, arguments: GroundingStart) -> Map<String, Value> {
    let GroundingStart { keyword, problem, workspace } = arguments;
    let steps = steps(&keyword);
    let tools: Vec<_> = steps.iter().map(|step| step.tool).collect();
    let guardrails: Vec<_> = guardrails(&keyword).into_iter().map(Guardrail::name).collect();
    let status = |phase: &&str| ((*phase).to_owned(), if *phase == PHASES[0] { "active" } else { "pending" }.into());
    let phase_status: Map<String, Value> = PHASES.iter().map(status).collect();
    let steps: Vec<_> = steps
        .iter()
        .map(|step| {
            json!({
                "tool": step.tool,
                "description": step.description,
                "phase": step.phase,
                "mandatory": step.mandatory,
            })
        })
        .collect();
    let mut record = Map::new();
    record.insert("id".to_owned(), Value::Null);
    record.insert("keyword".to_owned(), keyword.as_str().into());
    record.insert("problem".to_owned(), problem.into());
    record.insert("resolved_scope".to_owned(), scope(&keyword).into());
    record.insert("mandatory_sequence".to_owned(), tools.into());
    record.insert("active_guardrails".to_owned(), guardrails.into());
    record.insert("phases".to_owned(), PHASES.to_vec().into());
    record.insert("current_phase".to_owned(), PHASES[0].into());
    record.insert("steps".to_owned(), steps.into());
    record.insert("phase_status".to_owned(), phase_status.into());
    record.insert("started_at".to_owned(), iso(started_at).into());
    record.insert("scope_changed".to_owned(), false.into());
    if let Some(workspace) = workspace {
        record.insert("workspace".to_owned(), workspace.into());
    }
    record
}

/// Moves a record to its next phase; returns false when it is complete.
fn step_on(path: &Path, record: &mut Map<String, Value>) -> Result<bool, StoreError> {
    let current = text(path, record, "current_phase")?;
    if current == COMPLETE {
        return Ok(false);
    }
    let Some(position) = PHASES.iter().position(|phase| *phase == current) else {
        return Err(StoreError::unusable(path, format_args!("is in the unknown phase {current:?}")));
    };
    let steps = list(path, record, "steps")?;
    let has_steps = |phase: &&&str| **phase == COMPLETE || steps.iter().any(|step| step["phase"] == **phase);
    // The last phase has no successor only if it is complete, which was answered above.
    let next = PHASES[position + 1..].iter().find(has_steps).copied().unwrap_or(COMPLETE);
    let Some(Value::Object(status)) = record.get_mut("phase_status") else {
        return Err(missing(path, "phase_status", "an object"));
    };
    status.insert(current, "done".into());
    for skipped in PHASES[position + 1..].iter().take_while(|phase| **phase != next) {
        status.insert((*skipped).to_owned(), "skipped".into());
    }
    status.insert(next.to_owned(), if next == COMPLETE { "done" } else { "active" }.into());
    record.insert("current_phase".to_owned(), next.into());
    Ok(true)
}

/// Returns the file of a session, or nothing when the id can't name one.
pub(super) fn path_of(dir: &Path, session_id: &str) -> Option<PathBuf> {
    let key = FileKey::of(session_id)?;
    (key.as_str().len() + ".json".len() <= MAX_FILE_NAME).then(|| key.path_in(dir, ".json"))
}

/// Reads a session's record; an id that only shares the file name of another session has none.
pub(super) fn read(path: &Path, session_id: &str) -> Result<Option<Map<String, Value>>, StoreError> {
    let Some(record) = store::read_object(path)? else { return Ok(None) };
    let id = text(path, &record, "id")?;
    Ok((id == session_id).then_some(record))
}

pub(super) fn summary(path: &Path, record: &Map<String, Value>) -> Result<SessionSummary, StoreError> {
    let names = |key| -> Result<Vec<String>, StoreError> {
        let name = |value: &Value| value.as_str().map(str::to_owned);
        let names: Option<Vec<String>> = list(path, record, key)?.iter().map(name).collect();
        names.ok_or_else(|| missing(path, key, "an array of strings"))
    };
    let current_phase = text(path, record, "current_phase")?;
    let Some(Value::Object(phase_status)) = record.get("phase_status") else {
        return Err(missing(path, "phase_status", "an object"));
    };
    let current = list(path, record, "steps")?.iter().filter(|step| step["phase"] == current_phase.as_str());
    let current_steps = current.map(|step| CurrentStep {
        tool: step["tool"].as_str().unwrap_or_default().to_owned(),
        description: step["description"].as_str().unwrap_or_default().to_owned(),
        mandatory: step["mandatory"].as_bool().unwrap_or(true),
    });
    Ok(SessionSummary {
        session_id: text(path, record, "id")?,
        keyword: text(path, record, "keyword")?,
        problem: text(path, record, "problem")?,
        mandatory_sequence: names("mandatory_sequence")?,
        active_guardrails: names("active_guardrails")?,
        phase_status: phase_status.clone(),
        current_steps: current_steps.collect(),
        current_phase,
        workspace: record.get("workspace").and_then(Value::as_str).map(str::to_owned),
    })
}

pub(super) fn text(path: &Path, record: &Map<String, Value>, key: &str) -> Result<String, StoreError> {
    record.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| missing(path, key, "a string"))
}

pub(super) fn list<'record>(
    path: &Path,
    record: &'record Map<String, Value>,
    key: &str,
) -> Result<&'record [Value], StoreError> {
    record.get(key).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| missing(path, key, "an array"))
}

fn missing(path: &Path, key: &str, kind: &str) -> StoreError {
    StoreError::unusable(path, format_args!("is not a grounding session: `{key}` is not {kind}"))
}

/// Writes a number in base 36.
fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize]));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use grounding_proto::schema;

    use super::*;
    use crate::clock::manual::ManualClock;

    const NOW: &str = "2026-12-01T07:12:02.035Z";

    fn fixture() -> Value {
        serde_json::from_str(include_str!("../../../tests/fixtures/sessions.json")).unwrap()
    }

    fn arguments(keyword: &str) -> GroundingStart {
        GroundingStart { keyword: keyword.to_owned(), problem: "p".to_owned(), workspace: None }
    }

    fn started(dir: &Path, keyword: &str) -> SessionSummary {
        start(&*ManualClock::at(NOW), dir, arguments(keyword)).unwrap()
    }

    fn stored(dir: &Path, id: &str) -> Value {
        serde_json::from_slice(&fs::read(dir.join(format!("{id}.json"))).unwrap()).unwrap()
    }

    #[test]
    fn recorded_keywords_are_planned_and_walked_as_recorded() {
        let fixture = fixture();
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() >= 20);
        for case in cases {
            let dir = tempfile::tempdir().unwrap();
            let expect = &case["expect"];
            let mut summary = started(dir.path(), case["keyword"].as_str().unwrap());
            let id = summary.session_id.clone();
            assert_eq!(id, format!("{}{}", expect["idPrefix"].as_str().unwrap(), time()));
            let record = stored(dir.path(), &id);
            assert_eq!(record["resolved_scope"], expect["resolved_scope"], "{case}");
            for (shown, key) in
                [(&summary.mandatory_sequence, "mandatory_sequence"), (&summary.active_guardrails, "active_guardrails")]
            {
                assert_eq!(json!(shown), expect[key], "{key}");
                assert_eq!(record[key], expect[key], "{key}");
            }
            for (step, expected) in record["steps"].as_array().unwrap().iter().zip(expect["steps"].as_array().unwrap())
            {
                for key in ["tool", "mandatory", "phase"] {
                    assert_eq!(step[key], expected[key], "{case}");
                }
            }
            assert_eq!(record["steps"].as_array().unwrap().len(), expect["steps"].as_array().unwrap().len());
            for (position, walked) in expect["walk"].as_array().unwrap().iter().enumerate() {
                if position > 0 {
                    summary = advance(dir.path(), &id).unwrap();
                }
                assert_eq!(summary.current_phase, walked["current"], "advance {position} of {id}");
                assert_eq!(json!(summary.phase_status).to_string(), walked["status"].to_string());
                assert_eq!(load(dir.path(), &id).unwrap(), summary);
            }
        }
    }

    fn time() -> String {
        base36(NOW.parse::<Timestamp>().unwrap().as_millisecond().cast_unsigned())
    }

    #[test]
    fn a_session_file_is_as_the_original_wrote_it() {
        let original: Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/original-files/session.json")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let id = started(dir.path(), "agent-tasks").session_id;
        assert_eq!(original["id"], id, "the same keyword at the same time");
        advance(dir.path(), &id).unwrap();
        let mut record = stored(dir.path(), &id);
        for step in record["steps"].as_array_mut().unwrap() {
            step["description"] = "one sentence".into();
        }
        assert_eq!(json::pretty(&record), json::pretty(&original), "the same keys in the same order");
    }

    #[test]
    fn recorded_answers_are_given_as_recorded() {
        let fixture: Value = serde_json::from_str(include_str!("../../../tests/fixtures/answers.json")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut id = String::new();
        let mut ran = 0;
        for case in fixture["cases"].as_array().unwrap().iter().filter(|case| case["isError"] == false) {
            let arguments = serde_json::from_str(&case["arguments"].to_string().replace("<session>", &id)).unwrap();
            let mut answer = match case["tool"].as_str().unwrap() {
                "grounding_start" => {
                    let arguments = serde_json::from_value(arguments).unwrap();
                    let summary = start(&*ManualClock::at(NOW), dir.path(), arguments).unwrap();
                    id.clone_from(&summary.session_id);
                    json!(summary)
                }
                "grounding_advance" => json!(advance(dir.path(), arguments["sessionId"].as_str().unwrap()).unwrap()),
                "grounding_guardrail_check" => {
                    json!(guardrail_check(dir.path(), serde_json::from_value(arguments).unwrap()).unwrap())
                }
                _ => continue,
            };
            // Ours, beyond what is recorded.
            answer.as_object_mut().unwrap().shift_remove("currentSteps");
            assert_eq!(answer.to_string(), case["answer"].to_string().replace("<session>", &id), "{}", case["name"]);
            ran += 1;
        }
        assert_eq!(ran, 3);
    }

    #[test]
    fn unusable_keywords_are_refused() {
        for case in fixture()["invalid"].as_array().unwrap() {
            let dir = tempfile::tempdir().unwrap();
            let given = json!({"keyword": case["keyword"], "problem": "p"});
            let refused = match schema::check("grounding_start", &schema::input::<GroundingStart>(), given) {
                Ok(given) => {
                    let arguments = serde_json::from_value(given).unwrap();
                    start(&*ManualClock::at(NOW), dir.path(), arguments).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            assert!(refused.unwrap_err().contains("`keyword`"), "{case}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is written");
        }
    }

    #[test]
    fn two_starts_in_one_millisecond_give_two_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let ids: std::collections::HashSet<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| started(dir.path(), "a").session_id)).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn advances_at_once_each_advance_a_phase() {
        let dir = tempfile::tempdir().unwrap();
        let id = started(dir.path(), "my-server").session_id;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| advance(dir.path(), &id).unwrap());
            }
        });
        assert_eq!(load(dir.path(), &id).unwrap().current_phase, PHASES[4]);
    }

    #[test]
    fn unknown_keys_and_their_order_survive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.json");
        let mut record = serde_json::from_str::<Map<String, Value>>(include_str!(
            "../../../tests/fixtures/original-files/session.json"
        ))
        .unwrap();
        record.insert("id".to_owned(), "s".into());
        record.insert("theirs".to_owned(), json!({"b": 1, "a": [1.50, "x"]}));
        let before = json::pretty(&Value::Object(record));
        fs::write(&path, &before).unwrap();
        assert_eq!(advance(dir.path(), "s").unwrap().current_phase, "playbook-loading");
        let expected = before
            .replace("\"current_phase\": \"doc-reading\"", "\"current_phase\": \"playbook-loading\"")
            .replace("\"doc-reading\": \"active\"", "\"doc-reading\": \"done\"")
            .replace("\"playbook-loading\": \"pending\"", "\"playbook-loading\": \"active\"");
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn sessions_that_do_not_exist_are_said_to() {
        let dir = tempfile::tempdir().unwrap();
        let id = started(dir.path(), "a b").session_id;
        fs::write(dir.path().parent().unwrap().join("outside.json"), "{}").unwrap();
        // The last shares its file with the session.
        let sharing = id.replacen('-', "/", 1);
        fs::rename(
            dir.path().join(format!("{id}.json")),
            dir.path().join(format!("{}.json", sharing.replace('/', "_"))),
        )
        .unwrap();
        for id in ["nope", ".", "..", "../outside", &"x".repeat(256), &sharing] {
            let check = GroundingGuardrailCheck { session_id: id.to_owned(), guardrail: Guardrail::NoStepSkipping };
            for error in [
                advance(dir.path(), id).unwrap_err(),
                load(dir.path(), id).unwrap_err(),
                guardrail_check(dir.path(), check).unwrap_err(),
            ] {
                assert!(matches!(error, SessionError::Unknown { .. }), "{id}: {error}");
            }
        }
    }

    #[test]
    fn guardrails_are_those_of_the_session() {
        let dir = tempfile::tempdir().unwrap();
        let id = started(dir.path(), "frontend").session_id;
        let active = |guardrail| {
            guardrail_check(dir.path(), GroundingGuardrailCheck { session_id: id.clone(), guardrail }).unwrap().active
        };
        assert!(active(Guardrail::NoStepSkipping));
        assert!(!active(Guardrail::NoTokenClaimBeforeConfigCheck));
    }

    #[test]
    fn a_file_that_is_no_session_is_named_and_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.json");
        for content in [
            "{",
            "[]",
            "{}",
            r#"{"id":"s","current_phase":"doc-reading"}"#,
            r#"{"id":"s","current_phase":"lunch","steps":[],"phase_status":{}}"#,
        ] {
            fs::write(&path, content).unwrap();
            let message = advance(dir.path(), "s").unwrap_err().to_string();
            assert!(message.contains("s.json") && message.contains("left as it is"), "{message}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn the_workspace_is_kept_as_given() {
        let dir = tempfile::tempdir().unwrap();
        let arguments = GroundingStart { workspace: Some("../w".to_owned()), ..arguments("x") };
        let summary = start(&*ManualClock::at(NOW), dir.path(), arguments).unwrap();
        assert_eq!(summary.workspace.as_deref(), Some("../w"));
        assert_eq!(stored(dir.path(), &summary.session_id)["workspace"], "../w");
        assert_eq!(summary.current_steps.len(), 1);
        assert_eq!(advance(dir.path(), &summary.session_id).unwrap().workspace.as_deref(), Some("../w"));
    }
}
