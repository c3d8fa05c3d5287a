//! Starts the daemon and waits until it says that it is ready (DESIGN 4).
//!
//! The daemon's stdout is the readiness pipe: a line per step of its start, then `ready`, `busy` (another instance
//! holds the lock) or `error <text>`. Silence is the timeout, not total time: a long recovery keeps talking. The caller
//! holds the start lock.

use std::path::PathBuf;
use std::time::Duration;

use grounding_proto::environment::Environment;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::process::{self, ProgramNotFound};
use crate::state::State;

/// How long the daemon may say nothing while it starts.
const SILENCE: Duration = Duration::from_secs(10);

/// A daemon that did not get ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its executable is not there.
    #[error("the daemon can't be started")]
    Program(#[from] ProgramNotFound),
    /// Its executable does not run.
    #[error("can't start {}", program.display())]
    Spawn {
        /// The executable.
        program: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It said why it can't serve.
    #[error("the daemon did not start: {0}")]
    Said(String),
    /// It ended without a word.
    #[error("the daemon ended before it was ready; {} says why", log.display())]
    Died {
        /// Its log.
        log: PathBuf,
    },
    /// It neither got ready nor ended.
    #[error("the daemon (pid {pid}) said nothing for {} s while it started; {} may say why", SILENCE.as_secs(), log.display())]
    Silent {
        /// Its process.
        pid: u32,
        /// Its log.
        log: PathBuf,
    },
}

/// Starts `groundingd serve` and returns when it is ready, or when it found that another instance runs.
///
/// # Errors
/// When it did not get ready; the error has its own words where it left any.
pub async fn start(environment: &Environment, state: &State) -> Result<(), StartError> {
    let program = process::sibling(environment, process::DAEMON)?;
    let spawned = process::daemon(&program, environment).spawn();
    let mut child = spawned.map_err(|source| StartError::Spawn { program, source })?;
    let died = || StartError::Died { log: state.log_file() };
    let pid = child.id().unwrap_or_default();
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(died)?).lines();
    // The child is not waited for: it outlives this process, and the runtime reaps it should it end before.
    loop {
        let Ok(line) = tokio::time::timeout(SILENCE, lines.next_line()).await else {
            return Err(StartError::Silent { pid, log: state.log_file() });
        };
        let Ok(Some(line)) = line else { return Err(died()) };
        match line.trim().split_once(' ') {
            Some(("error", text)) => return Err(StartError::Said(text.to_owned())),
            None if matches!(line.trim(), "ready" | "busy") => return Ok(()),
            _ => {}
        }
    }
}
