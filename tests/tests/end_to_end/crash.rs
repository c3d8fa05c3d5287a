//! The daemon is killed: what was answered is there, and the next call works.

use std::collections::BTreeMap;

use grounding_tests::{Shim, TestEnvironment, process};
use serde_json::{Value, json};

const ADDS: usize = 1000;

fn entries(shim: &mut Shim) -> BTreeMap<i64, String> {
    let mut entries = BTreeMap::new();
    let mut after = json!(0);
    loop {
        let arguments = json!({ "sessionId": "s", "afterId": after, "limit": 400 });
        let summary = shim.answer("ledger_summary", arguments);
        for entry in summary["entries"]["facts"].as_array().expect("a list") {
            let content = entry["content"].as_str().expect("content").to_owned();
            entries.insert(entry["id"].as_i64().expect("an id"), content);
        }
        match summary.get("nextAfterId") {
            Some(next) => after = next.clone(),
            None => return entries,
        }
    }
}

#[test]
fn a_daemon_killed_amid_1000_adds_loses_nothing_that_was_answered() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let daemon = environment.daemon();

    // All calls are on their way when the daemon dies, in the middle of the answers.
    for number in 0..ADDS {
        let arguments = json!({ "sessionId": "s", "type": "fact", "content": format!("entry {number}") });
        shim.send_request("tools/call", json!({ "name": "ledger_add", "arguments": arguments }));
    }
    let mut answered: Vec<Value> = Vec::new();
    for received in 0..ADDS {
        if received == ADDS / 3 {
            process::kill(daemon);
        }
        let response = shim.any_response();
        let result = &response["result"];
        if result["isError"] == true {
            let text = result["content"][0]["text"].as_str().expect("text");
            assert!(text.contains("ledger_summary"), "the error does not say how to look: {text}");
        } else {
            answered.push(result["structuredContent"].clone());
        }
    }
    assert!(answered.len() >= ADDS / 3, "{} were answered", answered.len());

    let found = entries(&mut shim);
    for entry in &answered {
        let id = entry["id"].as_i64().expect("an id");
        assert_eq!(found.get(&id).map(String::as_str), entry["content"].as_str(), "{entry}");
    }
    let mut contents: Vec<_> = found.values().collect();
    contents.sort();
    contents.dedup();
    assert_eq!(contents.len(), found.len(), "an entry was added twice");

    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "after" }));
    assert_ne!(environment.daemon(), daemon);
}

#[test]
fn calls_one_after_the_other_lose_at_most_the_one_in_flight() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let mut errors = Vec::new();
    for number in 0..60 {
        let arguments = json!({ "sessionId": "s", "type": "fact", "content": format!("entry {number}") });
        let result = shim.call("ledger_add", arguments);
        if result.is_error {
            errors.push(result.text);
        }
        if number % 20 == 10 {
            environment.kill_daemon();
        }
    }
    assert_eq!(errors, Vec::<String>::new(), "no request was in flight when the daemon died");
    assert_eq!(entries(&mut shim).len(), 60);
}
