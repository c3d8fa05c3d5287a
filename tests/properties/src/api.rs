//! Requests into the daemon: its router in this process, with real stores in a private directory.
//!
//! The input is a few requests, one after the other, parted by a line `---`: the first line of each is method and path,
//! the rest is the body. `$STATE` stands for the private directory, `"$CONTEXT"` for a whole context, `$SESSION` and
//! `$HYPOTHESIS` for the ids that the latest answer with one gave. Roots, working directory and environment of a request are
//! held to the private directory, and no program is started: there is no PATH, and `solution_evaluate` is left out.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, Uri};
use grounding_proto::catalogue;
use grounding_proto::environment::Environment;
use groundingd::api::{Daemon, router};
use groundingd::clock::SystemClock;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::folder;

/// Most requests of an input that are sent.
const MAX_REQUESTS: usize = 8;
const ROOTS: [&str; 5] = ["sessions", "hypotheses", "ledger", "verdicts", "signingKey"];

/// Checks that every request gets an answer of the protocol, that none fails inside the daemon, that every acknowledged
/// entry is in the ledger, and that what is left on disk is whole and private.
pub fn check(input: &[u8]) {
    let folder = folder::private();
    let state = folder.path();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let variables = vec![("HOME".into(), state.as_os_str().to_owned())];
        let environment = Environment::of_variables(variables);
        let daemon = Daemon::new(environment, state.join("socket"), SystemClock::shared());
        let routes = router(daemon.clone());
        let (mut acknowledged, mut given) = (0, Given::default());
        let text = String::from_utf8_lossy(input).replace("$STATE", &state.display().to_string());
        for part in text.split("\n---\n").take(MAX_REQUESTS) {
            let part = part.replace("$SESSION", &given.session).replace("$HYPOTHESIS", &given.hypothesis);
            let (line, body) = part.split_once('\n').unwrap_or((&part, ""));
            let Some(target) = Target::of(line, state) else { continue };
            let (body, tool) = (contained(body, &target.tool, state), target.tool.clone());
            let Some(answer) = send(routes.clone(), target, body).await else { continue };
            acknowledged += u64::from(tool == "ledger_add");
            given.note(&answer);
        }
        if acknowledged > 0 {
            let status = daemon.ledgers().status(&state.join("ledger")).await;
            assert_eq!(status.entry_count, Some(acknowledged), "acknowledged entries");
        }
        daemon.ledgers().close().await;
    });
    drop(runtime);
    check_files(state);
}

/// Ids that answers gave.
#[derive(Default)]
struct Given {
    session: String,
    hypothesis: String,
}

impl Given {
    fn note(&mut self, answer: &Value) {
        if let Some(id) = answer["sessionId"].as_str().filter(|id| id.starts_with("gs-")) {
            id.clone_into(&mut self.session);
        }
        if let Some(id) = answer["hypothesis"]["id"].as_str() {
            id.clone_into(&mut self.hypothesis);
        }
    }
}

struct Target {
    method: Method,
    uri: Uri,
    /// The tool that is called, or nothing.
    tool: String,
}

impl Target {
    /// Returns what a request line asks for; nothing when it is none, would start a program, or leads out of the directory.
    fn of(line: &str, state: &Path) -> Option<Self> {
        let (method, path) = line.split_once(' ')?;
        let uri: Uri = path.parse().ok()?;
        let segments: Vec<_> = uri.path().split('/').collect();
        let tool = match segments.as_slice() {
            ["", "v1", "tools", tool] => (*tool).to_owned(),
            _ => String::new(),
        };
        // The attempts of a directory are settled, so that no other directory may be named.
        let own = format!("verdicts={}", state.display());
        let leads_out = uri.query().unwrap_or_default().split('&').any(|pair| {
            let is_plain = !pair.contains('%') && !pair.contains('+') && !pair.contains("..");
            !is_plain || pair.starts_with("verdicts") && !pair.starts_with(&own)
        });
        let starts_a_program = tool.contains('%') || tool == "solution_evaluate";
        if leads_out || starts_a_program || !uri.path().starts_with('/') {
            return None;
        }
        Some(Self { method: method.parse().ok()?, uri, tool })
    }
}

