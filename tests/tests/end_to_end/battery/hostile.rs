//! Checks that misbehave: the run ends in its time, with the right status, in bounded memory, and leaves nothing behind.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use grounding_tests::process::{kill, processes_of};
use grounding_tests::{Repository, TestEnvironment, binaries, wait_for};
use serde_json::{Value, json};

use super::{battery, check};

/// Most memory that the battery may need, in KiB. A debug build without the flood needs about a third.
const MAX_KIB: u64 = 96 * 1024;

fn repository<'a>(environment: &'a TestEnvironment, configuration: &Value) -> Repository<'a> {
    let repository = environment.repository("repo");
    std::fs::create_dir(repository.path().join("sub")).expect("a directory");
    repository.write("sub/file.txt", "A file.\n");
    repository.write(".preflight.json", &configuration.to_string());
    repository.commit("chore: configure");
    repository
}

fn custom(checks: &[(&str, &str)], limit_ms: u64) -> Value {
    let checks: Vec<_> = checks.iter().map(|(name, command)| json!({ "name": name, "command": command })).collect();
    json!({ "customChecks": checks, "timeLimitsMs": { "custom": limit_ms }, "checks": { "audit": false } })
}

fn nothing_is_left(environment: &TestEnvironment) {
    wait_for("what the checks started to be gone", || {
        let left = processes_of(environment.home());
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

#[test]
fn a_check_that_hangs_or_ignores_its_end_is_ended() {
    let environment = TestEnvironment::new();
    let checks = [
        ("hangs", "sleep 600"),
        ("ignores", "trap '' TERM; sleep 600 & while :; do wait; sleep 0.2; done"),
        ("leaves one that ignores", "(trap '' TERM; exec sleep 600) & exit 0"),
    ];
    let repository = repository(&environment, &custom(&checks, 700));
    let started = Instant::now();
    let (code, answer) = battery(&environment, &repository);
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert_eq!(code, 1);
    for name in ["hangs", "ignores"] {
        let check = check(&answer, name);
        assert_eq!(check["status"], "fail", "{check:#}");
        assert!(check["message"].as_str().expect("a message").contains("did not end within 0.7 s"), "{check:#}");
    }
    assert_eq!(check(&answer, "leaves one that ignores")["status"], "pass", "{answer:#}");
    nothing_is_left(&environment);
}

#[test]
fn a_check_that_leaves_processes_behind_does_not_keep_the_run() {
    let environment = TestEnvironment::new();
    let checks = [
        ("double fork", "(setsid sleep 600 >/dev/null 2>&1 &) ; exit 0"),
        ("keeps the pipe", "sleep 600 & echo started"),
        ("keeps writing", "(while :; do echo x; sleep 0.05; done) & exit 3"),
    ];
    let repository = repository(&environment, &custom(&checks, 60_000));
    let started = Instant::now();
    let (_, answer) = battery(&environment, &repository);
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert_eq!(check(&answer, "double fork")["status"], "pass");
    assert_eq!(check(&answer, "keeps the pipe")["status"], "pass");
    assert_eq!(check(&answer, "keeps writing")["status"], "fail");
    nothing_is_left(&environment);
}

#[test]
fn a_flood_is_read_to_its_end_in_bounded_memory() {
    let environment = TestEnvironment::new();
    let checks = [("floods", "head -c 1000000000 /dev/zero | tr '\\0' 'x'"), ("sums", "true")];
    let repository = repository(&environment, &custom(&checks, 120_000));
    let mut run = start(&environment, &repository);
    let mut most = 0;
    let output = std::thread::scope(|scope| {
        let mut stdout = run.stdout.take().expect("piped");
        let reader = scope.spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).expect("UTF-8");
            text
        });
        while run.try_wait().expect("a child").is_none() {
            most = most.max(peak_memory(run.id()).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(10));
        }
        reader.join().expect("no panic")
    });
    let answer: Value = serde_json::from_str(&output).expect("JSON");
    let check = check(&answer, "floods");
    assert_eq!(check["status"], "pass", "{check:#}");
    assert!(check["details"][1].as_str().expect("a note").contains("of 1000000000 bytes"), "{check:#}");
    assert!((1..MAX_KIB).contains(&most), "{most} KiB");
}

