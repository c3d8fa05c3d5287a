//! Raw lines that no client should send, and streams that go away: the shim neither dies nor hangs, except that it
//! ends with its stdin (SPEC 9.2 and 9.3).

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use grounding_tests::process::wait_exit;
use grounding_tests::{Shim, TestEnvironment, binaries, wait_for};
use serde_json::{Value, json};

const IDLE_EXIT: Duration = Duration::from_millis(50);
const BUSY_EXIT: Duration = Duration::from_millis(300);

/// A busy machine may stretch one exit; that every one of them is late is the shim's doing.
const EXITS: usize = 8;

fn assert_lives(shim: &mut Shim) {
    let id = shim.send_request("tools/list", json!({}));
    // What came before is an answer to a bad line, which may have no id.
    let tools = wait_for("the tool list", || {
        let line = shim.read_line(Duration::from_secs(10)).ok_or_else(|| format!("nothing; {}", shim.stderr()))?;
        let message: Value = serde_json::from_str(&line).expect("stdout holds JSON alone");
        if message["id"] == id { Ok(message) } else { Err(line) }
    });
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(20), "{tools}");
}

const BAD_LINES: [&[u8]; 14] = [
    b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":",
    b"no JSON",
    b"\xff\xfe\x00",
    b"",
    b"7",
    b"null",
    b"\"text\"",
    b"[]",
    br#"[{"jsonrpc":"2.0","id":70,"method":"ping"},{"jsonrpc":"2.0","id":71,"method":"ping"}]"#,
    br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
    br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
    br#"{"jsonrpc":"2.0","id":72}"#,
    br#"{"id":73,"method":"ping"}"#,
    br#"{"jsonrpc":"2.0","method":"notifications/none","params":{}}"#,
];

#[test]
fn bad_lines_after_the_opening_are_survived() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    for line in BAD_LINES {
        shim.send_line(line);
        assert_lives(&mut shim);
    }
}

#[test]
fn bad_lines_before_the_opening_are_survived() {
    let environment = TestEnvironment::new();
    for line in BAD_LINES {
        let mut shim = environment.unopened_shim(&[]);
        shim.send_line(line);
        let id = shim.send_request(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "n", "version": "0" } }),
        );
        wait_for("the opening", || {
            let read = shim.read_line(Duration::from_secs(10));
            let read = read.unwrap_or_else(|| panic!("{}: nothing; {}", String::from_utf8_lossy(line), shim.stderr()));
            let message: Value = serde_json::from_str(&read).expect("stdout holds JSON alone");
            if message["id"] == id && message.get("result").is_some() { Ok(()) } else { Err(read) }
        });
        shim.notify("notifications/initialized", json!({}));
        assert_lives(&mut shim);
    }
}

#[test]
fn an_unknown_method_is_refused_before_and_after_the_opening() {
    let environment = TestEnvironment::new();
    let mut shim = environment.unopened_shim(&[]);
    let before = shim.request("no/such/method", json!({}));
    assert!(before["error"]["code"].is_i64(), "{before}");
    shim.initialize();
    let after = shim.request("no/such/method", json!({}));
    assert_eq!(after["error"]["code"], -32601, "{after}");
    assert_lives(&mut shim);
}

#[test]
fn a_notification_may_come_first() {
    let environment = TestEnvironment::new();
    let mut shim = environment.unopened_shim(&[]);
    shim.notify("notifications/initialized", json!({}));
    shim.notify("notifications/cancelled", json!({ "requestId": 1 }));
    shim.initialize();
    assert_lives(&mut shim);
}

