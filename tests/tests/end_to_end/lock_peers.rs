//! The lock beside other programs that take it: what they hold is respected, what they left is taken in bounded time.
//!
//! The library that such programs use is tested against in `tests/node`; here are states it can't be brought into.

use std::fs::FileTimes;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use grounding_tests::wait_for;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stub::{self, attempt_of, keys, kinds, status, task};

const THEIRS: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn date(directory: &Path, time: SystemTime) {
    let directory = std::fs::File::open(directory).expect("the lock's directory");
    directory.set_times(FileTimes::new().set_modified(time)).expect("dated");
}

#[test]
fn a_lock_of_the_far_future_blocks_for_one_stale_time_and_no_longer() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_ATTEMPT_STALE_MS", "2000");
    let repository = environment.repository("repo");
    let lock = stub::file(&environment, ".attempt-lock.lock");
    stub::make_directory(&lock);
    date(&lock, SystemTime::UNIX_EPOCH + Duration::from_secs(4_070_908_800));
    let mut shim = environment.shim();
    let since = Instant::now();
    let first = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(first["status"], "running-unconfirmed", "{first}");
    assert_eq!(keys(&first), ["id", "pollAfterMs", "status"].into());
    let forced = json!({ "id": "task", "repoPath": repository.text(), "forceNewAttempt": true });
    let refused = shim.answer("solution_evaluate", forced);
    assert_eq!(refused["status"], "refused", "{refused}");
    let evaluated =
        wait_for("the lock to be found stale", || match shim.answer("solution_evaluate", task(&repository)) {
            answer if answer["status"] == "running-unconfirmed" => Err(answer.to_string()),
            answer => Ok(answer),
        });
    assert_eq!(evaluated["verdict"]["ready"], true, "{evaluated}");
    assert!(since.elapsed() >= Duration::from_secs(2), "{:?}", since.elapsed());
    assert!(!lock.exists());
}

#[test]
fn a_lookup_finds_such_a_lock_stale_as_well() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_ATTEMPT_STALE_MS", "2000");
    let lock = stub::file(&environment, ".attempt-lock.lock");
    stub::make_directory(&lock);
    date(&lock, SystemTime::UNIX_EPOCH + Duration::from_secs(4_070_908_800));
    let mut shim = environment.shim();
    let wait = |ask: &mut dyn FnMut() -> Value, held: &str| {
        wait_for("the lock to be found stale", || match ask() {
            answer if answer["status"] == held => Err(answer.to_string()),
            answer => Ok(answer),
        })
    };
    let unnamed = json!({ "id": "task" });
    let found = wait(&mut || shim.answer("solution_evaluate_status", unnamed.clone()), "running-unconfirmed");
    assert_eq!(found, json!({ "status": "unknown", "id": "task" }));
    assert!(lock.exists(), "a lookup of an id that never ran takes no lock");

    let start = json!({
        "kind": "start", "attemptId": THEIRS, "id": "task", "head": null, "startedAt": "2026-12-01T07:12:02.118Z",
        "pid": 1, "status": "running"
    });
    std::fs::write(stub::file(&environment, ".attempts.jsonl"), format!("{start}\n")).expect("a log");
    assert_eq!(wait(&mut || status(&mut shim, THEIRS), "running")["status"], "unknown");
    assert!(!lock.exists());
}

#[test]
fn an_attempt_that_was_given_up_never_gets_another_outcome() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = stub::start(&environment, &mut hurried, &repository);
    let supervisor = stub::process_with(&environment, "supervise");
    stub::signal(supervisor, Signal::STOP);
    // Another program takes the lock and settles what it finds, while the supervisor is suspended.
    let lock = stub::file(&environment, ".attempt-lock.lock");
    std::fs::remove_dir(&lock).expect("the lock's directory");
    stub::make_directory(&lock);
    date(&lock, SystemTime::now() + Duration::from_secs(1));
    let log = std::fs::read_to_string(stub::file(&environment, ".attempts.jsonl")).expect("the log");
    let given_up = json!({
        "kind": "reconciled-unknown", "attemptId": attempt, "id": "task", "reconciledAt": "2026-12-01T07:13:02.118Z"
    });
    std::fs::write(stub::file(&environment, ".attempts.jsonl"), format!("{log}{given_up}\n")).expect("a log");
    stub::release(&environment);
    stub::signal(supervisor, Signal::CONT);
    stub::wait_until_gone(supervisor);
    assert_eq!(kinds(&environment, &attempt), ["start", "reconciled-unknown"]);
    let result = stub::settled(&mut hurried, &attempt);
    assert_eq!((&result["status"], &result["markerPresent"]), (&json!("unknown"), &json!(false)), "{result}");
    assert!(lock.exists(), "the lock of its new owner is not given back");
}

