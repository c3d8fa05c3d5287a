//! What the daemon says of itself: version, health, and that it drains.
//!
//! Asking here counts as no request in flight, so that it neither holds a drain up nor is refused by one. A ledger that
//! can't be used makes the answer degraded, not an error.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use grounding_proto::ledger::LedgerHealth;
use grounding_proto::wire::{ContextRequest, Health, HealthAnswer, PROTOCOL, Root, VersionAnswer};
use serde::Deserialize;

use super::Daemon;
use super::refusal::Refusal;
use crate::attempt::lookup;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `GET /v1/version`.
pub async fn version(State(daemon): State<Daemon>) -> Json<VersionAnswer> {
    Json(VersionAnswer {
        version: VERSION.to_owned(),
        protocol: PROTOCOL,
        pid: std::process::id(),
        draining: daemon.is_draining(),
    })
}

/// `GET /v1/health`: with the ledger of the daemon's own environment.
pub async fn own_health(State(daemon): State<Daemon>) -> Json<HealthAnswer> {
    let ledger = daemon.environment().roots().ledger;
    Json(answer(&daemon, &ledger).await)
}

/// `POST /v1/health`: with the ledger of the client that asks.
pub async fn health(
    State(daemon): State<Daemon>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<HealthAnswer>, Refusal> {
    let ContextRequest { context } = parse(&body?)?;
    Ok(Json(answer(&daemon, &context.roots.ledger).await))
}

/// `POST /v1/drain`.
pub async fn drain(State(daemon): State<Daemon>) -> StatusCode {
    tracing::info!("asked to drain");
    daemon.drain();
    StatusCode::ACCEPTED
}

/// Parses a request's JSON body.
///
/// # Errors
/// Says where the JSON is wrong.
pub fn parse<'body, T: Deserialize<'body>>(body: &'body [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid_request(format!("the request's body can't be read: {error}")))
}

async fn answer(daemon: &Daemon, ledger: &Root) -> HealthAnswer {
    let ledger = super::tools::ledger_status(daemon, ledger).await;
    let status = if ledger.status == LedgerHealth::Ok { Health::Ok } else { Health::Degraded };
    let attempts = daemon.attempts().clone();
    HealthAnswer {
        status,
        version: VERSION.to_owned(),
        protocol: PROTOCOL,
        pid: Some(std::process::id()),
        uptime_ms: Some(u64::try_from(daemon.uptime().as_millis()).unwrap_or(u64::MAX)),
        socket: daemon.socket().display().to_string(),
        ledger: Some(ledger),
        attempts: Some(daemon.attempts().counts()),
        clients: Some(daemon.clients()),
        running_attempts: tokio::task::spawn_blocking(move || lookup::running(&attempts)).await.ok(),
    }
}
