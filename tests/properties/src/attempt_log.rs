//! The attempt log: what a reader and a lookup make of any file under its name.
//!
//! The second judgement reads the records again, line by line, and applies the order of SPEC 6: a tombstone wins, then a
//! reconciliation, then the last terminal record.

use std::path::Path;

use grounding_proto::solution::{AttemptStatus, OutcomeClass};
use grounding_proto::wire::Settings;
use groundingd::attempt::log::{self, Log, Record};
use groundingd::attempt::lookup::{self, LookupRequest};
use groundingd::attempt::place::Place;
use groundingd::attempt::table::Attempts;
use groundingd::clock::SystemClock;
use groundingd::process::ClientEnvironment;
use serde_json::Value;

use crate::folder;

/// The id whose log the input is.
const ID: &str = "t";

/// Checks that the reader agrees with a plain reading, that compaction forgets no more than it should, and that a lookup
/// never makes a success of what it does not know.
pub fn check(input: &[u8]) {
    let log = Log::parse(input);
    if let Some(records) = records(input) {
        for attempt in log.attempts() {
            let of_attempt: Vec<_> = records
                .iter()
                .filter(|record| record["id"] == attempt.id && record["attemptId"] == attempt.attempt_id)
                .collect();
            assert_eq!((attempt.status(), attempt.outcome_class()), judged(&of_attempt), "{}", attempt.attempt_id);
        }
        let latest = log.latest(ID).and_then(|latest| latest.start.as_ref()).map(|start| start.started_at.as_str());
        assert_eq!(latest, latest_start(&records), "the latest attempt");
    }
    check_compaction(input, &log);
    check_lookups(input, &log);
}

/// Returns the lines that are records; nothing when one may hold a lone surrogate, which this reading can't tell.
fn records(input: &[u8]) -> Option<Vec<Value>> {
    let mut records = Vec::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        match serde_json::from_str::<Value>(line.trim()) {
            Ok(record) => {
                let has = |key: &str| record.get(key).and_then(Value::as_str);
                let is_kind = matches!(has("kind"), Some("start" | "terminal" | "reconciled-unknown" | "tombstone"));
                if is_kind && has("attemptId").is_some_and(|name| !name.is_empty()) && has("id").is_some() {
                    records.push(record);
                }
            }
            Err(_) if line.contains("\\u") => return None,
            Err(_) => {}
        }
    }
    Some(records)
}

fn judged(records: &[&Value]) -> (AttemptStatus, Option<OutcomeClass>) {
    let last = |kind: &str| records.iter().rfind(|record| record["kind"] == kind);
    let class = |record: &Value| match record["outcomeClass"].as_str() {
        Some("ready") => Some(OutcomeClass::Ready),
        Some("not-ready") => Some(OutcomeClass::NotReady),
        Some("error") => Some(OutcomeClass::Error),
        Some("compromised") => Some(OutcomeClass::Compromised),
        _ => None,
    };
    if let Some(tombstone) = last("tombstone") {
        return match class(tombstone) {
            Some(class) => (AttemptStatus::Expired, Some(class)),
            None => (AttemptStatus::Unknown, Some(OutcomeClass::Unknown)),
        };
    }
    if last("reconciled-unknown").is_some() {
        return (AttemptStatus::Unknown, None);
    }
    match last("terminal") {
        Some(terminal) if terminal["status"] == "completed" => (AttemptStatus::Completed, class(terminal)),
        Some(terminal) => (AttemptStatus::Failed, class(terminal)),
        None => (AttemptStatus::Running, None),
    }
}

/// Returns the largest start time of the id's attempts that have no tombstone; the first start record of each counts.
fn latest_start(records: &[Value]) -> Option<&str> {
    let of = |kind: &'static str| records.iter().filter(move |record| record["id"] == ID && record["kind"] == kind);
    let buried: Vec<_> = of("tombstone").map(|record| &record["attemptId"]).collect();
    let mut seen = Vec::new();
    let mut latest = None;
    for start in of("start") {
        let name = &start["attemptId"];
        if !seen.contains(&name) && !buried.contains(&name) {
            latest = latest.max(Some(start["startedAt"].as_str().unwrap_or_default()));
        }
        seen.push(name);
    }
    latest
}

