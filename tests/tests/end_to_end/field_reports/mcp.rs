//! MCP on stdio, and the hosts on its other side.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use grounding_proto::environment::Environment;
use grounding_tests::contract::Bindings;
use grounding_tests::http::block_on;
use grounding_tests::{Shim, TestEnvironment, ToolResult, binaries, process, wait_for};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Row as _};

use crate::stub::{self, attempt_of, task};

const KIBIBYTE: usize = 1024;

fn modern(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "n", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {}
    })
}

/// oraios/serena#1776. A host sends `server/discover` before `initialize`, and servers that can't read it look
/// dead. anthropics/claude-code#96183, it sends `initialize` all the same afterwards.
#[test]
fn discover_and_then_initialize_work_on_one_pipe() {
    for discover in [json!({ "_meta": modern("2026-07-28") }), json!({}), Value::Null] {
        let environment = TestEnvironment::new();
        let mut shim = environment.unopened_shim(&[]);
        let discovered = shim.request("server/discover", discover.clone());
        let answered = discovered["result"]["instructions"].is_string();
        let refused = discovered["error"]["code"].is_i64();
        assert!(answered || refused, "{discover}: {discovered}");
        assert!(answered || discover.get("_meta").is_none(), "{discovered}");
        let opened = shim.initialize();
        assert_eq!(opened["protocolVersion"], "2025-11-25", "{opened}");
        let tools = shim.request("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(20), "{tools}");
        shim.answer("claim_evaluate", json!({ "claim": "Something is so" }));
        assert!(process::is_alive(shim.pid()));
    }
}

/// anthropics/claude-code#91099. Some hosts never probe, and some never initialize.
#[test]
fn no_opening_at_all_works_and_each_request_has_the_version_it_names() {
    let environment = TestEnvironment::new();
    let mut shim = environment.unopened_shim(&[]);
    let call = |meta: Option<Value>| {
        let mut params = json!({ "name": "claim_evaluate", "arguments": { "claim": "Something is so" } });
        if let Some(meta) = meta {
            params["_meta"] = meta;
        }
        params
    };
    let plain = shim.request("tools/call", call(None));
    assert_eq!(plain["result"]["structuredContent"]["type"], "generic", "{plain}");
    let modern_answer = shim.request("tools/call", call(Some(modern("2026-07-28"))));
    assert_eq!(modern_answer["result"]["structuredContent"]["type"], "generic", "{modern_answer}");
    assert_eq!(modern_answer["result"]["resultType"], "complete", "{modern_answer}");
    let unknown = shim.request("tools/call", call(Some(modern("2099-01-01"))));
    assert!(unknown["error"]["code"].is_i64(), "a version that nobody knows is not guessed at: {unknown}");
    assert!(unknown.to_string().contains("2026-07-28"), "what is spoken is named: {unknown}");
    // Era by era on one pipe, in both orders.
    shim.initialize();
    let old = shim.request("tools/call", call(None));
    assert_eq!(old["result"].get("resultType"), None, "{old}");
    let new = shim.request("tools/call", call(Some(modern("2026-07-28"))));
    assert_eq!(new["result"]["resultType"], "complete", "{new}");
}

/// github/copilot-cli#4809. A server ended at a message it did not expect before `initialize`.
#[test]
fn a_method_that_nobody_knows_is_not_found_before_and_after_the_opening_and_ends_nothing() {
    const METHODS: [&str; 9] = [
        "no/such/method",
        "",
        "tools",
        "tools/list/",
        "TOOLS/LIST",
        "$/cancelRequest",
        "rpc.discover",
        "notifications/initialized",
        "\u{0}\n\u{2028}",
    ];
    let environment = TestEnvironment::new();
    let mut shim = environment.unopened_shim(&[]);
    for opened in [false, true] {
        if opened {
            shim.initialize();
        }
        for method in METHODS {
            for params in [json!({}), json!({ "a": [1] }), Value::Null] {
                let answer = shim.request(method, params.clone());
                assert_eq!(answer["error"]["code"], -32601, "opened: {opened}, {method:?} {params}: {answer}");
            }
            shim.notify(method, json!({}));
        }
        assert_eq!(shim.request("ping", Value::Null)["result"], json!({}));
    }
    assert!(process::is_alive(shim.pid()));
}

/// Waits for a process to end, and returns the processor time it used; the process is left to be waited for.
fn cpu_time(child: &Child) -> Duration {
    // Linux counts in hundredths of a second here, whatever its timer is.
    const TICK: Duration = Duration::from_millis(10);
    wait_for("the process to end", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it was not waited for");
        let fields: Vec<_> = stat.rsplit_once(") ").expect("a command name").1.split(' ').collect();
        let ticks = |index: usize| fields[index].parse::<u32>().expect("a number");
        if fields[0] == "Z" { Ok(TICK * (ticks(11) + ticks(12))) } else { Err(stat.clone()) }
    })
}

