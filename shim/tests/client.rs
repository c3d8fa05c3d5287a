//! The client library against a daemon of the test's own: a real socket, a real HTTP server, real processes.

#![expect(clippy::unwrap_used, reason = "a helper that can't go on must fail its test")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_shim::client::{Client, ClientError, StartPolicy, chain};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

/// What the daemon does with one request beside the handshake.
#[derive(Debug, Clone)]
enum Reply {
    Json(u16, Value),
    /// Read the request and close the connection.
    HangUp,
    /// Never answer.
    Silence,
}

/// A home whose daemon is the test.
struct Home {
    directory: TempDir,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// Paths and bodies of the requests that came, handshakes left out.
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    version: Arc<Mutex<Value>>,
    connections: Arc<Mutex<u32>>,
}

impl Home {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            replies: Arc::default(),
            seen: Arc::default(),
            version: Arc::new(Mutex::new(version(1, false))),
            connections: Arc::default(),
        }
    }

    fn with(replies: impl IntoIterator<Item = Reply>) -> Self {
        let home = Self::new();
        home.replies.lock().unwrap().extend(replies);
        home
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    fn state(&self, relative: &str) -> PathBuf {
        self.path(".local/state/agent-grounding").join(relative)
    }

    /// Makes the file executable as `groundingd` on the client's PATH.
    fn install(&self, script: &str) {
        let program = self.path("bin/groundingd");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn client(&self, start: StartPolicy) -> Client {
        let variables = vec![
            ("HOME".into(), self.directory.path().as_os_str().to_owned()),
            ("PATH".into(), self.path("bin").into_os_string()),
        ];
        Client::new(Environment::of_variables(variables), start)
    }

    /// Binds the socket and serves until dropped.
    fn serve(&self) -> JoinSet<()> {
        let run = self.state("run");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
        let listener = UnixListener::bind(run.join("groundingd.sock")).unwrap();
        let (replies, seen) = (Arc::clone(&self.replies), Arc::clone(&self.seen));
        let (version, connections) = (Arc::clone(&self.version), Arc::clone(&self.connections));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *connections.lock().unwrap() += 1;
                let (replies, seen, version) = (Arc::clone(&replies), Arc::clone(&seen), Arc::clone(&version));
                let service = service_fn(move |request| {
                    answer(request, Arc::clone(&replies), Arc::clone(&seen), Arc::clone(&version))
                });
                open.spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), service).await });
            }
        });
        serving
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

async fn answer(
    request: Request<Incoming>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    version: Arc<Mutex<Value>>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let path = request.uri().to_string();
    let body = request.into_body().collect().await?.to_bytes();
    let json = |status: u16, value: &Value| {
        Ok(Response::builder().status(status).body(Full::new(Bytes::from(value.to_string()))).unwrap())
    };
    if path == "/v1/version" {
        let version = version.lock().unwrap().clone();
        return json(200, &version);
    }
    seen.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap_or_default()));
    let reply = replies.lock().unwrap().pop_front();
    match reply {
        Some(Reply::Json(status, value)) => json(status, &value),
        Some(Reply::HangUp) => Err("hang up".into()),
        Some(Reply::Silence) => match std::future::pending::<Infallible>().await {},
        None => json(200, &json!({ "ok": true })),
    }
}

fn version(protocol: u32, draining: bool) -> Value {
    json!({ "version": "9.9.9", "protocol": { "oldest": protocol, "newest": protocol }, "pid": 1, "draining": draining })
}

fn error(code: &str) -> Value {
    json!({ "code": code, "message": "it is so", "requestId": "r-1" })
}

/// Waits for the condition, at most ten seconds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

fn exists(path: &Path) -> impl Fn() -> bool {
    let path = path.to_owned();
    move || path.exists()
}

