//! One preflight run: started under guard, its output read, and its end told exactly (SPEC 6, DESIGN 8).
//!
//! preflight's end is its process's exit, not its pipe's: a background process that keeps the pipe open can't hang the
//! run. Memory is bounded. Output that was cut is an error, never an answer.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::solution::Execution;
use tokio::sync::watch;
use tokio::time::Instant;

use super::guarded::{Chunk, Drained, Ending, Event, Guarded};
use crate::error::describe;
use crate::points;
use crate::process::ClientEnvironment;
use crate::solution::diagnostics::Payload;
use crate::solution::preflight;
use crate::store::{self, StoreError};

/// Most stdout that is read, in bytes.
const MAX_STDOUT_BYTES: usize = 16 * 1024 * 1024;
/// Most stderr that is kept, in bytes.
const MAX_STDERR_BYTES: u64 = 64 * 1024 * 1024;
/// How long a pipe that outlives preflight is read at the most.
const MAX_DRAIN: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Debug)]
pub struct PreflightRun<'a> {
    /// The preflight program.
    pub program: &'a Path,
    /// The word that makes the program a preflight, when it is more than one.
    pub verb: Option<&'a str>,
    /// The repository it is asked about.
    pub repo_path: &'a Path,
    /// The client's working directory.
    pub cwd: &'a Path,
    /// The client's environment.
    pub environment: &'a ClientEnvironment,
    /// Where its stderr goes.
    pub stderr_log: &'a Path,
    /// How long it may take.
    pub limit: Duration,
}

/// Why a run is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// The attempt lost its lock; why.
    Compromised(String),
}

/// Runs preflight to its end and returns what it answered and how it ended.
pub async fn run(request: PreflightRun<'_>, stop: watch::Receiver<Option<Stop>>) -> (Payload, Execution) {
    match supervise(request, stop).await {
        Ok(ended) => ended,
        Err(error) => (Payload::None, Execution { error: Some(describe(&error)), ..Execution::default() }),
    }
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("the working directory {} is gone", .0.display())]
    NoDirectory(PathBuf),
    #[error("preflight ({program}) can't be started: {error}")]
    Start { program: String, error: String },
    #[error(transparent)]
    Log(#[from] StoreError),
}

async fn supervise(
    request: PreflightRun<'_>,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<(Payload, Execution), RunError> {
    if !request.cwd.is_dir() {
        return Err(RunError::NoDirectory(request.cwd.to_owned()));
    }
    let log = create_log(request.stderr_log)?;
    let arguments = request.arguments();
    points::reach("preflight-starting");
    let started = Guarded::start(request.program, &arguments, request.environment, request.cwd).await;
    let unstartable = |error| RunError::Start { program: request.program.display().to_string(), error };
    let mut guarded = started.map_err(unstartable)?;
    points::reach("preflight-started");
    let mut kept = Kept { stdout: Vec::new(), log, log_path: request.stderr_log, logged: 0 };
    let stopped = watch_over(&mut guarded, &mut kept, request.limit, stop).await;
    points::reach("preflight-ended");
    let overflow = drain(&mut guarded, &mut kept).await;
    guarded.finish().await;

    let error = stopped.error.or(overflow);
    let Ending { code, signal } = stopped.ending.unwrap_or(Ending { code: None, signal: None });
    let cut = error.is_some();
    let payload = if cut { Payload::None } else { preflight::parse(&kept.stdout) };
    Ok((payload, Execution { exit_code: code, signal, error }))
}

impl PreflightRun<'_> {
    fn arguments(&self) -> Vec<&OsStr> {
        let verb = self.verb.iter().map(OsStr::new);
        verb.chain(["run".as_ref(), self.repo_path.as_os_str(), "--json".as_ref()]).collect()
    }
}

#[derive(Default)]
struct Stopped {
    ending: Option<Ending>,
    error: Option<String>,
}

/// Reads until preflight ends; stops it when it takes too long, writes too much, or a stop is asked for.
async fn watch_over(
    guarded: &mut Guarded,
    kept: &mut Kept<'_>,
    limit: Duration,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Stopped {
    let deadline = Instant::now() + limit;
    let reason = loop {
        tokio::select! {
            event = guarded.next() => match event {
                Event::Output(chunk) => {
                    if !kept.keep(chunk) {
                        break too_much();
                    }
                }
                Event::Ended(ending) => return Stopped { ending: Some(ending), error: None },
                Event::Abandoned => {
                    let error = "preflight's guard ended before preflight did".to_owned();
                    return Stopped { ending: None, error: Some(error) };
                }
            },
            () = tokio::time::sleep_until(deadline) => {
                break format!("preflight did not end within {} s and was stopped", limit.as_secs_f64());
            }
            Ok(found) = stop.wait_for(Option::is_some) => {
                break match found.as_ref() {
                    Some(Stop::Compromised(why)) => why.clone(),
                    Some(Stop::Cancelled) | None => "cancelled".to_owned(),
                };
            }
        }
    };
    Stopped { ending: guarded.stop().await, error: Some(reason) }
}

/// Reads what is left in the pipes; returns an error when it could not be read to an end.
async fn drain(guarded: &mut Guarded, kept: &mut Kept<'_>) -> Option<String> {
    let mut fits = true;
    let drained = guarded
        .drain(MAX_DRAIN, |chunk| {
            fits = kept.keep(chunk);
            fits
        })
        .await;
    match drained {
        _ if !fits => Some(too_much()),
        Drained::Whole => None,
        Drained::Endless => Some("preflight's output did not end after preflight did".to_owned()),
    }
}

fn too_much() -> String {
    format!("preflight wrote more than {MAX_STDOUT_BYTES} bytes to its stdout and was stopped")
}

fn create_log(path: &Path) -> Result<File, StoreError> {
    store::ensure_own_dir(path.parent().unwrap_or(Path::new("/")))?;
    let created = points::touch("create", path)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path));
    created.map_err(StoreError::io("create", path))
}

/// What was read: stdout in memory, stderr byte by byte in a log.
struct Kept<'a> {
    stdout: Vec<u8>,
    log: File,
    log_path: &'a Path,
    logged: u64,
}

impl Kept<'_> {
    /// Keeps a chunk; returns false when stdout would be too much. Too much of stderr is thrown away.
    fn keep(&mut self, chunk: Chunk) -> bool {
        match chunk {
            Chunk::Stderr(bytes) => {
                self.log(&bytes);
                true
            }
            Chunk::Stdout(bytes) if self.stdout.len() + bytes.len() <= MAX_STDOUT_BYTES => {
                self.stdout.extend_from_slice(&bytes);
                true
            }
            Chunk::Stdout(_) => false,
        }
    }

    fn log(&mut self, bytes: &[u8]) {
        let room = usize::try_from(MAX_STDERR_BYTES - self.logged).unwrap_or(usize::MAX).min(bytes.len());
        // A full disk costs the rest of this log and nothing else.
        let _: io::Result<()> = points::write(self.log_path, &bytes[..room], |bytes| self.log.write_all(bytes));
        self.logged += room as u64;
        if room > 0 && self.logged == MAX_STDERR_BYTES {
            // As above.
            let _ = self.log.write_all(b"\n[the rest was not kept]\n");
        }
    }
}
