//! The daemon is replaced under load: no call fails, nothing is done twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use grounding_tests::TestEnvironment;
use grounding_tests::environment::shown;
use serde_json::json;

const CLIENTS: usize = 8;
const REPLACEMENTS: usize = 10;

#[test]
fn eight_clients_notice_nothing_of_ten_replacements() {
    let environment = TestEnvironment::new();
    let done = AtomicBool::new(false);
    let add_until_done = |client: usize| {
        let mut shim = environment.shim();
        let mut added = 0_u64;
        while !done.load(Ordering::Relaxed) {
            let content = format!("{client} {added}");
            shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": content }));
            added += 1;
        }
        added
    };
    let added: u64 = std::thread::scope(|scope| {
        let add_until_done = &add_until_done;
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || add_until_done(client))).collect();
        let mut seen = BTreeSet::new();
        for _ in 0..REPLACEMENTS {
            let output = environment.groundingctl(&["restart"]);
            assert!(output.status.success(), "{}", shown(&output));
            seen.insert(environment.daemon());
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(seen.len(), REPLACEMENTS, "each replacement is a new process");
        clients.into_iter().map(|client| client.join().expect("no call of this client failed")).sum()
    });

    let mut shim = environment.shim();
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s", "limit": 10_000 }));
    assert_eq!(summary["counts"]["facts"], added, "every answered entry is there once");
    let entries = summary["entries"]["facts"].as_array().expect("a list");
    let contents: BTreeSet<_> = entries.iter().map(|entry| entry["content"].as_str().expect("text")).collect();
    assert_eq!(contents.len(), entries.len(), "no entry was written twice");
}

#[test]
fn a_socket_file_that_vanishes_is_made_again() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let daemon = environment.daemon();
    std::fs::remove_file(environment.socket()).expect("the socket file is removed");
    grounding_tests::wait_for("the socket to be back", || {
        environment.socket().exists().then_some(()).ok_or_else(|| "no socket file".to_owned())
    });
    let mut other = environment.shim();
    other.answer("ledger_status", json!({}));
    assert_eq!(environment.daemon(), daemon, "the same daemon serves on");
}
