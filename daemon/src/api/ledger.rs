//! `/v1/ledger`: what people see of the ledger beyond the tools. Only reads, so a repeated request does no harm.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use grounding_proto::ledger::{LedgerCheck, LedgerCheckAnswer, LedgerList, LedgerListAnswer, MAX_LISTED_ENTRIES};
use grounding_proto::wire::Question;

use super::Daemon;
use super::health::parse;
use super::refusal::Refusal;
use super::tools::root;

/// Longest time a check may take.
const MAX_CHECK: Duration = Duration::from_secs(60);

type Body = Result<Bytes, BytesRejection>;

/// `POST /v1/ledger/entries`: the newest entries, of all sessions or one.
pub async fn entries(State(daemon): State<Daemon>, body: Body) -> Result<Json<LedgerListAnswer>, Refusal> {
    let _counted = daemon.begin_request().ok_or_else(Refusal::draining)?;
    let Question { context, question } = parse::<Question<LedgerList>>(&body?)?;
    if !(1..=MAX_LISTED_ENTRIES).contains(&question.limit) {
        let message = format!("`limit` must be 1 to {MAX_LISTED_ENTRIES}, but is {}", question.limit);
        return Err(Refusal::invalid_argument(message));
    }
    Ok(Json(daemon.ledgers().list(&root(&context.roots.ledger)?, &question).await?))
}

/// `POST /v1/ledger/check`: whether the file is sound. As health, it counts as no request in flight: a drain does not wait
/// for it.
pub async fn check(State(daemon): State<Daemon>, body: Body) -> Result<Json<LedgerCheckAnswer>, Refusal> {
    let Question { context, question } = parse::<Question<LedgerCheck>>(&body?)?;
    let limit = Duration::from_millis(question.limit_ms).min(MAX_CHECK);
    Ok(Json(daemon.ledgers().check(&root(&context.roots.ledger)?, limit).await))
}
