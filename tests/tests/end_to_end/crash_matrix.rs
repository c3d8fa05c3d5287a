//! SIGKILL at each named point of an evaluation: what stands afterwards is what LIFECYCLE.md says, and the next call works.
//!
//! Each case begins with a verdict of the same id at the same HEAD, so that a verdict that should be gone would open the
//! gate. The two evaluations differ in their confidence, by which the verdicts are told apart.

use std::collections::BTreeSet;

use grounding_tests::environment::shown;
use grounding_tests::process::{self, processes_of};
use grounding_tests::{Repository, Shim, TestEnvironment, wait_for};
use serde_json::{Value, json};

use super::points::Points;
use super::stub::{self, files_below};

const LIFECYCLE: &str = include_str!("../../../LIFECYCLE.md");

/// Who is killed.
#[derive(Clone, Copy)]
enum Victim {
    Supervisor,
    Daemon,
    SupervisorAndDaemon,
    Guard,
    SupervisorAndGuard,
}

/// What the next look says.
#[derive(Clone, Copy)]
enum Look {
    /// Only the attempt before is known.
    Earlier,
    Unknown,
    Failed,
    Completed,
}

/// Whose verdict the gate finds.
#[derive(Clone, Copy)]
enum Gate {
    Earlier,
    Nothing,
    New,
}

/// One row of the table in LIFECYCLE.md.
struct Row {
    victim: Victim,
    points: &'static [&'static str],
    look: Look,
    gate: Gate,
}

const fn row(victim: Victim, points: &'static [&'static str], look: Look, gate: Gate) -> Row {
    Row { victim, points, look, gate }
}

/// What may stand afterwards. A point with a path is a step of writing that file.
const TABLE: &[Row] = &[
    row(
        Victim::Supervisor,
        &[
            "lock-taken",
            "remove /task.json",
            "sync-directory /task.json",
            "marker-removed",
            "start-recording",
            "write .attempts.jsonl",
        ],
        Look::Earlier,
        Gate::Nothing,
    ),
    row(
        Victim::Supervisor,
        &["sync .attempts.jsonl", "start-recorded", "preflight-starting", "preflight-started", "preflight-ended"],
        Look::Unknown,
        Gate::Nothing,
    ),
    row(
        Victim::Supervisor,
        &["marker-writing", "create /task.json", "sync /task.json", "rename /task.json"],
        Look::Unknown,
        Gate::Nothing,
    ),
    row(Victim::Supervisor, &["marker-written", "rename /results/", "result-written"], Look::Unknown, Gate::New),
    row(
        Victim::Supervisor,
        &["terminal-recorded", "remove .attempt-lock.lock", "lock-released"],
        Look::Completed,
        Gate::New,
    ),
    row(Victim::SupervisorAndDaemon, &["lock-taken"], Look::Earlier, Gate::Earlier),
    row(Victim::SupervisorAndDaemon, &["marker-removed", "start-recording"], Look::Earlier, Gate::Nothing),
    row(
        Victim::SupervisorAndDaemon,
        &["start-recorded", "preflight-started", "preflight-ended", "marker-writing"],
        Look::Unknown,
        Gate::Nothing,
    ),
    row(Victim::SupervisorAndDaemon, &["marker-written", "result-written"], Look::Unknown, Gate::New),
    row(Victim::SupervisorAndDaemon, &["terminal-recorded", "lock-released"], Look::Completed, Gate::New),
    row(Victim::Daemon, &["supervisor-starting", "supervisor-started"], Look::Earlier, Gate::Earlier),
    row(
        Victim::Daemon,
        &[
            "job-sent",
            "lock-taken",
            "marker-removed",
            "start-recorded",
            "preflight-started",
            "preflight-ended",
            "marker-written",
            "result-written",
            "terminal-recorded",
            "lock-released",
        ],
        Look::Completed,
        Gate::New,
    ),
    row(Victim::Guard, &["guard-starting", "preflight-started"], Look::Failed, Gate::Nothing),
    row(Victim::Guard, &["preflight-ended", "guard-ending", "guard-ended"], Look::Completed, Gate::New),
    row(
        Victim::SupervisorAndGuard,
        &["guard-starting", "preflight-started", "preflight-ended"],
        Look::Unknown,
        Gate::Nothing,
    ),
];

