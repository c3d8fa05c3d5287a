//! `groundingctl doctor`: what is wrong is named with its remedy, whatever state the rest is in, and nothing is changed.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, binaries, process, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stub;

mod service;

const STATE: &str = ".local/state/agent-grounding";

/// Runs `doctor --json` and returns its exit code and what it printed.
fn doctor(environment: &TestEnvironment) -> (Option<i32>, Value) {
    let output = environment.groundingctl(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("doctor --json: {error}: {}", shown(&output)));
    for check in report["checks"].as_array().expect("checks") {
        let has_remedy = check["remedy"].is_string();
        assert_eq!(has_remedy, check["status"] != "ok", "a remedy where there is something to mend: {check}");
        assert!(check["message"].as_str().is_some_and(|message| !message.is_empty()), "{check}");
    }
    (output.status.code(), report)
}

/// Returns the look of a name.
fn check<'report>(report: &'report Value, name: &str) -> &'report Value {
    let checks = report["checks"].as_array().expect("checks");
    let mut named = checks.iter().filter(|check| check["check"] == name);
    let found = named.next().unwrap_or_else(|| panic!("no look at {name}: {report:#}"));
    assert!(named.next().is_none(), "two looks at {name}");
    found
}

fn assert_check(report: &Value, name: &str, status: &str, words: &[&str]) {
    let check = check(report, name);
    assert_eq!(check["status"], status, "{check}");
    let text = check.to_string();
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

fn failures(report: &Value) -> Vec<&Value> {
    report["checks"].as_array().expect("checks").iter().filter(|check| check["status"] == "failure").collect()
}

fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    let paths = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| if path.is_dir() { [vec![path.clone()], entries(&path)].concat() } else { vec![path] })
        .collect()
}

#[test]
fn an_untouched_home_is_healthy_and_stays_untouched() {
    let environment = TestEnvironment::new();
    let (code, report) = doctor(&environment);
    assert_eq!((code, failures(&report)), (Some(0), vec![]), "{report:#}");
    assert_check(&report, "daemon", "ok", &["not running"]);
    assert_check(&report, "signing-key", "ok", &["first evaluation"]);
    assert_check(&report, "preflight", "ok", &["built-in"]);
    assert_check(&report, "programs", "ok", &[env!("CARGO_PKG_VERSION")]);
    assert_check(&report, "git", "ok", &["git version"]);
    assert_eq!(entries(environment.home()), Vec::<std::path::PathBuf>::new());
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}

#[test]
fn a_running_daemon_is_healthy_with_its_lock_and_its_ledger() {
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    let (code, report) = doctor(&environment);
    assert_eq!((code, failures(&report)), (Some(0), vec![]), "{report:#}");
    let pid = format!("pid {}", environment.daemon());
    assert_check(&report, "daemon", "ok", &["running", &pid, "protocol 1 to 1"]);
    assert_check(&report, "lock", "ok", &["held by the daemon", &pid]);
    assert_check(&report, "socket", "ok", &["mode 600"]);
    assert_check(&report, "ledger", "ok", &["sound"]);

    let output = environment.groundingctl(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains(" 0 failures"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("ok       ledger ")), "{text}");
}

#[test]
fn a_daemon_that_hangs_is_named_within_a_bounded_time() {
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_status", json!({}));
    let pid = environment.daemon();
    stub::signal(pid, Signal::STOP);
    let started = Instant::now();
    let (code, report) = doctor(&environment);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(code, Some(1));
    assert_check(&report, "daemon", "failure", &["does not answer", &format!("pid {pid}")]);
    process::kill(pid);
}

#[test]
fn a_lock_that_somebody_holds_without_serving_is_named() {
    let environment = TestEnvironment::new();
    environment.write(&format!("{STATE}/groundingd.lock"), format!("{} 0.0.9\n", std::process::id()));
    fs::set_permissions(environment.path(STATE), Permissions::from_mode(0o700)).expect("private");
    let held = File::open(environment.path(STATE).join("groundingd.lock")).expect("the lock file");
    held.lock().expect("the lock");
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    let pid = format!("pid {}, build 0.0.9", std::process::id());
    assert_check(&report, "lock", "failure", &[&pid, "does not serve"]);
}

#[test]
fn a_lock_file_that_was_removed_under_the_daemon_is_named() {
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_status", json!({}));
    fs::remove_file(environment.path(STATE).join("groundingd.lock")).expect("the lock file");
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "lock", "failure", &["removed or replaced", "groundingctl restart"]);
}

#[test]
fn a_deliberate_stop_and_a_failed_start_are_remembered() {
    let environment = TestEnvironment::new();
    assert!(environment.groundingctl(&["stop"]).status.success());
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(0), "what was asked for is no failure");
    assert_check(&report, "stopped", "warning", &["groundingctl start"]);

    fs::create_dir_all(environment.path(STATE).join("log/groundingd.log")).expect("in the way of the log");
    assert!(!environment.groundingctl(&["start"]).status.success());
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "last-start", "failure", &["groundingd.log", "groundingctl start"]);
}

