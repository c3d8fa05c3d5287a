//! Each step of writing a file fails with each error a disk gives: the caller is told, and what was there before stands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grounding_tests::{Repository, Shim, TestEnvironment};
use serde_json::{Value, json};

use super::points::Points;
use super::stub::{self, files_below};

const ERRORS: [(i32, &str); 4] = [
    (28, "No space left on device"),
    (5, "Input/output error"),
    (30, "Read-only file system"),
    (13, "Permission denied"),
];
/// The steps of replacing a file, in their order; after the last but one the new content stands.
const STEPS: [&str; 5] = ["create", "write", "sync", "rename", "sync-directory"];

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(directory: &Path) -> Files {
    let read = |path: PathBuf| {
        (path.clone(), std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    files_below(directory).into_iter().map(read).collect()
}

fn assert_whole(files: &Files) {
    for (path, bytes) in files.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "json")) {
        assert!(serde_json::from_slice::<Value>(bytes).is_ok(), "{}", path.display());
    }
    let temporary: Vec<_> = files.keys().filter(|path| path.extension().is_some_and(|it| it == "tmp")).collect();
    assert!(temporary.is_empty(), "{temporary:?}");
}

/// A call that writes one file of a store, and its arguments.
type Write<'a> = (&'a str, Value);

#[test]
fn a_session_or_hypothesis_that_can_not_be_written_is_said_and_stands_as_it_was() {
    let mut environment = TestEnvironment::new();
    let points = Points::of(&mut environment);
    let mut shim = environment.shim();
    let started = shim.answer("grounding_start", json!({ "keyword": "monitor", "problem": "p" }));
    let session = started["sessionId"].as_str().expect("an id");
    let recorded =
        shim.answer("hypothesis_record", json!({ "sessionId": session, "text": "h", "requiredChecks": ["c", "d"] }));
    let hypothesis = recorded["hypothesis"]["id"].as_str().expect("an id").to_owned();
    let of = |more: &[(&str, Value)]| {
        let mut arguments = json!({ "sessionId": session, "hypothesisId": hypothesis });
        more.iter().for_each(|(key, value)| arguments[*key] = value.clone());
        arguments
    };
    let writes: [(&str, Write<'_>); 7] = [
        ("sessions", ("grounding_start", json!({ "keyword": "token", "problem": "p" }))),
        ("sessions", ("grounding_advance", json!({ "sessionId": session }))),
        ("hypotheses", ("hypothesis_record", json!({ "sessionId": session, "text": "i" }))),
        ("hypotheses", ("hypothesis_record", json!({ "sessionId": "new", "text": "i" }))),
        ("hypotheses", ("hypothesis_evidence", of(&[("evidence", json!("e"))]))),
        ("hypotheses", ("hypothesis_check_done", of(&[("checkIndex", json!(0))]))),
        ("hypotheses", ("hypothesis_reject", of(&[("reason", json!("r"))]))),
    ];
    for (store, (tool, arguments)) in writes {
        let directory = environment.path(&format!(".grounding-mcp/{store}"));
        for step in STEPS {
            for (error, reason) in ERRORS {
                let before = files(&directory);
                points.fail(step, &format!("/{store}/"), error);
                let said = shim.refusal(tool, arguments.clone());
                points.clear();
                let at = format!("{tool}, {step}, {reason}: {said}");
                assert!(said.contains(reason) && said.contains(directory.to_str().expect("UTF-8")), "{at}");
                let after = files(&directory);
                assert_whole(&after);
                if step == "sync-directory" {
                    // The new content stands already: that is said, too.
                    assert!(said.contains("was written") && said.contains("did not confirm"), "{at}");
                    for (path, bytes) in &after {
                        std::fs::write(path, before.get(path).unwrap_or(bytes)).expect("written");
                    }
                    for path in after.keys().filter(|path| !before.contains_key(*path)) {
                        std::fs::remove_file(path).expect("removed");
                    }
                } else {
                    assert_eq!(after, before, "{at}");
                }
            }
        }
        shim.answer(tool, arguments);
    }
    for (error, reason) in ERRORS {
        points.fail("remove", "/hypotheses/", error);
        let before = files(&environment.path(".grounding-mcp"));
        assert!(shim.refusal("hypothesis_reset", json!({ "sessionId": session })).contains(reason));
        assert_eq!(files(&environment.path(".grounding-mcp")), before);
        points.fail("read", "/sessions/", error);
        let said = shim.refusal("grounding_advance", json!({ "sessionId": session }));
        assert!(said.contains(reason) && said.contains(session), "{said}");
        points.fail("lock", "/hypotheses/", error);
        assert!(shim.refusal("hypothesis_record", json!({ "sessionId": session, "text": "i" })).contains(reason));
        assert_eq!(files(&environment.path(".grounding-mcp")), before);
    }
    points.clear();
    assert_eq!(shim.answer("hypothesis_reset", json!({ "sessionId": session }))["cleared"], true);
}

#[test]
fn a_fault_of_one_session_harms_no_other() {
    let mut environment = TestEnvironment::new();
    let points = Points::of(&mut environment);
    let mut shim = environment.shim();
    let mut start = || {
        let started = shim.answer("grounding_start", json!({ "keyword": "monitor", "problem": "p" }));
        started["sessionId"].as_str().expect("an id").to_owned()
    };
    let (broken, sound) = (start(), start());
    points.fail("write", &broken, 28);
    let mut shims: Vec<_> = (0..4).map(|_| environment.shim()).collect();
    std::thread::scope(|scope| {
        let calls = shims.iter_mut().enumerate().map(|(number, shim)| {
            let session = if number % 2 == 0 { &broken } else { &sound };
            scope.spawn(move || shim.call("grounding_advance", json!({ "sessionId": session })).is_error)
        });
        let refused: Vec<_> =
            calls.collect::<Vec<_>>().into_iter().map(|call| call.join().expect("it answers")).collect();
        assert_eq!(refused, [true, false, true, false]);
    });
    points.clear();
    let phase = |shim: &mut Shim, session: &str| {
        shim.answer("grounding_advance", json!({ "sessionId": session }))["currentPhase"].clone()
    };
    assert_eq!([phase(&mut shim, &broken), phase(&mut shim, &sound)], ["doc-reading", "runtime-inspection"]);
    assert_whole(&files(&environment.path(".grounding-mcp")));
}

/// An environment in which the id `task` is evaluated under faults, while the id `other` stands.
struct Bench {
    environment: TestEnvironment,
    points: Points,
}

const KEY: &str = ".harness/harness.generated/.approval-signing.key";

impl Bench {
    fn new() -> Self {
        let mut environment = stub::environment();
        let points = Points::of(&mut environment);
        Self { environment, points }
    }

    fn evaluate(shim: &mut Shim, repository: &Repository<'_>) -> Value {
        shim.answer("solution_evaluate", stub::task(repository))
    }

    fn gate(shim: &mut Shim, repository: &Repository<'_>) -> String {
        let gate = shim.answer("solution_gate", stub::task(repository));
        gate["code"].as_str().expect("a code").to_owned()
    }

    /// Starts an evaluation, has the fault begin once it is at a point, and returns what is answered.
    fn evaluate_from(
        &self,
        shim: &mut Shim,
        repository: &Repository<'_>,
        point: &str,
        (step, part, error): (&str, &str, i32),
    ) -> Value {
        self.points.hold(point);
        let call = json!({ "name": "solution_evaluate", "arguments": stub::task(repository) });
        let request = shim.send_request("tools/call", call);
        let held = self.points.wait_until_held();
        self.points.fail(step, part, error);
        drop(held);
        stub::evaluated(shim, request)
    }

    /// Nothing but whole files is there, and the log holds records and blank lines alone.
    fn assert_whole(&self) {
        assert_whole(&files(&self.environment.path(stub::VERDICTS)));
        let log = std::fs::read_to_string(stub::file(&self.environment, ".attempts.jsonl")).unwrap_or_default();
        for line in log.lines().filter(|line| !line.trim().is_empty()) {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    }
}

#[test]
fn an_evaluation_whose_file_can_not_be_written_fails_and_leaves_no_verdict() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    shim.answer("solution_evaluate", json!({ "id": "other", "repoPath": repository.text() }));
    let others = |all: &Files| -> Files {
        all.iter()
            .filter(|(path, _)| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("other")))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    };
    let standing = others(&files(&bench.environment.path(stub::VERDICTS)));
    let mut faults: Vec<(&str, &str)> = Vec::new();
    for part in ["/task.json", "/results/", ".approval-signing.key"] {
        faults.extend(STEPS.map(|step| (step, part)));
    }
    faults.extend(["open", "write", "sync", "sync-directory"].map(|step| (step, ".attempts.jsonl")));
    faults.extend([("open", ".attempt-lock"), ("write", ".attempt-lock"), ("create-directory", ".attempt-lock.new")]);
    faults.extend([("date", ".attempt-lock.new"), ("rename", ".attempt-lock.lock"), ("create", ".log")]);
    faults.extend([("create-directory", "/results"), ("read", ".approval-signing.key"), ("read", ".attempts.jsonl")]);
    for (number, (step, part)) in faults.into_iter().enumerate() {
        let (error, reason) = ERRORS[number % ERRORS.len()];
        let at = format!("{step} {part}: {reason}");
        assert_eq!(Bench::evaluate(&mut shim, &repository)["status"], "completed", "before {at}");
        let makes_key = part.contains("key") && step != "read";
        if makes_key {
            std::fs::remove_file(bench.environment.path(KEY)).expect("removed");
        }
        if (step, part) == ("sync-directory", ".attempts.jsonl") {
            // It is the first record that makes the file.
            std::fs::remove_file(stub::file(&bench.environment, ".attempts.jsonl")).expect("removed");
        }
        bench.points.fail(step, part, error);
        let failed = Bench::evaluate(&mut shim, &repository);
        bench.points.clear();
        let said = failed["error"].as_str().unwrap_or_default();
        assert_eq!((&failed["status"], &failed["verdict"]), (&json!("failed"), &Value::Null), "{at}: {failed}");
        assert!(said.contains(reason) && said.contains(part), "{at}: {failed}");
        assert_eq!(Bench::gate(&mut shim, &repository), "no_verdict", "{at}");
        let found = shim.answer("solution_evaluate_result", json!({ "id": "task" }));
        assert_ne!(found["markerPresent"], true, "{at}: {found}");
        bench.assert_whole();
        assert_eq!(Bench::evaluate(&mut shim, &repository)["status"], "completed", "after {at}");
        assert_eq!(Bench::gate(&mut shim, &repository), "ready", "after {at}");
        assert_eq!(others(&files(&bench.environment.path(stub::VERDICTS))), standing, "{at}");
        if makes_key {
            let length = std::fs::metadata(bench.environment.path(KEY)).expect("the key").len();
            assert_eq!(length, 32, "{at}");
        }
    }
}

