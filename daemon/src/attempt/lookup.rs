//! `solution_evaluate_status` and `solution_evaluate_result` (SPEC 6, Attempts): what the log says, checked against the
//! lock where it says running.
//!
//! Never starts a run, never blocks, and creates no file for an id that never ran. An attempt that reads running while
//! its lock is free is settled as unknown, once and for good.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::solution::{
    AttemptStatus, Omitted, SolutionEvaluateAnswer, SolutionResultAnswer, SolutionStatusAnswer,
};
use grounding_proto::wire::{AttemptRow, MAX_RUNNING_ATTEMPTS, RunningAttempt, Settings};
use jiff::Timestamp;

use super::answer;
use super::lock::{Acquired, HeldBy, Holder, HolderKind, LockError};
use super::log::{Attempt, Log, Terminal, reconcile};
use super::place::Place;
use super::result::{self, AttemptResult};
use super::table::{Attempts, Live};
use crate::clock::iso;
use crate::error::describe;
use crate::store::StoreError;

/// Most attempts of a list.
const MAX_ROWS: usize = 1_000;
/// How often, and at what distance, the lock of an attempt that has ended is looked at until it is free.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(10);

/// What is asked for.
#[derive(Debug, Clone)]
pub struct LookupRequest {
    /// The id.
    pub id: String,
    /// The attempt, or the latest.
    pub attempt_id: Option<String>,
    /// Where verdicts are.
    pub verdict_dir: PathBuf,
    /// The client's settings.
    pub settings: Settings,
}

/// A lookup that found files it can't use.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lock.
    #[error(transparent)]
    Lock(#[from] LockError),
}

enum Found {
    /// The id can't name a verdict.
    Unusable,
    /// Nothing is known.
    Nothing,
    /// The lock is held, and no attempt is known to hold it.
    Unconfirmed,
    /// An attempt, and whether it is the latest of its id.
    Attempt(Box<Attempt>, bool),
}

/// Answers where an attempt stands.
///
/// # Errors
/// When the log or the lock can't be used.
pub fn status(attempts: &Attempts, request: &LookupRequest) -> Result<SolutionStatusAnswer, LookupError> {
    let bare = |status| SolutionStatusAnswer {
        status,
        id: request.id.clone(),
        attempt_id: request.attempt_id.clone(),
        head: None,
        started_at: None,
        last_updated_at: None,
        is_latest_for_id: None,
        poll_after_ms: None,
        error: None,
    };
    let (attempt, latest) = match find(attempts, request)? {
        Found::Unusable => {
            return Ok(SolutionStatusAnswer { error: Some(unusable(&request.id)), ..bare(AttemptStatus::Unknown) });
        }
        Found::Nothing => return Ok(bare(AttemptStatus::Unknown)),
        Found::Unconfirmed => {
            let poll_after_ms = Some(request.settings.poll_after_ms);
            return Ok(SolutionStatusAnswer { poll_after_ms, ..bare(AttemptStatus::RunningUnconfirmed) });
        }
        Found::Attempt(attempt, latest) => (attempt, latest),
    };
    let status = attempt.status();
    let pruned = attempt.tombstone.is_some();
    let start = attempt.start.as_ref().filter(|_| !pruned);
    Ok(SolutionStatusAnswer {
        attempt_id: Some(attempt.attempt_id.clone()),
        head: Some(start.and_then(|start| start.head.clone())),
        started_at: start.map(|start| start.started_at.clone()),
        last_updated_at: attempt.last_updated_at().map(str::to_owned),
        is_latest_for_id: Some(latest),
        poll_after_ms: (status == AttemptStatus::Running).then_some(request.settings.poll_after_ms),
        error: attempt.terminal.as_ref().filter(|_| status == AttemptStatus::Failed).and_then(|it| it.error.clone()),
        ..bare(status)
    })
}

