//! `groundingctl ledger list` and `add`.

use std::io::Write as _;
use std::process::Stdio;

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, binaries};
use serde_json::{Value, json};

fn list(environment: &TestEnvironment, arguments: &[&str]) -> Value {
    let output = environment.groundingctl(&[&["ledger", "list", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", shown(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn contents(answer: &Value) -> Vec<&str> {
    let entries = answer["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["content"].as_str().expect("text")).collect()
}

#[test]
fn what_is_added_is_listed_newest_first_and_filtered() {
    let environment = TestEnvironment::new();
    let add = |arguments: &[&str]| {
        let output = environment.groundingctl(&[&["ledger", "add"], arguments].concat());
        assert!(output.status.success(), "{}", shown(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let said = add(&["--session", "s", "--type", "fact", "--source", "a.rs:1", "--confidence", "high", "first"]);
    assert_eq!(said, "added entry 1 to session s\n");
    let answer: Value =
        serde_json::from_str(&add(&["--session", "s", "--type", "rejected", "--json", "second"])).expect("JSON");
    assert_eq!(
        (&answer["id"], &answer["type"], &answer["confidence"]),
        (&json!(2), &json!("rejected"), &json!("medium"))
    );
    add(&["--session", "t", "--type", "fact", "third"]);

    assert_eq!(contents(&list(&environment, &[])), ["third", "second", "first"]);
    assert_eq!(contents(&list(&environment, &["--session", "s"])), ["second", "first"]);
    assert_eq!(contents(&list(&environment, &["--type", "fact"])), ["third", "first"]);
    assert_eq!(contents(&list(&environment, &["--type", "fact", "--type", "rejected", "--session", "t"])), ["third"]);
    let cut = list(&environment, &["--limit", "1"]);
    assert_eq!((contents(&cut), &cut["total"], &cut["truncated"]), (vec!["third"], &json!(3), &json!(true)));
    let summary = environment.shim().answer("ledger_summary", json!({ "sessionId": "s" }));
    assert_eq!(summary["entries"]["facts"][0]["source"], "a.rs:1", "the tools see the same entries");

    let output = environment.groundingctl(&["ledger", "list", "--limit", "2"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("SESSION") && text.contains("just now") && text.lines().count() == 3, "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 of 3"), "{}", shown(&output));
}

#[test]
fn content_comes_from_stdin_and_is_held_to_the_tools_bounds() {
    let environment = TestEnvironment::new();
    let add = |content: &[u8]| {
        let mut command = environment.command(binaries::groundingctl());
        command.args(["ledger", "add", "--session", "s", "--type", "unknown", "-"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("groundingctl starts");
        // A command that refuses a long text does not read it to its end.
        drop(child.stdin.take().expect("a pipe").write_all(content));
        child.wait_with_output().expect("it ends")
    };
    assert!(add("two\nlines é\n".as_bytes()).status.success());
    assert_eq!(contents(&list(&environment, &[])), ["two\nlines é"]);
    let output = environment.groundingctl(&["ledger", "list"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("two lines é"), "{}", shown(&output));

    for (content, code, said) in [
        (vec![0xff], 2, "UTF-8"),
        (vec![b'x'; 2 << 20], 2, "262144"),
        (vec![b'x'; 262_145], 1, "262144"),
        (vec![], 1, "content"),
    ] {
        let output = add(&content);
        assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{}", shown(&output));
    }
    let output = environment.groundingctl(&["ledger", "add", "--session", "s", "--type", "gossip", "x"]);
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    assert_eq!(list(&environment, &[])["total"], 1);
}

#[test]
fn a_ledger_that_cannot_be_used_is_named() {
    let environment = TestEnvironment::new();
    environment.write(".evidence-ledger/ledger.db", "This is no database. ".repeat(100));
    for arguments in [vec!["ledger", "list"], vec!["ledger", "add", "--session", "s", "--type", "fact", "x"]] {
        let output = environment.groundingctl(&arguments);
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains("ledger.db"), "{}", shown(&output));
    }
}
