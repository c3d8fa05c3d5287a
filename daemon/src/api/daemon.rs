//! What every handler shares: one cloneable handle on the daemon's state.
//!
//! It owns the counts of clients and requests, and the one switch that drains: from then on no request begins, and those
//! that began are waited for. It knows no route and no socket, and never ends the process; `serve` does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_proto::wire::{Context, Settings};
use tokio::sync::watch;

use crate::attempt::lookup;
use crate::attempt::table::Attempts;
use crate::clock::SharedClock;
use crate::ledger::Ledgers;
use crate::process::ClientEnvironment;

/// A handle on the daemon; cheap to clone.
#[derive(Debug, Clone)]
pub struct Daemon {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: SharedClock,
    environment: Environment,
    socket: PathBuf,
    started: Duration,
    ledgers: Ledgers,
    attempts: Attempts,
    clients: AtomicU64,
    in_flight: watch::Sender<u64>,
    draining: watch::Sender<bool>,
}

/// Counts something while it lives.
#[derive(Debug)]
pub struct Counted {
    daemon: Daemon,
    what: What,
}

#[derive(Debug)]
enum What {
    Client,
    Request,
}

impl Daemon {
    /// Returns the state of a daemon that listens on `socket`.
    #[must_use]
    pub fn new(environment: Environment, socket: PathBuf, clock: SharedClock) -> Self {
        let default_ledger = environment.default_ledger().ok();
        let attempts = Attempts::new(clock.clone(), ClientEnvironment::new(environment.variables().iter().cloned()));
        let shared = Shared {
            started: clock.monotonic(),
            clock,
            environment,
            socket,
            ledgers: Ledgers::new(default_ledger),
            attempts,
            clients: AtomicU64::new(0),
            in_flight: watch::Sender::new(0),
            draining: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the clocks.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.shared.clock
    }

    /// Returns the open ledgers.
    #[must_use]
    pub fn ledgers(&self) -> &Ledgers {
        &self.shared.ledgers
    }

    /// Returns the table of attempts.
    #[must_use]
    pub fn attempts(&self) -> &Attempts {
        &self.shared.attempts
    }

    /// Returns the daemon's own environment.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.shared.environment
    }

    /// Returns the socket's path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// Returns the time since the daemon started.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.shared.clock.monotonic().saturating_sub(self.shared.started)
    }

    /// Returns the number of connected clients.
    #[must_use]
    pub fn clients(&self) -> u64 {
        self.shared.clients.load(Ordering::Relaxed)
    }

    /// Counts a client until the guard is dropped.
    #[must_use]
    pub fn count_client(&self) -> Counted {
        self.shared.clients.fetch_add(1, Ordering::Relaxed);
        Counted { daemon: self.clone(), what: What::Client }
    }

    /// Counts a request until the guard is dropped; nothing when the daemon drains and must not begin it.
    #[must_use]
    pub fn begin_request(&self) -> Option<Counted> {
        // Counted before draining is looked at, so that the drain waits for it or it sees the drain.
        self.shared.in_flight.send_modify(|count| *count += 1);
        let counted = Counted { daemon: self.clone(), what: What::Request };
        (!self.is_draining()).then_some(counted)
    }

    /// Returns whether the daemon finishes what it has and begins nothing.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.shared.draining.borrow()
    }

    /// Begins to drain: new requests are refused unexecuted, and waits for attempts end.
    pub fn drain(&self) {
        self.shared.draining.send_replace(true);
        self.shared.attempts.stop_waiting();
    }

    /// Returns once the daemon drains.
    pub async fn drained(&self) {
        // The sender lives as long as self.
        let _ = self.shared.draining.subscribe().wait_for(|draining| *draining).await;
    }

    /// Returns once no request is in flight.
    pub async fn idle(&self) {
        // The sender lives as long as self.
        let _ = self.shared.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Returns the environment that programs are run with for a client: its own where it sent one.
    #[must_use]
    pub fn environment_for(&self, context: &Context) -> ClientEnvironment {
        match &context.env {
            Some(variables) => {
                ClientEnvironment::new(variables.iter().map(|(name, value)| (name.0.clone(), value.0.clone())))
            }
            None => ClientEnvironment::new(self.environment().variables().iter().cloned()),
        }
    }

    /// Recovers the attempts of a verdict directory when it is named for the first time (SPEC 2).
    pub fn recover_once(&self, verdict_dir: &Path, settings: Settings) {
        if self.attempts().first_seen(verdict_dir) {
            let (attempts, verdict_dir) = (self.attempts().clone(), verdict_dir.to_owned());
            tokio::task::spawn_blocking(move || recover(&attempts, &verdict_dir, &settings));
        }
    }
}

/// Recovers the attempts of a verdict directory; what can't be is left to the first lookup that asks for it.
pub fn recover(attempts: &Attempts, verdict_dir: &Path, settings: &Settings) {
    if let Err(error) = lookup::recover(attempts, verdict_dir, settings) {
        tracing::warn!(error = %crate::error::describe(&error), "attempts can't be recovered");
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        match self.what {
            What::Client => {
                self.daemon.shared.clients.fetch_sub(1, Ordering::Relaxed);
            }
            What::Request => self.daemon.shared.in_flight.send_modify(|count| *count -= 1),
        }
    }
}
