//! The routes of the API, and the limits that hold for all of them.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use grounding_proto::wire::MAX_BODY_BYTES;

use super::refusal::Refusal;
use super::{Daemon, attempts, health, ledger, sessions, tools};

/// Returns the routes, ready to serve.
pub fn router(daemon: Daemon) -> Router {
    Router::new()
        .route("/v1/version", get(health::version))
        .route("/v1/health", get(health::own_health).post(health::health))
        .route("/v1/drain", post(health::drain))
        .route("/v1/tools/{tool}", post(tools::call))
        .route("/v1/sessions", post(sessions::list))
        .route("/v1/sessions/{session_id}", post(sessions::session))
        .route("/v1/sessions/{session_id}/details", post(sessions::details))
        .route("/v1/ledger/entries", post(ledger::entries))
        .route("/v1/ledger/check", post(ledger::check))
        .route("/v1/attempts", get(attempts::list))
        .route("/v1/attempts/{attempt_id}", get(attempts::show))
        .route("/v1/attempts/{attempt_id}/log", get(attempts::log))
        .route("/v1/attempts/{attempt_id}/cancel", post(attempts::cancel))
        .fallback(async |uri: axum::http::Uri| Refusal::not_found(format!("there is nothing at {}", uri.path())))
        .method_not_allowed_fallback(async |uri: axum::http::Uri| {
            Refusal::invalid_request(format!("{} is not asked this way", uri.path()))
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(daemon)
}