#[test]
fn an_earlier_verdict_that_can_not_be_removed_fails_the_evaluation_and_is_said() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    for (error, reason) in ERRORS {
        Bench::evaluate(&mut shim, &repository);
        bench.points.fail("remove", "/task.json", error);
        let failed = Bench::evaluate(&mut shim, &repository);
        bench.points.clear();
        let said = failed["error"].as_str().unwrap_or_default();
        assert_eq!(failed["status"], "failed", "{failed}");
        assert!(said.contains("may remain") && said.contains(reason) && said.contains("/task.json"), "{said}");
    }
    assert_eq!(Bench::evaluate(&mut shim, &repository)["status"], "completed");
}

#[test]
fn an_outcome_that_can_not_be_recorded_is_no_success_to_anyone() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    for (number, step) in ["open", "write", "sync"].into_iter().enumerate() {
        let (error, reason) = ERRORS[number];
        let failed = bench.evaluate_from(&mut shim, &repository, "result-written", (step, ".attempts.jsonl", error));
        let said = failed["error"].as_str().unwrap_or_default();
        assert_eq!(failed["status"], "failed", "{step}: {failed}");
        assert!(said.contains(reason) && said.contains("task.attempts.jsonl"), "{step}: {failed}");
        assert_eq!(Bench::gate(&mut shim, &repository), "no_verdict", "{step}");
        // While the log can't be written, looking says so; afterwards the attempt is given up.
        let looked = shim.call("solution_evaluate_status", json!({ "id": "task" }));
        assert!(looked.is_error && looked.text.contains(reason), "{step}: {looked:?}");
        bench.points.clear();
        assert_eq!(stub::status(&mut shim, &stub::attempt_of(&failed))["status"], "unknown", "{step}");
        bench.assert_whole();
        assert_eq!(Bench::evaluate(&mut shim, &repository)["status"], "completed", "{step}");
    }
}

