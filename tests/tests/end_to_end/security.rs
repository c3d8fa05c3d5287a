//! The boundaries of SECURITY.md: planted links, deep and large JSON, what reaches a terminal or the log, other users.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use grounding_tests::environment::shown;
use grounding_tests::http::{Connection, block_on, context};
use grounding_tests::{Repository, TestEnvironment, binaries, wait_for};
use hyper::Method;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::stub::{self, task};

const STATE: &str = ".local/state/agent-grounding";
const PRECIOUS: &str = "precious\n";

/// Plants a link in the place of whatever stands there.
fn plant(environment: &TestEnvironment, place: &str, target: &str) {
    let place = environment.path(place);
    stub::make_directory(place.parent().expect("a directory"));
    if place.symlink_metadata().is_ok() {
        std::fs::remove_file(&place).or_else(|_| std::fs::remove_dir_all(&place)).expect("made room");
    }
    symlink(environment.path(target), &place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
}

/// The victim of planted links: its content, its mode, and that nothing was made beside it.
fn assert_untouched(environment: &TestEnvironment, what: &str) {
    assert_eq!(environment.read("victim/file"), PRECIOUS, "{what}");
    let mode = environment.path("victim/file").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "{what}");
    let names: Vec<_> = std::fs::read_dir(environment.path("victim")).expect("a directory").flatten().collect();
    assert_eq!(names.len(), 1, "{what}: {names:?}");
}

fn with_victim() -> TestEnvironment {
    let environment = stub::environment();
    environment.write("victim/file", PRECIOUS);
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(environment.path("victim/file"), mode).expect("a mode");
    environment
}

