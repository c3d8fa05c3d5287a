//! The client library: retries, handshake, auto-start.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use grounding_shim::client::StartPolicy;
use grounding_shim::error::{ClientError, chain};
use serde_json::json;
use tokio::task::JoinSet;

use crate::daemon::{Home, Reply, error, exists, until, version};

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

#[tokio::test(start_paused = true)]
async fn a_daemon_that_hangs_is_told_after_a_while() {
    let home = Home::new();
    let run = home.state("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(run.join("groundingd.sock")).unwrap();
    let client = home.client(StartPolicy::WhenAbsent);
    let call = client.tool("ledger_add", json!({})).await.unwrap_err();
    assert!(matches!(call, ClientError::Silent { .. }), "{call}");
    assert!(matches!(client.health().await.unwrap_err(), ClientError::Silent { .. }));
}
