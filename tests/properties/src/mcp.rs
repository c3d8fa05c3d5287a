//! Lines into the MCP server: the program's reader and handler on pipes in memory, with no daemon to be reached.
//!
//! After the input comes a ping, which must be answered whatever came before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_proto::wire::Settings;
use grounding_shim::client::{Client, StartPolicy};
use grounding_shim::mcp::envelope::Envelope;
use grounding_shim::mcp::server::Server;
use grounding_shim::mcp::transport::LineTransport;
use rmcp::service::serve_directly;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::folder;

/// How long the answers may take in all.
const PATIENCE: Duration = Duration::from_secs(8);
const PIPE_BYTES: usize = 1024 * 1024;
const LAST_ID: &str = "after all that";

/// Checks that every line of output is one message of the protocol, that every request is answered, once each, and that
/// the server lives on.
pub fn check(input: &[u8]) {
    let home = folder::private();
    let variables = vec![("HOME".into(), home.path().as_os_str().to_owned())];
    let client = Client::new(Environment::of_variables(variables), StartPolicy::Never);
    let server = Server::new(client, Settings::default());
    let last = format!("\n{{\"jsonrpc\":\"2.0\",\"id\":\"{LAST_ID}\",\"method\":\"ping\"}}\n");
    let input = [input, last.as_bytes()].concat();
    let asked = Asked::of(&input);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let answered = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, converse(server, &input, &asked))
            .await
            .expect("every request is answered in time")
    });
    runtime.shutdown_background();
    for (id, count) in &answered {
        let most = asked.ids.get(id).copied().unwrap_or_default();
        assert!(*count <= most, "{count} answers to {id}, which was asked {most} times");
    }
}

/// What a plain reading of the lines finds.
struct Asked {
    /// Each id as JSON, and how often it stands on a line as the id of what may be a request; the empty one stands for lines
    /// that may be answered without an id.
    ids: BTreeMap<String, usize>,
    /// The ids that must be answered.
    expected: BTreeSet<String>,
}

impl Asked {
    fn of(input: &[u8]) -> Self {
        let mut asked = Self { ids: BTreeMap::new(), expected: BTreeSet::new() };
        let mut is_cancelled = false;
        for line in input.split(|byte| *byte == b'\n') {
            let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
            *asked.ids.entry(String::new()).or_default() += 1;
            let Ok(message) = serde_json::from_slice::<Value>(line) else {
                // What is no JSON is answered when its id can still be found.
                let mut envelope = Envelope::default();
                envelope.feed(line);
                if let Some(id) = envelope.request_id() {
                    *asked.ids.entry(shown(id)).or_default() += 1;
                }
                continue;
            };
            let method = message["method"].as_str();
            is_cancelled |= method.is_some_and(|method| method.starts_with("notifications/"));
            let Some(id) = message.get("id") else { continue };
            *asked.ids.entry(shown(id)).or_default() += 1;
            let is_request = message["jsonrpc"] == "2.0" && method.is_some() && (id.is_string() || id.is_i64());
            if is_request && message.get("result").is_none() && message.get("error").is_none() {
                asked.expected.insert(shown(id));
            }
        }
        if is_cancelled {
            // A request that was cancelled may go unanswered, and which one is meant is the server's to say.
            asked.expected.retain(|id| id.contains(LAST_ID));
        }
        asked
    }
}

/// Returns an id as JSON; 1e2 and 100 are one number, and so are -0 and 0.
fn shown(id: &Value) -> String {
    match id.as_f64() {
        Some(number) if !id.is_i64() && !id.is_u64() => (number + 0.0).to_string(),
        _ => id.to_string(),
    }
}

/// Writes the input, and reads until all that must be answered is; returns how often each id was.
async fn converse(server: Server, input: &[u8], asked: &Asked) -> BTreeMap<String, usize> {
    let (mut to_server, server_input) = tokio::io::duplex(PIPE_BYTES);
    let (server_output, from_server) = tokio::io::duplex(PIPE_BYTES);
    let transport = LineTransport::new(server_input, server_output, CancellationToken::new());
    let running = serve_directly(server, transport, None);
    let write = async {
        // The pipe breaks only when the server ended early, which the reader finds.
        let _ = to_server.write_all(input).await;
        to_server
    };
    let read = async {
        let mut lines = BufReader::new(from_server).lines();
        let mut answered = BTreeMap::new();
        while !asked.expected.iter().all(|id| answered.contains_key(id)) {
            let line = lines.next_line().await.expect("UTF-8").unwrap_or_else(|| {
                let missing = asked.expected.iter().filter(|id| !answered.contains_key(*id)).collect::<Vec<_>>();
                panic!("the server ended without an answer to {missing:?}")
            });
            if let Some(id) = answer_to(&line) {
                *answered.entry(id).or_default() += 1;
            }
        }
        (answered, lines)
    };
    let (to_server, (mut answered, mut lines)) = tokio::join!(write, read);
    drop(to_server);
    running.waiting().await.expect("the server's task");
    while let Some(line) = lines.next_line().await.expect("UTF-8") {
        if let Some(id) = answer_to(&line) {
            *answered.entry(id).or_default() += 1;
        }
    }
    answered
}

/// Returns the id that a line of output answers; nothing for a notification.
fn answer_to(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).expect("a line of output is JSON");
    let message = message.as_object().expect("a message is an object");
    assert_eq!(message["jsonrpc"], "2.0", "{line}");
    let (result, error) = (message.contains_key("result"), message.get("error"));
    if message.contains_key("method") {
        assert!(!result && error.is_none() && !message.contains_key("id"), "the server asks nothing: {line}");
        return None;
    }
    assert!(result != error.is_some(), "{line}");
    if let Some(error) = error {
        assert!(error["code"].is_i64() && error["message"].as_str().is_some_and(|text| !text.is_empty()), "{line}");
    }
    Some(message.get("id").map(shown).unwrap_or_default())
}
