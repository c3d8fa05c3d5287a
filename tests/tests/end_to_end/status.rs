//! `groundingctl status`: what it promises to scripts and shows to people, and how it watches.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use grounding_tests::environment::shown;
use grounding_tests::{Shim, Terminal, TestEnvironment, binaries, process, wait_for};
use serde_json::{Value, json};

/// Runs until it may end.
const HELD: &str = r#"while [ -e "$HOME/hold" ]; do sleep 0.02; done; exit 2"#;

/// Starts an attempt that runs until `hold` is removed, under an id that a terminal should not see raw.
fn evaluating(environment: &mut TestEnvironment, id: &str) -> Shim {
    let preflight = environment.script("bin/preflight", HELD);
    environment.set("SOLUTION_PREFLIGHT_BIN", preflight);
    environment.write("hold", "");
    let repository = environment.repository("repo");
    let mut shim = environment.shim_with(&[("GROUNDING_ATTEMPT_WAIT_MS", OsStr::new("50"))]);
    shim.answer("solution_evaluate", json!({ "id": id, "repoPath": repository.text() }));
    wait_for("the attempt to run", || {
        let answer = shim.answer("solution_evaluate_status", json!({ "id": id }));
        if answer["status"] == "running" { Ok(()) } else { Err(answer.to_string()) }
    });
    shim
}

fn status_json(environment: &TestEnvironment) -> Value {
    let output = environment.groundingctl(&["status", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Scripts rely on these: a key may be added at the end, none may be renamed or removed.
const KEYS: [&str; 12] = [
    "status",
    "version",
    "protocol",
    "pid",
    "uptimeMs",
    "socket",
    "ledger",
    "attempts",
    "clients",
    "runningAttempts",
    "stopped",
    "log",
];

#[test]
fn the_json_has_the_documented_keys_whether_the_daemon_runs_or_not() {
    let mut environment = TestEnvironment::new();
    let down = status_json(&environment);
    assert_eq!(keys(&down), KEYS);
    assert_eq!((&down["status"], &down["pid"], &down["stopped"]), (&json!("down"), &Value::Null, &json!(false)));

    let _shim = evaluating(&mut environment, "task");
    let up = status_json(&environment);
    assert_eq!(keys(&up), KEYS);
    assert_eq!(up["status"], "ok");
    assert_eq!(keys(&up["protocol"]), ["oldest", "newest"]);
    assert_eq!(keys(&up["ledger"]), ["status", "dbPath", "entryCount", "lastWriteAt"]);
    assert_eq!(up["attempts"], json!({ "running": 1, "finished": 0 }));
    assert_eq!(up["clients"], 2, "the shim and the one who asks");
    let running = &up["runningAttempts"][0];
    assert_eq!(keys(running), ["attemptId", "id", "repoPath", "startedAt", "elapsedMs"]);
    assert_eq!(running["repoPath"], environment.path("repo").to_str().expect("UTF-8"));
    assert!(running["elapsedMs"].is_u64() && running["startedAt"].is_string(), "{running}");
    std::fs::remove_file(environment.path("hold")).expect("the stub was held");
}

#[test]
fn an_attempt_is_listed_across_a_restart_and_its_id_steers_no_terminal() {
    let mut environment = TestEnvironment::new();
    let _shim = evaluating(&mut environment, "t\u{1b}[31m1");
    assert!(environment.groundingctl(&["restart"]).status.success());
    let text = wait_for("the attempt to be listed", || {
        let output = environment.groundingctl(&["status"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("1 running, 0 finished") { Ok(text) } else { Err(text) }
    });
    let row = text.lines().find(|line| line.contains("t?[31m1")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains(" s ") && row.contains(environment.path("repo").to_str().expect("UTF-8")), "{row}");
    assert!(!text.contains('\u{1b}'), "no color where there is no terminal: {text}");
    std::fs::remove_file(environment.path("hold")).expect("the stub was held");
}

#[test]
fn color_is_for_terminals_and_no_color_is_honored() {
    let environment = TestEnvironment::new();
    let status = |no_color: Option<&str>| {
        let mut command = environment.command(binaries::groundingctl());
        command.arg("status").envs(no_color.map(|value| ("NO_COLOR", value)));
        Terminal::start(command).end("groundingd.log").1
    };
    assert!(status(None).contains("\u{1b}[31mnot running"));
    assert!(!status(Some("1")).contains('\u{1b}'));
}

#[test]
fn a_watch_on_a_terminal_survives_the_daemon_and_leaves_the_terminal_as_it_was() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(binaries::groundingctl());
    command.args(["status", "--watch", "--interval", "0.2"]);
    let terminal = Terminal::start(command);
    let seen = terminal.wait_until_shown(0, "not running");
    environment.shim().answer("ledger_status", json!({}));
    let first = environment.daemon();
    let seen = terminal.wait_until_shown(seen, &format!("pid {first}"));
    environment.kill_daemon();
    let seen = terminal.wait_until_shown(seen, "not running");
    assert!(environment.groundingctl(&["start"]).status.success());
    terminal.wait_until_shown(seen, &format!("pid {}", environment.daemon()));
    assert!(terminal.shown().contains("\u{1b}[K"), "in place");
    assert_eq!(terminal.interrupt().code(), Some(0));
}

#[test]
fn a_watch_without_a_terminal_says_what_to_use_instead() {
    let environment = TestEnvironment::new();
    let output = environment.groundingctl(&["status", "--watch"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--json --watch"), "{said}");
    let output = environment.groundingctl(&["status", "--json", "--watch", "--interval", "0"]);
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
}

#[test]
fn a_json_watch_prints_a_line_per_look_and_ends_when_nobody_reads() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(binaries::groundingctl());
    command.args(["status", "--json", "--watch", "--interval", "0.2"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut watch = command.spawn().expect("groundingctl starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a further line").expect("UTF-8");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    assert_eq!(next()["status"], "down");
    environment.shim().answer("ledger_status", json!({}));
    wait_for("the daemon to be seen", || {
        let seen = next();
        if seen["status"] == "ok" { Ok(()) } else { Err(seen.to_string()) }
    });
    drop(lines);
    let (status, _) = process::wait_exit(&mut watch);
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_watch_with_a_long_interval_notices_soon_that_nobody_reads() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(binaries::groundingctl());
    command.args(["status", "--json", "--watch", "--interval", "3600"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut watch = command.spawn().expect("groundingctl starts");
    let mut reader = BufReader::new(watch.stdout.take().expect("a pipe"));
    reader.read_line(&mut String::new()).expect("a line");
    drop(reader);
    let (status, _) = process::wait_exit(&mut watch);
    assert_eq!(status.code(), Some(0));
}
