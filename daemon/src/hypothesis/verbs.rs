//! One function per tool (SPEC 1 and 3a).
//!
//! A change is a read, a change and a replacement under the lock of the file. A verb that can't be carried out answers
//! a structured error and writes nothing.

use std::path::{Path, PathBuf};

use grounding_proto::hypothesis::{
    HypothesisAnswer, HypothesisCheckDone, HypothesisEvidence, HypothesisList, HypothesisListAnswer, HypothesisProblem,
    HypothesisRecord, HypothesisReject, HypothesisReset, HypothesisResetAnswer, HypothesisSession, HypothesisSupport,
};
use serde_json::{Map, Value, json};

use super::store::{Hypotheses, pending_checks};
use crate::clock::{Clock, iso};
use crate::json;
use crate::store::{self, StoreError};

/// Most JSON bytes of the hypotheses of one list.
const MAX_LIST_BYTES: usize = 256 * 1024;

/// A hypothesis operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum HypothesisError {
    /// The store's file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system gave no random bytes for an id.
    #[error("can't make an id for the hypothesis")]
    Random(#[source] getrandom::Error),
}

/// Records a hypothesis, unverified.
///
/// # Errors
/// When the file can't be read, is no store, or can't be written.
pub fn record(clock: &dyn Clock, dir: &Path, arguments: HypothesisRecord) -> Result<HypothesisAnswer, HypothesisError> {
    let HypothesisRecord { session_id, text, required_checks } = arguments;
    let path = path_of(dir, &session_id);
    let checks = required_checks.unwrap_or_default().into_iter();
    let checks: Vec<_> = checks.map(|description| json!({"description": description, "done": false})).collect();
    let now = iso(clock.now());
    let mut row = json!({
        "id": null,
        "text": text,
        "status": "unverified",
        "evidence": [],
        "required_checks": checks,
        "createdAt": now,
        "updatedAt": now,
    });
    loop {
        let lock = store::lock(&path)?;
        let read = if lock.is_some() { Hypotheses::read(&path)? } else { None };
        let mut hypotheses = read.unwrap_or_else(|| Hypotheses::of(session_id.as_str()));
        row["id"] = unused_id(&hypotheses)?.into();
        hypotheses.push(row.clone());
        let text = hypotheses.to_text();
        let written = match &lock {
            Some(_) => store::replace(&path, text.as_bytes()).map(|()| true),
            None => store::create(&path, text.as_bytes()),
        };
        // Without a file there was nothing to lock: another program may have made it since.
        if written? {
            return Ok(changed(&session_id, row, &hypotheses));
        }
    }
}

/// Lists the hypotheses of a session, the latest of them when all would be too much; a session without a store has none.
///
/// # Errors
/// When the file can't be read or is no store.
pub fn list(dir: &Path, arguments: HypothesisList) -> Result<HypothesisListAnswer, HypothesisError> {
    let hypotheses = Hypotheses::read(&path_of(dir, &arguments.session_id))?
        .unwrap_or_else(|| Hypotheses::of(arguments.session_id.as_str()));
    let rows: Vec<_> = hypotheses.rows().collect();
    let mut bytes = 0;
    let fitting = rows.iter().rev().take_while(|row| {
        bytes += json::length(row) + 1;
        bytes <= MAX_LIST_BYTES
    });
    let first = rows.len() - fitting.count();
    Ok(HypothesisListAnswer {
        session_id: arguments.session_id.as_str().to_owned(),
        summary: hypotheses.counts(),
        hypotheses: rows[first..].iter().map(|row| (*row).clone()).collect(),
        truncated: (first > 0).then_some(true),
        malformed_rows: hypotheses.malformed_rows(),
    })
}

/// Appends evidence, which supports an unverified hypothesis; a rejected one stays rejected.
///
/// # Errors
/// When the file can't be read, is no store, or can't be written.
pub fn evidence(
    clock: &dyn Clock,
    dir: &Path,
    arguments: HypothesisEvidence,
) -> Result<HypothesisAnswer, HypothesisError> {
    let HypothesisEvidence { session_id, hypothesis_id, evidence, source } = arguments;
    let now = iso(clock.now());
    change(&now, dir, &session_id, &hypothesis_id, HypothesisProblem::HypothesisNotFound, |row| {
        append_evidence(row, evidence, source, &now);
        if row["status"] == "unverified" {
            row["status"] = "supported".into();
        }
        Ok(())
    })
}

