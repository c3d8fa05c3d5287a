//! The orchestrator-workflow arm inside `solution_evaluate`.

use grounding_tests::{Repository, Shim, TestEnvironment};
use serde_json::{Value, json};

/// A preflight that is always ready.
const READY: &str = r#"printf '{"ready":true,"confidence":1,"checks":[],"blockers":[],"warnings":[],"limitations":[],"durationMs":1,"timestamp":"2026-01-01T00:00:00.000Z"}'"#;

fn environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let preflight = environment.script("stub/preflight", READY);
    environment.set("SOLUTION_PREFLIGHT_BIN", preflight);
    environment
}

fn evaluate(shim: &mut Shim, repository: &Repository<'_>) -> Value {
    shim.answer("solution_evaluate", json!({ "id": "task", "repoPath": repository.text() }))
}

fn write_run(repository: &Repository<'_>, final_status: &str) {
    let run = repository.path().join(".ai/runs/2099-01-01-change");
    std::fs::create_dir_all(&run).expect("a run directory");
    let write = |name: &str, text: &str| std::fs::write(run.join(name), text).expect("a file of the run");
    write("00-goal.md", &format!("<!-- solution-acceptance: run-base = {} -->\n", repository.head()));
    write("05-review-findings.md", "<!-- solution-acceptance: acceptance-recommendation = accept -->\n");
    write("06-handoff.md", &format!("<!-- solution-acceptance: final-status = {final_status} -->\n"));
}

#[test]
fn an_open_run_blocks_a_ready_preflight_and_an_accepted_one_does_not() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();

    write_run(&repository, "TODO");
    let blocked = evaluate(&mut shim, &repository);
    assert_eq!(blocked["verdict"]["ready"], false, "{blocked}");
    let blockers = blocked["verdict"]["blockers"].as_array().expect("a list");
    assert_eq!(blockers.len(), 1, "{blocked}");
    assert!(blockers[0].as_str().is_some_and(|text| text.starts_with("orchestrator-workflow: ")), "{blocked}");
    assert_eq!(blocked["diagnostics"]["workflow"]["blockers"][0]["code"], "status_todo");
    assert_eq!(blocked["diagnostics"]["payload"]["blockers"], json!([]), "preflight's own answer stays as it was");
    let denied = shim.answer("solution_gate", json!({ "id": "task", "repoPath": repository.text() }));
    assert_eq!(denied["code"], "not_ready", "{denied}");

    write_run(&repository, "accepted");
    let ready = evaluate(&mut shim, &repository);
    assert_eq!(ready["verdict"]["ready"], true, "{ready}");
    assert_eq!(ready["diagnostics"]["workflow"]["complete"], true, "{ready}");
    assert_eq!(ready["diagnostics"]["workflow"]["runBaseKind"], "sha", "{ready}");
    let allowed = shim.answer("solution_gate", json!({ "id": "task", "repoPath": repository.text() }));
    assert_eq!(allowed["allowed"], true, "{allowed}");
}

#[test]
fn without_a_run_the_arm_changes_nothing() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let comparable = |mut answer: Value| {
        let workflow = answer["diagnostics"].as_object_mut().expect("an object").remove("workflow");
        for path in ["/attemptId", "/verdict/timestamp"] {
            *answer.pointer_mut(path).expect("present") = Value::Null;
        }
        (answer, workflow)
    };
    std::fs::create_dir_all(repository.path().join(".ai")).expect("a directory");
    repository.write(".ai/solution-acceptance.json", r#"{"orchestratorWorkflow":"off"}"#);
    let (off, absent) = comparable(evaluate(&mut shim, &repository));
    repository.write(".ai/solution-acceptance.json", r#"{"orchestratorWorkflow":"auto"}"#);
    let (auto, report) = comparable(evaluate(&mut shim, &repository));
    assert_eq!(off, auto);
    assert_eq!(absent, None);
    let report = report.expect("the arm reports");
    assert_eq!((&report["enforced"], &report["complete"]), (&json!(false), &json!(true)), "{report}");
}
