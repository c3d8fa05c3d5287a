//! The daemon's table of live attempts: who may start one, joining one that runs, waiting for its end, bounded (SPEC 6,
//! Attempts).
//!
//! The table is a convenience, never the truth: that is the lock and the log, which survive the daemon. One evaluation
//! of an id starts at a time; everybody else joins.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grounding_proto::solution::{AttemptStatus, SolutionEvaluateAnswer};
use grounding_proto::wire::{AttemptCounts, OsText, Root, Settings};
use tokio::sync::{OwnedMutexGuard, watch};

use super::answer;
use super::lock::HeldBy;
use super::log::Log;
use super::place::Place;
use crate::clock::SharedClock;
use crate::error::describe;
use crate::process::ClientEnvironment;

/// Slots beyond this number are dropped when nothing happens in them.
const MANY_SLOTS: usize = 256;

/// A handle on the table; cheap to clone.
#[derive(Debug, Clone)]
pub struct Attempts {
    pub(super) shared: Arc<Shared>,
}

/// What every handle on the table has in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: SharedClock,
    pub(super) own_environment: ClientEnvironment,
    slots: Mutex<HashMap<Place, Arc<Slot>>>,
    recovered: Mutex<HashSet<PathBuf>>,
    finished: AtomicU64,
    draining: watch::Sender<bool>,
}

/// What happens at one place. `starting` is held while a supervisor is started or dead attempts are settled, never while
/// an attempt is waited for; `live` is never held across an await.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) starting: Arc<tokio::sync::Mutex<Foreign>>,
    live: Mutex<Option<Live>>,
}

/// The foreign lock that was last seen here, and since when it is unchanged on a clock that never jumps.
#[derive(Debug, Default)]
pub struct Foreign {
    seen: Option<(i64, Duration)>,
}

/// A live attempt.
#[derive(Debug, Clone)]
pub struct Live {
    /// Names the attempt.
    pub attempt_id: String,
    /// The id.
    pub id: String,
    /// The repository.
    pub repo_path: Option<String>,
    pub(super) phase: watch::Receiver<Phase>,
}

impl Live {
    /// Returns once the attempt is not live any more.
    async fn ended(&self) {
        // Who watched it is gone only when the daemon ends.
        let _ = self.phase.clone().wait_for(|phase| *phase != Phase::Running).await;
    }
}

/// How far an attempt has come, for those who wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Ended,
    /// It ended and could not record how; why.
    Unrecorded(String),
}

/// An evaluation that a client asks for.
#[derive(Debug)]
pub struct EvaluateRequest {
    /// The id.
    pub id: String,
    /// The repository, absolute.
    pub repo_path: PathBuf,
    /// The client's working directory.
    pub cwd: PathBuf,
    /// Where verdicts are.
    pub verdict_dir: PathBuf,
    /// Where the signing key is.
    pub signing_key: Root,
    /// The client's settings.
    pub settings: Settings,
    /// The client's environment.
    pub env: Vec<(OsText, OsText)>,
    /// Whether a live attempt may be joined.
    pub when_live: WhenLive,
}

/// What to do when an attempt of the id is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenLive {
    /// Join it.
    Join,
    /// Refuse: the caller wants a new one.
    Refuse,
}

enum Found {
    Live(Live),
    Answer(Box<SolutionEvaluateAnswer>),
    Free,
}

