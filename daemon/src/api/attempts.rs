//! `/v1/attempts`: what people and health checks see of attempts, and their way to cancel one.
//!
//! It owns the query of these routes: which verdict directory is meant and by whose stale time its locks are judged. It
//! never starts an attempt, and reads files only where blocking is allowed. A log is given in pieces of bounded size.

use std::path::PathBuf;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use grounding_proto::wire::{AttemptRow, CancelAnswer, Root, Settings};
use serde::Deserialize;

use super::Daemon;
use super::refusal::Refusal;
use crate::attempt::{cancel, lookup, result};
use crate::error::describe;
use crate::store;

/// Most bytes of a log in one answer.
const LOG_PIECE_BYTES: u64 = 1024 * 1024;

/// Which attempts are meant, and how they are judged.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// The verdict directory; the daemon's own by default.
    verdicts: Option<PathBuf>,
    /// The client's stale time; another one would take a live lock of another program for a dead one.
    stale_ms: Option<u64>,
    /// Where in a log to begin, in bytes.
    #[serde(default)]
    from: u64,
}

type Scoped = Result<Query<Scope>, QueryRejection>;

impl Scope {
    fn settings(&self) -> Settings {
        let default = Settings::default();
        Settings { stale_ms: self.stale_ms.unwrap_or(default.stale_ms), ..default }
    }

    fn dir(&self, daemon: &Daemon) -> Result<PathBuf, Refusal> {
        let dir = match (self.verdicts.clone(), daemon.environment().roots().verdicts) {
            (Some(dir), _) => dir,
            (None, Root::Path(dir)) => dir.as_path().to_owned(),
            (None, Root::Refused(why)) => return Err(Refusal::invalid_request(why)),
        };
        if dir.is_absolute() { Ok(dir) } else { Err(Refusal::invalid_request("`verdicts` must be an absolute path")) }
    }
}

/// `GET /v1/attempts`.
pub async fn list(State(daemon): State<Daemon>, scope: Scoped) -> Result<Json<Vec<AttemptRow>>, Refusal> {
    let Query(scope) = scope?;
    let (attempts, dir, settings) = (daemon.attempts().clone(), scope.dir(&daemon)?, scope.settings());
    let rows = tokio::task::spawn_blocking(move || lookup::list(&attempts, &dir, &settings)).await??;
    Ok(Json(rows))
}

/// `GET /v1/attempts/{attempt_id}`.
pub async fn show(
    State(daemon): State<Daemon>,
    Path(attempt_id): Path<String>,
    scope: Scoped,
) -> Result<Json<AttemptRow>, Refusal> {
    find(&daemon, &scope?.0, &attempt_id).await.map(Json)
}

/// `GET /v1/attempts/{attempt_id}/log`: the bytes of preflight's stderr from an offset on, a piece at a time.
pub async fn log(
    State(daemon): State<Daemon>,
    Path(attempt_id): Path<String>,
    scope: Scoped,
) -> Result<Response, Refusal> {
    let Query(scope) = scope?;
    let unknown = || Refusal::not_found(format!("there is no log of an attempt {attempt_id:?}"));
    let path = result::log_path(&scope.dir(&daemon)?, &attempt_id).ok_or_else(unknown)?;
    let from = scope.from;
    let read = tokio::task::spawn_blocking(move || store::read_piece(&path, from, LOG_PIECE_BYTES)).await?;
    let bytes = read.map_err(|error| Refusal::storage(describe(&error)))?;
    match bytes {
        Some(bytes) => Ok(bytes.into_response()),
        // An attempt that failed before its preflight started has none.
        None => find(&daemon, &scope, &attempt_id).await.map(|_| Vec::new().into_response()),
    }
}

/// `POST /v1/attempts/{attempt_id}/cancel`.
pub async fn cancel(
    State(daemon): State<Daemon>,
    Path(attempt_id): Path<String>,
    scope: Scoped,
) -> Result<(StatusCode, Json<CancelAnswer>), Refusal> {
    let Query(scope) = scope?;
    let row = find(&daemon, &scope, &attempt_id).await?;
    let (dir, settings) = (scope.dir(&daemon)?, scope.settings());
    tokio::task::spawn_blocking(move || cancel::cancel(&dir, &row, &settings)).await??;
    Ok((StatusCode::ACCEPTED, Json(CancelAnswer { attempt_id })))
}

async fn find(daemon: &Daemon, scope: &Scope, attempt_id: &str) -> Result<AttemptRow, Refusal> {
    let (dir, settings) = (scope.dir(daemon)?, scope.settings());
    let unknown = Refusal::not_found(format!("there is no attempt {attempt_id:?} in {}", dir.display()));
    let (attempts, attempt_id) = (daemon.attempts().clone(), attempt_id.to_owned());
    let found = tokio::task::spawn_blocking(move || lookup::one(&attempts, &dir, &attempt_id, &settings)).await??;
    found.ok_or(unknown)
}