impl Row {
    /// Returns the row as LIFECYCLE.md has it.
    fn documented(&self) -> String {
        let victim = match self.victim {
            Victim::Supervisor => "the supervisor",
            Victim::Daemon => "the daemon",
            Victim::SupervisorAndDaemon => "supervisor and daemon",
            Victim::Guard => "the guard",
            Victim::SupervisorAndGuard => "supervisor and guard",
        };
        let points: Vec<_> = self.points.iter().map(|point| format!("`{point}`")).collect();
        let look = match self.look {
            Look::Earlier => "the attempt before",
            Look::Unknown => "unknown",
            Look::Failed => "failed",
            Look::Completed => "completed",
        };
        let gate = match self.gate {
            Gate::Earlier => "the verdict before",
            Gate::Nothing => "no verdict",
            Gate::New => "the new verdict",
        };
        format!("| {victim} | {} | {look} | {gate} |", points.join(", "))
    }
}

fn is(victim: Victim, row: &Row) -> bool {
    std::mem::discriminant(&victim) == std::mem::discriminant(&row.victim)
}

/// One environment, in which each case evaluates the id `task` anew.
struct Bench {
    environment: TestEnvironment,
    points: Points,
}

impl Bench {
    fn new() -> Self {
        let mut environment = stub::environment();
        let points = Points::of(&mut environment);
        Self { environment, points }
    }

    /// Has the next evaluations be told apart from the others by their confidence.
    fn confidence(&self, confidence: f64) {
        let mut payload = stub::core(true, &json!([]));
        payload["confidence"] = json!(confidence);
        self.environment.write("stub/payload", payload.to_string());
    }

    /// Evaluates undisturbed and returns the attempt.
    fn evaluate(&self, shim: &mut Shim, repository: &Repository<'_>, confidence: f64) -> String {
        self.confidence(confidence);
        let answer = shim.answer("solution_evaluate", stub::task(repository));
        assert_eq!(
            (&answer["status"], &answer["verdict"]["confidence"]),
            (&json!("completed"), &json!(confidence)),
            "{answer}"
        );
        stub::attempt_of(&answer)
    }

    /// Kills at a point and looks at what stands.
    fn run(&self, repository: &Repository<'_>, row: &Row, point: &str) {
        let at = format!("{} at {point}", row.documented());
        let mut shim = self.environment.shim();
        let earlier = self.evaluate(&mut shim, repository, 0.8);
        let daemon = self.environment.daemon();
        self.confidence(0.9);
        self.points.hold(point);
        // preflight has begun and not ended.
        let is_to_run = point == "preflight-started";
        let runs_before = stub::runs(&self.environment).len();
        if is_to_run {
            stub::hold(&self.environment);
        }
        let request = shim
            .send_request("tools/call", json!({ "name": "solution_evaluate", "arguments": stub::task(repository) }));
        let held = self.points.wait_until_held();
        self.points.clear();
        if is_to_run {
            stub::wait_for_run(&self.environment, runs_before + 1);
        }
        self.victims(row.victim, point, daemon).into_iter().for_each(process::kill);
        drop(held);
        if is_to_run {
            stub::release(&self.environment);
        }
        let answered = shim.response(request)["result"].clone();
        self.check_answer(row, &answered, &at);

        let mut shim = self.environment.shim();
        self.check_look(&mut shim, row, &earlier, &at);
        self.check_gate(&mut shim, repository, row, &at);
        self.check_rest(&at);
        self.evaluate(&mut shim, repository, 0.7);
        let gate = shim.answer("solution_gate", stub::task(repository));
        assert_eq!((&gate["allowed"], &gate["verdict"]["confidence"]), (&json!(true), &json!(0.7)), "{at}: {gate}");
    }