fn context(state: &Path) -> Value {
    let roots = ROOTS.iter().map(|name| ((*name).to_owned(), json!({ "path": state.join(name) })));
    json!({ "cwd": state, "roots": Value::Object(roots.collect()) })
}

/// Returns the body with its context filled in and held to the private directory.
fn contained(body: &str, tool: &str, state: &Path) -> Vec<u8> {
    let body = body.replace("\"$CONTEXT\"", &context(state).to_string());
    // What this reader can't read, the daemon can't either.
    let Ok(mut request) = serde_json::from_str::<Value>(&body) else { return body.into_bytes() };
    if let Some(context) = request.get_mut("context").and_then(Value::as_object_mut) {
        if let Some(roots) = context.get_mut("roots").and_then(Value::as_object_mut) {
            for (name, root) in roots {
                if let Some(path) = root.get_mut("path") {
                    *path = json!(state.join(if ROOTS.contains(&name.as_str()) { name } else { "other" }));
                }
            }
        }
        if context.contains_key("cwd") {
            context.insert("cwd".to_owned(), json!(state));
        }
        if context.contains_key("env") {
            context.insert("env".to_owned(), json!([]));
        }
    }
    if tool == "verify_memory_reference"
        && let Some(arguments) = request.get_mut("arguments").and_then(Value::as_object_mut)
    {
        arguments.shift_remove("repoRoot");
    }
    request.to_string().into_bytes()
}

/// Sends a request; returns a tool's answer.
async fn send(routes: Router, target: Target, body: Vec<u8>) -> Option<Value> {
    let shown = format!("{} {}", target.method, target.uri);
    let request = Request::builder().method(target.method).uri(target.uri);
    let request = request.header("content-type", "application/json").body(Body::from(body)).ok()?;
    let Ok(response) = routes.oneshot(request).await;
    let status = response.status();
    let answer = response.into_body().collect().await.expect("a whole answer").to_bytes();
    if status.is_success() {
        let tool = catalogue::tool(&target.tool)?;
        let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        let required = tool.output_schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for key in required.iter().filter_map(Value::as_str) {
            assert!(answer.get(key).is_some(), "{shown}: {answer} has no {key}");
        }
        return Some(answer);
    }
    // A HEAD request is answered without a body.
    if answer.is_empty() && shown.starts_with("HEAD ") {
        return None;
    }
    let error: Value = serde_json::from_slice(&answer).unwrap_or_else(|_| panic!("{shown}: {status} {answer:?}"));
    let allowed: &[&str] = match status {
        StatusCode::BAD_REQUEST => &["invalid_argument", "invalid_request"],
        StatusCode::NOT_FOUND => &["not_found"],
        StatusCode::SERVICE_UNAVAILABLE => &["draining"],
        StatusCode::INTERNAL_SERVER_ERROR => &["storage"],
        _ => &[],
    };
    assert!(allowed.contains(&error["code"].as_str().unwrap_or_default()), "{shown}: {status} {error}");
    for key in ["message", "requestId"] {
        assert!(error[key].as_str().is_some_and(|text| !text.is_empty()), "{shown}: {error}");
    }
    None
}

/// Everything below the directory is private, and every JSON file whole.
fn check_files(directory: &Path) {
    for entry in fs::read_dir(directory).expect("the private directory") {
        let path = entry.expect("an entry").path();
        let metadata = path.symlink_metadata().expect("metadata");
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.mode() & 0o777, expected, "{}", path.display());
        if metadata.is_dir() {
            check_files(&path);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let text = fs::read(&path).expect("a file of ours");
            assert!(serde_json::from_slice::<Value>(&text).is_ok(), "{} is not whole", path.display());
        }
    }
}
