//! The recorded attempt logs and preflight results, each through the real binaries.

use grounding_tests::binaries;
use serde_json::{Value, json};

use super::stub::{self, task};

fn cases(fixture: &str) -> Vec<Value> {
    let fixture: Value = serde_json::from_str(&binaries::fixture(fixture)).expect("a fixture is JSON");
    let cases = fixture["cases"].as_array().expect("cases").clone();
    assert!(cases.len() > 15);
    cases
}

#[test]
fn every_recorded_log_is_read_as_recorded() {
    let environment = stub::environment();
    let verdicts = environment.path(stub::VERDICTS);
    // What still reads running is running while another program holds the lock.
    stub::make_directory(&verdicts.join("t.attempt-lock.lock"));
    let mut shim = environment.shim();
    for case in cases("attempt-log.json") {
        let (name, expected) = (&case["name"], &case["expect"]);
        std::fs::write(verdicts.join("t.attempts.jsonl"), case["log"].as_str().expect("a log")).expect("written");
        let latest = shim.answer("solution_evaluate_status", json!({ "id": "t" }));
        match expected["latest"].as_str() {
            Some(attempt) => assert_eq!(latest["attemptId"], attempt, "{name}: {latest}"),
            None => assert_eq!(latest["status"], "running-unconfirmed", "{name}: {latest}"),
        }
        for (attempt, expected_attempt) in expected["attempts"].as_object().expect("attempts") {
            let arguments = json!({ "id": "t", "attemptId": attempt });
            let status = shim.answer("solution_evaluate_status", arguments.clone());
            assert_eq!(status["status"], expected_attempt["status"], "{name}: {status}");
            assert_eq!(status["isLatestForId"], expected["latest"] == **attempt, "{name}: {status}");
            let result = shim.answer("solution_evaluate_result", arguments);
            let class = result.get("outcomeClass").cloned().unwrap_or_default();
            assert_eq!(class, expected_attempt["outcomeClass"], "{name}: {result}");
        }
        let log = std::fs::read_to_string(verdicts.join("t.attempts.jsonl")).expect("the log");
        assert_eq!(log, case["log"].as_str().expect("a log"), "{name}: a lookup repaired the log");
    }
}

#[test]
fn every_recorded_preflight_result_is_judged_as_recorded() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    for case in cases("preflight-results.json") {
        let (name, execution, expected) = (&case["name"], &case["execution"], &case["expect"]);
        environment.write("stub/payload", case["payload"].to_string());
        let end = match (&execution["exitCode"], execution["signal"].as_str()) {
            (Value::Number(code), None) => format!("cat payload; exit {code}"),
            (Value::Null, Some(signal)) => format!("cat payload; kill -{} $$", signal.trim_start_matches("SIG")),
            other => panic!("{name}: {other:?}"),
        };
        environment.write("stub/then", end);
        let evaluated = shim.answer("solution_evaluate", task(&repository));
        let accepted = expected["accepted"] == true;
        assert_eq!(evaluated["status"] == "completed", accepted, "{name}: {evaluated}");
        assert_eq!(evaluated["verdict"].is_object(), accepted, "{name}: {evaluated}");
        assert_eq!(stub::file(&environment, ".json").exists(), accepted, "{name}");
        let diagnostics = &evaluated["diagnostics"];
        assert_eq!(diagnostics["complete"], expected["complete"], "{name}: {diagnostics}");
        let issues = diagnostics["issues"].as_array().expect("issues").len();
        assert_eq!(json!(issues), expected["issues"], "{name}: {diagnostics}");
        assert_eq!(diagnostics["payload"], case["payload"], "{name}");
        assert_eq!(diagnostics["execution"], *execution, "{name}");
    }
}
