//! Lines that are written and read: bounds, torn and foreign lines, what an attempt's records say together.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::*;

fn start(attempt_id: &str, started_at: &str) -> Record {
    Record::Start {
        attempt_id: attempt_id.into(),
        id: "t".into(),
        head: None,
        started_at: started_at.into(),
        pid: 1,
        status: AttemptStatus::Running,
    }
}

fn terminal(attempt_id: &str, error: &str, summary: &str) -> Record {
    Record::Terminal {
        attempt_id: attempt_id.into(),
        id: "t".into(),
        status: AttemptStatus::Failed,
        terminal_at: "2026-01-01T00:00:01.000Z".into(),
        outcome_class: OutcomeClass::Error,
        summary: summary.into(),
        error: Some(error.into()),
        error_truncated: None,
    }
}

#[test]
fn logs_are_read_as_recorded() {
    let fixture: Value = serde_json::from_str(include_str!("../../../../tests/fixtures/attempt-log.json")).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() > 15);
    for case in cases {
        let name = &case["name"];
        let log = Log::parse(case["log"].as_str().unwrap().as_bytes());
        let expected = &case["expect"];
        assert_eq!(log.latest("t").map(|attempt| attempt.attempt_id.as_str()), expected["latest"].as_str(), "{name}");
        let attempts = expected["attempts"].as_object().unwrap();
        assert_eq!(log.attempts().len(), attempts.len(), "{name}");
        for (attempt_id, expected) in attempts {
            let attempt = log.attempt("t", attempt_id).unwrap();
            assert_eq!(serde_json::to_value(attempt.status()).unwrap(), expected["status"], "{name}");
            assert_eq!(serde_json::to_value(attempt.outcome_class()).unwrap(), expected["outcomeClass"], "{name}");
        }
    }
}

#[test]
fn the_original_log_is_read_and_ours_has_its_lines() {
    let original = include_str!("../../../../tests/fixtures/original-files/attempts.jsonl");
    let log = Log::parse(original.as_bytes());
    assert_eq!(log.latest("t").unwrap().outcome_class(), Some(OutcomeClass::Ready));
    let record = Record::Start {
        attempt_id: "b2f5385a-b484-4360-8d9a-e5189fb70371".into(),
        id: "t".into(),
        head: Some("1266a2d2577d0f050bcab15d82cd23087ebdaf9d".into()),
        started_at: "2026-12-01T07:12:02.118Z".into(),
        pid: 5567,
        status: AttemptStatus::Running,
    };
    assert_eq!(line_of(&record).trim_end(), original.lines().next().unwrap());
}

#[test]
fn a_torn_line_never_swallows_the_next_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    append(&path, &start("a", "2026-01-01T00:00:00.000Z")).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"kind\":\"terminal\",\"att").unwrap();
    append(&path, &start("b", "2026-01-01T00:00:02.000Z")).unwrap();
    let log = Log::read(&path).unwrap();
    assert_eq!(log.latest("t").unwrap().attempt_id, "b");
    assert_eq!(log.attempts().len(), 2);
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_line_never_exceeds_its_bound() {
    for (error, summary) in [
        ("x".repeat(9000), "ready=false".to_owned()),
        ("\u{1}é\"".repeat(900), "s".repeat(9000)),
        ("😀".repeat(3000), "😀".repeat(3000)),
    ] {
        let line = line_of(&terminal("a", &error, &summary));
        assert!(line.len() <= MAX_LINE_BYTES && line.len() > MAX_LINE_BYTES - 40, "{}", line.len());
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["errorTruncated"], true);
        assert!(value["error"].as_str().unwrap().ends_with(CUT));
    }
}

#[test]
fn what_failed_is_blanked_in_its_own_log_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    append(&path, &start("a", "2026-01-01T00:00:00.000Z")).unwrap();
    let before = fs::read(&path).unwrap();
    let mut file = OpenOptions::new().read(true).append(true).open(&path).unwrap();
    file.write_all(b"failed\n").unwrap();
    blank(&path, &mut file, b"failed\n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), [&before[..], b"      \n"].concat());

    file.write_all(b"failed\n").unwrap();
    let another = vec![b'x'; 2 * before.len() + 100];
    store::replace(&path, &another).unwrap();
    blank(&path, &mut file, b"failed\n").unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), another, "a log that was compacted meanwhile is not written into");
}

#[test]
fn records_of_another_id_say_nothing_of_an_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    append(&path, &start("a", "2026-01-01T00:00:00.000Z")).unwrap();
    let of_another = r#"{"kind":"terminal","attemptId":"a","id":"T","status":"completed","outcomeClass":"ready","terminalAt":"2026-01-01T00:00:01.000Z"}"#;
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(of_another.as_bytes()).unwrap();
    let log = Log::read(&path).unwrap();
    assert_eq!(log.attempt("t", "a").unwrap().status(), AttemptStatus::Running);
    assert_eq!(log.attempt("T", "a").unwrap().status(), AttemptStatus::Completed);
    assert!(log.prunable("2026-01-02T00:00:00Z".parse().unwrap()).is_empty());
}

#[test]
fn a_class_that_is_none_is_not_answered() {
    let class = |class: &str| {
        let line =
            format!(r#"{{"kind":"terminal","attemptId":"a","id":"t","status":"failed","outcomeClass":{class}}}"#);
        Log::parse(line.as_bytes()).attempts()[0].outcome_class()
    };
    assert_eq!(class(r#""error""#), Some(OutcomeClass::Error));
    for none in [r#""unknown""#, r#""splendid""#, "1"] {
        assert_eq!(class(none), None);
    }
}

#[test]
fn lone_surrogates_do_not_hide_a_record() {
    let line =
        r#"{"kind":"terminal","attemptId":"a","id":"t","status":"failed","outcomeClass":"error","error":"cut \ud83d"}"#;
    assert_eq!(Log::parse(line.as_bytes()).attempt("t", "a").unwrap().status(), AttemptStatus::Failed);
}

#[test]
fn compaction_leaves_tombstones_and_what_is_young() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    append(&path, &start("old", "2026-01-01T00:00:00.000Z")).unwrap();
    append(&path, &terminal("old", "e", "s")).unwrap();
    append(&path, &start("lost", "2026-01-01T00:00:00.000Z")).unwrap();
    let reconciled_at = "2026-01-01T00:00:09.000Z".into();
    append(&path, &Record::ReconciledUnknown { attempt_id: "lost".into(), id: "t".into(), reconciled_at }).unwrap();
    append(&path, &start("live", "2026-01-01T00:00:00.000Z")).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"garbage\n").unwrap();

    let log = Log::read(&path).unwrap();
    assert!(log.prunable("2026-01-01T00:00:01Z".parse().unwrap()).is_empty());
    let prune = log.prunable("2026-01-02T00:00:00Z".parse().unwrap());
    compact(&path, &prune, "2026-01-03T00:00:00Z".parse().unwrap()).unwrap();

    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    let log = Log::read(&path).unwrap();
    let status = |name| log.attempt("t", name).unwrap().status();
    assert_eq!(status("old"), AttemptStatus::Expired);
    assert_eq!(status("lost"), AttemptStatus::Unknown);
    assert_eq!(status("live"), AttemptStatus::Running);
    assert!(log.prunable("2027-01-01T00:00:00Z".parse().unwrap()).is_empty());
}
