//! HTTP/1.1 over the daemon's socket: one connection, one exchange at a time.
//!
//! What matters is what is known after a failure: whether any of the request can have reached the daemon.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// How often a socket whose queue of waiting connections is full is tried again, and how long between.
const FULL_QUEUE_TRIES: u32 = 400;
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// A request, cheap to clone.
#[derive(Debug, Clone)]
pub struct Call {
    /// GET or POST.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// JSON, or nothing.
    pub body: Bytes,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

/// An exchange that brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// Nothing of the request was written.
    #[error("the connection to the daemon was closed before the request was sent")]
    NotWritten(#[source] hyper::Error),
    /// The request may have reached the daemon.
    #[error("the connection to the daemon broke before the answer was complete")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The request reached a daemon that now answers nobody.
    #[error("the daemon answers nobody any more; it hangs or is suspended: end its process, then call again")]
    Silent,
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to the socket.
    ///
    /// # Errors
    /// As `connect(2)` gives them: `NotFound` and `ConnectionRefused` mean that no daemon listens.
    pub async fn open(socket: &Path) -> io::Result<Self> {
        let stream = connect(socket).await?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // The driver ends with the connection; what went wrong is told to the exchange under way.
        tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok(Self { sender })
    }

    /// Returns whether a further exchange can be tried.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and reads the whole answer. A future that is dropped half-way leaves the connection unusable.
    ///
    /// # Errors
    /// When there is no answer, and whether the request may have been read.
    pub async fn exchange(&mut self, call: Call) -> Result<Answer, ExchangeError> {
        let request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header("host", "groundingd")
            .header("content-type", "application/json")
            .body(Full::new(call.body))
            .map_err(|error| ExchangeError::Broken(error.into()))?;
        self.sender.ready().await.map_err(ExchangeError::NotWritten)?;
        let response = self.sender.try_send_request(request).await.map_err(|mut error| {
            let untouched = error.take_message().is_some();
            let source = error.into_error();
            if untouched || is_refused_write(&source) {
                ExchangeError::NotWritten(source)
            } else {
                ExchangeError::Broken(source.into())
            }
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        Ok(Answer { status, body: body.map_err(ExchangeError::Broken)?.to_bytes() })
    }
}

/// Returns whether the request could not be written whole: the daemon, which shut its reading side before it ends, reads
/// what was written before and executes nothing that is incomplete.
fn is_refused_write(error: &hyper::Error) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    for _ in 0..FULL_QUEUE_TRIES {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(FULL_QUEUE_PAUSE).await,
            other => return other,
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, "the daemon does not accept connections"))
}