#[tokio::test]
async fn calls_carry_their_context_and_share_a_connection() {
    let home = Home::new();
    let _daemon = home.serve();
    let client = home.client(StartPolicy::Never);
    for _ in 0..3 {
        let answer = client.tool("ledger_add", json!({ "content": "x" })).await.unwrap();
        assert_eq!(answer["ok"], true);
    }
    assert_eq!(*home.connections.lock().unwrap(), 1);
    let (path, body) = home.seen.lock().unwrap()[0].clone();
    assert_eq!(path, "/v1/tools/ledger_add");
    assert_eq!(body["arguments"], json!({ "content": "x" }));
    assert!(body["context"]["roots"]["ledger"]["path"].as_str().unwrap().ends_with(".evidence-ledger/ledger.db"));
    assert!(body["context"].get("env").is_none());
    client.tool("solution_evaluate", json!({ "id": "x" })).await.unwrap();
    let names = home.seen.lock().unwrap()[3].1["context"]["env"].clone();
    assert!(names.as_array().unwrap().iter().any(|pair| pair[0] == "PATH"));
}

#[tokio::test]
async fn a_refusal_is_told_in_its_own_words() {
    let home = Home::with([Reply::Json(400, error("invalid_argument")), Reply::Json(500, error("internal"))]);
    let _daemon = home.serve();
    let client = home.client(StartPolicy::Never);
    let refused = client.tool("ledger_add", json!({})).await.unwrap_err();
    assert_eq!(chain(&refused), "it is so");
    let internal = client.tool("ledger_add", json!({})).await.unwrap_err();
    assert_eq!(chain(&internal), "it is so (requestId r-1)");
}

#[tokio::test]
async fn only_a_reading_tool_is_called_again_when_the_answer_is_lost() {
    let home = Home::with([Reply::HangUp]);
    let _daemon = home.serve();
    let client = home.client(StartPolicy::Never);
    client.tool("ledger_summary", json!({})).await.unwrap();
    assert_eq!(home.seen().len(), 2);

    home.replies.lock().unwrap().push_back(Reply::HangUp);
    let error = client.tool("ledger_add", json!({})).await.unwrap_err();
    assert!(matches!(error, ClientError::OutcomeUnknown { .. }), "{error}");
    assert!(error.to_string().contains("not known") && error.to_string().contains("ledger_summary"), "{error}");
    assert_eq!(home.seen().len(), 3);

    home.replies.lock().unwrap().extend([Reply::HangUp, Reply::HangUp]);
    assert!(client.tool("ledger_status", json!({})).await.is_err());
    assert_eq!(home.seen().len(), 5);
}

#[tokio::test]
async fn a_draining_daemon_is_waited_for() {
    let home = Home::with([Reply::Json(503, error("draining"))]);
    let _daemon = home.serve();
    *home.version.lock().unwrap() = version(1, true);
    let client = home.client(StartPolicy::Never);
    let call = tokio::spawn(async move { client.tool("ledger_add", json!({})).await });
    let connections = Arc::clone(&home.connections);
    until("several looks", || *connections.lock().unwrap() > 3).await;
    assert_eq!(home.seen(), Vec::<String>::new());
    *home.version.lock().unwrap() = version(1, false);
    call.await.unwrap().unwrap();
    // The first answer was 503, which means that the call was not carried out.
    assert_eq!(home.seen().len(), 2);
}

