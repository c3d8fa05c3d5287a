//! The daemon: whether it runs and answers, who holds its lock, which build it is, and whether its ledger is sound.
//!
//! Starts none, and waits for none: one that hangs is a finding like any other.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use grounding_proto::ledger::{LedgerCheck, LedgerCheckAnswer, LedgerCheckOutcome};
use grounding_proto::text::printable;
use grounding_proto::wire::{PROTOCOL, VersionAnswer};
use rustix::process::{Pid, test_kill_process};

use super::check::{Check, bounded};
use crate::client::Client;
use crate::command::when;
use crate::context::VERSION;
use crate::error::{ClientError, chain};
use crate::state::State;

/// How long the daemon may take to say which it is.
const PROMPT: Duration = Duration::from_secs(4);
/// How long the ledger may be read, and how long its answer may take beyond that.
const LEDGER: Duration = Duration::from_secs(10);
const LEDGER_ANSWER: Duration = Duration::from_secs(4);

/// What an attempt to reach the daemon brought.
#[derive(Debug)]
pub(super) enum Reached {
    /// It says which it is.
    Answers(VersionAnswer),
    /// Nobody listens.
    Down,
    /// It accepts connections and does not answer.
    Hangs,
    /// The service manager listens for it; a connection would start it.
    Asleep,
    /// It can't be asked; why.
    Unreachable(String),
}

/// Asks the daemon which it is.
pub(super) async fn reach(client: &Client) -> Reached {
    match tokio::time::timeout(PROMPT, client.version()).await {
        Ok(Ok(answer)) => Reached::Answers(answer),
        Ok(Err(ClientError::NotRunning { .. })) => Reached::Down,
        Ok(Err(ClientError::Silent { .. })) | Err(_) => Reached::Hangs,
        Ok(Err(error)) => Reached::Unreachable(chain(&error)),
    }
}

/// Looks at the daemon.
pub(super) async fn checks(client: &Client, state: &State, reached: &Reached) -> Vec<Check> {
    let mut checks = vec![answers(reached, state)];
    let pid = match reached {
        Reached::Answers(answer) => Some(answer.pid),
        _ => None,
    };
    let path = state.instance_lock().to_owned();
    let is_needed = matches!(reached, Reached::Answers(_));
    checks
        .push(bounded("lock", move || lock(&path, if is_needed { Holder::Daemon(pid) } else { Holder::Nobody })).await);
    checks.extend(start(state, is_needed));
    checks.push(ledger(client, reached).await);
    checks
}

fn answers(reached: &Reached, state: &State) -> Check {
    let name = "daemon";
    match reached {
        Reached::Answers(answer) => build(answer),
        Reached::Down => Check::ok(name, "not running; the next call starts it"),
        Reached::Asleep => Check::ok(name, "not running; the service manager starts it with the next call"),
        Reached::Hangs => {
            let message = format!(
                "it listens on {} and does not answer within {} s: it hangs or is suspended",
                state.socket().display(),
                PROMPT.as_secs()
            );
            let remedy = match held_by(state.instance_lock()) {
                Some(holder) => format!("end its process ({holder}); the next call starts a new one"),
                None => "end its process; the next call starts a new one".to_owned(),
            };
            Check::failure(name, message, remedy)
        }
        Reached::Unreachable(why) => {
            Check::failure(name, printable(why), "mend what it says; `groundingctl logs` may say more")
        }
    }
}

fn build(answer: &VersionAnswer) -> Check {
    let name = "daemon";
    let VersionAnswer { version, protocol, pid, draining } = answer;
    let (version, oldest, newest) = (printable(version), protocol.oldest, protocol.newest);
    let shown = format!("running: build {version}, protocol {oldest} to {newest}, pid {pid}");
    if !PROTOCOL.overlaps(*protocol) {
        let (own_oldest, own_newest) = (PROTOCOL.oldest, PROTOCOL.newest);
        let message = format!("{shown}; this program is build {VERSION}, protocol {own_oldest} to {own_newest}");
        let remedy =
            if newest < own_oldest { "groundingctl restart" } else { "upgrade this program to the daemon's build" };
        return Check::failure(name, message, remedy);
    }
    if version != VERSION {
        let message = format!("{shown}; this program is build {VERSION}");
        return Check::warning(name, message, "groundingctl restart, or install one build of all three programs");
    }
    if *draining {
        return Check::ok(name, format!("{shown}; it is about to end, and the next call starts a new one"));
    }
    Check::ok(name, shown)
}

/// Who is expected to hold the lock.
enum Holder {
    Nobody,
    Daemon(Option<u32>),
}