#[test]
fn a_call_needs_no_opening_when_it_carries_the_modern_meta() {
    let environment = TestEnvironment::new();
    let mut shim = environment.unopened_shim(&[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "n", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let discovered = shim.request("server/discover", json!({ "_meta": meta }));
    assert!(discovered["result"]["instructions"].is_string(), "{discovered}");
    let arguments = json!({ "claim": "Something is so" });
    let called = shim.request("tools/call", json!({ "name": "claim_evaluate", "arguments": arguments, "_meta": meta }));
    assert_eq!(called["result"]["structuredContent"]["type"], "generic", "{called}");
}

#[test]
fn a_line_of_17_mebibytes_is_survived() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let content = "x".repeat(17 * 1024 * 1024);
    let arguments = json!({ "sessionId": "s", "type": "fact", "content": content });
    shim.send_request("tools/call", json!({ "name": "ledger_add", "arguments": arguments }));
    assert_lives(&mut shim);
    let status = shim.answer("ledger_status", json!({}));
    assert_eq!(status["entryCount"], 0, "{status}");
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    for arguments in [json!([]), json!(["s"]), json!("s"), json!(7), json!(true)] {
        let response = shim.request("tools/call", json!({ "name": "ledger_add", "arguments": arguments }));
        let refused = response["error"]["code"] == -32602 || response["result"]["isError"] == true;
        assert!(refused, "{arguments}: {response}");
    }
    for params in [json!({}), json!({ "name": 7 }), Value::Null] {
        let response = shim.request("tools/call", params);
        assert!(response["error"]["code"].is_i64(), "{response}");
    }
    assert_lives(&mut shim);
}

#[test]
fn the_version_is_printed_without_touching_stdio_or_daemon() {
    let environment = TestEnvironment::new();
    for option in ["--version", "-v"] {
        let mut command = environment.command(binaries::grounding_mcp());
        let output = command.arg(option).stdin(Stdio::piped()).output().expect("the shim starts");
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")), "{output:?}");
    }
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}

#[test]
fn stdin_closed_at_once_ends_an_unopened_shim() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(binaries::grounding_mcp());
    let output = command.stdin(Stdio::null()).output().expect("the shim starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"", "{output:?}");
}

#[test]
fn stdin_closed_ends_an_idle_shim_at_once() {
    let environment = TestEnvironment::new();
    let exits = (0..EXITS).map(|_| {
        let mut shim = environment.shim();
        shim.close_stdin();
        let (status, time) = shim.wait_exit();
        assert!(status.success(), "{status}");
        time
    });
    let fastest = exits.min().expect("some exits");
    assert!(fastest <= IDLE_EXIT, "the fastest of {EXITS} exits took {fastest:?}");
}

/// Starts an evaluation whose preflight waits until the file `go` exists, and returns once that preflight runs.
fn evaluate_slowly(environment: &mut TestEnvironment) -> (Shim, String) {
    let waiting = r#"[ "$1" = run ] || exit 0
cd "$(dirname "$0")"
touch started
while [ ! -e go ]; do sleep 0.02; done
printf '{"ready":true,"confidence":1,"blockers":[]}'"#;
    let stub = environment.script("stub/preflight", waiting);
    environment.set("SOLUTION_PREFLIGHT_BIN", stub);
    let repository = environment.repository("repo").text().to_owned();
    let shim = evaluating_shim(environment, &repository);
    (shim, repository)
}

fn evaluating_shim(environment: &TestEnvironment, repository: &str) -> Shim {
    let mut shim = environment.shim();
    let arguments = json!({ "id": "slow", "repoPath": repository });
    shim.send_request("tools/call", json!({ "name": "solution_evaluate", "arguments": arguments }));
    let started = environment.path("stub/started");
    wait_for("preflight to start", || if started.exists() { Ok(()) } else { Err(shim.stderr()) });
    shim
}

#[test]
fn stdin_closed_during_a_call_ends_the_shim_and_not_the_attempt() {
    let mut environment = TestEnvironment::new();
    let (mut shim, repository) = evaluate_slowly(&mut environment);
    let mut fastest = Duration::MAX;
    for _ in 0..EXITS {
        shim.close_stdin();
        let (status, time) = shim.wait_exit();
        assert!(status.success(), "{status}");
        fastest = fastest.min(time);
        // The next one joins the live attempt.
        shim = evaluating_shim(&environment, &repository);
    }
    assert!(fastest <= BUSY_EXIT, "the fastest of {EXITS} exits took {fastest:?}");

    environment.write("stub/go", "");
    let mut later = environment.shim();
    let status = wait_for("the attempt to complete", || {
        let status = later.answer("solution_evaluate_status", json!({ "id": "slow" }));
        if status["status"] == "completed" { Ok(status) } else { Err(status.to_string()) }
    });
    assert_eq!(status["isLatestForId"], true, "{status}");
}

#[test]
fn a_host_killed_during_a_call_leaves_a_clean_exit() {
    let mut environment = TestEnvironment::new();
    let (mut shim, repository) = evaluate_slowly(&mut environment);
    shim.close_stdin();
    shim.wait_exit();

    let mut command = environment.command(binaries::grounding_mcp());
    // A setting that can't be used makes the shim talk on stderr.
    command.env("GROUNDING_ATTEMPT_POLL_MS", "never").env("GROUNDING_PROGRESS_MS", "20");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the shim starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let arguments = json!({ "id": "slow", "repoPath": repository });
    let call = json!({ "name": "solution_evaluate", "arguments": arguments, "_meta": { "progressToken": "p" } });
    write_lines(&mut stdin, &[opening(), initialized(), request(2, "tools/call", call)]);
    let mut reader = std::io::BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    while !line.contains("notifications/progress") {
        line.clear();
        std::io::BufRead::read_line(&mut reader, &mut line).expect("the shim writes lines");
        assert!(!line.is_empty(), "stdout ended before the first ping");
    }
    // All three pipes break at once, as they do when the host dies.
    drop((child.stderr.take(), reader, stdin));
    let (status, _) = wait_exit(&mut child);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), None, "{status}");
    environment.write("stub/go", "");
}

