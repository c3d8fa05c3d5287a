//! The daemon's socket without its clients: bodies, codes, and that nothing bad ends it.

use grounding_tests::http::{Connection, block_on, context};
use grounding_tests::{TestEnvironment, http};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

fn started() -> TestEnvironment {
    let environment = TestEnvironment::new();
    assert!(environment.groundingctl(&["start"]).status.success());
    environment
}

#[test]
fn health_and_version_answer() {
    let environment = started();
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        let (status, version) = connection.send(Method::GET, "/v1/version", Vec::new()).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(version["protocol"]["newest"], 1, "{version}");
        assert_eq!(version["draining"], false, "{version}");
        let (status, health) = connection.send(Method::GET, "/v1/health", Vec::new()).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(health["pid"], version["pid"]);
    });
}

#[test]
fn errors_carry_code_message_and_request_id() {
    let environment = started();
    let context = context(&environment);
    let good = json!({ "arguments": {}, "context": context });
    let cases: [(&str, Vec<u8>, u16, &str); 5] = [
        ("/v1/tools/ledger_add", good.to_string().into(), 400, "invalid_argument"),
        ("/v1/tools/no_such_tool", good.to_string().into(), 404, "not_found"),
        ("/v1/tools/ledger_add", b"no JSON".into(), 400, "invalid_request"),
        ("/v1/tools/ledger_add", b"{}".into(), 400, "invalid_request"),
        ("/v1/no/such/path", Vec::new(), 404, "not_found"),
    ];
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        for (path, body, status, code) in cases {
            let shown = String::from_utf8_lossy(&body).into_owned();
            let (actual, error) = connection.send(Method::POST, path, body).await;
            assert_eq!((actual.as_u16(), error["code"].as_str()), (status, Some(code)), "{path} {shown}: {error}");
            assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
            assert!(error["requestId"].as_str().is_some_and(|id| !id.is_empty()), "{error}");
        }
        let (status, answer) = connection.call("claim_evaluate", json!({ "claim": "Something is so" }), &context).await;
        assert_eq!((status, &answer["type"]), (StatusCode::OK, &json!("generic")), "{answer}");
    });
}

#[test]
fn one_daemon_serves_several_sets_of_roots() {
    let environment = started();
    let mut other = context(&environment);
    other.roots.ledger = grounding_proto::wire::Root::Path(environment.path("other/ledger.db").into());
    let mut refused = context(&environment);
    refused.roots.ledger = grounding_proto::wire::Root::Refused("EVIDENCE_LEDGER_DB must be absolute".into());
    let add = json!({ "sessionId": "s", "type": "fact", "content": "c" });
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        for context in [&http::context(&environment), &other] {
            let (status, entry) = connection.call("ledger_add", add.clone(), context).await;
            assert_eq!((status, &entry["id"]), (StatusCode::OK, &json!(1)), "{entry}");
        }
        let (status, error) = connection.call("ledger_add", add.clone(), &refused).await;
        assert!(!status.is_success());
        assert!(error["message"].as_str().is_some_and(|message| message.contains("EVIDENCE_LEDGER_DB")), "{error}");
        let claim: Value = json!({ "claim": "Something is so" });
        let (status, answer) = connection.call("claim_evaluate", claim, &refused).await;
        assert_eq!(status, StatusCode::OK, "a refused ledger harms no other tool: {answer}");
    });
}

#[test]
fn the_socket_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let environment = started();
    let socket = environment.socket();
    let directory = std::fs::metadata(socket.parent().expect("a directory")).expect("it is there");
    assert_eq!(directory.permissions().mode() & 0o777, 0o700);
    let printed = environment.groundingctl(&["socket-path"]);
    assert_eq!(String::from_utf8_lossy(&printed.stdout).trim_end(), socket.to_str().expect("UTF-8"));
}