/// cloudflare/mcp-server-cloudflare#487. After the end of its input an orphan used a whole processor.
#[test]
fn an_orphan_ends_at_the_end_of_its_input_and_uses_no_processor() {
    type Input = Box<dyn Fn() -> Stdio>;
    let environment = TestEnvironment::new();
    let (pipe, writer) = std::io::pipe().expect("a pipe");
    drop(writer);
    let (socket, peer) = UnixStream::pair().expect("two sockets");
    drop(peer);
    let file = environment.path("input");
    std::fs::write(&file, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("a file");
    let inputs: [(&str, Input); 4] = [
        ("/dev/null", Box::new(Stdio::null)),
        ("a pipe without writer", Box::new(move || pipe.try_clone().expect("a pipe").into())),
        ("a socket without peer", Box::new(move || OwnedFd::from(socket.try_clone().expect("a socket")).into())),
        ("a file", Box::new(move || std::fs::File::open(&file).expect("a file").into())),
    ];
    for (name, input) in inputs {
        let runs = (0..3).map(|_| {
            let mut command = environment.command(binaries::grounding_mcp());
            let since = Instant::now();
            let mut child =
                command.stdin(input()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let used = cpu_time(&child);
            assert!(since.elapsed() < Duration::from_secs(5), "{name}: {:?}", since.elapsed());
            assert_eq!(child.wait().expect("a child").code(), Some(0), "{name}");
            used
        });
        let least = runs.min().expect("some runs");
        assert!(least < Duration::from_millis(50), "{name}: {least:?}");
    }
}

/// anthropics/claude-code#73955 and #58687. The client gives up at 60 s, and what comes later is thrown away.
#[test]
fn a_run_of_many_minutes_answers_with_a_handle_before_the_client_gives_up() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut caller = environment.shim();
    let since = Instant::now();
    caller.send_line(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "solution_evaluate", "arguments": task(&repository) } })
        .to_string(),
    );
    let line = caller.read_line(Duration::from_secs(55)).expect("an answer before the client gives up");
    assert!(since.elapsed() > Duration::from_secs(40), "the default bound: {:?}", since.elapsed());
    let response: Value = serde_json::from_str(&line).expect("JSON");
    let running = ToolResult::of_response(&response).into_answer("solution_evaluate");
    assert_eq!(running["status"], "running", "{running}");
    let attempt = attempt_of(&running);
    // The caller vanishes without a word.
    process::kill(caller.pid());
    stub::release(&environment);
    let mut later = environment.shim();
    let result = stub::settled(&mut later, &attempt);
    assert_eq!((&result["status"], &result["verdict"]["ready"]), (&json!("completed"), &json!(true)), "{result}");
    let gate = later.answer("solution_gate", task(&repository));
    assert_eq!(gate["allowed"], true, "{gate}");
}

/// openai/codex#20925. A cancel stopped the work, the request stayed open, and the client hung.
#[test]
fn cancelled_calls_hold_no_slot_and_are_never_answered() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut shim = stub::pinging(&environment);
    for _ in 0..50 {
        // In flight: it was pinged for.
        let request = stub::begin(&mut shim, &repository);
        shim.notify("notifications/cancelled", json!({ "requestId": request, "reason": "the user pressed escape" }));
    }
    stub::wait_for_run(&environment, 1);
    // Whatever answered one of them would stand before the answer to this, and fail it.
    let running = shim.answer("solution_evaluate_status", json!({ "id": "task" }));
    assert_eq!(running["status"], "running", "{running}");
    for number in 0..20 {
        shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": number.to_string() }));
    }
    let last = stub::begin(&mut shim, &repository);
    stub::release(&environment);
    let answer = stub::evaluated(&mut shim, last);
    assert_eq!(answer["status"], "completed", "{answer}");
    assert_eq!(answer["attemptId"], running["attemptId"], "the run went on");
    assert_eq!(stub::runs(&environment).len(), 1);
    shim.answer("ledger_status", json!({}));
}