#[tokio::test]
async fn builds_without_a_common_protocol_are_named_with_the_remedy() {
    let home = Home::new();
    let _daemon = home.serve();
    for (protocol, remedy) in [(0, "groundingctl restart"), (7, "upgrade this program")] {
        *home.version.lock().unwrap() = version(protocol, false);
        let error = home.client(StartPolicy::Never).tool("ledger_add", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("9.9.9") && error.contains(remedy), "{error}");
    }
    assert_eq!(home.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_client_that_may_not_start_says_that_nothing_runs() {
    let home = Home::new();
    let error = home.client(StartPolicy::Never).health().await.unwrap_err();
    assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
    assert!(!home.state("").exists());
}

#[tokio::test]
async fn a_socket_directory_open_to_others_is_refused_by_name() {
    let home = Home::new();
    let _daemon = home.serve();
    let run = home.state("run");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = home.client(StartPolicy::WhenAbsent).tool("ledger_add", json!({})).await.unwrap_err().to_string();
    assert!(error.contains(run.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn an_absent_daemon_is_started_once_for_many_clients() {
    let home = Home::new();
    // It says that it works, counts itself, and is ready when the test has bound the socket.
    home.install(
        "cd $HOME; echo opening; echo x >> starts; while [ ! -S .local/state/agent-grounding/run/groundingd.sock ]; do :; done; echo ready",
    );
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = home.client(StartPolicy::WhenAbsent);
        calls.spawn(async move { client.tool("ledger_add", json!({})).await.map(drop) });
    }
    until("the start", exists(&home.path("starts"))).await;
    let _daemon = home.serve();
    for outcome in calls.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(std::fs::read_to_string(home.path("starts")).unwrap(), "x\n");
    assert!(!home.state("start-failed").exists());
}

#[tokio::test]
async fn a_start_that_fails_is_told_and_not_repeated_at_once() {
    let home = Home::new();
    home.install("echo x >> $HOME/starts; echo opening; echo error the ledger is of a newer build");
    let client = home.client(StartPolicy::WhenAbsent);
    let first = chain(&client.tool("ledger_add", json!({})).await.unwrap_err());
    assert!(first.ends_with("the ledger is of a newer build"), "{first}");
    for client in [client, home.client(StartPolicy::WhenAbsent)] {
        let again = chain(&client.tool("ledger_add", json!({})).await.unwrap_err());
        assert!(again.contains("the ledger is of a newer build") && again.contains("not tried again"), "{again}");
    }
    assert_eq!(std::fs::read_to_string(home.path("starts")).unwrap(), "x\n");
}

#[tokio::test]
async fn a_daemon_that_dies_or_is_missing_is_told_apart() {
    let home = Home::new();
    let missing = chain(&home.client(StartPolicy::WhenAbsent).tool("ledger_add", json!({})).await.unwrap_err());
    assert!(missing.contains("can't find groundingd"), "{missing}");

    let home = Home::new();
    home.install("echo opening; exit 1");
    let died = chain(&home.client(StartPolicy::WhenAbsent).tool("ledger_add", json!({})).await.unwrap_err());
    assert!(died.contains(home.state("log/groundingd.log").to_str().unwrap()), "{died}");
}

#[tokio::test]
async fn a_deliberate_stop_keeps_clients_from_starting() {
    let home = Home::new();
    home.install("echo x >> $HOME/starts; echo error no");
    let client = home.client(StartPolicy::WhenAbsent);
    let state = client.state().unwrap();
    state.create_directories().unwrap();
    state.write_stopped().unwrap();
    let error = client.tool("ledger_add", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("groundingctl start"), "{error}");
    assert!(!home.path("starts").exists());
}

#[tokio::test]
async fn a_cancelled_call_leaves_the_client_usable() {
    let home = Home::with([Reply::Silence]);
    let _daemon = home.serve();
    let client = Arc::new(home.client(StartPolicy::Never));
    let call = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.tool("solution_evaluate", json!({})).await.map(drop) }
    });
    let seen = Arc::clone(&home.seen);
    until("the call", || !seen.lock().unwrap().is_empty()).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    client.tool("ledger_add", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_daemon_that_was_replaced_is_found_again() {
    let home = Home::new();
    let daemon = home.serve();
    let client = home.client(StartPolicy::Never);
    client.tool("ledger_add", json!({})).await.unwrap();
    drop(daemon);
    std::fs::remove_file(home.state("run/groundingd.sock")).unwrap();
    let _daemon = home.serve();
    // Gives the client the chance to see that the idle connection was closed.
    tokio::task::yield_now().await;
    client.tool("ledger_summary", json!({})).await.unwrap();
    assert_eq!(*home.connections.lock().unwrap(), 2);
}