#[test]
fn a_broken_stderr_harms_nothing() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(binaries::grounding_mcp());
    command.env("GROUNDING_ATTEMPT_POLL_MS", "never");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer);
    let mut child = command.spawn().expect("the shim starts");
    let call = json!({ "name": "ledger_status", "arguments": {} });
    let mut stdin = child.stdin.take().expect("stdin is piped");
    write_lines(&mut stdin, &[opening(), initialized(), request(2, "tools/call", call)]);
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("stdout is piped")));
    let answer = lines.map_while(Result::ok).find(|line| line.contains("\"id\":2"));
    assert!(answer.as_ref().is_some_and(|line| line.contains("dbPath")), "{answer:?}");
    drop(stdin);
    assert!(wait_exit(&mut child).0.success());
}

#[test]
fn a_closed_stdout_neither_ends_nor_stalls_the_shim() {
    let environment = TestEnvironment::new();
    let mut other = environment.shim();
    let mut command = environment.command(binaries::grounding_mcp());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::null());
    let mut child = command.spawn().expect("the shim starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    write_lines(&mut stdin, &[opening(), initialized()]);
    for number in 1..=3 {
        let arguments = json!({ "sessionId": "s", "type": "fact", "content": "c" });
        let call = json!({ "name": "ledger_add", "arguments": arguments });
        write_lines(&mut stdin, &[request(10 + number, "tools/call", call)]);
        wait_for("the call to be carried out", || {
            let status = other.answer("ledger_status", json!({}));
            if status["entryCount"] == number { Ok(()) } else { Err(status.to_string()) }
        });
    }
    drop(stdin);
    assert!(wait_exit(&mut child).0.code().is_some(), "it ended by a signal");
}

#[test]
fn unusable_settings_are_said_on_stderr_alone() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim_with(&[("GROUNDING_ATTEMPT_POLL_MS", OsStr::new("soon"))]);
    assert_lives(&mut shim);
    wait_for("the complaint", || {
        let said = shim.stderr();
        if said.contains("GROUNDING_ATTEMPT_POLL_MS") { Ok(()) } else { Err(said) }
    });
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn opening() -> Value {
    let client = json!({ "name": "n", "version": "0" });
    request(1, "initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }))
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

fn write_lines(stdin: &mut impl std::io::Write, messages: &[Value]) {
    for message in messages {
        writeln!(stdin, "{message}").expect("the shim reads its stdin");
    }
    stdin.flush().expect("the shim reads its stdin");
}
