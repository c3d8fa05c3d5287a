//! Markers: what is signed, for whom, with which key, and that nothing else opens the gate.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use grounding_tests::environment::shown;
use grounding_tests::{Shim, TestEnvironment};
use serde_json::{Value, json};

use super::stub::{self, keys, task};

const KEY: &str = ".harness/harness.generated/.approval-signing.key";

fn gate(shim: &mut Shim, id: &str, path: &Path) -> Value {
    shim.answer("solution_gate", json!({ "id": id, "repoPath": path }))
}

fn evaluate(shim: &mut Shim, id: &str, path: &Path) -> Value {
    shim.answer("solution_evaluate", json!({ "id": id, "repoPath": path }))
}

fn marker(environment: &TestEnvironment, key: &str) -> PathBuf {
    environment.path(&format!("{}/{key}.json", stub::VERDICTS))
}

#[test]
fn each_signed_field_altered_by_one_byte_is_forged() {
    let environment = stub::environment();
    stub::answer(&environment, false);
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let evaluated = evaluate(&mut shim, "task", repository.path());
    assert_eq!(evaluated["verdict"]["ready"], false, "{evaluated}");
    let path = marker(&environment, "task");
    let text = std::fs::read_to_string(&path).expect("the marker");
    let written: Value = serde_json::from_str(&text).expect("JSON");
    let signed = keys(&written);
    assert_eq!(signed.len(), 9, "{signed:?}");
    let word = |key: &str| written[key].as_str().expect("text").to_owned();
    let (head, signature, time) = (word("head"), word("signature"), word("timestamp"));
    let flipped = |text: &str| {
        let last = text.trim_end_matches('Z').chars().next_back().expect("a digit");
        let other = if last == '0' { '1' } else { '0' };
        let end = if text.ends_with('Z') { "Z" } else { "" };
        format!("{}{other}{end}", &text[..text.len() - 1 - end.len()])
    };
    let swaps = [
        ("\"id\": \"task\"".to_owned(), "\"id\": \"tash\"".to_owned()),
        (head.clone(), flipped(&head)),
        ("\"ready\": false".into(), "\"ready\": true".into()),
        ("\"confidence\": 0.9".into(), "\"confidence\": 0.8".into()),
        ("lint failed".into(), "lint faileD".into()),
        (time.clone(), flipped(&time)),
        ("\"source\": \"preflight\"".into(), "\"source\": \"preflighT\"".into()),
        ("hmac-sha256-v1".into(), "hmac-sha256-v2".into()),
        (signature.clone(), flipped(&signature)),
        (signature.clone(), signature.to_uppercase()),
        (format!("\"{signature}\""), "null".into()),
        ("\"lint failed\"".into(), String::new()),
        (",\n  \"alg\": \"hmac-sha256-v1\"".into(), String::new()),
    ];
    for (from, to) in swaps {
        let altered = text.replace(&from, &to);
        assert_ne!(altered, text, "{from}");
        std::fs::write(&path, altered).expect("written");
        let denied = gate(&mut shim, "task", repository.path());
        let found = (&denied["allowed"], &denied["code"], &denied["verdict"]);
        assert_eq!(found, (&json!(false), &json!("forged"), &Value::Null), "{from} -> {to}: {denied}");
    }
    std::fs::write(&path, &text).expect("written");
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "not_ready");
}

#[test]
fn a_marker_opens_the_gate_of_its_own_id_alone() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let mut code = |id: &str| gate(&mut shim, id, repository.path())["code"].as_str().expect("a code").to_owned();
    let mut other = environment.shim();

    evaluate(&mut other, "task", repository.path());
    std::fs::copy(marker(&environment, "task"), marker(&environment, "copy")).expect("copied");
    assert_eq!([code("task"), code("copy")], ["ready", "forged"]);
    // Two ids that share a file name: the marker is of the one evaluated last.
    evaluate(&mut other, "a/b", repository.path());
    assert_eq!([code("a/b"), code("a_b")], ["ready", "forged"]);
    evaluate(&mut other, "a_b", repository.path());
    assert_eq!([code("a/b"), code("a_b")], ["forged", "ready"]);
    assert_eq!([code(".."), code("never")], ["invalid_id", "no_verdict"]);
}