/// The most memory that a process ever held, in KiB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[test]
fn what_a_check_prints_never_spoils_the_answer() {
    let environment = TestEnvironment::new();
    let checks = [("odd bytes", "printf 'a\\377\\000\\r\\033[31mred\\033[0m\\n\"\\\\'; exit 1")];
    let repository = repository(&environment, &custom(&checks, 60_000));
    let (_, answer) = battery(&environment, &repository);
    let details = check(&answer, "odd bytes")["details"].as_array().expect("details").clone();
    assert_eq!(details[1..4], [json!("a\u{fffd}"), json!("red"), json!("\"\\")]);
    let log = details[0].as_str().and_then(|line| line.strip_prefix("full output: ")).expect("the log is named");
    assert_eq!(std::fs::read(log).expect("the log"), b"a\xff\0\r\x1b[31mred\x1b[0m\n\"\\");
}

#[test]
fn an_answer_larger_than_a_pipe_is_whole() {
    let environment = TestEnvironment::new();
    let names: Vec<_> = (0..40).map(|number| format!("check {number}")).collect();
    let line = "printf '%0399d\\n' 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0; exit 1";
    let checks: Vec<_> = names.iter().map(|name| (name.as_str(), line)).collect();
    let repository = repository(&environment, &custom(&checks, 60_000));
    let (code, answer) = battery(&environment, &repository);
    assert!(answer.to_string().len() > 4 * 64 * 1024, "{}", answer.to_string().len());
    assert_eq!((code, answer["blockers"].as_array().expect("a list").len()), (1, 40));
}

#[test]
fn a_check_that_removes_its_working_directory_fails_the_next_and_ends_the_run() {
    let environment = TestEnvironment::new();
    let mut configuration = custom(&[("removes", "rm -rf \"$PWD\"")], 60_000);
    configuration["workingDir"] = json!("sub");
    configuration["commands"] = json!({ "test": ["true"] });
    let repository = repository(&environment, &configuration);
    let (code, answer) = battery(&environment, &repository);
    assert_eq!((code, &check(&answer, "removes")["status"]), (1, &json!("pass")), "{answer:#}");
    let test = check(&answer, "test:1");
    assert_eq!(test["status"], "fail", "{test:#}");
    assert!(test["message"].as_str().expect("a message").contains("could not be run"), "{test:#}");
}

#[test]
fn what_a_killed_run_started_is_ended() {
    let environment = TestEnvironment::new();
    let repository =
        repository(&environment, &custom(&[("waits", "sleep 601"), ("hides", "setsid sleep 602")], 60_000));
    let mut run = start(&environment, &repository);
    let runs = |what: &str| processes_of(environment.home()).iter().any(|(_, line)| line == what);
    wait_for("the checks to run", || {
        if runs("sleep 601") && runs("sleep 602") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    run.kill().expect("killed");
    run.wait().expect("ended");
    nothing_is_left(&environment);
}

#[test]
fn a_cancelled_run_is_ended_whole() {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    environment.set("GROUNDING_ATTEMPT_WAIT_MS", "1");
    let repository = repository(&environment, &custom(&[("waits", "setsid sleep 603")], 60_000));
    let mut shim = environment.shim();
    let answer = shim.answer("solution_evaluate", json!({ "id": "it", "repoPath": repository.text() }));
    assert!(answer["status"].as_str().is_some_and(|status| status.starts_with("running")), "{answer}");
    let sleeps = || processes_of(environment.home()).into_iter().find(|(_, line)| line == "sleep 603");
    wait_for("the check to run", || sleeps().map(drop).ok_or_else(|| "not yet".to_owned()));
    let supervisor = processes_of(environment.home()).into_iter().find(|(_, line)| line.contains("supervise"));
    kill(supervisor.expect("a supervisor runs").0);
    wait_for("the check to be gone", || if sleeps().is_none() { Ok(()) } else { Err("it runs".to_owned()) });
}

fn start(environment: &TestEnvironment, repository: &Repository<'_>) -> Child {
    let mut command = environment.command(binaries::groundingd());
    command.args(["preflight", "run", repository.text(), "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("groundingd starts")
}
