//! `groundingd supervise`: the process that owns one attempt from lock to outcome (SPEC 6, DESIGN 6).
//!
//! It takes its job from stdin, tells the daemon what happens on stdout, and needs neither afterwards: it outlives the
//! daemon and every client. The client's environment is in its memory alone. Whatever goes wrong, the attempt ends in
//! one record, and a marker is written last, while the lock is still held.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grounding_proto::solution::{AttemptStatus, Diagnostics, OutcomeClass, Verdict};
use grounding_proto::wire::{OsText, Root, Settings};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::lock::{Acquired, HeldBy, HeldLock, Holder, HolderKind, LockPlace};
use super::log::{self, Log, Record, reconcile};
use super::place::Place;
use super::result::{self, AttemptResult};
use super::run::{self, PreflightRun, Stop};
use crate::clock::{SharedClock, iso};
use crate::error::describe;
use crate::process::{self, ClientEnvironment};
use crate::solution::diagnostics::{self, not_run, not_started};
use crate::solution::repository::{CommitId, Repository, RepositoryError, TreeState};
use crate::solution::{preflight, signing, verdict};
use crate::store;
use crate::{json, points, workflow};

/// What a supervisor is asked to do; sent through its stdin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Names the attempt.
    pub attempt_id: String,
    /// The id to evaluate.
    pub id: String,
    /// The repository, absolute.
    pub repo_path: OsText,
    /// The client's working directory.
    pub cwd: OsText,
    /// Where verdicts are.
    pub verdict_dir: OsText,
    /// Where the signing key is.
    pub signing_key: Root,
    /// The client's settings.
    pub settings: Settings,
    /// The client's environment.
    pub env: Vec<(OsText, OsText)>,
    /// A foreign lock at this modification time was seen unchanged for longer than the stale time.
    pub unchanged_mtime_ms: Option<i64>,
}

/// What a supervisor tells the daemon, one JSON line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event {
    /// The attempt is under way: its start record stands.
    Started,
    /// Somebody else holds the id's lock; nothing was done.
    Held,
    /// The attempt could not even be recorded; why.
    Failed(String),
    /// The attempt ended; its result and its terminal record stand.
    Settled,
}

/// Reads the job from stdin and does it.
pub async fn supervise(clock: SharedClock) -> ExitCode {
    let mut text = Vec::new();
    let read = std::io::Read::read_to_end(&mut std::io::stdin(), &mut text);
    let job: Job = match read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_slice(&text).map_err(|error| error.to_string()))
    {
        Ok(job) => job,
        Err(error) => {
            tell(&Event::Failed(format!("the supervisor's job can't be read: {error}")));
            return ExitCode::FAILURE;
        }
    };
    // Without it a size limit ends the attempt instead of failing a write.
    let _: Result<_, _> = process::survive_file_size_limit();
    // A session of its own: what is sent to the daemon's or a terminal's group does not end the attempt.
    let _: Result<_, _> = rustix::process::setsid();
    match attempt(job, clock).await {
        Ok(event) => {
            tell(&event);
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&Event::Failed(error));
            ExitCode::FAILURE
        }
    }
}

fn tell(event: &Event) {
    let mut line = json::compact(event);
    line.push('\n');
    // A daemon that is gone learns of the outcome from the log.
    let _ = std::io::stdout().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush());
}

/// One attempt, with everything it needs at hand.
struct Attempt {
    job: Job,
    place: Place,
    clock: SharedClock,
    environment: ClientEnvironment,
    started_at: String,
    stop: watch::Receiver<Option<Stop>>,
    lock: Arc<Mutex<HeldLock>>,
}

/// What became of an attempt, before it is recorded.
struct Outcome {
    class: OutcomeClass,
    verdict: Option<Verdict>,
    error: Option<String>,
    diagnostics: Diagnostics,
}

impl Outcome {
    fn failed(error: impl Into<String>, diagnostics: Diagnostics) -> Self {
        Self { class: OutcomeClass::Error, verdict: None, error: Some(error.into()), diagnostics }
    }

    fn status(&self) -> AttemptStatus {
        if self.verdict.is_some() { AttemptStatus::Completed } else { AttemptStatus::Failed }
    }
}

/// What the log got of an outcome.
enum Recorded {
    Terminal,
    /// The attempt was given up by somebody else before.
    Nothing,
}

