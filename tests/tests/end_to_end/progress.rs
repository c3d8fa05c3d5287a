//! Progress pings and cancellation of a slow evaluation (SPEC 9.7).

use grounding_tests::{Shim, TestEnvironment, wait_for};
use serde_json::{Value, json};

const WAITING: &str = r#"[ "$1" = run ] || exit 0
cd "$(dirname "$0")"
touch started
while [ ! -e go ]; do sleep 0.02; done
printf '{"ready":true,"confidence":1,"blockers":[]}'"#;

fn environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let stub = environment.script("stub/preflight", WAITING);
    environment.set("SOLUTION_PREFLIGHT_BIN", stub);
    environment.set("GROUNDING_PROGRESS_MS", "20");
    environment
}

fn evaluate(shim: &mut Shim, repository: &str, meta: &Value) -> i64 {
    let arguments = json!({ "id": "slow", "repoPath": repository });
    let mut call = json!({ "name": "solution_evaluate", "arguments": arguments });
    if !meta.is_null() {
        call["_meta"] = meta.clone();
    }
    shim.send_request("tools/call", call)
}

#[test]
fn pings_rise_and_none_follows_the_answer() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let id = evaluate(&mut shim, repository.text(), &json!({ "progressToken": "token" }));
    let mut last = 0.0;
    for _ in 0..5 {
        let ping = shim.notification();
        assert_eq!(ping["method"], "notifications/progress", "{ping}");
        assert_eq!(ping["params"]["progressToken"], "token", "{ping}");
        assert_eq!(ping["params"].get("total"), None, "{ping}");
        let progress = ping["params"]["progress"].as_f64().expect("a number");
        assert!(progress.fract() == 0.0 && progress > last, "{ping} after {last}");
        last = progress;
    }
    environment.write("stub/go", "");
    let response = shim.response(id);
    assert_eq!(response["result"]["structuredContent"]["status"], "completed", "{response}");
    drop(shim.kept_notifications());
    // A late ping would stand before the answer to this.
    shim.answer("ledger_status", json!({}));
    assert_eq!(shim.kept_notifications(), Vec::<Value>::new());
}

#[test]
fn without_a_token_there_is_no_ping() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut pinged = environment.shim();
    let mut silent = environment.shim();
    let id = evaluate(&mut silent, repository.text(), &Value::Null);
    evaluate(&mut pinged, repository.text(), &json!({ "progressToken": 7 }));
    for _ in 0..5 {
        assert_eq!(pinged.notification()["params"]["progressToken"], 7);
    }
    environment.write("stub/go", "");
    assert_eq!(silent.response(id)["result"]["structuredContent"]["status"], "completed");
    assert_eq!(silent.kept_notifications(), Vec::<Value>::new());
}

#[test]
fn a_cancel_ends_the_waiting_and_not_the_attempt() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let id = evaluate(&mut shim, repository.text(), &json!({ "progressToken": "token" }));
    assert_eq!(shim.notification()["method"], "notifications/progress");
    let started = environment.path("stub/started");
    wait_for("preflight to start", || if started.exists() { Ok(()) } else { Err(shim.stderr()) });
    shim.notify("notifications/cancelled", json!({ "requestId": id }));
    // Pings that were on their way may come before this answer; after it there is none.
    shim.answer("ledger_status", json!({}));
    drop(shim.kept_notifications());
    let running = shim.answer("solution_evaluate_status", json!({ "id": "slow" }));
    assert_eq!(running["status"], "running", "{running}");

    environment.write("stub/go", "");
    wait_for("the attempt to complete", || {
        let status = shim.answer("solution_evaluate_status", json!({ "id": "slow" }));
        if status["status"] == "completed" { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(shim.kept_notifications(), Vec::<Value>::new(), "a cancelled call still pings");
    // A cancel of a request that is finished changes nothing.
    shim.notify("notifications/cancelled", json!({ "requestId": id }));
    shim.answer("ledger_status", json!({}));
}

#[test]
fn a_call_past_the_wait_bound_answers_running_and_a_second_one_joins() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut shim = environment
        .shim_with(&[("GROUNDING_ATTEMPT_WAIT_MS", "150".as_ref()), ("GROUNDING_ATTEMPT_POLL_MS", "77".as_ref())]);
    let arguments = json!({ "id": "slow", "repoPath": repository.text() });
    // A busy machine may need longer than the caller waits until the attempt has a name; asking again joins it.
    let first = wait_for("the attempt to be named", || match shim.answer("solution_evaluate", arguments.clone()) {
        answer if answer["status"] == "running-unconfirmed" => Err(answer.to_string()),
        answer => Ok(answer),
    });
    assert_eq!((&first["status"], &first["pollAfterMs"]), (&json!("running"), &json!(77)), "{first}");
    let second = shim.answer("solution_evaluate", arguments);
    assert_eq!(second["attemptId"], first["attemptId"], "{second}");
    environment.write("stub/go", "");
    wait_for("the attempt to complete", || {
        let result = shim.answer("solution_evaluate_result", json!({ "id": "slow" }));
        if result["outcomeClass"] == "ready" { Ok(()) } else { Err(result.to_string()) }
    });
}