/// Marks a required check as done.
///
/// # Errors
/// As `evidence`.
pub fn check_done(
    clock: &dyn Clock,
    dir: &Path,
    arguments: HypothesisCheckDone,
) -> Result<HypothesisAnswer, HypothesisError> {
    let HypothesisCheckDone { session_id, hypothesis_id, check_index } = arguments;
    let now = iso(clock.now());
    change(&now, dir, &session_id, &hypothesis_id, HypothesisProblem::HypothesisNotFound, |row| {
        let checks = row["required_checks"].as_array_mut();
        let available = checks.as_ref().map_or(0, |checks| checks.len());
        let check = usize::try_from(check_index).ok().zip(checks).and_then(|(index, checks)| checks.get_mut(index));
        match check {
            Some(check) => {
                check["done"] = true.into();
                Ok(())
            }
            None => Err(Box::new(HypothesisAnswer {
                error: Some(HypothesisProblem::CheckIndexOutOfRange),
                check_index: Some(check_index),
                available_checks: Some(available as u64),
                ..HypothesisAnswer::default()
            })),
        }
    })
}

/// Rejects a hypothesis, keeping a reason as evidence.
///
/// # Errors
/// As `evidence`.
pub fn reject(clock: &dyn Clock, dir: &Path, arguments: HypothesisReject) -> Result<HypothesisAnswer, HypothesisError> {
    let HypothesisReject { session_id, hypothesis_id, reason } = arguments;
    let now = iso(clock.now());
    change(&now, dir, &session_id, &hypothesis_id, HypothesisProblem::HypothesisNotFound, |row| {
        row["status"] = "rejected".into();
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            append_evidence(row, format!("[rejected] {reason}"), None, &now);
        }
        Ok(())
    })
}

/// Supports a hypothesis that is not rejected and whose checks are all done.
///
/// # Errors
/// As `evidence`.
pub fn support(
    clock: &dyn Clock,
    dir: &Path,
    arguments: HypothesisSupport,
) -> Result<HypothesisAnswer, HypothesisError> {
    const REFUSED: HypothesisProblem = HypothesisProblem::HypothesisNotFoundRejectedOrChecksPending;
    let HypothesisSupport { session_id, hypothesis_id } = arguments;
    let now = iso(clock.now());
    change(&now, dir, &session_id, &hypothesis_id, REFUSED, |row| {
        if row["status"] == "rejected" || pending_checks(row) > 0 {
            return Err(Box::new(HypothesisAnswer { error: Some(REFUSED), ..HypothesisAnswer::default() }));
        }
        row["status"] = "supported".into();
        Ok(())
    })
}

/// Removes the store of a session; answers whether there was one.
///
/// # Errors
/// When the file can't be read, is no store, or can't be removed.
pub fn reset(dir: &Path, arguments: HypothesisReset) -> Result<HypothesisResetAnswer, HypothesisError> {
    let path = path_of(dir, &arguments.session_id);
    let cleared = match store::lock(&path)? {
        // Read first: what is no store of ours is not ours to remove.
        Some(_lock) => Hypotheses::read(&path)?.is_some() && store::remove(&path)?,
        None => false,
    };
    Ok(HypothesisResetAnswer { session_id: arguments.session_id.as_str().to_owned(), cleared })
}

/// Changes one row under the lock of the file; `apply` changes nothing when it refuses.
fn change(
    now: &str,
    dir: &Path,
    session: &HypothesisSession,
    id: &str,
    not_found: HypothesisProblem,
    apply: impl FnOnce(&mut Value) -> Result<(), Box<HypothesisAnswer>>,
) -> Result<HypothesisAnswer, HypothesisError> {
    let session_id = session.as_str().to_owned();
    let no_store = || HypothesisAnswer {
        error: Some(HypothesisProblem::NoStoreForSession),
        session_id: session_id.clone(),
        ..HypothesisAnswer::default()
    };
    let path = path_of(dir, session);
    let Some(_lock) = store::lock(&path)? else { return Ok(no_store()) };
    let Some(mut hypotheses) = Hypotheses::read(&path)? else { return Ok(no_store()) };
    let malformed_rows = hypotheses.malformed_rows();
    let refused = |answer: HypothesisAnswer| {
        let hypothesis_id = Some(id.to_owned());
        HypothesisAnswer { session_id: session_id.clone(), hypothesis_id, malformed_rows, ..answer }
    };
    let Some(row) = hypotheses.row_mut(id) else {
        return Ok(refused(HypothesisAnswer { error: Some(not_found), ..HypothesisAnswer::default() }));
    };
    let before = row.clone();
    if let Err(answer) = apply(row) {
        return Ok(refused(*answer));
    }
    if *row == before {
        // What is so already is left as it is, its time too.
        return Ok(changed(session, before, &hypotheses));
    }
    row["updatedAt"] = now.into();
    let row = row.clone();
    store::replace(&path, hypotheses.to_text().as_bytes())?;
    Ok(changed(session, row, &hypotheses))
}

