//! The MCP server: the handler over a pair of streams, and the program itself where its end matters.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use grounding_proto::wire::Settings;
use grounding_shim::client::StartPolicy;
use grounding_shim::mcp::server::Server;
use grounding_shim::mcp::transport::LineTransport;
use rmcp::RoleServer;
use rmcp::service::{RunningService, serve_directly};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::daemon::{Home, Reply, error, until};

/// The host's side of a server.
struct Host {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    _running: RunningService<RoleServer, Server>,
}

impl Host {
    fn of(home: &Home) -> Self {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let (reader, writer) = split(theirs);
        let settings = Settings { progress_ms: 5, ..Settings::default() };
        let server = Server::new(home.client(StartPolicy::Never), settings);
        let running = serve_directly(server, LineTransport::new(reader, writer, CancellationToken::new()), None);
        let (reader, output) = split(ours);
        Self { output, input: BufReader::new(reader).lines(), _running: running }
    }

    async fn send(&mut self, message: Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(10), self.input.next_line()).await;
        serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap()
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }
}

fn modern() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn legacy(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } })
}

#[tokio::test]
async fn both_eras_open_and_nothing_before_them_ends_the_server() {
    let mut host = Host::of(&Home::new());
    host.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    host.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } })).await;
    host.send(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
    let unknown = host.ask(1, "something/else", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("something/else"));
    assert_eq!(host.ask(2, "ping", json!({})).await["result"], json!({}));

    let discovered = host.ask(3, "server/discover", json!({ "_meta": modern() })).await;
    assert!(discovered["result"]["instructions"].is_string(), "{discovered}");
    let listed = host.ask(4, "tools/list", json!({ "_meta": modern() })).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 20);
    assert_eq!(listed["result"]["resultType"], "complete");

    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let opened = host.ask(5, "initialize", legacy(asked)).await;
        assert_eq!(opened["result"]["protocolVersion"], agreed);
        assert_eq!(opened["result"]["serverInfo"]["name"], "grounding-mcp");
        let listed = host.ask(6, "tools/list", json!({})).await;
        assert!(listed["result"].get("resultType").is_none(), "{asked}");
    }
    assert_eq!(host.ask(7, "something/else", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn the_text_of_an_answer_is_its_structure_and_an_error_has_text_alone() {
    let answer = json!({ "b": 1.0, "a": [0.1, 18_446_744_073_709_551_615_u64, "ä\n"], "verdict": null });
    let home = Home::with([Reply::Json(200, answer.clone()), Reply::Json(400, error("invalid_argument"))]);
    let _daemon = home.serve();
    let mut host = Host::of(&home);
    let call = json!({ "name": "ledger_status", "arguments": {} });
    let result = host.ask(1, "tools/call", call.clone()).await["result"].take();
    assert_eq!(result["structuredContent"], answer);
    assert_eq!(result["content"], json!([{ "type": "text", "text": answer.to_string() }]));

    let result = host.ask(2, "tools/call", call).await["result"].take();
    assert_eq!(result["isError"], true);
    assert!(result.get("structuredContent").is_none());
    assert_eq!(result["content"], json!([{ "type": "text", "text": "it is so" }]));
}

#[tokio::test]
async fn a_call_that_is_no_call_is_refused_by_name() {
    let home = Home::new();
    let mut host = Host::of(&home);
    for (params, named) in [
        (json!({ "name": "ledger_add", "arguments": [] }), "ledger_add"),
        (json!({ "name": "ledger_add", "arguments": "{}" }), "ledger_add"),
        (json!({ "name": "no_such_tool" }), "no_such_tool"),
        (json!({ "arguments": {} }), "tools/call"),
        (json!([]), "tools/call"),
        (Value::Null, "tools/call"),
    ] {
        let answer = host.ask(1, "tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(named), "{answer}");
    }
}

#[tokio::test]
async fn progress_rises_and_keeps_its_distance_from_the_answer() {
    let told = Arc::new(Notify::new());
    let home = Home::with([Reply::When(Arc::clone(&told), json!({ "status": "completed" }))]);
    let _daemon = home.serve();
    let mut host = Host::of(&home);
    let params = json!({ "name": "solution_evaluate", "arguments": { "id": "x" }, "_meta": { "progressToken": "t" } });
    host.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    for expected in 1..=3 {
        let ping = host.next().await;
        assert_eq!(ping["method"], "notifications/progress");
        assert_eq!(ping["params"]["progressToken"], "t");
        assert_eq!(ping["params"]["progress"].as_f64(), Some(f64::from(expected)));
        assert_eq!(ping["params"]["message"], "solution_evaluate is still running");
        assert!(ping["params"].get("total").is_none());
    }
    told.notify_one();
    let mut last = Instant::now();
    loop {
        let message = host.next().await;
        if message["id"] == 1 {
            assert!(last.elapsed() >= Duration::from_millis(25), "{:?}", last.elapsed());
            break;
        }
        last = Instant::now();
    }
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    let told = Arc::new(Notify::new());
    let home = Home::with([Reply::When(Arc::clone(&told), json!({})), Reply::Json(200, json!({}))]);
    let _daemon = home.serve();
    let mut host = Host::of(&home);
    let call =
        |id| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "ledger_status" } });
    host.send(call(1)).await;
    let seen = Arc::clone(&home.seen);
    until("the call", || !seen.lock().unwrap().is_empty()).await;
    host.send(call(2)).await;
    assert_eq!(host.next().await["id"], 2);
    told.notify_one();
    assert_eq!(host.next().await["id"], 1);
}

