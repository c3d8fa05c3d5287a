//! How an attempt comes into the table: a supervisor of our own is started, or one that runs already is adopted.
//!
//! Either way a task watches it from then on and says in the slot when it has ended; no caller waits here for that. Nothing
//! here judges whether an attempt may begin: that is the table's to ask and the lock's to say.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use grounding_proto::wire::Settings;
use notify::Watcher;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;
use uuid::Uuid;

use super::lock::{HeldBy, Holder, LockPlace};
use super::place::Place;
use super::supervisor::{Event, Job};
use super::table::{Attempts, EvaluateRequest, Live, Phase, Slot};
use crate::clock::SharedClock;
use crate::error::describe;
use crate::{points, process, store};

/// How often an attempt that belongs to another daemon is looked at when its directory tells nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same for a holder that is about to say who it is, or to go.
const LOOK_SOON: Duration = Duration::from_millis(10);

impl Attempts {
    /// Takes a place's running attempt into the table when one of our supervisors holds its lock.
    pub fn recover(&self, place: &Place, settings: &Settings) {
        let slot = self.slot(place);
        let lock = place.lock(settings);
        let Ok(_starting) = slot.starting.clone().try_lock_owned() else { return };
        if slot.live().is_none()
            && let Ok(Some(HeldBy::Ours(Some(holder)))) = lock.probe(self.clock().as_ref())
        {
            // The attempt is in the table now; a holder that runs none stays out of it.
            let _ = self.adopt(&slot, place, holder, lock);
        }
    }

    /// Starts a supervisor and returns once its start record stands; nothing when the lock is somebody else's.
    pub(super) async fn start(
        &self,
        slot: &Arc<Slot>,
        place: &Place,
        request: &EvaluateRequest,
        unchanged_mtime_ms: Option<i64>,
    ) -> Result<Option<Live>, String> {
        let job = Job {
            attempt_id: Uuid::new_v4().to_string(),
            id: request.id.clone(),
            repo_path: request.repo_path.clone().into(),
            cwd: request.cwd.clone().into(),
            verdict_dir: place.verdict_dir.clone().into(),
            signing_key: request.signing_key.clone(),
            settings: request.settings,
            env: request.env.clone(),
            unchanged_mtime_ms,
        };
        let cant_start = |error: &dyn std::error::Error| format!("the attempt can't be started: {}", describe(error));
        let text = serde_json::to_vec(&job).map_err(|error| cant_start(&error))?;
        let this_build = process::this_build(&self.shared.own_environment, Path::new("/"));
        let mut command = this_build.map_err(|error| cant_start(&error))?;
        command.arg("supervise").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // A supervisor belongs to its attempt, not to this daemon.
        command.kill_on_drop(false);
        points::reach("supervisor-starting");
        let mut child = command.spawn().map_err(|error| cant_start(&error))?;
        points::reach("supervisor-started");
        if let Some(mut stdin) = child.stdin.take() {
            // A supervisor that does not read has ended; its events then say so.
            let _ = stdin.write_all(&text).await;
        }
        points::reach("job-sent");
        let stdout = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let mut events = stdout.ok_or("the attempt can't be started: its supervisor has no stdout")?;
        let refused = match next_event(&mut events).await {
            Some(Event::Started | Event::Settled) => None,
            Some(Event::Held) => Some(Ok(None)),
            Some(Event::Failed(error)) => Some(Err(error)),
            None => Some(Err("the attempt's supervisor ended before it began".to_owned())),
        };
        if let Some(refused) = refused {
            // Its lock is free only once it is gone, and who is answered may look at once.
            let _ = child.wait().await;
            return refused;
        }
        let (phase, receiver) = watch::channel(Phase::Running);
        let repo_path = Some(request.repo_path.display().to_string());
        let live = Live { attempt_id: job.attempt_id, id: job.id, repo_path, phase: receiver };
        slot.set_live(&live);
        let (shared, slot) = (self.shared.clone(), slot.clone());
        tokio::spawn(async move {
            let mut ended = Phase::Ended;
            while let Some(event) = next_event(&mut events).await {
                if let Event::Failed(error) = event {
                    ended = Phase::Unrecorded(error);
                }
            }
            // Waited for so that no zombie is left; how it ended is in the log.
            let _ = child.wait().await;
            slot.end(&shared, &phase, ended);
        });
        Ok(Some(live))
    }

    /// Ends an evaluation that never got as far as its lock: it too leaves no earlier verdict behind, unless somebody
    /// holds the lock, whose verdict it would be.
    pub(super) fn withdraw_earlier(&self, place: &Place, settings: &Settings, error: String) -> String {
        if let Ok(Some(_)) = place.lock(settings).probe(self.clock().as_ref()) {
            return error;
        }
        match store::remove(&place.marker()) {
            Ok(_) => error,
            Err(removal) => {
                format!("{error}; and the earlier verdict could not be removed and may remain: {}", describe(&removal))
            }
        }
    }

    /// Takes an attempt into the table that another daemon, or this one before a restart, began.
    pub(super) fn adopt(&self, slot: &Arc<Slot>, place: &Place, holder: Holder, lock: LockPlace) -> Option<Live> {
        let attempt_id = holder.attempt_id?;
        let (phase, receiver) = watch::channel(Phase::Running);
        let live = Live { attempt_id, id: holder.id, repo_path: holder.repo_path, phase: receiver };
        slot.set_live(&live);
        let (shared, slot, place, attempt_id) =
            (self.shared.clone(), slot.clone(), place.clone(), live.attempt_id.clone());
        tokio::spawn(async move {
            watch_adopted(&shared.clock, &place, &lock, &attempt_id).await;
            slot.end(&shared, &phase, Phase::Ended);
        });
        Some(live)
    }
}

async fn next_event(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStdout>>) -> Option<Event> {
    let line = lines.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

/// Waits until an attempt of another daemon has ended, however it ended.
async fn watch_adopted(clock: &SharedClock, place: &Place, lock: &LockPlace, attempt_id: &str) {
    let (sender, mut changes) = tokio::sync::mpsc::channel(1);
    let watcher = notify::recommended_watcher(move |_| {
        // A full channel already holds the news.
        let _ = sender.try_send(());
    });
    let _watcher = watcher.and_then(|mut watcher| {
        watcher.watch(&place.verdict_dir, notify::RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    loop {
        let look_again = match lock.probe(clock.as_ref()) {
            Ok(Some(HeldBy::Ours(Some(holder)))) if holder.attempt_id.as_deref() == Some(attempt_id) => LOOK_AGAIN,
            // Its record is being written, or was just emptied: then the lock is given back next.
            Ok(Some(HeldBy::Ours(None))) => LOOK_SOON,
            _ => return,
        };
        tokio::select! {
            _ = changes.recv() => {}
            () = tokio::time::sleep(look_again) => {}
        }
    }
}