/// daintreehq/daintree#11526. A result of 31 MB, sent twice.
#[test]
fn megabytes_of_blockers_are_shown_in_part_and_kept_whole() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    for (count, length) in [(10_000, 500), (10, 60_000)] {
        let blockers: Vec<_> = (0..count).map(|number| format!("{number} {}", "é".repeat(length / 2))).collect();
        environment.write("stub/payload", stub::core(false, &json!(blockers)).to_string());
        environment.write("stub/code", "1");
        let mut shim = environment.shim();
        let evaluated = shim.answer("solution_evaluate", task(&repository));
        let attempt = attempt_of(&evaluated);
        let found = shim.answer("solution_evaluate_result", json!({ "id": "task", "attemptId": attempt }));
        let gate = shim.answer("solution_gate", task(&repository));
        for answer in [&evaluated, &found, &gate] {
            assert!(answer.to_string().len() < 256 * KIBIBYTE, "{}", answer.to_string().len());
            let shown = answer["verdict"]["blockers"].as_array().expect("blockers");
            let omitted = answer.get("blockersOmitted").and_then(Value::as_u64).unwrap_or_default();
            assert_eq!(shown.len() + usize::try_from(omitted).expect("a count"), count);
            let first = shown[0].as_str().expect("text");
            assert!(first.starts_with("0 é") && (length < 1000 || first.ends_with("...")), "{first}");
        }
        assert_eq!((&gate["code"], &gate["allowed"]), (&json!("not_ready"), &json!(false)), "{}", gate["reason"]);
        for answer in [&evaluated, &found] {
            assert_eq!(answer["payloadOmitted"], true);
            let whole = std::fs::read(answer["resultFile"].as_str().expect("a file")).expect("the whole result");
            let whole: Value = serde_json::from_slice(&whole).expect("JSON");
            assert_eq!(whole["verdict"]["blockers"], json!(blockers));
        }
        let marker = std::fs::read(evaluated["markerPath"].as_str().expect("a marker")).expect("the marker");
        let marker: Value = serde_json::from_slice(&marker).expect("JSON");
        assert_eq!(marker["blockers"], json!(blockers));
        let log = environment.path(&format!("{}/results/{attempt}.log", stub::VERDICTS));
        assert!(log.is_file(), "{}", log.display());
    }
}

/// elastic/kibana#268715. Pretty-printed JSON breaks a protocol of one message a line.
#[test]
fn a_frame_is_one_line_whatever_it_carries() {
    const ODD: &str = "a\nb\r\nc\rd\u{85}e\u{2028}f\u{2029}g\u{0}h\u{b}i\tj";
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let calls = [
        (
            "tools/call",
            json!({ "name": "ledger_add", "arguments": { "sessionId": ODD, "type": "fact", "content": ODD } }),
        ),
        ("tools/call", json!({ "name": "ledger_summary", "arguments": { "sessionId": ODD } })),
        ("tools/call", json!({ "name": "ledger_add", "arguments": { "sessionId": ODD, "type": ODD, "content": ODD } })),
        ("tools/call", json!({ "name": "grounding_advance", "arguments": { "sessionId": ODD } })),
        ("tools/call", json!({ "name": "solution_gate", "arguments": { "id": ODD, "repoPath": "no\nsuch" } })),
        ("tools/call", json!({ "name": "verify_memory_reference", "arguments": { "kind": "path", "value": "a\nb" } })),
        ("tools/call", json!({ "name": ODD, "arguments": {} })),
        (ODD, json!({ "a": ODD })),
        ("prompts/get", json!({ "name": "earn_done", "arguments": { "id": ODD } })),
        ("resources/read", json!({ "uri": format!("grounding://ledger/{ODD}") })),
        ("tools/list", json!({})),
        ("server/discover", json!({ "_meta": modern("2026-07-28") })),
    ];
    for (method, params) in calls {
        let id = shim.send_request(method, params.clone());
        let line = shim.read_line(Duration::from_secs(30)).unwrap_or_else(|| panic!("{method}: {}", shim.stderr()));
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{method}: {error}: {line}"));
        assert_eq!(message["id"], id, "{method}: {line}");
        assert!(!line.contains(['\r', '\u{0}']), "{method}: {line:?}");
        assert_eq!(message.to_string(), line, "{method}: no compact JSON");
    }
    assert_eq!(shim.read_line(Duration::from_millis(100)), None, "what nobody asked for");
}