#[test]
fn broken_places_are_each_named_and_none_hides_another() {
    let mut environment = TestEnvironment::new();
    environment.write(".evidence-ledger/ledger.db", "This is no database. ".repeat(100));
    environment.shim().answer("ledger_status", json!({}));
    environment.write(".grounding-mcp/sessions", "a file");
    environment.write("key", "k".repeat(64));
    symlink("key", environment.path("link")).expect("a link");
    environment.set("SOLUTION_VERDICT_SIGNING_KEY", environment.path("link"));
    environment.set("SOLUTION_VERDICT_DIR", "relative");
    environment.set("SOLUTION_PREFLIGHT_BIN", environment.path("nowhere"));
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "ledger", "failure", &["ledger.db", ".recover"]);
    assert_check(&report, "sessions", "failure", &["is not a directory"]);
    assert_check(&report, "signing-key", "failure", &["symlink"]);
    assert_check(&report, "verdicts", "failure", &["SOLUTION_VERDICT_DIR", "absolute"]);
    assert_check(&report, "preflight", "failure", &["nowhere", "builtin"]);
    assert_eq!(check(&report, "daemon")["status"], "ok");

    let run = environment.path(STATE).join("run");
    fs::set_permissions(&run, Permissions::from_mode(0o755)).expect("opened to others");
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "socket", "failure", &["chmod 700"]);
    fs::set_permissions(&run, Permissions::from_mode(0o700)).expect("private again");
}

#[test]
fn a_preflight_is_really_started_with_the_users_path() {
    let mut environment = TestEnvironment::new();
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let tools = environment.script("tools/helper", "echo 7.1");
    let _ = environment.script("bin/preflight", "exec helper");
    let directories = [environment.path("bin"), tools.parent().expect("a directory").to_owned()];
    let with_both = std::env::join_paths(directories.into_iter().chain(std::env::split_paths(&path))).expect("a PATH");
    let with_one = std::env::join_paths([environment.path("bin")].into_iter().chain(std::env::split_paths(&path)));
    environment.set("PATH", with_both);
    assert_check(&doctor(&environment).1, "preflight", "ok", &["version 7.1", "on PATH"]);
    environment.set("PATH", with_one.expect("a PATH"));
    assert_check(&doctor(&environment).1, "preflight", "failure", &["127", "--version"]);

    let hanging = environment.script("bin/hanging", "sleep 600 & wait");
    environment.set("SOLUTION_PREFLIGHT_BIN", hanging);
    let started = Instant::now();
    let (code, report) = doctor(&environment);
    assert!(code == Some(1) && started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert_check(&report, "preflight", "failure", &["did not end within"]);
    wait_for("what the preflight started to be gone", || match process::processes_of(environment.home()) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });

    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    assert_check(&doctor(&environment).1, "preflight", "ok", &["SOLUTION_PREFLIGHT_BIN"]);
}

#[test]
fn programs_of_another_build_are_named() {
    let environment = TestEnvironment::new();
    let directory = environment.path("mixed");
    fs::create_dir(&directory).expect("a directory");
    for program in [binaries::groundingctl(), binaries::grounding_mcp()] {
        fs::copy(&program, directory.join(program.file_name().expect("a name"))).expect("copied");
    }
    let run = || {
        let output = environment.command(directory.join("groundingctl")).args(["doctor", "--json"]).output();
        let output = output.expect("groundingctl starts");
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).expect("JSON"))
    };
    let (code, report) = run();
    assert_eq!(code, Some(1));
    assert_check(&report, "programs", "failure", &["can't find groundingd"]);
    let _ = environment.script("mixed/groundingd", "echo groundingd 9.9.9");
    let (code, report) = run();
    assert_eq!(code, Some(1));
    assert_check(&report, "programs", "failure", &["9.9.9", "one build"]);
}

#[test]
fn registrations_are_looked_at_and_no_secret_is_told() {
    let mut environment = TestEnvironment::new();
    let secret = "hunter2-hunter2-hunter2-hunter2-hunter2";
    environment.set("API_TOKEN", secret);
    environment.write(".harness/harness.generated/.approval-signing.key", secret);
    let server = binaries::grounding_mcp();
    let entry = |command: &str| json!({ "mcpServers": { "grounding": { "command": command }, "x": { "env": { "T": secret } } } });
    environment.write(".cursor/mcp.json", entry(server.to_str().expect("UTF-8")).to_string());
    environment.write(".gemini/settings.json", entry("/nowhere/grounding-mcp").to_string());
    environment.write(".codex/config.toml", format!("[mcp_servers.grounding\ntoken = \"{secret}\"\n"));
    environment.write(".config/opencode/opencode.json", "{}");
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "host-cursor", "ok", &["Cursor starts"]);
    assert_check(&report, "host-gemini", "failure", &["/nowhere/grounding-mcp", "groundingctl setup"]);
    assert_check(&report, "host-codex", "warning", &["config.toml", "mend the file"]);
    assert_check(&report, "host-opencode", "warning", &["groundingctl setup"]);
    assert_check(&report, "signing-key", "warning", &["read by other users", "chmod 600"]);
    assert!(!report.to_string().contains("hunter2"), "{report:#}");
    let output = environment.groundingctl(&["doctor"]);
    assert!(!shown(&output).contains("hunter2"), "{}", shown(&output));
}

#[test]
fn an_environment_that_leads_nowhere_is_one_clear_failure() {
    let mut environment = TestEnvironment::new();
    environment.set("GROUNDING_STATE_DIR", environment.path(&"x".repeat(120)));
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "state-directory", "failure", &["limit is 100"]);
    environment.set("GROUNDING_STATE_DIR", environment.path("s"));
}
