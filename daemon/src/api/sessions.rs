//! `/v1/sessions`: what people and resources see of grounding sessions. Only reads, so a repeated request does no harm.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use grounding_proto::session::{MAX_SESSIONS, SessionDetails, SessionList, SessionListAnswer, SessionSummary};
use grounding_proto::wire::{ContextRequest, Question};

use super::Daemon;
use super::health::parse;
use super::refusal::Refusal;
use super::tools::{blocking, root};
use crate::session;

type Body = Result<Bytes, BytesRejection>;

/// `POST /v1/sessions`: the newest sessions of the client's directory.
pub async fn list(State(daemon): State<Daemon>, body: Body) -> Result<Json<SessionListAnswer>, Refusal> {
    let _counted = daemon.begin_request().ok_or_else(Refusal::draining)?;
    let Question { context, question: SessionList { limit } } = parse(&body?)?;
    if !(1..=MAX_SESSIONS).contains(&limit) {
        return Err(Refusal::invalid_argument(format!("`limit` must be 1 to {MAX_SESSIONS}, but is {limit}")));
    }
    let dir = root(&context.roots.sessions)?;
    blocking(move || session::list(&dir, limit as usize)).await.map(Json)
}

/// `POST /v1/sessions/{session_id}`: the summary of a session, for clients that show it as a resource.
pub async fn session(
    State(daemon): State<Daemon>,
    Path(session_id): Path<String>,
    body: Body,
) -> Result<Json<SessionSummary>, Refusal> {
    let _counted = daemon.begin_request().ok_or_else(Refusal::draining)?;
    let ContextRequest { context } = parse(&body?)?;
    let dir = root(&context.roots.sessions)?;
    blocking(move || session::load(&dir, &session_id)).await.map(Json)
}

/// `POST /v1/sessions/{session_id}/details`: a session with all of its plan.
pub async fn details(
    State(daemon): State<Daemon>,
    Path(session_id): Path<String>,
    body: Body,
) -> Result<Json<SessionDetails>, Refusal> {
    let _counted = daemon.begin_request().ok_or_else(Refusal::draining)?;
    let ContextRequest { context } = parse(&body?)?;
    let dir = root(&context.roots.sessions)?;
    blocking(move || session::details(&dir, &session_id)).await.map(Json)
}
