//! The daemon's HTTP API over its socket, without any code of its clients.

use std::path::Path;

use grounding_proto::wire::{Context, ToolRequest};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::TestEnvironment;

/// One connection, kept alive between requests.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to a socket; the connection is driven by a task of the current runtime.
    pub async fn open(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).await.unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("an HTTP connection");
        tokio::spawn(connection);
        Self { sender }
    }

    /// Sends a request and returns status and JSON body.
    pub async fn send(&mut self, method: Method, path: &str, body: Vec<u8>) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)));
        let request = request.expect("a request of constants");
        self.sender.ready().await.expect("the connection lives");
        let response = self.sender.send_request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let status = response.status();
        let body = response.into_body().collect().await.unwrap_or_else(|error| panic!("{path}: {error}")).to_bytes();
        let value = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{path}: {error}: {}", String::from_utf8_lossy(&body)));
        (status, value)
    }

    /// Calls a tool and returns status and body.
    pub async fn call(&mut self, tool: &str, arguments: Value, context: &Context) -> (StatusCode, Value) {
        let request = ToolRequest { arguments, context: context.clone() };
        let body = serde_json::to_vec(&request).expect("a request is JSON");
        self.send(Method::POST, &format!("/v1/tools/{tool}"), body).await
    }
}

/// Returns the context a client in this environment would send.
#[must_use]
pub fn context(environment: &TestEnvironment) -> Context {
    let (settings, _) = environment.environment().settings();
    Context {
        cwd: environment.home().to_path_buf().into(),
        roots: environment.environment().roots(),
        settings,
        env: None,
    }
}

/// Runs a future to its end on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}
