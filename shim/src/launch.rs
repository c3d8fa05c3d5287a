//! Starts the daemon and waits until it says that it is ready (DESIGN 4).
//!
//! Where our unit is installed at the user's service manager, the manager starts it: a daemon that a client starts lives
//! and dies with the control group of the client's terminal. Else it is started directly: its stdout is the readiness pipe: a line per step of its start, then `ready`, `busy` (another instance
//! holds the lock) or `error <text>`. Silence is the timeout, not total time: a long recovery keeps talking. The caller
//! holds the start lock.

use std::path::PathBuf;
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_proto::wire::FAILED_STATUS;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::process::{self, ProgramNotFound};
use crate::service::{self, ServiceError, ServiceManager};
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
    /// The service manager did not get it ready.
    #[error(
        "the user's service manager could not start groundingd.service ({result}){why}; `{journal}` and {} say more",
        log.display()
    )]
    Unit {
        /// The manager's word for how it ended.
        result: String,
        /// What the daemon said, or what is wrong with the unit, after a colon; may be empty.
        why: String,
        /// The command that shows what the manager knows.
        journal: &'static str,
        /// The daemon's log.
        log: PathBuf,
        /// What the manager was asked and how it failed.
        source: Box<ServiceError>,
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

/// Starts the daemon, through the service manager where our unit is installed, and returns when it is ready, or when it
/// found that another instance runs.
///
/// # Errors
/// When it did not get ready; the error has its own words where it left any.
pub async fn start(environment: &Environment, state: &State) -> Result<(), StartError> {
    match service::responsible(environment).await {
        Some((manager, _)) => start_unit(environment, &manager, state).await,
        None => start_process(environment, state).await,
    }
}

async fn start_unit(environment: &Environment, manager: &ServiceManager, state: &State) -> Result<(), StartError> {
    let Err(source) = manager.start().await else { return Ok(()) };
    // How it ended is asked after the fact; without an answer, what is known of the failure has to do.
    let unit = manager.unit().await.ok();
    let said =
        unit.as_ref().and_then(|unit| unit.status_text.as_deref()?.strip_prefix(FAILED_STATUS).map(str::to_owned));
    let stale = || {
        let ours = process::sibling(environment, process::DAEMON).ok()?;
        let staleness = unit.as_ref()?.staleness(&ours)?;
        Some(format!("{staleness}: `groundingctl setup` writes it anew"))
    };
    let why = said.or_else(stale).map(|why| format!(": {why}")).unwrap_or_default();
    let result = unit.map(|unit| unit.result).filter(|result| result != "success");
    Err(StartError::Unit {
        result: result.unwrap_or_else(|| "no result".to_owned()),
        why,
        journal: manager.journal_command(),
        log: state.log_file(),
        source: Box::new(source),
    })
}

/// Starts `groundingd serve` and returns when it is ready, or when it found that another instance runs.
async fn start_process(environment: &Environment, state: &State) -> Result<(), StartError> {
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