/// modelcontextprotocol/servers#2792. Models send numbers as strings.
#[test]
fn numbers_and_booleans_as_strings_are_taken_and_others_are_refused_by_name() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    for content in ["a", "b", "c", "d"] {
        shim.answer(
            "ledger_add",
            json!({ "sessionId": "s", "type": "fact", "content": content, "extra": { "x": [1] } }),
        );
    }
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s", "limit": "3", "sinceIso": null, "x": 1 }));
    assert_eq!(summary["entries"]["facts"].as_array().map(Vec::len), Some(3), "{summary}");
    let after = shim.answer("ledger_summary", json!({ "sessionId": "s", "afterId": "3", "limit": 3.0 }));
    assert_eq!(after["entries"]["facts"][0]["content"], "d", "{after}");
    let claim = json!({ "claim": "Something is so", "context": { "has_evidence": "true", "readme_read": "false" } });
    assert_eq!(shim.answer("claim_evaluate", claim)["allowed"], true);
    let evaluated = shim.answer("solution_evaluate", {
        let mut arguments = task(&repository);
        arguments["forceNewAttempt"] = json!("true");
        arguments
    });
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    let recorded =
        shim.answer("hypothesis_record", json!({ "sessionId": "s", "text": "t", "requiredChecks": ["a", "b"] }));
    let done = json!({ "sessionId": "s", "hypothesisId": recorded["hypothesis"]["id"], "checkIndex": "1" });
    let done = shim.answer("hypothesis_check_done", done);
    assert_eq!(done["hypothesis"]["required_checks"][1]["done"], true, "{done}");

    let limit = |limit: Value| ("ledger_summary", json!({ "sessionId": "s", "limit": limit }), ["limit", "1", "10000"]);
    let context = |value: Value| {
        let arguments = json!({ "claim": "c", "context": { "has_evidence": value } });
        ("claim_evaluate", arguments, ["has_evidence", "true", "false"])
    };
    let refused = [
        limit(json!("three")),
        limit(json!("3.5")),
        limit(json!("")),
        limit(json!("0x3")),
        limit(json!([3])),
        limit(json!(true)),
        limit(json!("99999999999999999999999")),
        context(json!("yes")),
        context(json!(1)),
        context(json!("")),
    ];
    for (tool, arguments, says) in refused {
        let said = shim.refusal(tool, arguments.clone());
        for word in says {
            assert!(said.contains(word), "{arguments}: no {word:?} in {said}");
        }
    }
}

/// What is stored: the rows of the ledger, and the content of every file that a tool may change.
fn stored(environment: &TestEnvironment) -> BTreeMap<String, Vec<u8>> {
    let mut stored = BTreeMap::new();
    for directory in [".grounding-mcp", stub::VERDICTS, ".harness", "repo"] {
        for file in stub::files_below(&environment.path(directory)) {
            let content = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            stored.insert(file.display().to_string(), content);
        }
    }
    let ledger = environment.path(".evidence-ledger/ledger.db");
    if ledger.exists() {
        stored.extend(block_on(rows(&ledger)));
    }
    stored
}

async fn rows(ledger: &Path) -> Vec<(String, Vec<u8>)> {
    let mut connection = SqliteConnectOptions::new().filename(ledger).connect().await.expect("the ledger opens");
    let query =
        "SELECT id, json_array(type, content, source, confidence, session, created_at, updated_at) FROM entries";
    let rows = sqlx::query(query).fetch_all(&mut connection).await.expect("a ledger");
    let row =
        |row: sqlx::sqlite::SqliteRow| (format!("entry {}", row.get::<i64, _>(0)), row.get::<String, _>(1).into());
    rows.into_iter().map(row).collect()
}