#[test]
fn links_planted_where_clients_and_daemon_keep_their_state_lead_nowhere() {
    for target in ["victim/file", "victim/absent", "victim"] {
        for place in
            ["start.lock", "stopped", "start-failed", "run/groundingd.sock", "run", "log", "log/groundingd.log.1"]
        {
            let environment = with_victim();
            plant(&environment, &format!("{STATE}/{place}"), target);
            // Whether they refuse or replace it: nothing is written through it, and nobody hangs.
            for verb in [&["start"][..], &["status"], &["stop"], &["start"], &["stop"]] {
                let output = environment.groundingctl(verb);
                assert!(output.status.code().is_some(), "{place} -> {target}: {}", shown(&output));
            }
            assert_untouched(&environment, &format!("{place} -> {target}"));
            let refused = ["run", "log", "start.lock"].contains(&place);
            let started = environment.groundingctl(&["start"]);
            assert_eq!(!started.status.success(), refused, "{place} -> {target}: {}", shown(&started));
            if refused {
                let said = String::from_utf8_lossy(&started.stderr).into_owned();
                assert!(said.contains(place.rsplit('/').next().expect("a name")), "{place}: {said}");
            }
            assert_untouched(&environment, &format!("{place} -> {target}, later"));
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_of_state_holds_nobody_up() {
    for name in ["start.lock", "stopped", "start-failed", "groundingd.lock", "log/groundingd.log"] {
        let environment = TestEnvironment::new();
        let path = environment.path(STATE).join(name);
        stub::make_directory(path.parent().expect("a directory"));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let since = Instant::now();
        for verb in ["status", "start", "stop"] {
            let output = environment.groundingctl(&[verb]);
            assert!(output.status.code().is_some(), "{name}: {}", shown(&output));
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{name}: {:?}", since.elapsed());
    }
}

#[test]
fn links_planted_where_answers_are_kept_lead_nowhere() {
    for target in ["victim/file", "victim/absent"] {
        let environment = with_victim();
        let repository = environment.repository("repo");
        let mut shim = environment.shim();
        let started = shim.answer("grounding_start", json!({ "keyword": "k", "problem": "p" }));
        let id = started["sessionId"].as_str().expect("a session").to_owned();
        let session = format!(".grounding-mcp/sessions/{id}.json");
        std::fs::remove_file(environment.path(&session)).expect("the session");
        plant(&environment, &session, target);
        for tool in ["grounding_advance", "grounding_guardrail_check"] {
            let refusal = shim.refusal(tool, json!({ "sessionId": id, "guardrail": "no-step-skipping" }));
            assert!(refusal.contains("symlink"), "{tool}: {refusal}");
        }
        plant(&environment, ".grounding-mcp/hypotheses/h.json", target);
        for tool in ["hypothesis_record", "hypothesis_list", "hypothesis_reset"] {
            let refusal = shim.refusal(tool, json!({ "sessionId": "h", "text": "t" }));
            assert!(refusal.contains("symlink"), "{tool}: {refusal}");
        }
        plant(&environment, ".evidence-ledger/ledger.db", target);
        let add = json!({ "sessionId": "s", "type": "fact", "content": "c" });
        let refusal = shim.refusal("ledger_add", add.clone());
        assert!(refusal.contains("ledger.db is a symlink"), "{refusal}");
        let status = shim.answer("ledger_status", json!({}));
        assert!(status["message"].as_str().is_some_and(|message| message.contains("symlink")), "{status}");
        std::fs::remove_file(environment.path(".evidence-ledger/ledger.db")).expect("the link");
        for beside in ["ledger.db-wal", "ledger.db-shm", "ledger.db-journal"] {
            plant(&environment, &format!(".evidence-ledger/{beside}"), target);
        }
        let result = shim.call("ledger_add", add.clone());
        assert!(result.is_error, "written through a link: {}", result.text);
        for beside in ["ledger.db-wal", "ledger.db-shm", "ledger.db-journal"] {
            let _ = std::fs::remove_file(environment.path(&format!(".evidence-ledger/{beside}")));
        }
        assert_eq!(shim.answer("ledger_add", add)["type"], "fact");
        assert_untouched(&environment, &format!("sessions, hypotheses, ledger -> {target}"));

        for (suffix, says) in [
            (".json", ""),
            (".attempts.jsonl", "symlink"),
            (".attempt-lock", "task.attempt-lock"),
            (".attempt-lock.lock", ""),
        ] {
            plant(&environment, &format!("{}/task{suffix}", stub::VERDICTS), target);
            let evaluated = shim.answer("solution_evaluate", task(&repository));
            let error = evaluated["error"].as_str().unwrap_or_default();
            assert!(error.contains(says), "{suffix}: {evaluated}");
            assert_untouched(&environment, &format!("{suffix} -> {target}"));
            // Left by a lock that was taken all the same: removed by whoever plants the next one.
            let _ = std::fs::remove_file(stub::file(&environment, suffix));
        }
        plant(&environment, ".harness/harness.generated/.approval-signing.key.new", target);
        let key = ".harness/harness.generated/.approval-signing.key";
        let _ = std::fs::remove_file(environment.path(key));
        plant(&environment, key, target);
        let evaluated = shim.answer("solution_evaluate", task(&repository));
        assert!(evaluated["error"].as_str().is_some_and(|error| error.contains("symlink")), "{evaluated}");
        assert_untouched(&environment, &format!("key -> {target}"));
    }
}

#[test]
fn links_in_the_place_of_directories_for_results_and_logs_are_not_followed() {
    let environment = with_victim();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    plant(&environment, &format!("{}/results", stub::VERDICTS), "victim");
    let evaluated = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(evaluated["status"], "failed", "{evaluated}");
    assert!(evaluated["error"].as_str().is_some_and(|error| error.contains("results is a symlink")), "{evaluated}");
    assert_untouched(&environment, "results");

    plant(&environment, &format!("{STATE}/preflight-logs"), "victim");
    let _ = environment.groundingctl(&["preflight", "run", repository.text(), "--json"]);
    assert_untouched(&environment, "preflight-logs");
}

#[test]
fn a_log_directory_that_a_repository_names_loses_nothing_of_its_owners() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    repository.write(".preflight.json", r#"{"logDir": "~/experiments", "commands": {"lint": ["true"]}}"#);
    repository.commit("chore: configure");
    for number in 0..60 {
        environment.write(&format!("experiments/run-{number}/result"), PRECIOUS);
        let directory =
            std::fs::File::open(environment.path(&format!("experiments/run-{number}"))).expect("it is there");
        let old = std::time::SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
        directory.set_modified(old).expect("a time");
    }
    let output = environment.groundingctl(&["preflight", "run", repository.text(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let names = std::fs::read_dir(environment.path("experiments")).expect("a directory").count();
    assert_eq!(names, 61, "sixty of the owner and one of ours");
}

/// JSON that is nested 100,000 levels deep.
fn deep(open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(100_000), close.repeat(100_000))
}

#[test]
fn json_of_any_depth_is_refused_and_ends_nothing() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let daemon = {
        let _ = shim.answer("ledger_status", json!({}));
        environment.daemon()
    };
    let shapes = [deep("[", "", "]"), deep("{\"a\":", "1", "}"), "[".repeat(1_000_000), "{\"a\":".repeat(1_000_000)];

    for shape in &shapes {
        shim.send_line(shape);
        shim.send_line(format!("{{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"tools/call\",\"params\":{shape}}}"));
        let call = format!("{{\"name\":\"ledger_add\",\"arguments\":{{\"sessionId\":{shape}}}}}");
        shim.send_line(format!("{{\"jsonrpc\":\"2.0\",\"id\":901,\"method\":\"tools/call\",\"params\":{call}}}"));
        let id = shim.send_request("ping", Value::Null);
        // Answers to what can't be read come before, and may have no id.
        loop {
            if shim.any_response()["id"] == id {
                break;
            }
        }
    }
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        let context = serde_json::to_string(&context(&environment)).expect("JSON");
        for shape in &shapes {
            for body in [
                shape.clone(),
                format!("{{\"arguments\":{shape},\"context\":{context}}}"),
                format!("{{\"arguments\":{{}},\"unknown\":{shape},\"context\":{context}}}"),
            ] {
                let (status, answer) = connection.send(Method::POST, "/v1/tools/ledger_add", body.into_bytes()).await;
                assert!(status.is_client_error() && answer["message"].is_string(), "{status}: {answer}");
            }
        }
    });
    for shape in &shapes {
        environment.write("stub/payload", shape);
        environment.write("stub/code", "0");
        let failed = shim.answer("solution_evaluate", task(&repository));
        assert_eq!((&failed["status"], &failed["verdict"]), (&json!("failed"), &Value::Null), "{failed}");
        environment
            .write("stub/payload", format!("{{\"ready\":true,\"confidence\":1,\"blockers\":[],\"deep\":{shape}}}"));
        let failed = shim.answer("solution_evaluate", task(&repository));
        assert_eq!((&failed["status"], &failed["verdict"]), (&json!("failed"), &Value::Null), "{failed}");

        std::fs::write(stub::file(&environment, ".json"), shape).expect("a marker");
        assert_eq!(shim.answer("solution_gate", task(&repository))["code"], "invalid_marker");
        let marker = format!("{{\"id\":\"task\",\"head\":\"x\",\"ready\":true,\"confidence\":1,\"blockers\":{shape}}}");
        std::fs::write(stub::file(&environment, ".json"), marker).expect("a marker");
        assert_eq!(shim.answer("solution_gate", task(&repository))["code"], "invalid_marker");

        let record = format!("{{\"kind\":\"start\",\"attemptId\":\"x\",\"id\":\"task\",\"head\":{shape}}}\n{shape}\n");
        let mut log = std::fs::OpenOptions::new()
            .append(true)
            .open(stub::file(&environment, ".attempts.jsonl"))
            .expect("the log");
        log.write_all(record.as_bytes()).expect("appended");
        let status = shim.answer("solution_evaluate_status", json!({ "id": "task" }));
        assert_eq!(status["status"], "failed", "{status}");
        std::fs::write(stub::file(&environment, ".attempt-lock"), shape).expect("a holder's record");
        let status = shim.answer("solution_evaluate_status", json!({ "id": "task" }));
        assert_eq!(status["status"], "failed", "{status}");
        let attempts = environment.groundingctl(&["attempts"]);
        assert!(attempts.status.success(), "{}", shown(&attempts));

        environment.write(".grounding-mcp/sessions/gs-a-1.json", shape);
        assert!(shim.refusal("grounding_advance", json!({ "sessionId": "gs-a-1" })).contains("gs-a-1.json"));
        environment.write(".grounding-mcp/hypotheses/h.json", shape);
        assert!(shim.refusal("hypothesis_record", json!({ "sessionId": "h", "text": "t" })).contains("h.json"));
        environment.write(&format!("{STATE}/start-failed"), shape);
        repository.write(".preflight.json", shape);
        std::fs::create_dir_all(repository.path().join(".ai")).expect("a directory");
        repository.write(".ai/solution-acceptance.json", shape);
        let battery = environment.groundingctl(&["preflight", "run", repository.text(), "--json"]);
        assert_eq!(battery.status.code(), Some(1), "{}", shown(&battery));
        let call = environment.groundingctl(&["call", "ledger_status", &shape[..100_000.min(shape.len())]]);
        assert_eq!(call.status.code(), Some(2), "{:?}", call.status);
    }
    stub::answer(&environment, true);
    assert_eq!(shim.answer("solution_evaluate", task(&repository))["status"], "completed");
    assert_eq!(environment.daemon(), daemon, "the daemon ended");
}

#[test]
fn a_request_over_the_limit_is_refused() {
    let environment = TestEnvironment::new();
    assert!(environment.groundingctl(&["start"]).status.success());
    let daemon = environment.daemon();
    let ask = |head: &str, body: &[u8]| {
        let mut stream = UnixStream::connect(environment.socket()).expect("the daemon listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        // It may be refused in the middle.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        // As may the connection be, once the answer was sent.
        let _ = stream.take(4096).read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let path = "POST /v1/tools/ledger_add HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let most = 32 << 20;
    let told = ask(&format!("{path}content-length: {}\r\n\r\n", most + 1), &vec![b' '; most + 1]);
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("33554432 bytes"), "{told}");
    let chunk = [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    let told = ask(&format!("{path}transfer-encoding: chunked\r\n\r\n"), &chunk.repeat(34));
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 4"), "{told}");
    let told = ask(&format!("{path}x: {}\r\n\r\n", "y".repeat(1 << 20)), b"");
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 4"), "{told}");
    assert_eq!(environment.daemon(), daemon);
}

/// What a terminal obeys: control characters, and marks that turn the order of what follows.
fn is_active(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn assert_inert(what: &str, output: &Output) {
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = String::from_utf8(bytes.clone()).unwrap_or_else(|_| panic!("{what}: {stream} is not UTF-8"));
        let active: String = text.chars().filter(|it| is_active(*it)).collect();
        assert_eq!(active.escape_default().to_string(), "", "{what}: {stream}: {text:?}");
    }
}

/// Clears the screen, sets the title, answers back, rings, returns, and turns the order of writing.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\r\u{8}\u{7f}\u{202e}z\u{2066}";

#[test]
fn no_verb_writes_what_a_terminal_obeys() {
    let mut environment = stub::environment();
    // Everything that can be named by somebody else has such a name: directories, ids, contents, outputs, branches.
    let roots = environment.path(&format!("roots {HOSTILE}"));
    std::fs::create_dir(&roots).expect("a directory");
    environment.set("EVIDENCE_LEDGER_DB", roots.join("ledger.db"));
    environment.set("SOLUTION_VERDICT_DIR", roots.join("verdicts"));
    environment.set("GROUNDING_MCP_SESSIONS_DIR", roots.join("sessions"));
    environment.set("GROUNDING_MCP_HYPOTHESES_DIR", roots.join("hypotheses"));
    let state = environment.path(&format!("s{HOSTILE}"));
    stub::make_directory(&state);
    environment.set("GROUNDING_STATE_DIR", state);
    let repository = Repository::init(&environment, &format!("repo {HOSTILE}"));
    environment.write("stub/say", HOSTILE);
    environment
        .write("stub/payload", stub::core(false, &json!([HOSTILE, format!("{HOSTILE}\n{HOSTILE}")])).to_string());
    environment.write("stub/code", "1");
    let (id, repo) = (format!("task {HOSTILE}"), repository.text());
    let run = |arguments: &[&str]| {
        let output = environment.groundingctl(arguments);
        assert_inert(&format!("{arguments:?}"), &output);
        output
    };
    let call = |tool: &str, arguments: Value| run(&["call", tool, &arguments.to_string()]);

    run(&["start"]);
    run(&["status"]);
    run(&["status", "--json"]);
    let evaluated = call("solution_evaluate", json!({ "id": id, "repoPath": repo }));
    assert!(evaluated.status.success(), "{}", shown(&evaluated));
    let attempt: Value = serde_json::from_slice(&evaluated.stdout).expect("JSON");
    let attempt = stub::attempt_of(&attempt);
    for verb in [
        &["gate", &id, "--repo", repo][..],
        &["verify", &id, "--repo", repo],
        &["gate", HOSTILE, "--repo", HOSTILE],
        &["verify", HOSTILE, "--repo", HOSTILE],
    ] {
        run(verb);
        run(&[verb, &["--json"]].concat());
    }
    for arguments in [
        &["attempts"][..],
        &["attempts", "--json"],
        &["attempt", "show", &attempt],
        &["attempt", "show", &attempt, "--json"],
        &["attempt", "cancel", &attempt],
        &["attempt", "show", HOSTILE],
        &["attempt", "log", HOSTILE],
        &["attempt", "cancel", HOSTILE],
        &["call", HOSTILE],
        &["call", "ledger_status", HOSTILE],
        &[HOSTILE],
        &["status", HOSTILE],
        &["gate", "x", HOSTILE],
        &["preflight", "run", HOSTILE],
        &["preflight", "run", "--x", HOSTILE],
    ] {
        run(arguments);
    }
    // Another program's records hold what it likes.
    let key = format!("{}.attempts.jsonl", "foreign");
    let record = json!({ "kind": "start", "attemptId": HOSTILE, "id": HOSTILE, "head": HOSTILE, "startedAt": HOSTILE, "pid": 1, "status": "running" });
    std::fs::write(roots.join("verdicts").join(key), format!("{record}\n")).expect("a log");
    run(&["attempts"]);
    run(&["attempts", "--json"]);
    run(&["attempt", "show", HOSTILE]);

    call("ledger_add", json!({ "sessionId": HOSTILE, "type": "fact", "content": HOSTILE, "source": HOSTILE }));
    call("ledger_summary", json!({ "sessionId": HOSTILE }));
    call("ledger_summary", json!({ "sessionId": HOSTILE, "sinceIso": HOSTILE }));
    call("ledger_add", json!({ "sessionId": HOSTILE, "type": HOSTILE, "content": HOSTILE }));
    call("grounding_start", json!({ "keyword": format!("k{HOSTILE}"), "problem": HOSTILE }));
    call("grounding_advance", json!({ "sessionId": HOSTILE }));
    call("hypothesis_record", json!({ "sessionId": HOSTILE, "text": HOSTILE }));
    call("hypothesis_record", json!({ "sessionId": "h", "text": HOSTILE, "requiredChecks": [HOSTILE] }));
    call("hypothesis_list", json!({ "sessionId": "h" }));
    call("verify_memory_reference", json!({ "kind": "path", "value": HOSTILE, "repoRoot": repo }));
    call("verify_memory_reference", json!({ "kind": "symbol", "value": "found", "repoRoot": HOSTILE }));
    call("claim_evaluate", json!({ "claim": HOSTILE }));
    std::fs::write(roots.join("sessions/gs-x-1.json"), HOSTILE).expect("a broken session");
    call("grounding_advance", json!({ "sessionId": "gs-x-1" }));

    repository.write(&format!("file {HOSTILE}"), HOSTILE);
    repository.git(&["commit", "--quiet", "--allow-empty", "--message", HOSTILE]);
    let checks = json!([{ "name": HOSTILE, "command": format!("printf '%s' '{HOSTILE}'; printf '%s' '{HOSTILE}' >&2; exit 3") }]);
    let configuration =
        json!({ "customChecks": checks, HOSTILE: HOSTILE, "workingDir": HOSTILE, "checks": { "audit": false } });
    repository.write(".preflight.json", &configuration.to_string());
    for commit in [false, true] {
        if commit {
            repository.git(&["add", "--all"]);
            repository.git(&["commit", "--quiet", "--message", HOSTILE]);
        }
        for arguments in [&["preflight", "run", repo][..], &["preflight", "run", repo, "--json"]] {
            let output = run(arguments);
            assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        }
    }
    run(&["restart"]);
    run(&["stop"]);
    let mut command = environment.command(binaries::groundingctl());
    let deep = environment.path(&format!("{HOSTILE}{}", "x".repeat(100)));
    let output = command.arg("status").env("GROUNDING_STATE_DIR", deep).stdin(Stdio::null()).output();
    assert_inert("a socket path that is too long", &output.expect("groundingctl starts"));
}

#[test]
fn bytes_that_are_asked_for_are_made_inert_on_a_terminal_alone() {
    let mut environment = stub::environment();
    let state = environment.path(&format!("s{HOSTILE}"));
    environment.set("GROUNDING_STATE_DIR", state);
    let repository = environment.repository("repo");
    environment.write("stub/say", HOSTILE);
    let evaluated = environment.shim().answer("solution_evaluate", task(&repository));
    let attempt = stub::attempt_of(&evaluated);
    for arguments in [&["attempt", "log", &attempt][..], &["socket-path"]] {
        let piped = environment.groundingctl(arguments);
        let piped = String::from_utf8_lossy(&piped.stdout).into_owned();
        assert!(piped.contains(HOSTILE), "{arguments:?}: {piped:?}");

        let mut command = environment.command("python3");
        let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
        command.args(["-c", spawn]).arg(binaries::groundingctl()).args(arguments).stdin(Stdio::null());
        let terminal = command.output().expect("python3 is installed");
        let text = String::from_utf8(terminal.stdout).expect("UTF-8").replace("\r\n", "\n");
        assert!(text.contains("title") && !text.chars().any(is_active), "{arguments:?}: {text:?}");
    }
}

#[test]
fn an_event_of_the_daemons_log_is_one_inert_line_whatever_a_client_sends() {
    let mut environment = TestEnvironment::new();
    environment.set("GROUNDING_LOG", "trace");
    assert!(environment.groundingctl(&["start"]).status.success());
    let forged = "2026-12-01T00:00:00Z  INFO forged";
    let hostile = format!("x{HOSTILE}\n{forged}\r{forged}\u{85}{forged}\u{2028}");
    let mut context = context(&environment);
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        let directory = environment.path(&hostile);
        for root in [
            &mut context.roots.sessions,
            &mut context.roots.hypotheses,
            &mut context.roots.ledger,
            &mut context.roots.verdicts,
        ] {
            *root = grounding_proto::wire::Root::Path(directory.join("file/below").into());
        }
        environment.write(&format!("{hostile}/file"), "in the way");
        for (tool, arguments) in [
            ("grounding_start", json!({ "keyword": "k", "problem": "p" })),
            ("hypothesis_record", json!({ "sessionId": "s", "text": "t" })),
            ("ledger_add", json!({ "sessionId": hostile, "type": "fact", "content": hostile })),
            ("grounding_advance", json!({ "sessionId": hostile })),
            ("solution_gate", json!({ "id": hostile, "repoPath": hostile })),
            ("solution_evaluate_status", json!({ "id": hostile })),
        ] {
            let _ = connection.call(tool, arguments, &context).await;
        }
        let _ = connection.send(Method::GET, "/v1/attempts/%1b%0aforged", Vec::new()).await;
    });
    let text = wait_for("the log to hold the failures", || {
        let text = environment.read(&format!("{STATE}/log/groundingd.log"));
        if text.matches("request failed").count() >= 3 { Ok(text) } else { Err(text) }
    });
    for line in text.lines() {
        assert!(!line.chars().any(is_active), "{line:?}");
        assert!(line.starts_with("20") && !line.starts_with(forged), "an event has two lines: {line:?}");
    }
}