#[test]
fn a_lock_of_the_future_whose_holder_lives_is_never_taken() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_ATTEMPT_STALE_MS", "2000");
    let repository = environment.repository("repo");
    let lock = stub::file(&environment, ".attempt-lock.lock");
    stub::make_directory(&lock);
    let mut shim = environment.shim();
    let since = Instant::now();
    let mut beats = 0;
    wait_for("three stale times to go by", || {
        // It beats at least as often as it is looked at, by a clock that is hours ahead.
        beats += 1;
        date(&lock, SystemTime::now() + Duration::from_secs(7200 + beats));
        let answer = shim.answer("solution_evaluate", task(&repository));
        assert_eq!(answer["status"], "running-unconfirmed", "{answer}");
        if since.elapsed() > Duration::from_secs(6) { Ok(()) } else { Err(format!("{:?}", since.elapsed())) }
    });
    assert!(lock.exists());
    assert_eq!(stub::runs(&environment).len(), 0);
}

#[test]
fn an_old_lock_is_taken_at_once_unless_it_has_content() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let lock = stub::file(&environment, ".attempt-lock.lock");
    stub::make_directory(&lock);
    std::fs::write(lock.join("what"), "").expect("content");
    date(&lock, SystemTime::now() - Duration::from_secs(31));
    let mut shim = environment.shim();
    let failed = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(failed["status"], "failed", "{failed}");
    let error = failed["error"].as_str().expect("an error");
    assert!(error.contains("not empty") && error.contains("attempt-lock.lock"), "{error}");
    std::fs::remove_file(lock.join("what")).expect("removed");
    date(&lock, SystemTime::now() - Duration::from_secs(29));
    assert_eq!(shim.answer("solution_evaluate", task(&repository))["status"], "running-unconfirmed");
    date(&lock, SystemTime::now() - Duration::from_secs(31));
    assert_eq!(shim.answer("solution_evaluate", task(&repository))["status"], "completed");
}

#[test]
fn an_attempt_of_another_program_is_named_and_given_up_with_its_lock() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let lock = stub::file(&environment, ".attempt-lock.lock");
    stub::make_directory(&lock);
    let start = json!({
        "kind": "start", "attemptId": THEIRS, "id": "task", "head": repository.head(),
        "startedAt": "2026-12-01T07:12:02.118Z", "pid": 1, "status": "running"
    });
    std::fs::write(stub::file(&environment, ".attempts.jsonl"), format!("{start}\n")).expect("a log");
    let mut shim = environment.shim();
    let since = Instant::now();
    let running = shim.answer("solution_evaluate", task(&repository));
    let expected = json!({ "status": "running", "id": "task", "attemptId": THEIRS, "pollAfterMs": 5000 });
    assert_eq!(running, expected);
    assert!(since.elapsed() < Duration::from_secs(10), "a joiner of another program's attempt is answered at once");
    let forced = json!({ "id": "task", "repoPath": repository.text(), "forceNewAttempt": true });
    let refused = shim.answer("solution_evaluate", forced);
    assert_eq!((&refused["status"], &refused["attemptId"]), (&json!("refused"), &json!(THEIRS)), "{refused}");
    let found = status(&mut shim, THEIRS);
    assert_eq!((&found["status"], &found["head"]), (&json!("running"), &json!(repository.head())), "{found}");
    // Its log ends in a torn record, and its lock is free: the fate is unknown, once and for good.
    let torn = format!("{start}\n{{\"kind\":\"terminal\",\"attemptId\":\"{THEIRS}\"");
    std::fs::write(stub::file(&environment, ".attempts.jsonl"), torn).expect("a log");
    std::fs::remove_dir(&lock).expect("given back");
    assert_eq!(status(&mut shim, THEIRS)["status"], "unknown");
    let late = json!({
        "kind": "terminal", "attemptId": THEIRS, "id": "task", "status": "completed",
        "terminalAt": "2026-12-01T07:13:02.118Z", "outcomeClass": "ready", "summary": "late"
    });
    let log = std::fs::read_to_string(stub::file(&environment, ".attempts.jsonl")).expect("the log");
    std::fs::write(stub::file(&environment, ".attempts.jsonl"), format!("{log}{late}\n")).expect("a log");
    let result = shim.answer("solution_evaluate_result", json!({ "id": "task", "attemptId": THEIRS }));
    assert_eq!((&result["status"], result.get("outcomeClass")), (&json!("unknown"), None::<&Value>), "{result}");
    let ours = attempt_of(&shim.answer("solution_evaluate", task(&repository)));
    assert_ne!(ours, THEIRS);
}