/// modelcontextprotocol/servers#4721. Hints that were not true.
#[test]
fn each_tool_changes_what_its_hints_say() {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", binaries::preflight());
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let listed = shim.request("tools/list", json!({}))["result"]["tools"].take();
    let tools = listed.as_array().expect("a list").iter();
    let hints: BTreeMap<_, _> =
        tools.map(|tool| (tool["name"].as_str().expect("a name"), &tool["annotations"])).collect();
    let calls: Value = serde_json::from_str(&binaries::fixture("calls.json")).expect("calls.json is JSON");
    let mut bindings = Bindings::default();
    bindings.bind("repo", repository.text());
    let (mut called, mut changing, mut removing) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    // The recorded ones support only what is supported already.
    let more = json!([
        { "tool": "hypothesis_record", "arguments": { "sessionId": "s", "text": "t" }, "keep": { "other": "/hypothesis/id" } },
        { "tool": "hypothesis_support", "arguments": { "sessionId": "s", "hypothesisId": "<other>" } }
    ]);
    for call in calls["calls"].as_array().into_iter().chain(more.as_array()).flatten() {
        let tool = call["tool"].as_str().expect("a tool");
        let arguments = bindings.fill(&call["arguments"]);
        let before = stored(&environment);
        let answer = shim.answer(tool, arguments.clone());
        let after = stored(&environment);
        for (name, pointer) in call["keep"].as_object().into_iter().flatten() {
            let kept = answer.pointer(pointer.as_str().expect("a pointer")).and_then(Value::as_str);
            bindings.bind(name, kept.unwrap_or_else(|| panic!("{call}: no {name}: {answer}")));
        }
        called.insert(tool);
        if before != after {
            assert_eq!(hints[tool]["readOnlyHint"], false, "{call} changed something");
            changing.insert(tool);
        }
        if before.keys().any(|name| !after.contains_key(name)) {
            removing.insert(tool);
        }
        if hints[tool]["idempotentHint"] == true {
            // In a later millisecond, so that a time that is written anew is seen.
            stub::wait_until(Instant::now(), Duration::from_millis(2));
            let _: ToolResult = shim.call(tool, arguments);
            assert!(stored(&environment) == after, "{call}: the second time changed something more");
        }
    }
    let with = |hint: &str, value: bool| -> BTreeSet<&str> {
        hints.iter().filter(|(_, hints)| hints[hint] == value).map(|(name, _)| *name).collect()
    };
    assert_eq!(called, hints.keys().copied().collect(), "tools that were not called");
    assert_eq!(changing, with("readOnlyHint", false));
    assert_eq!(removing, with("destructiveHint", true));
}

/// modelcontextprotocol/servers#64 and bun913/mcp-testrail#136. A host that was started from a dock has a bare
/// PATH, and the tools are not on it.
#[test]
fn tools_that_are_not_on_the_hosts_path_are_not_evaluated_and_nothing_is_ready() {
    let environment = TestEnvironment::new();
    let bare = environment.path("bare");
    std::fs::create_dir(&bare).expect("a directory");
    let path = Environment::of_process().get("PATH").expect("PATH is set").to_owned();
    let git = std::env::split_paths(&path).map(|directory| directory.join("git")).find(|it| it.is_file());
    symlink(git.expect("git is installed"), bare.join("git")).expect("a link");
    let repository = environment.repository("repo");
    repository.write("go.mod", "module it\n\ngo 1.22\n");
    repository.write("it.go", "package it\n");
    repository.write("Cargo.toml", "[package]\nname = \"it\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    repository.commit("feat: begin");
    // The daemon was started by a host with a better one.
    environment.shim().answer("ledger_status", json!({}));

    let mut shim = environment.shim_with(&[("PATH", bare.as_os_str()), ("SOLUTION_PREFLIGHT_BIN", "builtin".as_ref())]);
    let evaluated = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(evaluated["verdict"]["ready"], false, "{evaluated:#}");
    let checks = evaluated["diagnostics"]["payload"]["checks"].as_array().expect("checks");
    for check in checks {
        assert_ne!(check["status"], "fail", "{check:#}");
    }
    let blockers = evaluated["verdict"]["blockers"].to_string();
    for tool in ["go", "cargo"] {
        let said = format!("{tool} was not found on PATH");
        assert!(blockers.contains(&said), "no {said:?} in {blockers}");
        let skipped = checks.iter().filter(|check| check["name"].as_str().is_some_and(|name| name.starts_with(tool)));
        assert!(skipped.clone().count() > 0 && skipped.clone().all(|check| check["status"] == "skip"), "{checks:#?}");
    }
    assert!(blockers.contains(bare.to_str().expect("UTF-8")), "the PATH is not named: {blockers}");
    let gate = shim.answer("solution_gate", task(&repository));
    assert_eq!((&gate["allowed"], &gate["code"]), (&json!(false), &json!("not_ready")), "{gate}");
    // The same host with the daemon's PATH finds what it lacked, or says so of that one.
    let mut better: Shim = environment.shim_with(&[("SOLUTION_PREFLIGHT_BIN", "builtin".as_ref())]);
    let again = better.answer("solution_evaluate", task(&repository));
    assert!(!again["verdict"]["blockers"].to_string().contains(bare.to_str().expect("UTF-8")), "{again:#}");
}