#[test]
fn a_lock_that_can_not_be_dated_ends_the_attempt_and_says_why() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    for (number, (step, part)) in
        [("write", "task.attempt-lock"), ("date", "task.attempt-lock.lock")].into_iter().enumerate()
    {
        let (error, reason) = ERRORS[number];
        let failed = bench.evaluate_from(&mut shim, &repository, "preflight-ended", (step, part, error));
        bench.points.clear();
        let said = failed["error"].as_str().unwrap_or_default();
        assert_eq!(failed["status"], "failed", "{failed}");
        assert!(said.contains("lost its lock") && said.contains(reason) && said.contains(part), "{failed}");
        assert_eq!(Bench::gate(&mut shim, &repository), "no_verdict");
        assert_eq!(Bench::evaluate(&mut shim, &repository)["status"], "completed");
    }
}

#[test]
fn a_lock_that_can_not_be_given_back_holds_nobody_up() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    for (step, part) in [("remove", ".attempt-lock.lock"), ("truncate", ".attempt-lock")] {
        let completed = bench.evaluate_from(&mut shim, &repository, "terminal-recorded", (step, part, 5));
        bench.points.clear();
        assert_eq!(completed["status"], "completed", "{completed}");
        assert_eq!(Bench::evaluate(&mut shim, &repository)["status"], "completed", "{step}");
    }
}