fn check_compaction(input: &[u8], log: &Log) {
    let before = "2026-06-01T00:00:00Z".parse().expect("a time");
    let prune = log.prunable(before);
    let compacted = log::compacted(input, &prune, before);
    let after = Log::parse(compacted.as_bytes());
    assert_eq!(after.attempts().len(), log.attempts().len(), "no attempt is forgotten or made up");
    for attempt in log.attempts() {
        let kept = after.attempt(&attempt.id, &attempt.attempt_id).expect("compaction forgets no attempt");
        if prune.contains(&attempt.attempt_id) {
            assert_ne!(attempt.status(), AttemptStatus::Running);
            assert!(matches!(kept.status(), AttemptStatus::Expired | AttemptStatus::Unknown));
            assert_eq!(kept.outcome_class(), Some(attempt.outcome_class().unwrap_or(OutcomeClass::Unknown)));
        } else {
            assert_eq!(kept, attempt);
        }
    }
}

/// Looks attempts up in a verdict directory in which nothing runs and nobody has a lock.
fn check_lookups(input: &[u8], log: &Log) {
    let folder = folder::private();
    let place = Place::of(folder.path(), ID).expect("a usable id");
    std::fs::write(place.log(), input).expect("the log");
    let attempts = Attempts::new(SystemClock::shared(), ClientEnvironment::new([]));
    let named = log.attempts().iter().filter(|attempt| attempt.id == ID).take(2);
    let targets: Vec<_> = named.map(|attempt| Some(attempt.attempt_id.clone())).chain([None]).collect();
    for target in targets {
        let request = request(folder.path(), target);
        let known = match &request.attempt_id {
            Some(name) => log.attempt(ID, name),
            None => log.latest(ID),
        };
        let status = lookup::status(&attempts, &request).expect("a status");
        let expected = match known.map(log::Attempt::status) {
            // Nobody has its lock, so that nobody runs it.
            None | Some(AttemptStatus::Running) => AttemptStatus::Unknown,
            Some(settled) => settled,
        };
        assert_eq!(status.status, expected, "{request:?}");
        if known.is_some_and(|known| known.status() == AttemptStatus::Running) {
            check_late_success(&attempts, &place, &request, &known.expect("just seen").attempt_id);
        }
        let result = lookup::result(&attempts, &request).expect("a result");
        assert_eq!(result.status, expected, "{request:?}");
        let class =
            known.filter(|known| known.status() != AttemptStatus::Running).and_then(log::Attempt::outcome_class);
        assert_eq!(result.outcome_class, class, "{request:?}");
        assert!(result.verdict.is_none() && result.marker_present != Some(true));
    }
}

/// A success that is recorded after an attempt was given up changes nothing.
fn check_late_success(attempts: &Attempts, place: &Place, request: &LookupRequest, attempt_id: &str) {
    let terminal = Record::Terminal {
        attempt_id: attempt_id.to_owned(),
        id: ID.to_owned(),
        status: AttemptStatus::Completed,
        terminal_at: "2026-01-01T00:00:00.000Z".to_owned(),
        outcome_class: OutcomeClass::Ready,
        summary: "ready=true".to_owned(),
        error: None,
        error_truncated: None,
    };
    log::append(&place.log(), &terminal).expect("an appended record");
    let request = LookupRequest { attempt_id: Some(attempt_id.to_owned()), ..request.clone() };
    assert_eq!(lookup::status(attempts, &request).expect("a status").status, AttemptStatus::Unknown);
}

fn request(verdict_dir: &Path, attempt_id: Option<String>) -> LookupRequest {
    let (id, verdict_dir) = (ID.to_owned(), verdict_dir.to_owned());
    LookupRequest { id, attempt_id, verdict_dir, settings: Settings::default() }
}