/// Answers how an attempt ended, or running.
///
/// # Errors
/// When the log or the lock can't be used.
pub fn result(attempts: &Attempts, request: &LookupRequest) -> Result<SolutionResultAnswer, LookupError> {
    let bare = |status| SolutionResultAnswer {
        status,
        id: request.id.clone(),
        attempt_id: request.attempt_id.clone(),
        is_latest_for_id: None,
        marker_present: None,
        outcome_class: None,
        summary: None,
        error: None,
        verdict: None,
        marker_path: None,
        diagnostics: None,
        poll_after_ms: None,
        omitted: Omitted::default(),
    };
    let poll_after_ms = Some(request.settings.poll_after_ms);
    let (attempt, latest) = match find(attempts, request)? {
        Found::Unusable => {
            return Ok(SolutionResultAnswer { error: Some(unusable(&request.id)), ..bare(AttemptStatus::Unknown) });
        }
        Found::Nothing => return Ok(bare(AttemptStatus::Unknown)),
        Found::Unconfirmed => {
            return Ok(SolutionResultAnswer { poll_after_ms, ..bare(AttemptStatus::RunningUnconfirmed) });
        }
        Found::Attempt(attempt, latest) => (attempt, latest),
    };
    let found = SolutionResultAnswer {
        attempt_id: Some(attempt.attempt_id.clone()),
        is_latest_for_id: Some(latest),
        ..bare(attempt.status())
    };
    if attempt.status() == AttemptStatus::Running {
        return Ok(SolutionResultAnswer { poll_after_ms, ..found });
    }
    let terminal = attempt.terminal.as_ref().filter(|_| attempt.reconciled_at.is_none() && attempt.tombstone.is_none());
    let marker_present =
        Place::of(&request.verdict_dir, &request.id).is_some_and(|place| place.marker().symlink_metadata().is_ok());
    let mut found = SolutionResultAnswer {
        marker_present: Some(marker_present),
        outcome_class: attempt.outcome_class(),
        summary: terminal.and_then(|terminal| terminal.summary.clone()),
        error: terminal.and_then(|terminal| terminal.error.clone()),
        ..found
    };
    if latest
        && let Some(terminal) = terminal
        && let Some(stored) = stored_result(request, &attempt.attempt_id, terminal)?
    {
        found.error = stored.error;
        found.verdict = Some(stored.verdict);
        found.marker_path = Some(stored.marker_path);
        found.diagnostics = Some(stored.diagnostics);
        answer::bound(&mut found, &request.verdict_dir);
    }
    Ok(found)
}

/// Answers an evaluation whose attempt has ended.
pub(super) async fn outcome(
    attempts: &Attempts,
    place: &Place,
    live: &Live,
    settings: &Settings,
) -> SolutionEvaluateAnswer {
    let request = LookupRequest {
        id: live.id.clone(),
        attempt_id: Some(live.attempt_id.clone()),
        verdict_dir: place.verdict_dir.clone(),
        settings: *settings,
    };
    let attempts = attempts.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let found = find_ended(&attempts, &request)?;
        let stored = match &found {
            Found::Attempt(attempt, _) if attempt.reconciled_at.is_none() => match &attempt.terminal {
                Some(terminal) => stored_result(&request, &attempt.attempt_id, terminal)?,
                None => None,
            },
            _ => None,
        };
        Ok::<_, LookupError>((found, stored))
    });
    let with_attempt = |answer| SolutionEvaluateAnswer { attempt_id: Some(live.attempt_id.clone()), ..answer };
    match looked.await {
        Ok(Ok((_, Some(stored)))) => answer::settled(stored, &place.verdict_dir),
        Ok(Ok((Found::Attempt(attempt, _), None))) => match (attempt.status(), attempt.terminal) {
            (AttemptStatus::Running, _) => answer::running(&live.id, &live.attempt_id, settings),
            (AttemptStatus::Completed | AttemptStatus::Failed, Some(terminal)) => {
                let error = terminal.error.or_else(|| Some("the attempt's full result is gone".to_owned()));
                with_attempt(SolutionEvaluateAnswer { error, ..answer::bare(terminal.status, &live.id) })
            }
            (status, _) => {
                let error = "the attempt's process ended without an outcome; start a new attempt".to_owned();
                with_attempt(SolutionEvaluateAnswer { error: Some(error), ..answer::bare(status, &live.id) })
            }
        },
        Ok(Ok((_, None))) => {
            let error = "the attempt is not in its log any more; start a new attempt".to_owned();
            with_attempt(SolutionEvaluateAnswer {
                error: Some(error),
                ..answer::bare(AttemptStatus::Unknown, &live.id)
            })
        }
        Ok(Err(error)) => with_attempt(answer::failed(&live.id, describe(&error))),
        Err(error) => with_attempt(answer::failed(&live.id, describe(&error))),
    }
}

/// Returns the full result of an attempt that has ended. One that says otherwise than the terminal record is none: its
/// writing failed after it stood, and the attempt with it.
fn stored_result(
    request: &LookupRequest,
    attempt_id: &str,
    terminal: &Terminal,
) -> Result<Option<AttemptResult>, StoreError> {
    let stored = result::read(&request.verdict_dir, attempt_id)?;
    Ok(stored.filter(|stored| stored.id == request.id && stored.status == terminal.status))
}

