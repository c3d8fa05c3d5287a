//! Clients that say nothing, a daemon that answers nobody, and executables that do not run: who suffers, and what is said.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use grounding_tests::environment::shown;
use grounding_tests::{Shim, TestEnvironment, binaries, wait_for};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;

use crate::stub;

/// More than the descriptors that a process has by default.
const SILENT: usize = 1100;

#[test]
fn a_thousand_silent_clients_keep_nobody_out_and_checks_have_their_usual_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("this test may open more");
    let mut environment = TestEnvironment::new();
    let note = environment.path("descriptors");
    let script = environment.script("preflight", &format!("ulimit -Sn > {}; exit 3", note.display()));
    environment.set("SOLUTION_PREFLIGHT_BIN", script);
    let mut start = environment.command("sh");
    start.args(["-c", "ulimit -Sn 1024; exec \"$0\" start"]).arg(binaries::groundingctl());
    let started = start.output().expect("sh starts");
    assert!(started.status.success(), "{}", shown(&started));
    let silent: Vec<_> =
        (0..SILENT).map(|_| UnixStream::connect(environment.socket()).expect("the daemon accepts")).collect();
    assert!(environment.status().clients >= Some(1));
    let repository = environment.repository("repo");
    environment.shim().answer("solution_evaluate", json!({ "id": "it", "repoPath": repository.text() }));
    assert_eq!(fs::read_to_string(note).expect("the check ran").trim(), "1024");
    drop(silent);
}

#[test]
fn a_call_to_a_daemon_that_was_suspended_ends_and_says_so() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let daemon = environment.daemon();
    stub::signal(daemon, Signal::STOP);
    let refusal = shim.refusal("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    stub::signal(daemon, Signal::CONT);
    assert!(refusal.contains("answers nobody any more") && refusal.contains("ledger_summary"), "{refusal}");
    wait_for("the daemon to answer again", || {
        let answer = shim.call("ledger_status", json!({}));
        if answer.is_error { Err(answer.text) } else { Ok(()) }
    });
}

#[test]
fn an_executable_that_does_not_run_ends_no_daemon_and_is_named() {
    let environment = TestEnvironment::new();
    fs::create_dir(environment.path("bin")).expect("a directory");
    let installed = environment.path("bin/groundingd");
    fs::copy(binaries::groundingd(), &installed).expect("a copy");
    fs::copy(binaries::grounding_mcp(), environment.path("bin/grounding-mcp")).expect("a copy");
    let mut shim = Shim::spawn(environment.command(environment.path("bin/grounding-mcp")));
    shim.initialize();
    shim.answer("ledger_status", json!({}));
    let daemon = environment.daemon();

    let broken = environment.script("broken", "exit 7");
    fs::rename(broken, &installed).expect("swapped");
    wait_for("the daemon to have looked", || {
        let log = environment.read(".local/state/agent-grounding/log/groundingd.log");
        if log.contains("does not run: serving on") { Ok(()) } else { Err(log) }
    });
    shim.answer("ledger_status", json!({}));
    assert_eq!(environment.daemon(), daemon, "the same daemon serves on");

    // Without it, what is installed is tried, and its end is told.
    environment.kill_daemon();
    let refusal = shim.refusal("ledger_status", json!({}));
    assert!(refusal.contains("bin/groundingd ended before it was ready (exit status: 7)"), "{refusal}");
    fs::copy(binaries::groundingd(), environment.path("bin/good")).expect("a copy");
    fs::set_permissions(environment.path("bin/good"), fs::Permissions::from_mode(0o755)).expect("executable");
    fs::rename(environment.path("bin/good"), &installed).expect("mended");
    wait_for("a start to be tried again", || {
        let answer = shim.call("ledger_status", json!({}));
        if answer.is_error { Err(answer.text) } else { Ok(()) }
    });
}