    /// Returns whom to kill, one after the other: the one that is held last, because it can't notice that the other goes.
    fn victims(&self, victim: Victim, point: &str, daemon: u32) -> Vec<u32> {
        let process = |verb| stub::process_with(&self.environment, verb);
        match victim {
            Victim::Supervisor => vec![process("supervise")],
            Victim::Daemon => vec![daemon],
            Victim::SupervisorAndDaemon => vec![daemon, process("supervise")],
            Victim::Guard => vec![process("exec")],
            Victim::SupervisorAndGuard if point.starts_with("guard-") => vec![process("supervise"), process("exec")],
            Victim::SupervisorAndGuard => vec![process("exec"), process("supervise")],
        }
    }

    /// Whoever waited learns that the daemon is gone, or how the attempt ended; never of a success that there was not.
    fn check_answer(&self, row: &Row, answered: &Value, at: &str) {
        let answer = &answered["structuredContent"];
        match (row.victim, row.look) {
            (Victim::Daemon | Victim::SupervisorAndDaemon, _) => {
                let text = answered["content"][0]["text"].as_str().expect("text");
                assert_eq!(answered["isError"], true, "{at}: {answered}");
                assert!(text.contains("not known") && text.contains("solution_evaluate_status"), "{at}: {text}");
            }
            (_, Look::Earlier | Look::Failed) => assert_eq!(answer["status"], "failed", "{at}: {answer}"),
            // Failed, when the supervisor died before it told the daemon that the attempt began.
            (_, Look::Unknown) => {
                assert!(matches!(answer["status"].as_str(), Some("unknown" | "failed")), "{at}: {answer}");
            }
            (_, Look::Completed) => assert_eq!(answer["verdict"]["confidence"], 0.9, "{at}: {answer}"),
        }
        assert_eq!(answer["verdict"].is_object(), answer["status"] == "completed", "{at}: {answer}");
        let says_why = answer.is_null() || answer["status"] == "completed" || answer["error"].is_string();
        assert!(says_why, "{at}: {answer}");
    }

    fn check_look(&self, shim: &mut Shim, row: &Row, earlier: &str, at: &str) {
        let (status, is_new) = match row.look {
            Look::Earlier => ("completed", false),
            Look::Unknown => ("unknown", true),
            Look::Failed => ("failed", true),
            Look::Completed => ("completed", true),
        };
        let id = json!({ "id": "task" });
        // A supervisor that outlived the daemon goes on, and one that died has its lock until what it was starting runs.
        let found = wait_for(&format!("{at}: the attempt to settle"), || {
            let found = shim.answer("solution_evaluate_status", id.clone());
            let settled = found["status"] == status && (found["attemptId"] != *earlier) == is_new;
            if settled { Ok(found) } else { Err(found.to_string()) }
        });
        let result = shim.answer("solution_evaluate_result", id);
        assert_eq!(
            (&result["status"], &result["attemptId"]),
            (&found["status"], &found["attemptId"]),
            "{at}: {result}"
        );
        assert_eq!(result["markerPresent"], !matches!(row.gate, Gate::Nothing), "{at}: {result}");
        let has_verdict = result["verdict"].is_object();
        assert_eq!(has_verdict, matches!(row.look, Look::Completed | Look::Earlier), "{at}: {result}");
    }

    fn check_gate(&self, shim: &mut Shim, repository: &Repository<'_>, row: &Row, at: &str) {
        let gate = shim.answer("solution_gate", stub::task(repository));
        let (code, confidence) = match row.gate {
            Gate::Earlier => ("ready", json!(0.8)),
            Gate::Nothing => ("no_verdict", Value::Null),
            Gate::New => ("ready", json!(0.9)),
        };
        assert_eq!((&gate["code"], &gate["verdict"]["confidence"]), (&json!(code), &confidence), "{at}: {gate}");
        let verified = self.environment.groundingctl(&["verify", "task", "--repo", repository.text()]);
        assert_eq!(verified.status.success(), code == "ready", "{at}: {}", shown(&verified));
    }