/// Lists the attempts of a verdict directory, newest first; a log that can't be read is passed over.
///
/// # Errors
/// When the directory can't be read.
pub fn list(attempts: &Attempts, verdict_dir: &Path, settings: &Settings) -> Result<Vec<AttemptRow>, LookupError> {
    let mut rows = Vec::new();
    for place in places(verdict_dir)? {
        let Ok(log) = Log::read(&place.log()) else { continue };
        let settled =
            log.attempts().iter().filter_map(|attempt| as_it_stands(attempts, &place, attempt, settings).ok());
        rows.extend(settled.map(|attempt| row(attempts, &place, attempt)));
    }
    rows.sort_by(|a, b| b.started_at.cmp(&a.started_at));
    rows.truncate(MAX_ROWS);
    Ok(rows)
}

/// Returns the live attempts that this daemon knows of, the oldest first, `MAX_RUNNING_ATTEMPTS` at most.
#[must_use]
pub fn running(attempts: &Attempts) -> Vec<RunningAttempt> {
    let now = attempts.clock().now();
    let elapsed_ms = |started_at: &str| {
        let started_at: Timestamp = started_at.parse().ok()?;
        u64::try_from(now.as_millisecond() - started_at.as_millisecond()).ok()
    };
    let mut live = attempts.all_live();
    live.truncate(MAX_RUNNING_ATTEMPTS);
    let running = live.into_iter().map(|(place, live)| {
        let log = Log::read(&place.log()).unwrap_or_default();
        let start = log.attempt(&live.id, &live.attempt_id).and_then(|attempt| attempt.start.as_ref());
        let started_at = start.map(|start| start.started_at.clone());
        RunningAttempt {
            elapsed_ms: started_at.as_deref().and_then(elapsed_ms),
            started_at,
            attempt_id: live.attempt_id,
            id: live.id,
            repo_path: live.repo_path,
        }
    });
    let mut running: Vec<_> = running.collect();
    running.sort_by(|a, b| (a.started_at.is_none(), &a.started_at).cmp(&(b.started_at.is_none(), &b.started_at)));
    running
}

/// Returns one attempt of a verdict directory with its repository; nothing when no log names it.
///
/// # Errors
/// When the directory, the lock or the result can't be read.
pub fn one(
    attempts: &Attempts,
    verdict_dir: &Path,
    attempt_id: &str,
    settings: &Settings,
) -> Result<Option<AttemptRow>, LookupError> {
    for place in places(verdict_dir)? {
        let Ok(log) = Log::read(&place.log()) else { continue };
        if let Some(attempt) = log.attempts().iter().find(|attempt| attempt.attempt_id == attempt_id) {
            let found = row(attempts, &place, as_it_stands(attempts, &place, attempt, settings)?);
            let stored = result::read(verdict_dir, attempt_id)?.map(|stored| stored.repo_path);
            return Ok(Some(AttemptRow { repo_path: found.repo_path.or(stored), ..found }));
        }
    }
    Ok(None)
}

/// Takes the running attempts of a verdict directory into the table, and settles those whose process is gone.
///
/// # Errors
/// When the directory can't be read.
pub fn recover(attempts: &Attempts, verdict_dir: &Path, settings: &Settings) -> Result<(), LookupError> {
    for place in places(verdict_dir)? {
        let Ok(log) = Log::read(&place.log()) else { continue };
        for attempt in log.attempts().iter().filter(|attempt| attempt.status() == AttemptStatus::Running) {
            attempts.recover(&place, settings);
            // One that can't be settled now is settled by the first lookup that asks for it.
            let _ = settle(attempts, &place, attempt.clone(), settings);
        }
    }
    Ok(())
}

fn places(verdict_dir: &Path) -> Result<Vec<Place>, LookupError> {
    let entries = match std::fs::read_dir(verdict_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("read", verdict_dir)(error).into()),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| Place::of_log(verdict_dir, &name)).collect())
}

fn row(attempts: &Attempts, place: &Place, attempt: Attempt) -> AttemptRow {
    let live = attempts.live(place).filter(|live| live.attempt_id == attempt.attempt_id);
    let status = attempt.status();
    let ended_at = (status != AttemptStatus::Running).then(|| attempt.last_updated_at().map(str::to_owned)).flatten();
    let terminal = attempt.terminal.as_ref();
    AttemptRow {
        status,
        repo_path: live.and_then(|live| live.repo_path),
        head: attempt.start.as_ref().and_then(|start| start.head.clone()),
        started_at: attempt.start.as_ref().map(|start| start.started_at.clone()),
        ended_at,
        outcome_class: attempt.outcome_class(),
        summary: terminal.and_then(|terminal| terminal.error.clone().or_else(|| terminal.summary.clone())),
        id: attempt.id,
        attempt_id: attempt.attempt_id,
    }
}