async fn attempt(job: Job, clock: SharedClock) -> Result<Event, String> {
    let place = Place::of(job.verdict_dir.as_path(), &job.id);
    let place = place.ok_or_else(|| format!("\"{}\" can't name a verdict", job.id))?;
    let lock_place = place.lock(&job.settings);
    // Before the lock names this process: whoever reads the name may cancel.
    let (stop_sender, stop) = watch::channel(None);
    listen_for_termination(stop_sender.clone()).map_err(|error| format!("signals can't be heard: {error}"))?;
    let Some(lock) = take_lock(&job, &lock_place, &clock).await? else { return Ok(Event::Held) };
    let lock = Arc::new(Mutex::new(lock));
    tokio::spawn(beat(lock.clone(), lock_place.heartbeat(), stop_sender));

    let environment = ClientEnvironment::new(job.env.iter().map(|(name, value)| (name.0.clone(), value.0.clone())));
    let started_at = iso(clock.now());
    let attempt = Attempt { job, place, clock, environment, started_at, stop, lock };
    let settled = attempt.carry_out().await;
    attempt.release();
    points::reach("lock-released");
    settled.map(|()| Event::Settled)
}

/// Takes the lock; nothing when somebody else has it. One of ours that merely settles old attempts is waited for.
async fn take_lock(job: &Job, lock_place: &LockPlace, clock: &SharedClock) -> Result<Option<HeldLock>, String> {
    let holder = Holder {
        who: HolderKind::Supervisor,
        pid: std::process::id(),
        id: job.id.clone(),
        repo_path: Some(job.repo_path.0.to_string_lossy().into_owned()),
        attempt_id: Some(job.attempt_id.clone()),
        mtimes_ms: [0, 0],
    };
    for _ in 0..50 {
        let acquired = lock_place.acquire(clock, holder.clone(), job.unchanged_mtime_ms);
        match acquired.map_err(|error| describe(&error))? {
            Acquired::Lock(lock) => return Ok(Some(lock)),
            Acquired::Held(HeldBy::Ours(None)) => {}
            Acquired::Held(HeldBy::Ours(Some(by))) if by.who == HolderKind::Reconciler => {}
            Acquired::Held(_) => return Ok(None),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(None)
}

/// Keeps the lock fresh; asks for a stop when it was lost.
async fn beat(lock: Arc<Mutex<HeldLock>>, every: Duration, stop: watch::Sender<Option<Stop>>) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let beaten = lock.lock().unwrap_or_else(PoisonError::into_inner).beat();
        if let Err(lost) = beaten {
            stop.send_replace(Some(Stop::Compromised(lost.to_string())));
            return;
        }
    }
}

/// From now on SIGTERM and SIGINT cancel the attempt.
fn listen_for_termination(stop: watch::Sender<Option<Stop>>) -> std::io::Result<()> {
    let termination = process::termination()?;
    tokio::spawn(async move {
        termination.await;
        // An attempt that lost its lock meanwhile stays compromised.
        stop.send_if_modified(|stop| stop.is_none() && stop.replace(Stop::Cancelled).is_none());
    });
    Ok(())
}

impl Attempt {
    /// From the removal of the old marker to the terminal record.
    async fn carry_out(&self) -> Result<(), String> {
        let verdict_dir = &self.place.verdict_dir;
        let (log_path, marker) = (self.place.log(), self.place.marker());
        points::reach("lock-taken");
        // First of all: whatever fails from here on leaves no earlier verdict behind.
        let removed = store::remove(&marker);
        points::reach("marker-removed");
        self.settle_predecessors(verdict_dir, &log_path)?;
        let before = self.look_at_tree().await;

        let head = before.as_ref().ok().map(|(_, tree)| tree.head.as_str().to_owned());
        let start = Record::Start {
            attempt_id: self.job.attempt_id.clone(),
            id: self.job.id.clone(),
            head,
            started_at: self.started_at.clone(),
            pid: std::process::id(),
            status: AttemptStatus::Running,
        };
        points::reach("start-recording");
        log::append(&log_path, &start).map_err(|error| describe(&error))?;
        points::reach("start-recorded");
        tell(&Event::Started);

        let outcome = match (removed, before) {
            (Err(error), _) => Outcome::failed(
                format!("the earlier verdict could not be removed and may remain: {}", describe(&error)),
                not_run(),
            ),
            (Ok(_), Err(error)) => Outcome::failed(describe(&error), not_run()),
            (Ok(_), Ok((repository, tree))) => self.evaluate(verdict_dir, &repository, tree).await,
        };
        self.settle(verdict_dir, &log_path, &marker, outcome)
    }

    /// Whoever has the lock knows that every attempt that still reads running is dead; and old ones are pruned now.
    fn settle_predecessors(&self, verdict_dir: &Path, log_path: &Path) -> Result<(), String> {
        reconcile(log_path, &self.job.id, iso(self.clock.now())).map_err(|error| describe(&error))?;
        let settings = &self.job.settings;
        let retention = settings.retention_ms.max(settings.poll_after_ms.saturating_mul(100));
        let retention = SignedDuration::from_millis(i64::try_from(retention).unwrap_or(i64::MAX));
        let Ok(before) = self.clock.now().checked_sub(retention) else { return Ok(()) };
        // An attempt that runs may have been silent for as long as it may run.
        let run_limit = SignedDuration::from_millis(i64::try_from(settings.run_limit_ms).unwrap_or(i64::MAX));
        if let Ok(before) = before.checked_sub(run_limit) {
            result::sweep(verdict_dir, before);
        }
        let prune = Log::read(log_path).map_err(|error| describe(&error))?.prunable(before);
        if prune.is_empty() {
            return Ok(());
        }
        log::compact(log_path, &prune, self.clock.now()).map_err(|error| describe(&error))?;
        // A result that can't be removed takes up room and harms nothing.
        let _ = result::remove(verdict_dir, &prune);
        Ok(())
    }

