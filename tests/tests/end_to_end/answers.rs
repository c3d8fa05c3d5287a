//! The recorded answers, driven in their order: same keys, types, fixed values and nulls; further keys are ours.

use std::ffi::OsStr;
use std::path::Path;

use grounding_tests::contract::Bindings;
use grounding_tests::{Shim, TestEnvironment, binaries, wait_for};
use serde_json::{Value, json};

/// Prints the payload at hand and exits with the code at hand, as soon as it may.
const STUB: &str = r#"[ "$1" = run ] || exit 0
cd "$(dirname "$0")"
while [ -e hold ]; do sleep 0.02; done
cat payload
exit "$(cat code)""#;

struct Recording<'a> {
    environment: &'a TestEnvironment,
    bindings: Bindings,
    found: Vec<String>,
}

#[test]
fn the_recorded_answers_are_given() {
    let mut environment = TestEnvironment::new();
    let directory = environment.path("dir").to_str().expect("UTF-8").to_owned();
    let stub = environment.script("dir/preflight", STUB);
    environment.set("EVIDENCE_LEDGER_DB", format!("{directory}/ledger.db"));
    environment.set("SOLUTION_VERDICT_DIR", format!("{directory}/verdicts"));
    environment.set("SOLUTION_PREFLIGHT_BIN", stub);
    let repository = environment.repository("dir/repo");
    repository.write("a.ts", "export const alpha = 1; // run with --force\n");
    repository.commit("feat: add a");

    let mut shim = environment.shim();
    let mut hurried = environment.shim_with(&[("GROUNDING_ATTEMPT_WAIT_MS", OsStr::new("3000"))]);
    let nowhere = environment.path("dir/no-preflight");
    let mut without_preflight = environment.shim_with(&[("SOLUTION_PREFLIGHT_BIN", nowhere.as_os_str())]);

    let mut recording = Recording { environment: &environment, bindings: Bindings::default(), found: Vec::new() };
    recording.bindings.bind("dir", directory);
    for case in cases() {
        match name_of(&case) {
            "evaluate not ready" => recording.preflight(false, 1),
            "evaluate ready" | "evaluate again" => recording.preflight(true, 0),
            "evaluate exit 2" => recording.preflight(true, 2),
            "evaluate not json" => {
                recording.preflight(true, 0);
                environment.write("dir/payload", "no JSON\n");
            }
            "evaluate slow" => {
                recording.preflight(true, 0);
                environment.write("dir/hold", "");
            }
            "result later" => {
                std::fs::remove_file(environment.path("dir/hold")).expect("the stub was held");
                wait_until_completed(&mut shim, "s");
            }
            "gate stale" => {
                repository.write("b.ts", "export {};\n");
                repository.commit("feat: add b");
            }
            _ => {}
        }
        let shim = match name_of(&case) {
            "evaluate slow" | "force while live" => &mut hurried,
            "evaluate no preflight" => &mut without_preflight,
            _ => &mut shim,
        };
        recording.check(shim, &case);
    }
    assert!(recording.found.is_empty(), "{}", recording.found.join("\n"));
}

fn cases() -> Vec<Value> {
    let answers: Value = serde_json::from_str(&binaries::fixture("answers.json")).expect("answers.json is JSON");
    answers["cases"].as_array().expect("cases").clone()
}

fn name_of(case: &Value) -> &str {
    case["name"].as_str().expect("a name")
}

fn wait_until_completed(shim: &mut Shim, id: &str) {
    wait_for("the attempt to complete", || {
        let status = shim.answer("solution_evaluate_status", json!({ "id": id }));
        if status["status"] == "completed" { Ok(()) } else { Err(status.to_string()) }
    });
}

impl Recording<'_> {
    fn preflight(&self, ready: bool, code: u8) {
        let (status, blockers) = if ready { ("pass", json!([])) } else { ("fail", json!(["lint failed"])) };
        let check = json!({
            "name": "lint", "kind": "lint", "status": status, "durationMs": 1, "confidenceContribution": 0.15
        });
        let payload = json!({
            "ready": ready, "confidence": 0.9, "checks": [check], "blockers": blockers, "warnings": [],
            "limitations": [], "durationMs": 5, "timestamp": "2026-12-01T07:12:02.000Z", "extra": 1
        });
        self.environment.write("dir/payload", payload.to_string());
        self.environment.write("dir/code", code.to_string());
    }

    fn check(&mut self, shim: &mut Shim, case: &Value) {
        let name = name_of(case);
        let mut arguments = self.bindings.fill(&case["arguments"]);
        match name {
            // The recording shows placeholders where the original was given these.
            "reject" => arguments["reason"] = "r".into(),
            "evidence unknown" => arguments["hypothesisId"] = "none".into(),
            _ => {}
        }
        let mut expected = case["answer"].clone();
        if name == "evidence unknown" {
            expected["hypothesisId"] = "none".into();
        }
        let result = shim.call(case["tool"].as_str().expect("a tool"), arguments);
        if result.is_error != (case["isError"] == true) {
            self.found.push(format!("{name}: isError is {}: {}", result.is_error, result.text));
        } else if !result.is_error {
            let answer = result.into_answer(name);
            let differences = self.bindings.differences(&expected, &answer);
            if !differences.is_empty() {
                self.found.push(format!("{name}: {}\n    in {answer}", differences.join("; ")));
            }
        }
    }
}

#[test]
fn an_evaluation_that_fails_leaves_no_earlier_verdict() {
    let mut environment = TestEnvironment::new();
    let stub = environment.script("dir/preflight", STUB);
    environment.set("SOLUTION_PREFLIGHT_BIN", stub);
    let repository = environment.repository("repo");
    let recording = Recording { environment: &environment, bindings: Bindings::default(), found: Vec::new() };
    let mut shim = environment.shim();
    let arguments = json!({ "id": "t", "repoPath": repository.text() });

    recording.preflight(true, 0);
    let evaluated = shim.answer("solution_evaluate", arguments.clone());
    let marker = evaluated["markerPath"].as_str().map(Path::new).expect("a marker");
    assert!(marker.is_file(), "{}", marker.display());

    recording.preflight(true, 2);
    let evaluated = shim.answer("solution_evaluate", arguments.clone());
    assert_eq!(evaluated["status"], "failed");
    assert!(!marker.exists(), "{}", marker.display());
    let gate = shim.answer("solution_gate", arguments);
    assert_eq!((&gate["allowed"], &gate["code"]), (&json!(false), &json!("no_verdict")));
}