    /// No process is left but the daemon and its clients, and no file that could be taken for another.
    fn check_rest(&self, at: &str) {
        wait_for(&format!("{at}: nothing but the daemon to run"), || {
            let is_left = |line: &str| !line.contains("groundingd serve") && !line.ends_with("grounding-mcp");
            let left: Vec<_> =
                processes_of(self.environment.home()).into_iter().filter(|(_, line)| is_left(line)).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        let verdicts = self.environment.path(stub::VERDICTS);
        let files: BTreeSet<_> = files_below(&verdicts).into_iter().collect();
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
            let text = std::fs::read_to_string(file).expect("a file");
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{at}: {} holds {text}", file.display());
        }
        let left: Vec<_> = files.iter().filter(|file| file.extension().is_some_and(|it| it == "tmp")).collect();
        assert!(left.len() <= 1, "{at}: {left:?}");
        for file in left {
            // The one of the writer that was killed; it is swept in an hour. Here it goes, to tell it from the next one.
            std::fs::remove_file(file).expect("removed");
        }
    }

    fn run_all(victim: Victim) {
        let bench = Self::new();
        let repository = bench.environment.repository("repo");
        for row in TABLE.iter().filter(|row| is(victim, row)) {
            assert!(LIFECYCLE.contains(&row.documented()), "LIFECYCLE.md lacks the row\n{}", row.documented());
            for point in row.points {
                bench.run(&repository, row, point);
                // Counted by tests/reliability.
                println!("figure: crash point");
            }
        }
    }
}

#[test]
fn a_supervisor_killed_at_each_point_leaves_what_is_allowed() {
    Bench::run_all(Victim::Supervisor);
}

#[test]
fn supervisor_and_daemon_killed_at_each_point_leave_what_is_allowed() {
    Bench::run_all(Victim::SupervisorAndDaemon);
}

#[test]
fn a_daemon_killed_at_each_point_ends_no_attempt() {
    Bench::run_all(Victim::Daemon);
}

#[test]
fn a_guard_killed_at_each_point_leaves_what_is_allowed() {
    Bench::run_all(Victim::Guard);
}

#[test]
fn supervisor_and_guard_killed_at_each_point_leave_what_is_allowed() {
    Bench::run_all(Victim::SupervisorAndGuard);
}

#[test]
fn what_a_guard_that_was_killed_can_not_end_is_ended_all_the_same() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    // It stays in preflight's group and keeps none of its pipes.
    bench.environment.write("stub/then", "sleep 300 >/dev/null 2>&1 &\necho $! > left\n");
    let mut shim = bench.environment.shim();
    bench.points.hold("guard-ending");
    let arguments = json!({ "name": "solution_evaluate", "arguments": stub::task(&repository) });
    let request = shim.send_request("tools/call", arguments);
    let held = bench.points.wait_until_held();
    bench.points.clear();
    process::kill(stub::process_with(&bench.environment, "exec"));
    drop(held);
    assert_eq!(stub::evaluated(&mut shim, request)["status"], "completed");
    stub::wait_until_gone(bench.environment.read("stub/left").trim().parse().expect("a process id"));
}

#[test]
fn a_record_that_was_cut_short_by_a_kill_is_no_record() {
    let bench = Bench::new();
    let repository = bench.environment.repository("repo");
    let mut shim = bench.environment.shim();
    let attempt = bench.evaluate(&mut shim, &repository, 0.8);
    let log = stub::file(&bench.environment, ".attempts.jsonl");
    let mut text = std::fs::read_to_string(&log).expect("the log");
    text.truncate(text.len() - 20);
    std::fs::write(&log, text).expect("written");
    let status = stub::status(&mut shim, &attempt);
    assert_eq!(status["status"], "unknown", "{status}");
    let next = bench.evaluate(&mut shim, &repository, 0.7);
    assert_eq!(stub::status(&mut shim, &next)["status"], "completed");
    assert_eq!(stub::status(&mut shim, &attempt)["status"], "unknown");
}
