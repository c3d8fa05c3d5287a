//! `groundingctl session list` and `show`.

use grounding_tests::TestEnvironment;
use grounding_tests::environment::shown;
use serde_json::{Value, json};

fn json_of(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let output = environment.groundingctl(arguments);
    assert!(output.status.success(), "{}", shown(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)))
}

fn started(environment: &TestEnvironment, keyword: &str, problem: &str) -> String {
    let arguments = json!({ "keyword": keyword, "problem": problem });
    environment.shim().answer("grounding_start", arguments)["sessionId"].as_str().expect("an id").to_owned()
}

#[test]
fn sessions_are_listed_newest_first_and_a_broken_file_is_named_beside_them() {
    let environment = TestEnvironment::new();
    let empty = environment.groundingctl(&["session", "list"]);
    assert!(empty.status.success() && String::from_utf8_lossy(&empty.stdout).starts_with("no sessions in "));

    let old = started(&environment, "old", "x\u{1b}[31m is red");
    let new = started(&environment, "new", "y");
    environment.write(".grounding-mcp/sessions/torn.json", "{");
    let list = json_of(&environment, &["session", "list", "--json"]);
    let ids: Vec<_> = list["sessions"].as_array().expect("a list").iter().map(|row| &row["sessionId"]).collect();
    assert_eq!(ids, [&json!(new), &json!(old)]);
    assert_eq!((&list["total"], &list["truncated"]), (&json!(3), &json!(false)));
    assert_eq!(list["unreadable"][0]["file"], "torn.json");

    let output = environment.groundingctl(&["session", "list"]);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().nth(1).is_some_and(|row| row.starts_with(&new) && row.contains("just now")), "{text}");
    assert!(text.contains("x?[31m is red"), "{text}");
    assert!(said.contains("torn.json") && said.contains("left as it is"), "{said}");
    assert_eq!(environment.read(".grounding-mcp/sessions/torn.json"), "{");

    let output = environment.groundingctl(&["session", "list", "--limit", "1"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2, "{}", shown(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 3"), "{}", shown(&output));
    let output = environment.groundingctl(&["session", "list", "--limit", "1001"]);
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
}

#[test]
fn a_session_is_shown_with_what_was_recorded_under_it() {
    let environment = TestEnvironment::new();
    let id = started(&environment, "my-server", "it is slow");
    let mut shim = environment.shim();
    shim.answer("hypothesis_record", json!({ "sessionId": id, "text": "h", "requiredChecks": ["c"] }));
    shim.answer("ledger_add", json!({ "sessionId": id, "type": "fact", "content": "f" }));
    let shown_json = json_of(&environment, &["session", "show", &id, "--json"]);
    assert_eq!(shown_json["session"]["sessionId"], json!(id));
    assert!(shown_json["session"]["startedAt"].is_string());
    let phases = shown_json["session"]["phaseStatus"].as_object().expect("phases");
    let steps = shown_json["session"]["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| phases.contains_key(step["phase"].as_str().expect("a phase"))), "{steps:?}");
    let one = json!({ "total": 1, "unverified": 1, "supported": 0, "rejected": 0, "pending_checks": 1 });
    assert_eq!(shown_json["hypotheses"], one);
    assert_eq!(shown_json["ledger"]["facts"], 1);
    assert_eq!(shown_json["problems"], json!([]));

    let output = environment.groundingctl(&["session", "show", &id]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["it is slow", "no-step-skipping", "1: 1 unverified", "1 checks open", "1 facts", "active"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_part_that_cannot_be_read_is_said_and_the_session_is_shown() {
    let environment = TestEnvironment::new();
    let id = started(&environment, "k", "p");
    environment.write(".evidence-ledger/ledger.db", "This is no database. ".repeat(100));
    let shown_json = json_of(&environment, &["session", "show", &id, "--json"]);
    assert_eq!(shown_json["ledger"], Value::Null);
    let problem = shown_json["problems"][0].as_str().expect("a problem");
    assert!(problem.contains("ledger.db"), "{problem}");
    assert_eq!(shown_json["hypotheses"]["total"], 0);
}

#[test]
fn an_unknown_session_is_a_clear_no() {
    let environment = TestEnvironment::new();
    for id in ["nope", "../x", "a/b?c"] {
        let output = environment.groundingctl(&["session", "show", id]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("there is no grounding session"), "{said}");
    }
}
