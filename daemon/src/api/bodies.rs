//! Reads the body of a request before its handler begins: in a bounded time, and few large ones at once.
//!
//! So a client that is slow or says nothing more holds neither memory nor a request in flight. How long a body may be, the
//! router's limit says.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::refusal::Refusal;

/// How long a body may take.
const TIME: Duration = Duration::from_secs(30);
/// Bodies up to this many bytes are read at any time.
const SMALL_BYTES: u64 = 256 * 1024;
/// Larger ones that are held at once; the others wait.
static LARGE: Semaphore = Semaphore::const_new(8);

/// Reads the body, then has the request answered.
pub async fn read(request: Request, next: Next) -> Response {
    let is_small = request.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BYTES);
    // The semaphore is never closed; without a permit nothing would be bounded, with an error nothing is lost.
    let _permit = if is_small { None } else { LARGE.acquire().await.ok() };
    let (parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    match timeout(TIME, Bytes::from_request(whole, &())).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(rejection)) => Refusal::from(rejection).into_response(),
        Err(_) => {
            let seconds = TIME.as_secs();
            Refusal::invalid_request(format!("the request's body did not come within {seconds} s")).into_response()
        }
    }
}