#[tokio::test]
async fn a_cancelled_call_is_silent_and_the_others_go_on() {
    let home = Home::with([Reply::Silence]);
    let _daemon = home.serve();
    let mut host = Host::of(&home);
    let params = json!({ "name": "solution_evaluate", "arguments": { "id": "x" }, "_meta": { "progressToken": 1 } });
    host.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    assert_eq!(host.next().await["method"], "notifications/progress");
    // A ping may come before the call is on its way; the silence is for this call, not for the one after it.
    until("the call", || !home.seen().is_empty()).await;
    host.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })).await;
    host.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
    while host.next().await["id"] != 2 {}
    // More pings would have come within this time, which is many of their periods.
    let more = tokio::time::timeout(Duration::from_millis(60), host.input.next_line()).await;
    assert!(more.is_err(), "{more:?}");
    assert_eq!(host.ask(3, "tools/call", json!({ "name": "ledger_status" })).await["result"]["isError"], false);
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    let home = Home::with([Reply::Json(200, json!({ "sessionId": "s" })), Reply::Json(404, error("not_found"))]);
    let _daemon = home.serve();
    let mut host = Host::of(&home);
    assert_eq!(host.ask(1, "resources/list", json!({})).await["result"]["resources"], json!([]));
    let templates = host.ask(2, "resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 3);
    let read = host.ask(3, "resources/read", json!({ "uri": "grounding://session/gs-a%2F1" })).await;
    assert_eq!(read["result"]["contents"][0]["text"], r#"{"sessionId":"s"}"#);
    assert_eq!(home.seen(), ["/v1/sessions/gs%2Da%2F1"]);
    let absent = host.ask(4, "resources/read", json!({ "uri": "grounding://session/none" })).await;
    assert_eq!(absent["error"]["code"], -32002);
    assert_eq!(host.ask(5, "prompts/list", json!({})).await["result"]["prompts"].as_array().unwrap().len(), 2);
    let arguments = json!({ "id": "task-42" });
    let prompt = host.ask(6, "prompts/get", json!({ "name": "earn_done", "arguments": arguments })).await;
    assert!(prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains("task-42"));
}

fn program(home: &Home) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the test starts the program under test")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_grounding-mcp"));
    command.env_clear().envs(home.variables()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn the_command_line_is_version_or_nothing() {
    let home = Home::new();
    for flag in ["--version", "-v"] {
        let output = program(&home).arg(flag).output().unwrap();
        assert!(output.status.success());
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            concat!("grounding-mcp ", env!("CARGO_PKG_VERSION"), "\n")
        );
    }
    let output = program(&home).arg("serve").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("serve"));
}

#[tokio::test]
async fn the_end_of_input_ends_the_program_even_during_a_call() {
    use std::io::Write;
    let home = Home::with([Reply::Silence]);
    let _daemon = home.serve();
    let mut idle = program(&home).spawn().unwrap();
    drop(idle.stdin.take());
    assert!(idle.wait().unwrap().success());

    let mut busy = program(&home).spawn().unwrap();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "ledger_status" } });
    writeln!(busy.stdin.as_mut().unwrap(), "{call}").unwrap();
    let seen = Arc::clone(&home.seen);
    until("the call", || !seen.lock().unwrap().is_empty()).await;
    let started = Instant::now();
    drop(busy.stdin.take());
    assert!(busy.wait().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn settings_that_can_not_be_used_are_told_once_on_stderr() {
    let output = program(&Home::new()).env("GROUNDING_PROGRESS_MS", "soon").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches("GROUNDING_PROGRESS_MS").count(), 1, "{told}");
}
