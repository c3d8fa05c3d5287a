//! Several shims on one daemon: nothing is lost, nothing is done twice.

use std::collections::BTreeSet;
use std::sync::Barrier;

use grounding_tests::TestEnvironment;
use serde_json::{Value, json};

const ADDS: usize = 200;

#[test]
fn two_shims_add_200_entries_each_and_all_400_are_there() {
    let environment = TestEnvironment::new();
    let begin = Barrier::new(2);
    let add_all = |name: &str| -> Vec<i64> {
        let mut shim = environment.shim();
        begin.wait();
        let add = |number| {
            let arguments = json!({ "sessionId": "s", "type": "fact", "content": format!("{name} {number}") });
            shim.answer("ledger_add", arguments)["id"].as_i64().expect("an id")
        };
        (0..ADDS).map(add).collect()
    };
    let ids = std::thread::scope(|scope| {
        let other = scope.spawn(|| add_all("other"));
        let mut ids = add_all("one");
        ids.extend(other.join().expect("the other shim's calls"));
        ids
    });
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2 * ADDS, "ids are used twice");

    let mut shim = environment.shim();
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s", "limit": 10000 }));
    assert_eq!(summary["counts"]["facts"], 2 * ADDS);
    let contents: BTreeSet<_> = summary["entries"]["facts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["content"].as_str().expect("content"))
        .collect();
    assert_eq!(contents.len(), 2 * ADDS, "entries are missing from the answer");
    assert_eq!(environment.daemons().len(), 1);
}

#[test]
fn two_advances_at_once_advance_two_phases() {
    let environment = TestEnvironment::new();
    let mut one = environment.shim();
    let mut other = environment.shim();
    for _ in 0..5 {
        let session = one.answer("grounding_start", json!({ "keyword": "agent", "problem": "p" }));
        let arguments = json!({ "sessionId": session["sessionId"] });
        let ids = [&mut one, &mut other].map(|shim| {
            shim.send_request("tools/call", json!({ "name": "grounding_advance", "arguments": arguments }))
        });
        let responses = [one.response(ids[0]), other.response(ids[1])];
        let phases: BTreeSet<_> = responses
            .iter()
            .map(|response| response["result"]["structuredContent"]["currentPhase"].as_str().expect("a phase"))
            .collect();
        assert_eq!(phases, BTreeSet::from(["doc-reading", "playbook-loading"]));
        let third = one.answer("grounding_advance", arguments);
        assert_eq!(third["currentPhase"], "runtime-inspection");
        assert_eq!(third["phaseStatus"]["playbook-loading"], "done");
    }
}

#[test]
fn two_starts_at_once_make_two_sessions() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let arguments = json!({ "name": "grounding_start", "arguments": { "keyword": "same", "problem": "p" } });
    for _ in 0..20 {
        shim.send_request("tools/call", arguments.clone());
    }
    let ids: BTreeSet<_> = (0..20).map(|_| session_of(&shim.any_response())).collect();
    assert_eq!(ids.len(), 20);
}

fn session_of(response: &Value) -> String {
    response["result"]["structuredContent"]["sessionId"].as_str().expect("a session").to_owned()
}
