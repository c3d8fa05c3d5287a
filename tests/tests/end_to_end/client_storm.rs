//! Forty clients at once: one daemon, and no client sees an error. And what a started daemon keeps open: nothing.

use std::process::{Output, Stdio};
use std::sync::Barrier;
use std::sync::mpsc::channel;

use grounding_tests::environment::shown;
use grounding_tests::wait::DEADLINE;
use grounding_tests::{TestEnvironment, binaries, process};
use serde_json::json;

const CLIENTS: usize = 40;
const ROUNDS: usize = 5;

/// Each client is a process of its own and makes one call; all begin together.
pub(crate) fn storm(environment: &TestEnvironment, round: usize) {
    let begin = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let begin = &begin;
            scope.spawn(move || {
                let mut shim = environment.shim();
                begin.wait();
                let content = format!("round {round}, client {number}");
                shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": content }));
            });
        }
    });
    assert_eq!(environment.daemons(), [environment.daemon()], "round {round}");
    let log = environment.read(".local/state/agent-grounding/log/groundingd.log");
    assert_eq!(log.matches(" serving ").count(), round, "one daemon per round: {log}");
}

#[test]
fn forty_clients_at_once_start_one_daemon_where_none_ever_ran() {
    for _ in 0..ROUNDS {
        storm(&TestEnvironment::new(), 1);
    }
}

#[test]
fn forty_clients_at_once_start_one_daemon_over_a_stale_socket() {
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_status", json!({}));
    for round in 0..ROUNDS {
        process::kill(environment.daemon());
        assert!(environment.socket().exists(), "a killed daemon leaves its socket");
        storm(&environment, round + 2);
    }
    let summary = environment.shim().answer("ledger_summary", json!({ "sessionId": "s" }));
    assert_eq!(summary["counts"]["facts"], ROUNDS * CLIENTS);
}

/// Runs a shell script to the end of its output, which comes only when nobody holds its pipes any more.
fn piped(environment: &TestEnvironment, script: &str) -> Output {
    let mut command = environment.command("sh");
    command.args(["-c", script]).arg(binaries::groundingctl()).arg(binaries::grounding_mcp()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh starts");
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("`{script}` keeps its pipes open"));
    output.expect("it was waited for")
}

#[test]
fn a_caller_that_reads_to_the_end_is_not_kept_by_the_daemon_it_started() {
    let environment = TestEnvironment::new();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ledger_status","arguments":{}}}"#;
    environment.write("lines", format!("{initialize}\n{call}\n"));
    let cases = [
        (r#""$0" start | cat"#, ""),
        (r#""$0" start 2>&1 | cat"#, "is running"),
        (r#""$0" call ledger_status '{}' | cat"#, "\"status\""),
        (r#""$0" restart 2>&1 | cat"#, "is running"),
        (
            r#"{ cat lines; while ! [ -e answered ]; do sleep 0.01; done; } | "$1" | { read a; read b; echo "$b"; : > answered; cat; }"#,
            "\"id\":2",
        ),
    ];
    for (script, expected) in cases {
        let output = piped(&environment, script);
        assert!(output.status.success(), "{script}: {}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{script}: {}", shown(&output));
        let status = piped(&environment, r#""$0" status | cat"#);
        assert!(String::from_utf8_lossy(&status.stdout).contains("running: groundingd"), "{}", shown(&status));
        // The next one starts a daemon again.
        environment.kill_daemon();
    }
}