#[test]
fn a_log_of_preflight_that_can_not_be_written_on_costs_its_rest_and_nothing_else() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    bench.environment.write("stub/say", "said by preflight\n");
    bench.points.fail("write", ".log", 28);
    let mut shim = bench.environment.shim();
    let completed = Bench::evaluate(&mut shim, &repository);
    assert_eq!(completed["status"], "completed", "{completed}");
    let log = format!("{}/results/{}.log", stub::VERDICTS, stub::attempt_of(&completed));
    assert_eq!(bench.environment.read(&log), "said by p", "its first half, as on a full disk");
}

#[test]
fn what_can_not_be_read_is_said_and_opens_no_gate() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    Bench::evaluate(&mut shim, &repository);
    let before = files(&bench.environment.path(stub::VERDICTS));
    for (part, code) in [("/task.json", "invalid_marker"), (".approval-signing.key", "key_unavailable")] {
        bench.points.fail("read", part, 5);
        let denied = shim.answer("solution_gate", stub::task(&repository));
        assert_eq!((&denied["code"], &denied["verdict"]), (&json!(code), &Value::Null), "{denied}");
        let reason = denied["reason"].as_str().expect("a reason");
        assert!(reason.contains("Input/output error") && reason.contains(part), "{denied}");
    }
    bench.points.clear();
    assert_eq!(files(&bench.environment.path(stub::VERDICTS)), before);
    assert_eq!(Bench::gate(&mut shim, &repository), "ready");
}