fn lock(path: &Path, expected: Holder) -> Check {
    let name = "lock";
    let shown = path.display();
    let held = match is_held(path) {
        Ok(held) => held,
        Err(error) => {
            return Check::failure(
                name,
                format!("can't look at {shown}: {error}"),
                "make it a regular file of yours, or remove it",
            );
        }
    };
    let holder = held_by(path).unwrap_or_else(|| "a process that left no name".to_owned());
    match (held, expected) {
        (Some(true), Holder::Daemon(Some(pid))) if holder.starts_with(&format!("pid {pid},")) => {
            Check::ok(name, format!("{shown} is held by the daemon ({holder})"))
        }
        (Some(true), Holder::Daemon(_)) => {
            let message = format!("{shown} is held by {holder}, which is not the daemon that answers");
            Check::failure(name, message, "groundingctl stop, end that process, then groundingctl start")
        }
        (Some(true), Holder::Nobody) => {
            let message = format!("{shown} is held by {holder}, which does not serve");
            let remedy = "wait a moment if it has just been started or stopped; else end that process";
            Check::failure(name, message, remedy)
        }
        (Some(false) | None, Holder::Daemon(_)) => {
            let message =
                format!("{shown} was removed or replaced under the running daemon, so a second one could start");
            Check::failure(name, message, "groundingctl restart")
        }
        (Some(false), Holder::Nobody) => Check::ok(name, format!("{shown} is free")),
        (None, Holder::Nobody) => Check::ok(name, format!("{shown} is not there yet; the daemon makes it")),
    }
}

/// Returns whether somebody holds a lock; nothing when there is no such file. For an instant it shares the lock itself,
/// which a daemon that starts waits out.
fn is_held(path: &Path) -> std::io::Result<Option<bool>> {
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(false)),
        Err(TryLockError::WouldBlock) => Ok(Some(true)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns whom the lock file names: process and build, and whether that process is there.
fn held_by(path: &Path) -> Option<String> {
    let mut content = String::new();
    File::open(path).ok()?.take(256).read_to_string(&mut content).ok()?;
    let (pid, version) = content.trim().split_once(' ')?;
    let process = pid.parse().ok().and_then(Pid::from_raw)?;
    let gone = matches!(test_kill_process(process), Err(rustix::io::Errno::SRCH));
    let state = if gone { ", gone; something it started keeps the lock" } else { "" };
    Some(format!("pid {pid}, build {}{state}", printable(version)))
}

/// Says what keeps the daemon from being started.
fn start(state: &State, is_running: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if state.is_stopped() {
        let message = "`groundingctl stop` keeps clients from starting the daemon";
        checks.push(Check::warning("stopped", message, "groundingctl start"));
    }
    if !is_running && let Some((age_ms, text)) = state.last_failure() {
        let message = format!("the last start failed, {} ago: {}", when::duration(age_ms), printable(&text));
        checks.push(Check::failure("last-start", message, "mend what it says, then groundingctl start"));
    }
    checks
}

async fn ledger(client: &Client, reached: &Reached) -> Check {
    let name = "ledger";
    if !matches!(reached, Reached::Answers(_)) {
        return Check::ok(name, "not read: the daemon, which reads it, does not answer");
    }
    let limit_ms = u64::try_from(LEDGER.as_millis()).unwrap_or(u64::MAX);
    let asked = client.ask_for::<_, LedgerCheckAnswer>("/v1/ledger/check", LedgerCheck { limit_ms });
    let answer = match tokio::time::timeout(LEDGER + LEDGER_ANSWER, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Check::failure(
                name,
                printable(&chain(&error)),
                "mend what it says; `groundingctl logs` may say more",
            );
        }
        Err(_) => {
            let message =
                format!("the daemon did not finish reading it within {} s", (LEDGER + LEDGER_ANSWER).as_secs());
            return Check::warning(
                name,
                message,
                "look at the disk; `sqlite3 <ledger> 'PRAGMA quick_check'` reads all of it",
            );
        }
    };
    let message = printable(&answer.message.unwrap_or_default());
    match answer.outcome {
        LedgerCheckOutcome::Sound => Check::ok(name, "read to its end and sound"),
        LedgerCheckOutcome::Unfinished => Check::warning(
            name,
            message,
            "`sqlite3 <ledger> 'PRAGMA quick_check'` reads all of it, however long that takes",
        ),
        LedgerCheckOutcome::Damaged => {
            Check::failure(name, message, "get the rows out with `sqlite3 <ledger> .recover`, and move the file away")
        }
        LedgerCheckOutcome::Failed => Check::failure(name, message, "mend what it says"),
    }
}
