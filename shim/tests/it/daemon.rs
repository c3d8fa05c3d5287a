//! A home whose daemon is the test: it shakes hands, notes what is asked, and answers as it was told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_shim::client::{Client, StartPolicy};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What the daemon does with one request beside the handshake.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Json(u16, Value),
    /// Read the request and close the connection.
    HangUp,
    /// Never answer.
    Silence,
    /// Answer when told to.
    When(Arc<Notify>, Value),
}

/// A home whose daemon is the test.
pub(crate) struct Home {
    pub(crate) directory: TempDir,
    pub(crate) replies: Arc<Mutex<VecDeque<Reply>>>,
    /// Paths and bodies of the requests that came, handshakes left out.
    pub(crate) seen: Arc<Mutex<Vec<(String, Value)>>>,
    pub(crate) version: Arc<Mutex<Value>>,
    pub(crate) connections: Arc<Mutex<u32>>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            replies: Arc::default(),
            seen: Arc::default(),
            version: Arc::new(Mutex::new(version(1, false))),
            connections: Arc::default(),
        }
    }

    pub(crate) fn with(replies: impl IntoIterator<Item = Reply>) -> Self {
        let home = Self::new();
        home.replies.lock().unwrap().extend(replies);
        home
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn state(&self, relative: &str) -> PathBuf {
        self.path(".local/state/agent-grounding").join(relative)
    }

    /// Makes the file executable as `groundingd` on the client's PATH.
    pub(crate) fn install(&self, script: &str) {
        let program = self.path("bin/groundingd");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn client(&self, start: StartPolicy) -> Client {
        Client::new(Environment::of_variables(self.variables()), start)
    }

    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("HOME".into(), self.directory.path().as_os_str().to_owned()),
            ("PATH".into(), self.path("bin").into_os_string()),
        ]
    }

    /// Binds the socket and serves until dropped.
    pub(crate) fn serve(&self) -> JoinSet<()> {
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

    pub(crate) fn seen(&self) -> Vec<String> {
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
        Some(Reply::When(told, value)) => {
            told.notified().await;
            json(200, &value)
        }
        None => json(200, &json!({ "ok": true })),
    }
}

pub(crate) fn version(protocol: u32, draining: bool) -> Value {
    json!({ "version": "9.9.9", "protocol": { "oldest": protocol, "newest": protocol }, "pid": 1, "draining": draining })
}

pub(crate) fn error(code: &str) -> Value {
    json!({ "code": code, "message": "it is so", "requestId": "r-1" })
}

/// Waits for the condition, at most ten seconds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

pub(crate) fn exists(path: &Path) -> impl Fn() -> bool {
    let path = path.to_owned();
    move || path.exists()
}