impl Attempts {
    /// Returns an empty table. Supervisors are started with `own_environment`.
    #[must_use]
    pub fn new(clock: SharedClock, own_environment: ClientEnvironment) -> Self {
        let shared = Shared {
            clock,
            own_environment,
            slots: Mutex::default(),
            recovered: Mutex::default(),
            finished: AtomicU64::new(0),
            draining: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the clocks that locks are judged by.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.shared.clock
    }

    /// Has everybody who waits answer running; attempts go on, because they belong to their supervisors.
    pub fn stop_waiting(&self) {
        self.shared.draining.send_replace(true);
    }

    /// Returns how many attempts are live and how many ended since the daemon started.
    #[must_use]
    pub fn counts(&self) -> AttemptCounts {
        let slots: Vec<_> = self.slots().values().cloned().collect();
        let running = slots.iter().filter(|slot| slot.live().is_some()).count() as u64;
        AttemptCounts { running, finished: self.shared.finished.load(Ordering::Relaxed) }
    }

    /// Returns all live attempts and their places.
    pub(super) fn all_live(&self) -> Vec<(Place, Live)> {
        let slots: Vec<_> = self.slots().iter().map(|(place, slot)| (place.clone(), Arc::clone(slot))).collect();
        slots.into_iter().filter_map(|(place, slot)| Some((place, slot.live()?))).collect()
    }

    /// Returns the live attempt at a place, as far as this daemon knows.
    #[must_use]
    pub fn live(&self, place: &Place) -> Option<Live> {
        self.slots().get(place).and_then(|slot| slot.live())
    }

    /// Keeps others from starting or settling anything at a place; nothing when somebody does so right now.
    #[must_use]
    pub fn try_settle(&self, place: &Place) -> Option<OwnedMutexGuard<Foreign>> {
        self.slot(place).starting.clone().try_lock_owned().ok()
    }

    /// Returns true once per verdict directory: its attempts are then to be recovered.
    #[must_use]
    pub fn first_seen(&self, verdict_dir: &Path) -> bool {
        self.shared.recovered.lock().unwrap_or_else(PoisonError::into_inner).insert(verdict_dir.to_owned())
    }

    /// Starts an evaluation or joins the live one, and waits for its end up to the wait bound.
    pub async fn evaluate(&self, request: EvaluateRequest) -> SolutionEvaluateAnswer {
        let Some(place) = Place::of(&request.verdict_dir, &request.id) else {
            return answer::failed(&request.id, format!("\"{}\" can't name a verdict; choose another id", request.id));
        };
        let (id, settings, when_live) = (request.id.clone(), request.settings, request.when_live);
        let mut end = std::pin::pin!(self.end_of_wait(&settings));
        let slot = self.slot(&place);
        let mut foreign = tokio::select! {
            foreign = slot.starting.clone().lock_owned() => foreign,
            () = &mut end => return unconfirmed(&id, &settings, when_live, None),
        };
        // A start that takes longer than this caller waits is finished all the same, and by then somebody's to join.
        let (attempts, at) = (self.clone(), place.clone());
        let mut starting =
            tokio::spawn(async move { attempts.start_or_join(&slot, &at, &request, &mut foreign).await });
        let started = tokio::select! {
            started = &mut starting => started,
            () = &mut end => return unconfirmed(&id, &settings, when_live, None),
        };
        match started {
            Ok(Ok(live)) => self.wait(&place, live, &settings, end).await,
            Ok(Err(answer)) => *answer,
            Err(error) => answer::failed(&id, describe(&error)),
        }
    }

    /// Returns when a caller is to be answered whatever happens: at the wait bound, or once the daemon drains.
    async fn end_of_wait(&self, settings: &Settings) {
        let mut draining = self.shared.draining.subscribe();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(settings.wait_bound_ms)) => {}
            _ = draining.wait_for(|draining| *draining) => {}
        }
    }

    async fn start_or_join(
        &self,
        slot: &Arc<Slot>,
        place: &Place,
        request: &EvaluateRequest,
        foreign: &mut Foreign,
    ) -> Result<Live, Box<SolutionEvaluateAnswer>> {
        // A holder that ends between two looks leaves the lock free: the next round then starts.
        for _ in 0..3 {
            let found = match slot.live() {
                Some(live) => Found::Live(live),
                None => {
                    let lock = place.lock(&request.settings);
                    let unchanged = foreign.stale_mtime(self.clock().monotonic(), lock.stale());
                    match self.start(slot, place, request, unchanged).await {
                        Ok(Some(live)) => return Ok(live),
                        Ok(None) => self.find_holder(slot, place, request, foreign),
                        Err(error) => {
                            let error = self.withdraw_earlier(place, &request.settings, error);
                            return Err(Box::new(answer::failed(&request.id, error)));
                        }
                    }
                }
            };
            match found {
                Found::Live(live) if has_settled(place, &live) => live.ended().await,
                Found::Live(live) => return joinable(live, request),
                Found::Answer(answer) => return Err(answer),
                Found::Free => {}
            }
        }
        Err(Box::new(unconfirmed(&request.id, &request.settings, request.when_live, None)))
    }

    /// Finds out who holds the lock: an attempt to join, something to answer, or nobody any more.
    fn find_holder(&self, slot: &Arc<Slot>, place: &Place, request: &EvaluateRequest, foreign: &mut Foreign) -> Found {
        let lock = place.lock(&request.settings);
        let held = match lock.probe(self.clock().as_ref()) {
            Ok(held) => held,
            Err(error) => return Found::Answer(Box::new(answer::failed(&request.id, describe(&error)))),
        };
        let nobody_known = || unconfirmed(&request.id, &request.settings, request.when_live, None);
        match held {
            None => Found::Free,
            Some(HeldBy::Ours(Some(holder))) => match self.adopt(slot, place, holder, lock) {
                Some(live) => Found::Live(live),
                None => Found::Answer(Box::new(nobody_known())),
            },
            Some(HeldBy::Ours(None)) => Found::Answer(Box::new(nobody_known())),
            Some(HeldBy::Foreign { mtime_ms }) => {
                foreign.observe(mtime_ms, self.clock().monotonic());
                Found::Answer(Box::new(joined_from_log(place, request)))
            }
        }
    }

    async fn wait(
        &self,
        place: &Place,
        live: Live,
        settings: &Settings,
        end: impl Future<Output = ()>,
    ) -> SolutionEvaluateAnswer {
        let mut phase = live.phase.clone();
        let ended = tokio::select! {
            ended = phase.wait_for(|phase| *phase != Phase::Running) => match ended {
                Ok(phase) => phase.clone(),
                // The one who watched it is gone, which only the end of the daemon does.
                Err(_) => return answer::running(&live.id, &live.attempt_id, settings),
            },
            () = end => return answer::running(&live.id, &live.attempt_id, settings),
        };
        match ended {
            Phase::Unrecorded(error) => {
                SolutionEvaluateAnswer { attempt_id: Some(live.attempt_id), ..answer::failed(&live.id, error) }
            }
            Phase::Running | Phase::Ended => super::lookup::outcome(self, place, &live, settings).await,
        }
    }

    pub(super) fn slot(&self, place: &Place) -> Arc<Slot> {
        let mut slots = self.slots();
        if slots.len() > MANY_SLOTS {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || !slot.is_idle());
        }
        slots.entry(place.clone()).or_default().clone()
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<Place, Arc<Slot>>> {
        self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub(super) fn live(&self) -> Option<Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_live(&self, live: &Live) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(live.clone());
    }

    pub(super) fn end(&self, shared: &Shared, phase: &watch::Sender<Phase>, ended: Phase) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        shared.finished.fetch_add(1, Ordering::Relaxed);
        phase.send_replace(ended);
    }

    fn is_idle(&self) -> bool {
        self.live().is_none() && self.starting.try_lock().is_ok_and(|foreign| foreign.seen.is_none())
    }
}