fn changed(session: &HypothesisSession, row: Value, hypotheses: &Hypotheses) -> HypothesisAnswer {
    HypothesisAnswer {
        session_id: session.as_str().to_owned(),
        hypothesis: Some(row),
        malformed_rows: hypotheses.malformed_rows(),
        ..HypothesisAnswer::default()
    }
}

fn append_evidence(row: &mut Value, text: String, source: Option<String>, now: &str) {
    let mut item = Map::new();
    item.insert("text".to_owned(), text.into());
    if let Some(source) = source {
        item.insert("source".to_owned(), source.into());
    }
    item.insert("addedAt".to_owned(), now.into());
    if let Some(evidence) = row["evidence"].as_array_mut() {
        evidence.push(Value::Object(item));
    }
}

fn path_of(dir: &Path, session: &HypothesisSession) -> PathBuf {
    // The type admits only what is a file name already.
    dir.join(format!("{}.json", session.as_str()))
}

/// Returns 8 hex digits that no row of the store has as its id.
fn unused_id(hypotheses: &Hypotheses) -> Result<String, HypothesisError> {
    loop {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes).map_err(HypothesisError::Random)?;
        let id = hex::encode(bytes);
        if !hypotheses.has_id(&id) {
            return Ok(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::time::Duration;

    use serde::de::DeserializeOwned;
    use tempfile::TempDir;

    use super::*;
    use crate::clock::manual::ManualClock;

    const ORIGINAL: &str = include_str!("../../../tests/fixtures/original-files/hypotheses.json");

    struct Bench {
        dir: TempDir,
        clock: Arc<ManualClock>,
    }

    impl Bench {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap(), clock: ManualClock::at("2026-12-01T07:12:02.078Z") }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("h1.json")
        }

        /// Calls a tool the way a client does: JSON in, JSON out.
        fn call(&self, tool: &str, arguments: Value) -> Value {
            fn typed<T: DeserializeOwned>(arguments: Value) -> T {
                serde_json::from_value(arguments).unwrap()
            }
            let (clock, dir) = (&*self.clock, self.dir.path());
            let answer = match tool {
                "hypothesis_record" => record(clock, dir, typed(arguments)),
                "hypothesis_evidence" => evidence(clock, dir, typed(arguments)),
                "hypothesis_check_done" => check_done(clock, dir, typed(arguments)),
                "hypothesis_reject" => reject(clock, dir, typed(arguments)),
                "hypothesis_support" => support(clock, dir, typed(arguments)),
                "hypothesis_list" => return json!(list(dir, typed(arguments)).unwrap()),
                "hypothesis_reset" => return json!(reset(dir, typed(arguments)).unwrap()),
                other => panic!("{other} is no hypothesis tool"),
            };
            json!(answer.unwrap())
        }

        fn record(&self, checks: &[&str]) -> String {
            let answer =
                self.call("hypothesis_record", json!({"sessionId": "h1", "text": "t", "requiredChecks": checks}));
            answer["hypothesis"]["id"].as_str().unwrap().to_owned()
        }
    }

    #[test]
    fn recorded_answers_are_given_as_recorded() {
        let fixture: Value = serde_json::from_str(include_str!("../../../tests/fixtures/answers.json")).unwrap();
        let bench = Bench::new();
        let mut id = String::new();
        let mut ran = 0;
        for case in fixture["cases"].as_array().unwrap() {
            let tool = case["tool"].as_str().unwrap();
            if !tool.starts_with("hypothesis_") || case["isError"] == true {
                continue;
            }
            let unknown = case["answer"]["error"] == "hypothesis_not_found";
            let named = if unknown { "unknown" } else { &id };
            let arguments = case["arguments"].to_string().replace("<hypothesis>", named).replace("<text>", "r");
            let answer = bench.call(tool, serde_json::from_str(&arguments).unwrap());
            if tool == "hypothesis_record" {
                id = answer["hypothesis"]["id"].as_str().unwrap().to_owned();
            }
            let named = if unknown { "unknown" } else { &id };
            let expected = case["answer"].to_string().replace("<hypothesis>", named);
            let expected: Value =
                serde_json::from_str(&expected.replace("<time>", "2026-12-01T07:12:02.078Z")).unwrap();
            assert_eq!(answer, expected, "{}", case["name"]);
            ran += 1;
        }
        assert!(ran >= 10, "{ran}");
    }

    #[test]
    fn the_file_is_as_the_original_wrote_it() {
        let bench = Bench::new();
        let id = bench.record(&["a", "b"]);
        bench.call("hypothesis_check_done", json!({"sessionId": "h1", "hypothesisId": id, "checkIndex": 0}));
        bench.clock.advance(Duration::from_millis(4));
        bench.call(
            "hypothesis_evidence",
            json!({"sessionId": "h1", "hypothesisId": id, "evidence": "e", "source": "s"}),
        );
        bench.clock.advance(Duration::from_millis(3));
        bench.call("hypothesis_reject", json!({"sessionId": "h1", "hypothesisId": id, "reason": "r"}));
        assert_eq!(fs::read_to_string(bench.path()).unwrap(), ORIGINAL.replace("460812", &id));
    }

    #[test]
    fn a_rejected_hypothesis_stays_rejected() {
        let bench = Bench::new();
        let id = bench.record(&[]);
        let named = json!({"sessionId": "h1", "hypothesisId": id});
        assert_eq!(bench.call("hypothesis_reject", named.clone())["hypothesis"]["evidence"], json!([]));
        let answer = bench.call("hypothesis_evidence", json!({"sessionId": "h1", "hypothesisId": id, "evidence": "e"}));
        assert_eq!(answer["hypothesis"]["status"], "rejected");
        assert_eq!(bench.call("hypothesis_support", named)["error"], "hypothesis_not_found_rejected_or_checks_pending");
    }

    #[test]
    fn support_needs_every_check() {
        let bench = Bench::new();
        let id = bench.record(&["a"]);
        let named = json!({"sessionId": "h1", "hypothesisId": id});
        let before = fs::read(bench.path()).unwrap();
        assert!(bench.call("hypothesis_support", named.clone())["error"].is_string());
        assert_eq!(fs::read(bench.path()).unwrap(), before, "a refusal writes nothing");
        bench.call("hypothesis_check_done", json!({"sessionId": "h1", "hypothesisId": id, "checkIndex": 0}));
        assert_eq!(bench.call("hypothesis_support", named)["hypothesis"]["status"], "supported");
    }

    #[test]
    fn malformed_rows_and_unknown_keys_stay() {
        let bench = Bench::new();
        let mut file: Value = serde_json::from_str(ORIGINAL).unwrap();
        file["theirs"] = json!({"z": 1, "a": 2});
        let rows = file["hypotheses"].as_array_mut().unwrap();
        rows[0]["also"] = json!("theirs");
        rows.insert(0, json!({"id": "bad", "status": "unsure"}));
        rows.push(json!("text"));
        fs::write(bench.path(), json::pretty(&file)).unwrap();

        let answer = bench.call("hypothesis_list", json!({"sessionId": "h1"}));
        assert_eq!((&answer["malformedRows"], &answer["summary"]["total"]), (&json!(2), &json!(1)));
        let unknown = json!({"sessionId": "h1", "hypothesisId": "bad", "evidence": "e"});
        assert_eq!(bench.call("hypothesis_evidence", unknown)["error"], "hypothesis_not_found");
        let answer =
            bench.call("hypothesis_check_done", json!({"sessionId": "h1", "hypothesisId": "460812", "checkIndex": 1}));
        assert_eq!(answer["malformedRows"], 2);
        file["hypotheses"][1]["required_checks"][1]["done"] = true.into();
        file["hypotheses"][1]["updatedAt"] = "2026-12-01T07:12:02.078Z".into();
        assert_eq!(fs::read_to_string(bench.path()).unwrap(), json::pretty(&file));
    }

    #[test]
    fn what_is_no_store_is_named_and_left_by_every_verb() {
        let bench = Bench::new();
        let session = || HypothesisSession::try_from("h1".to_owned()).unwrap();
        for content in ["{", "[]", "{\"session\":\"h1\"}", "{\"hypotheses\":{}}"] {
            fs::write(bench.path(), content).unwrap();
            let (clock, dir) = (&*bench.clock, bench.dir.path());
            let errors = [
                record(clock, dir, HypothesisRecord { session_id: session(), text: "t".into(), required_checks: None })
                    .unwrap_err(),
                list(dir, HypothesisList { session_id: session() }).unwrap_err(),
                support(clock, dir, HypothesisSupport { session_id: session(), hypothesis_id: "x".into() })
                    .unwrap_err(),
                reset(dir, HypothesisReset { session_id: session() }).unwrap_err(),
            ];
            for error in errors {
                assert!(error.to_string().contains("h1.json"), "{error}");
            }
            assert_eq!(fs::read_to_string(bench.path()).unwrap(), content);
        }
    }

    #[test]
    fn records_at_once_are_all_kept() {
        let bench = Bench::new();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| bench.record(&[]));
            }
        });
        let answer = bench.call("hypothesis_list", json!({"sessionId": "h1"}));
        let ids: std::collections::HashSet<_> =
            answer["hypotheses"].as_array().unwrap().iter().map(|row| row["id"].to_string()).collect();
        assert_eq!(ids.len(), 16);
        assert_eq!(fs::read_dir(bench.dir.path()).unwrap().count(), 1, "no other file is left");
    }
}