fn find(attempts: &Attempts, request: &LookupRequest) -> Result<Found, LookupError> {
    let Some(place) = Place::of(&request.verdict_dir, &request.id) else { return Ok(Found::Unusable) };
    let log = Log::read(&place.log())?;
    let latest = log.latest(&request.id).map(|attempt| attempt.attempt_id.clone());
    let target = match &request.attempt_id {
        Some(attempt_id) => log.attempt(&request.id, attempt_id),
        None => log.latest(&request.id),
    };
    let Some(target) = target else {
        let named = request.attempt_id.as_deref();
        let live = attempts.live(&place).filter(|live| live.id == request.id);
        let live_is_meant = live.is_some_and(|live| named.is_none_or(|named| named == live.attempt_id));
        let held = named.is_none() && is_held(attempts, &place, &request.settings)?;
        return Ok(if live_is_meant || held { Found::Unconfirmed } else { Found::Nothing });
    };
    let is_latest = latest.as_deref() == Some(target.attempt_id.as_str());
    let attempt = as_it_stands(attempts, &place, target, &request.settings)?;
    Ok(Found::Attempt(Box::new(attempt), is_latest))
}

/// Finds an attempt whose process is gone. What that process was starting when it died has its lock until it runs.
fn find_ended(attempts: &Attempts, request: &LookupRequest) -> Result<Found, LookupError> {
    for _ in 0..LOOKS {
        match find(attempts, request)? {
            Found::Attempt(attempt, _) if attempt.status() == AttemptStatus::Running => std::thread::sleep(LOOK),
            found => return Ok(found),
        }
    }
    find(attempts, request)
}

fn is_held(attempts: &Attempts, place: &Place, settings: &Settings) -> Result<bool, LookupError> {
    let Some(mut foreign) = attempts.try_settle(place) else { return Ok(true) };
    let (lock, now) = (place.lock(settings), attempts.clock().monotonic());
    Ok(match lock.probe(attempts.clock().as_ref())? {
        None => false,
        Some(HeldBy::Ours(_)) => true,
        Some(HeldBy::Foreign { mtime_ms }) => {
            foreign.observe(mtime_ms, now);
            foreign.stale_mtime(now, lock.stale()).is_none()
        }
    })
}

/// Returns an attempt as its log says, or, where that says running, as its lock says.
fn as_it_stands(
    attempts: &Attempts,
    place: &Place,
    attempt: &Attempt,
    settings: &Settings,
) -> Result<Attempt, LookupError> {
    match attempt.status() {
        AttemptStatus::Running => settle(attempts, place, attempt.clone(), settings),
        _ => Ok(attempt.clone()),
    }
}

/// Returns an attempt that reads running as it really stands: as it is while its lock is held, else settled as unknown.
fn settle(attempts: &Attempts, place: &Place, attempt: Attempt, settings: &Settings) -> Result<Attempt, LookupError> {
    if attempts.live(place).is_some_and(|live| live.attempt_id == attempt.attempt_id) {
        return Ok(attempt);
    }
    let Some(mut foreign) = attempts.try_settle(place) else { return Ok(attempt) };
    let holder = Holder {
        who: HolderKind::Reconciler,
        pid: std::process::id(),
        id: attempt.id.clone(),
        repo_path: None,
        attempt_id: None,
        mtimes_ms: [0, 0],
    };
    let (lock, now) = (place.lock(settings), attempts.clock().monotonic());
    let lock = match lock.acquire(attempts.clock(), holder, foreign.stale_mtime(now, lock.stale()))? {
        Acquired::Lock(lock) => lock,
        Acquired::Held(HeldBy::Foreign { mtime_ms }) => {
            foreign.observe(mtime_ms, now);
            return Ok(attempt);
        }
        Acquired::Held(HeldBy::Ours(_)) => return Ok(attempt),
    };
    // The holder may have written its outcome and given the lock back since the log was read; `reconcile` reads again.
    let reconciled = reconcile(&place.log(), &attempt.id, iso(attempts.clock().now()));
    lock.release()?;
    reconciled?;
    let log = Log::read(&place.log())?;
    Ok(log.attempt(&attempt.id, &attempt.attempt_id).cloned().unwrap_or(attempt))
}

fn unusable(id: &str) -> String {
    format!("\"{id}\" can't name a verdict: nothing can have been evaluated under it")
}