#[test]
fn what_is_no_marker_is_invalid_and_left_as_it_is() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    evaluate(&mut shim, "task", repository.path());
    let path = marker(&environment, "task");
    let genuine = std::fs::read(&path).expect("the marker");
    for content in [b"".as_slice(), b"{", b"[]", b"\xff", b"{\"id\":\"task\",\"ready\":true}", &genuine[..40]] {
        std::fs::write(&path, content).expect("written");
        let denied = gate(&mut shim, "task", repository.path());
        assert_eq!(denied["code"], "invalid_marker", "{}: {denied}", String::from_utf8_lossy(content));
        assert_eq!(std::fs::read(&path).expect("the file"), content, "the gate never writes");
    }
    std::fs::remove_file(&path).expect("removed");
    environment.write("genuine", &genuine);
    symlink(environment.path("genuine"), &path).expect("a symlink");
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "invalid_marker");
    // An evaluation replaces the link and leaves its target.
    evaluate(&mut shim, "task", repository.path());
    assert!(!path.is_symlink());
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "ready");
    assert_eq!(std::fs::read(environment.path("genuine")).expect("the target"), genuine);
}

#[test]
fn a_marker_that_can_not_be_removed_is_said_before_anything_runs() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let path = marker(&environment, "task");
    stub::make_directory(&path);
    std::fs::write(path.join("content"), "").expect("written");
    let mut shim = environment.shim();
    let evaluated = evaluate(&mut shim, "task", repository.path());
    assert_eq!((&evaluated["status"], &evaluated["verdict"]), (&json!("failed"), &Value::Null), "{evaluated}");
    let error = evaluated["error"].as_str().expect("an error");
    assert!(error.contains("may remain") && error.contains("task.json"), "{error}");
    assert_eq!(stub::runs(&environment).len(), 0);
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "invalid_marker");
    std::fs::remove_dir_all(&path).expect("removed");
    assert_eq!(evaluate(&mut shim, "task", repository.path())["verdict"]["ready"], true);
}

#[test]
fn an_evaluation_that_can_not_be_recorded_leaves_no_earlier_verdict() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    evaluate(&mut shim, "task", repository.path());
    let log = stub::file(&environment, ".attempts.jsonl");
    std::fs::remove_file(&log).expect("the log");
    environment.write("elsewhere", "");
    symlink(environment.path("elsewhere"), &log).expect("a symlink");
    let evaluated = evaluate(&mut shim, "task", repository.path());
    assert_eq!((&evaluated["status"], &evaluated["verdict"]), (&json!("failed"), &Value::Null), "{evaluated}");
    assert!(evaluated["error"].as_str().is_some_and(|error| error.contains("attempts.jsonl")), "{evaluated}");
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "no_verdict");
    assert_eq!(environment.read("elsewhere"), "", "a symlink was followed");
    std::fs::remove_file(&log).expect("the symlink");
    assert_eq!(evaluate(&mut shim, "task", repository.path())["verdict"]["ready"], true);
}

#[test]
fn an_unusable_key_signs_nothing_and_opens_nothing() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    evaluate(&mut shim, "task", repository.path());
    let (key, text) = (environment.path(KEY), std::fs::read(marker(&environment, "task")).expect("the marker"));
    let good = std::fs::read(&key).expect("the key");
    assert_eq!(good.len(), 32);
    let denied = |shim: &mut Shim| {
        let gate = gate(shim, "task", repository.path());
        assert_eq!((&gate["code"], &gate["verdict"]), (&json!("key_unavailable"), &Value::Null), "{gate}");
    };

    std::fs::write(&key, &good[..31]).expect("written");
    denied(&mut shim);
    std::fs::remove_file(&key).expect("removed");
    denied(&mut shim);
    assert!(!key.exists(), "the gate never writes");
    environment.write("target", &good);
    symlink(environment.path("target"), &key).expect("a symlink");
    denied(&mut shim);
    let evaluated = evaluate(&mut shim, "task", repository.path());
    assert_eq!(evaluated["status"], "failed", "{evaluated}");
    assert!(evaluated["error"].as_str().is_some_and(|error| error.contains("symlink")), "{evaluated}");
    assert_eq!(stub::runs(&environment).len(), 1, "minutes of checks for nothing");
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "no_verdict");

    // Another key of the right length, and a short one that is replaced by whoever evaluates.
    std::fs::remove_file(&key).expect("removed");
    std::fs::write(marker(&environment, "task"), text).expect("written");
    std::fs::write(&key, [7; 32]).expect("written");
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "forged");
    std::fs::write(&key, "short").expect("written");
    assert_eq!(evaluate(&mut shim, "task", repository.path())["verdict"]["ready"], true);
    assert_eq!(std::fs::read(&key).expect("the key").len(), 32);
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "ready");

    let mut relative = environment.shim_with(&[("SOLUTION_VERDICT_SIGNING_KEY", "key".as_ref())]);
    let evaluated = evaluate(&mut relative, "task", repository.path());
    assert!(
        evaluated["error"].as_str().is_some_and(|error| error.contains("SOLUTION_VERDICT_SIGNING_KEY")),
        "{evaluated}"
    );
    let refusal = relative.refusal("solution_gate", task(&repository));
    assert!(refusal.contains("SOLUTION_VERDICT_SIGNING_KEY"), "{refusal}");
}