    async fn look_at_tree(&self) -> Result<(Repository, TreeState), RepositoryError> {
        let repository = Repository::at(self.job.repo_path.as_path(), &self.environment)?;
        let tree = repository.tree_state().await?;
        Ok((repository, tree))
    }

    /// Runs the checks and judges what they say.
    async fn evaluate(&self, verdict_dir: &Path, repository: &Repository, before: TreeState) -> Outcome {
        let key_path = match &self.job.signing_key {
            Root::Path(path) => path.as_path().to_owned(),
            Root::Refused(why) => return Outcome::failed(why, not_run()),
        };
        // A key that can't be used is said before minutes of checks, not after them.
        if let Err(error) = signing::read_or_create_key(&key_path, self.clock.as_ref()) {
            return Outcome::failed(describe(&error), not_run());
        }
        let preflight = match preflight::find(&self.environment, self.job.cwd.as_path()) {
            Ok(preflight) => preflight,
            Err(error) => return Outcome::failed(describe(&error), not_started(&describe(&error))),
        };
        let Some(stderr_log) = result::log_path(verdict_dir, &self.job.attempt_id) else {
            return Outcome::failed("the attempt is not named by a UUID", not_run());
        };
        if self.stop.borrow().is_some() {
            return Outcome::failed("the attempt was stopped before its checks began", not_run());
        }
        let request = PreflightRun {
            program: &preflight.program,
            verb: preflight.kind.verb(),
            repo_path: self.job.repo_path.as_path(),
            cwd: self.job.cwd.as_path(),
            environment: &self.environment,
            stderr_log: &stderr_log,
            limit: Duration::from_millis(self.job.settings.run_limit_ms),
        };
        let (payload, execution) = run::run(request, self.stop.clone()).await;
        let accepted = preflight::accept(&payload, &execution);
        let mut diagnostics = diagnostics::assess(payload, execution);
        diagnostics.preflight = Some(preflight.described);
        let core = match accepted {
            Ok(core) => core,
            Err(error) => return Outcome::failed(error, diagnostics),
        };
        match self.look_at_tree().await {
            Err(error) => return Outcome::failed(describe(&error), diagnostics),
            Ok((_, after)) => {
                if let Some(what) = before.moved(&after) {
                    let error = format!("{what} while the checks ran: the result describes no one tree; run it again");
                    return Outcome::failed(error, diagnostics);
                }
            }
        }
        diagnostics.policy_files_changed = repository.policy_files_changed().await;
        diagnostics.workflow = workflow::evaluate(repository).await;
        self.judge(core, preflight.kind.source(), &before.head, diagnostics)
    }

    /// Makes the verdict: preflight's own, less what the workflow arm blocks.
    fn judge(&self, mut core: preflight::Core, source: &str, head: &CommitId, diagnostics: Diagnostics) -> Outcome {
        let blockers = diagnostics.workflow.iter().flat_map(|report| &report.blockers);
        core.blockers.extend(blockers.map(|blocker| blocker.message.clone()));
        core.ready &= diagnostics.workflow.as_ref().is_none_or(|report| report.complete && report.blockers.is_empty());
        let class = if core.ready { OutcomeClass::Ready } else { OutcomeClass::NotReady };
        let verdict = Verdict {
            id: self.job.id.clone(),
            head: head.as_str().to_owned(),
            ready: core.ready,
            confidence: core.confidence,
            blockers: core.blockers,
            timestamp: iso(self.clock.now()),
            source: source.to_owned(),
        };
        Outcome { class, verdict: Some(verdict), error: None, diagnostics }
    }