impl Foreign {
    /// Notes that a foreign lock with that modification time was seen.
    pub fn observe(&mut self, mtime_ms: i64, now: Duration) {
        if self.seen.is_none_or(|(seen, _)| seen != mtime_ms) {
            self.seen = Some((mtime_ms, now));
        }
    }

    /// Returns the modification time that was seen unchanged for the stale time.
    #[must_use]
    pub fn stale_mtime(&self, now: Duration, stale: Duration) -> Option<i64> {
        self.seen.filter(|(_, since)| now.saturating_sub(*since) > stale).map(|(mtime_ms, _)| mtime_ms)
    }
}

/// Returns whether the outcome of an attempt stands already, so that only its lock is still to be given back. Somebody may
/// have read it: who asks for an evaluation now does not ask for that one.
fn has_settled(place: &Place, live: &Live) -> bool {
    let log = Log::read(&place.log()).unwrap_or_default();
    log.attempt(&live.id, &live.attempt_id).is_some_and(|attempt| attempt.terminal.is_some())
}

/// Returns a live attempt that the request may join, else the refusal that names it.
fn joinable(live: Live, request: &EvaluateRequest) -> Result<Live, Box<SolutionEvaluateAnswer>> {
    let other_repository = live.repo_path.as_ref().is_some_and(|path| !is_same_directory(path, &request.repo_path));
    let error = if live.id != request.id {
        format!("an attempt of the id \"{}\", which shares this id's file name, is live; wait for its end", live.id)
    } else if other_repository {
        let path = live.repo_path.as_deref().unwrap_or_default();
        format!("an attempt of this id is live for another repository, {path}; wait for its end or use another id")
    } else if request.when_live == WhenLive::Refuse {
        "an attempt of this id is live; poll solution_evaluate_status for it, a new one can start after its end"
            .to_owned()
    } else {
        return Ok(live);
    };
    Err(Box::new(answer::refused(&request.id, Some(live.attempt_id), error)))
}

/// Returns whether a recorded repository is the one at a path. It is recorded as text, in which bytes that are not UTF-8
/// were replaced, and one directory has many spellings.
fn is_same_directory(recorded: &str, path: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    path.to_string_lossy() == recorded
        || canonical(path).is_some_and(|canonical_path| Some(canonical_path) == canonical(Path::new(recorded)))
}

/// Answers for a lock that another program holds: by the attempt its log names, if any.
fn joined_from_log(place: &Place, request: &EvaluateRequest) -> SolutionEvaluateAnswer {
    let log = match Log::read(&place.log()) {
        Ok(log) => log,
        Err(error) => return answer::failed(&request.id, describe(&error)),
    };
    let running = |attempt: &&super::log::Attempt| attempt.status() == AttemptStatus::Running;
    let attempt_id = log.running(&request.id).last().map(|attempt| attempt.attempt_id.clone());
    if request.when_live == WhenLive::Refuse {
        return unconfirmed(&request.id, &request.settings, request.when_live, attempt_id);
    }
    if let Some(attempt_id) = attempt_id {
        return answer::running(&request.id, &attempt_id, &request.settings);
    }
    match log.attempts().iter().rev().find(running) {
        Some(other) => {
            let error = format!("an attempt of the id \"{}\", which shares this id's file name, is live", other.id);
            answer::refused(&request.id, Some(other.attempt_id.clone()), error)
        }
        None => unconfirmed(&request.id, &request.settings, request.when_live, None),
    }
}

/// Answers for a lock whose holder is not known.
fn unconfirmed(
    id: &str,
    settings: &Settings,
    when_live: WhenLive,
    attempt_id: Option<String>,
) -> SolutionEvaluateAnswer {
    match when_live {
        WhenLive::Join => answer::unconfirmed(id, settings),
        WhenLive::Refuse => {
            let error = "the id's lock is held: an attempt may be live; a new one can start after its end".to_owned();
            answer::refused(id, attempt_id, error)
        }
    }
}