#[test]
fn many_evaluations_that_make_the_first_key_agree_on_one() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let ids: Vec<_> = (0..8).map(|number| format!("task-{number}")).collect();
    for id in &ids {
        let arguments = json!({ "id": id, "repoPath": repository.path() });
        shim.send_request("tools/call", json!({ "name": "solution_evaluate", "arguments": arguments }));
    }
    for _ in &ids {
        let _ = shim.any_response();
    }
    for id in &ids {
        assert_eq!(gate(&mut shim, id, repository.path())["code"], "ready");
    }
}

#[test]
fn verify_tells_what_stands_without_a_daemon() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let head = repository.head();
    let verify = |id: &str| {
        let output = environment.groundingctl(&["verify", id, "--repo", repository.text(), "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)));
        (output.status.code(), found)
    };
    let (code, found) = verify("task");
    assert_eq!((code, &found["signature"]), (Some(1), &json!("no_verdict")), "{found}");
    let mut shim = environment.shim();
    evaluate(&mut shim, "task", repository.path());
    drop(shim);
    let stopped = environment.groundingctl(&["stop"]);
    assert!(stopped.status.success(), "{}", shown(&stopped));

    let (code, found) = verify("task");
    assert_eq!((code, &found["signature"], &found["id"]), (Some(0), &json!("ok"), &json!("task")), "{found}");
    assert_eq!((&found["head"], &found["currentHead"]), (&json!(head), &json!(head)), "{found}");
    assert_eq!((&found["headMatches"], &found["worktree"]), (&json!(true), &json!("clean")), "{found}");
    assert_eq!(found["keyPath"], environment.path(KEY).to_str().expect("UTF-8"));
    assert_eq!(found["markerPath"], marker(&environment, "task").to_str().expect("UTF-8"));
    assert_eq!(found["verdict"]["ready"], true, "{found}");

    // True of another commit: still signed, and no more than that.
    repository.write("more.txt", "");
    repository.commit("feat: more");
    repository.write("README.md", "Changed.\n");
    let (code, found) = verify("task");
    assert_eq!((code, &found["headMatches"], &found["worktree"]), (Some(0), &json!(false), &json!("dirty")), "{found}");
    let plain = environment.groundingctl(&["verify", "task", "--repo", repository.text()]);
    let plain = String::from_utf8(plain.stdout).expect("UTF-8");
    assert!(plain.contains("signature     ok") && plain.contains("not HEAD any more"), "{plain}");

    let path = marker(&environment, "task");
    let text = std::fs::read_to_string(&path).expect("the marker");
    std::fs::write(&path, text.replace("0.9", "1")).expect("written");
    let (code, found) = verify("task");
    assert_eq!((code, &found["signature"], &found["verdict"]), (Some(1), &json!("forged"), &Value::Null), "{found}");
    assert_eq!((&found["head"], &found["headMatches"]), (&Value::Null, &Value::Null), "{found}");
    std::fs::remove_file(environment.path(KEY)).expect("removed");
    assert_eq!(verify("task").1["signature"], "key_unavailable");
    let (code, found) = verify("..");
    assert_eq!((code, &found["signature"], &found["markerPath"]), (Some(1), &json!("invalid_id"), &Value::Null));
    assert_eq!(environment.daemons(), Vec::<u32>::new(), "nothing started a daemon");
}

#[test]
fn an_evaluation_that_can_t_take_its_lock_leaves_no_earlier_verdict_behind() {
    let environment = stub::environment();
    stub::answer(&environment, true);
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    assert_eq!(evaluate(&mut shim, "task", repository.path())["verdict"]["ready"], true);
    let anchor = environment.path(&format!("{}/task.attempt-lock", stub::VERDICTS));
    std::fs::remove_file(&anchor).expect("the anchor");
    std::fs::create_dir(&anchor).expect("a directory in its place");
    let failed = evaluate(&mut shim, "task", repository.path());
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("task.attempt-lock")), "{failed}");
    assert!(!marker(&environment, "task").exists());
    assert_eq!(gate(&mut shim, "task", repository.path())["code"], "no_verdict");
}