    /// Writes marker, result and terminal record, in this order; what fails takes the marker with it.
    fn settle(&self, verdict_dir: &Path, log_path: &Path, marker: &Path, outcome: Outcome) -> Result<(), String> {
        let mut outcome = self.heed_stop(outcome);
        if let Some(verdict) = &outcome.verdict
            && let Err((class, error)) = self.write_marker(marker, verdict)
        {
            // The new marker may stand although it could not be made durable.
            self.withdraw(marker, &outcome);
            outcome = Outcome { class, verdict: None, error: Some(error), diagnostics: outcome.diagnostics };
        }
        let terminal_at = iso(self.clock.now());
        if let Err(error) = self.write_result(verdict_dir, marker, &outcome, &terminal_at) {
            // The terminal record still says how it ended, and why there is no more than that.
            self.withdraw(marker, &outcome);
            outcome = match outcome.error {
                Some(first) => Outcome { error: Some(format!("{first}; {error}")), ..outcome },
                None => Outcome::failed(error, outcome.diagnostics),
            };
        }
        points::reach("result-written");
        let recorded = self.record(log_path, &outcome, terminal_at);
        points::reach("terminal-recorded");
        if !matches!(recorded, Ok(Recorded::Terminal)) {
            self.withdraw(marker, &outcome);
        }
        recorded.map(|_| ())
    }

    /// Removes the marker again: a verdict that nothing remembers must not open the gate.
    fn withdraw(&self, marker: &Path, outcome: &Outcome) {
        let lost = self.lock.lock().unwrap_or_else(PoisonError::into_inner).check().is_err();
        if outcome.verdict.is_some() && !lost {
            // It is signed and true of its commit, so that one that can't be removed tells nothing wrong.
            let _ = store::remove(marker);
        }
    }

    fn heed_stop(&self, outcome: Outcome) -> Outcome {
        let (class, error) = match self.stop.borrow().as_ref() {
            None => return outcome,
            Some(Stop::Cancelled) => (OutcomeClass::Error, "cancelled".to_owned()),
            Some(Stop::Compromised(why)) => (OutcomeClass::Compromised, why.clone()),
        };
        Outcome { class, verdict: None, error: Some(error), diagnostics: outcome.diagnostics }
    }

    fn write_marker(&self, marker: &Path, verdict: &Verdict) -> Result<(), (OutcomeClass, String)> {
        let error = |error: &dyn std::error::Error| (OutcomeClass::Error, describe(error));
        let Root::Path(key_path) = &self.job.signing_key else {
            return Err((OutcomeClass::Error, "there is no signing key".to_owned()));
        };
        let key = signing::read_or_create_key(key_path.as_path(), self.clock.as_ref()).map_err(|e| error(&e))?;
        // Held until the marker stands, so that no heartbeat of ours comes in between; dated anew, so that an attempt
        // that was suspended until now is not found stale while it writes.
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        lock.beat().map_err(|lost| (OutcomeClass::Compromised, lost.to_string()))?;
        points::reach("marker-writing");
        verdict::write_marker(marker, verdict, &key).map_err(|e| error(&e))?;
        points::reach("marker-written");
        Ok(())
    }

    fn write_result(
        &self,
        verdict_dir: &Path,
        marker: &Path,
        outcome: &Outcome,
        terminal_at: &str,
    ) -> Result<(), String> {
        let stored = AttemptResult {
            attempt_id: self.job.attempt_id.clone(),
            id: self.job.id.clone(),
            repo_path: self.job.repo_path.0.to_string_lossy().into_owned(),
            started_at: self.started_at.clone(),
            terminal_at: terminal_at.to_owned(),
            status: outcome.status(),
            outcome_class: outcome.class,
            summary: summary(outcome),
            error: outcome.error.clone(),
            verdict: outcome.verdict.clone(),
            marker_path: outcome.verdict.as_ref().map(|_| marker.display().to_string()),
            diagnostics: outcome.diagnostics.clone(),
        };
        result::write(verdict_dir, &stored).map_err(|error| describe(&error))
    }

    fn record(&self, log_path: &Path, outcome: &Outcome, terminal_at: String) -> Result<Recorded, String> {
        let log = Log::read(log_path).map_err(|error| describe(&error))?;
        let reconciled = log.attempt(&self.job.id, &self.job.attempt_id).is_some_and(|it| it.reconciled_at.is_some());
        if reconciled {
            // Somebody gave this attempt up; it must never look like a success afterwards.
            return Ok(Recorded::Nothing);
        }
        let terminal = Record::Terminal {
            attempt_id: self.job.attempt_id.clone(),
            id: self.job.id.clone(),
            status: outcome.status(),
            terminal_at,
            outcome_class: outcome.class,
            summary: summary(outcome),
            error: outcome.error.clone(),
            error_truncated: None,
        };
        log::append(log_path, &terminal).map_err(|error| describe(&error))?;
        Ok(Recorded::Terminal)
    }

    /// Gives the lock back. The heartbeat may still hold a handle; the directory is removed all the same.
    fn release(&self) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // A directory that can't be removed is stale after its time; the attempt is settled.
        let _ = lock.release();
    }
}

fn summary(outcome: &Outcome) -> String {
    match &outcome.verdict {
        Some(verdict) => format!(
            "ready={} confidence={} blockers={}",
            verdict.ready,
            signing::ecmascript_number(verdict.confidence),
            verdict.blockers.len()
        ),
        None => "no verdict".to_owned(),
    }
}
