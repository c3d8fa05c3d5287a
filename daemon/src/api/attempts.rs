//! `/v1/attempts`: what people and health checks see of attempts, and their way to cancel one.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use grounding_proto::wire::{AttemptRow, Root, Settings};
use serde::Deserialize;

use super::Daemon;
use super::refusal::Refusal;
use crate::attempt::{cancel, lookup, result};
use crate::error::describe;
use crate::store;

const LARGEST_LOG_BYTES: u64 = 128 * 1024 * 1024;

/// Which attempts are meant.
#[derive(Debug, Deserialize)]
pub struct Scope {
    /// The verdict directory; the daemon's own by default.
    verdicts: Option<PathBuf>,
}

impl Scope {
    fn dir(self, daemon: &Daemon) -> Result<PathBuf, Refusal> {
        let dir = match (self.verdicts, daemon.environment().roots().verdicts) {
            (Some(dir), _) => dir,
            (None, Root::Path(dir)) => dir.as_path().to_owned(),
            (None, Root::Refused(why)) => return Err(Refusal::invalid_request(why)),
        };
        if dir.is_absolute() { Ok(dir) } else { Err(Refusal::invalid_request("`verdicts` must be an absolute path")) }
    }
}

/// `GET /v1/attempts`.
pub async fn list(State(daemon): State<Daemon>, Query(scope): Query<Scope>) -> Result<Json<Vec<AttemptRow>>, Refusal> {
    rows(&daemon, scope.dir(&daemon)?).await.map(Json)
}

/// `GET /v1/attempts/{attempt_id}`.
pub async fn show(
    State(daemon): State<Daemon>,
    Path(attempt_id): Path<String>,
    Query(scope): Query<Scope>,
) -> Result<Json<AttemptRow>, Refusal> {
    let dir = scope.dir(&daemon)?;
    find(&daemon, dir, &attempt_id).await.map(Json)
}

/// `GET /v1/attempts/{attempt_id}/log`: the bytes of preflight's stderr so far.
pub async fn log(
    State(daemon): State<Daemon>,
    Path(attempt_id): Path<String>,
    Query(scope): Query<Scope>,
) -> Result<Response, Refusal> {
    let dir = scope.dir(&daemon)?;
    let unknown = || Refusal::not_found(format!("there is no log of an attempt {attempt_id:?}"));
    let path = result::log_path(&dir, &attempt_id).ok_or_else(unknown)?;
    let read = tokio::task::spawn_blocking(move || store::read_file(&path, LARGEST_LOG_BYTES)).await?;
    let bytes = read.map_err(|error| Refusal::storage(describe(&error)))?;
    match bytes {
        Some(bytes) => Ok(bytes.into_response()),
        // An attempt that failed before its preflight started has none.
        None => find(&daemon, dir, &attempt_id).await.map(|_| Vec::new().into_response()),
    }
}

/// `POST /v1/attempts/{attempt_id}/cancel`.
pub async fn cancel(
    State(daemon): State<Daemon>,
    Path(attempt_id): Path<String>,
    Query(scope): Query<Scope>,
) -> Result<Response, Refusal> {
    let dir = scope.dir(&daemon)?;
    let row = find(&daemon, dir.clone(), &attempt_id).await?;
    let cancelled = tokio::task::spawn_blocking(move || cancel::cancel(&dir, &row)).await?;
    match cancelled {
        Ok(()) => Ok((StatusCode::ACCEPTED, Json(serde_json::json!({"attemptId": attempt_id}))).into_response()),
        Err(error) => Err(Refusal::invalid_argument(describe(&error))),
    }
}

async fn rows(daemon: &Daemon, dir: PathBuf) -> Result<Vec<AttemptRow>, Refusal> {
    let attempts = daemon.attempts().clone();
    Ok(tokio::task::spawn_blocking(move || lookup::list(&attempts, &dir, &Settings::default())).await??)
}

async fn find(daemon: &Daemon, dir: PathBuf, attempt_id: &str) -> Result<AttemptRow, Refusal> {
    let unknown = || Refusal::not_found(format!("there is no attempt {attempt_id:?} in {}", dir.display()));
    let rows = rows(daemon, dir.clone()).await?;
    rows.into_iter().find(|row| row.attempt_id == attempt_id).ok_or_else(unknown)
}
