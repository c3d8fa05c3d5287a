//! What a launcher reads from the daemon's stdout, and what a service manager is told beside it.
//!
//! The launcher gets progress words, then `ready`, `busy` or `error <text>`; the manager gets the same as its status, its
//! readiness and its end. Nobody has to listen: what can't be said is nobody's loss.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use grounding_proto::wire::FAILED_STATUS;
use sd_notify::NotifyState;

/// How long a service manager gives the daemon between two words of its start, in microseconds: silence is the timeout, not
/// total time.
const SILENCE_US: u32 = 30_000_000;

/// The daemon's side of the pipe.
pub(super) struct Readiness;

impl Readiness {
    /// Says a word of the start.
    pub(super) fn say(&self, word: &str) {
        print(word);
        tell(&[NotifyState::Status(&format!("Starting: {word}")), NotifyState::ExtendTimeoutUsec(SILENCE_US)]);
    }

    /// Says that the daemon serves and lets go of the pipe, so that a reader of it sees its end.
    pub(super) fn ready(&self, socket: &Path) {
        print("ready");
        if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
            // The pipe stays open otherwise, which costs its reader the end and nothing else.
            let _ = rustix::stdio::dup2_stdout(&nowhere);
        }
        tell(&[NotifyState::Ready, NotifyState::Status(&format!("Serving on {}", socket.display()))]);
    }

    /// Says that another instance serves.
    pub(super) fn busy(&self) {
        print("busy");
        tell(&[NotifyState::Status(&format!(
            "{FAILED_STATUS}another groundingd serves already, which this manager did not start; \
             `groundingctl restart` replaces it"
        ))]);
    }

    /// Says why the daemon can't serve.
    pub(super) fn failed(&self, why: &str) {
        let why = why.replace('\n', " ");
        print(&format!("error {why}"));
        tell(&[NotifyState::Status(&format!("{FAILED_STATUS}{why}"))]);
    }
}

/// Tells a service manager that the daemon is about to end: whoever wants it started waits for that end.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("Draining: finishing what was asked")]);
}

/// Tells a service manager that clients are answered.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

fn print(line: &str) {
    // A launcher that is gone does not need it.
    let _ = writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush());
}

fn tell(news: &[NotifyState<'_>]) {
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(news);
}
