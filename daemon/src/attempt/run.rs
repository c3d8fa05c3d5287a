//! One preflight run: started under guard, its output read, and its end told exactly (SPEC 6, DESIGN 8).
//!
//! preflight's end is its process's exit, not its pipe's: a background process that keeps the pipe open can't hang the
//! run. Memory is bounded. Output that was cut is an error, never an answer.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use grounding_proto::solution::Execution;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::guard::{Command, Report};
use crate::process::{self, ClientEnvironment};
use crate::solution::diagnostics::Payload;
use crate::solution::preflight;
use crate::store::{self, StoreError};

/// Most stdout that is read, in bytes.
pub const MOST_STDOUT_BYTES: usize = 16 * 1024 * 1024;
/// Most stderr that is kept, in bytes.
const MOST_STDERR_BYTES: u64 = 64 * 1024 * 1024;
/// How long a pipe that outlives preflight may be silent, twice in a row, before it counts as done.
const IDLE: Duration = Duration::from_millis(150);
/// How long such a pipe is read at the most.
const MOST_DRAIN: Duration = Duration::from_secs(30);
/// Time between SIGTERM and SIGKILL when a run is stopped.
const GRACE: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug)]
pub struct PreflightRun<'a> {
    /// The preflight program.
    pub program: &'a Path,
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
        Err(error) => (Payload::None, Execution { error: Some(error.to_string()), ..Execution::default() }),
    }
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("the working directory {} is gone", .0.display())]
    NoDirectory(PathBuf),
    #[error("preflight ({program}) can't be started: {error}")]
    Start { program: String, error: String },
    #[error("{0}")]
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
    let unstartable = |error: String| RunError::Start { program: request.program.display().to_string(), error };
    let mut guarded = Guarded::start(&request).map_err(|error| unstartable(error.to_string()))?;
    let stderr = tokio::spawn(keep_stderr(guarded.stderr.take(), log));
    match guarded.next_report().await {
        Some(Report::Started { group }) => guarded.group = rustix::process::Pid::from_raw(group),
        Some(Report::Unstartable { error }) => return Err(unstartable(error)),
        Some(Report::Ended { .. }) | None => return Err(unstartable("its guard ended".to_owned())),
    }
    let stopped = guarded.watch(request.limit, stop).await;
    let overflow = guarded.drain().await;
    guarded.finish().await;
    // The guard ended everything that could hold the pipe; what still does is not worth waiting for.
    let _ = timeout(IDLE * 2, stderr).await;

    let error = stopped.error.or(overflow);
    let (exit_code, signal) = stopped.ending.unwrap_or_default();
    let cut = error.is_some();
    let payload = if cut { Payload::None } else { preflight::parse(&guarded.stdout) };
    Ok((payload, Execution { exit_code, signal, error }))
}

/// A guard, the pipes of the preflight below it, and what was read so far.
struct Guarded {
    child: tokio::process::Child,
    control: BufReader<UnixStream>,
    group: Option<rustix::process::Pid>,
    chunks: mpsc::Receiver<Vec<u8>>,
    stderr: Option<tokio::process::ChildStderr>,
    stdout: Vec<u8>,
}

#[derive(Default)]
struct Stopped {
    ending: Option<(Option<i32>, Option<String>)>,
    error: Option<String>,
}

impl Guarded {
    fn start(request: &PreflightRun<'_>) -> std::io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let control = UnixStream::from_std(ours)?;
        let mut command = process::this_build(request.environment, request.cwd)?;
        command.arg("exec").arg("--").arg(request.program).arg("run").arg(request.repo_path).arg("--json");
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Killing the guard would leave preflight behind; the guard ends it when our end of the socket closes, and so
        // what is sent to our group must not reach it.
        command.kill_on_drop(false).process_group(0);
        let mut child = command.spawn()?;
        let (sender, chunks) = mpsc::channel(16);
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(forward(stdout, sender));
        }
        let stderr = child.stderr.take();
        Ok(Self { child, control: BufReader::new(control), group: None, chunks, stderr, stdout: Vec::new() })
    }

    /// Reads until preflight ends; stops it when it takes too long, writes too much, or a stop is asked for.
    async fn watch(&mut self, limit: Duration, mut stop: watch::Receiver<Option<Stop>>) -> Stopped {
        let deadline = Instant::now() + limit;
        let mut stopped = Stopped::default();
        let (mut open, mut line) = (true, String::new());
        let reason = loop {
            tokio::select! {
                read = self.control.read_line(&mut line) => {
                    stopped.ending = ending(read, &line);
                    if stopped.ending.is_none() {
                        stopped.error = Some("preflight's guard ended before preflight did".to_owned());
                        self.kill();
                    }
                    return stopped;
                }
                chunk = self.chunks.recv(), if open => match chunk {
                    None => open = false,
                    Some(chunk) if self.keep(&chunk) => {}
                    Some(_) => break too_much(),
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
        stopped.error = Some(reason);
        stopped.ending = self.stop(line).await;
        stopped
    }

    /// SIGTERM, a grace, SIGKILL; returns how preflight ended.
    async fn stop(&mut self, mut line: String) -> Option<(Option<i32>, Option<String>)> {
        for command in [Command::Terminate, Command::Kill] {
            self.tell(command).await;
            // Its output is read on and thrown away, so that it can't hang in a full pipe.
            let deadline = Instant::now() + GRACE;
            loop {
                tokio::select! {
                    read = self.control.read_line(&mut line) => return ending(read, &line),
                    Some(_) = self.chunks.recv() => {}
                    () = tokio::time::sleep_until(deadline) => break,
                }
            }
        }
        None
    }

    /// Reads what is left in the pipe; returns an error when it could not be read to an end.
    async fn drain(&mut self) -> Option<String> {
        let deadline = Instant::now() + MOST_DRAIN;
        let mut silences = 0;
        while silences < 2 {
            match timeout(IDLE, self.chunks.recv()).await {
                Ok(None) => return None,
                Ok(Some(chunk)) if !self.keep(&chunk) => return Some(too_much()),
                Ok(Some(_)) => silences = 0,
                // A process that did not get to run for so long finds its timer and its data due at the same time:
                // one silence proves nothing.
                Err(_) => silences += 1,
            }
            if Instant::now() > deadline {
                return Some("preflight's output did not end after preflight did".to_owned());
            }
        }
        None
    }

    /// Has the guard end everything that is left, and waits until it did, bounded.
    async fn finish(&mut self) {
        self.tell(Command::Clean).await;
        if timeout(GRACE * 2, self.child.wait()).await.is_err() {
            self.kill();
            // The guard is stuck or stopped; without it the group is ended all the same.
            let _ = self.child.start_kill();
        }
    }

    /// Ends the group without the guard.
    fn kill(&self) {
        if let Some(group) = self.group {
            // A group without members needs no signal.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    async fn tell(&mut self, command: Command) {
        // A guard that is gone has nothing left to do.
        let _ = self.control.get_mut().write_all(&[command as u8]).await;
    }

    async fn next_report(&mut self) -> Option<Report> {
        let mut line = String::new();
        self.control.read_line(&mut line).await.ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Keeps a chunk; returns false when that would be too much.
    fn keep(&mut self, chunk: &[u8]) -> bool {
        let fits = self.stdout.len() + chunk.len() <= MOST_STDOUT_BYTES;
        if fits {
            self.stdout.extend_from_slice(chunk);
        }
        fits
    }
}

fn ending(read: std::io::Result<usize>, line: &str) -> Option<(Option<i32>, Option<String>)> {
    read.ok().filter(|count| *count > 0)?;
    match serde_json::from_str(line).ok()? {
        Report::Ended { code, signal } => Some((code, signal)),
        Report::Started { .. } | Report::Unstartable { .. } => None,
    }
}

fn too_much() -> String {
    format!("preflight wrote more than {MOST_STDOUT_BYTES} bytes to its stdout and was stopped")
}

async fn forward(mut stdout: impl AsyncRead + Unpin, chunks: mpsc::Sender<Vec<u8>>) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        if chunks.send(chunk[..count].to_vec()).await.is_err() {
            return;
        }
    }
}

fn create_log(path: &Path) -> Result<File, StoreError> {
    store::ensure_dir(path.parent().unwrap_or(Path::new("/")))?;
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.map_err(StoreError::io("create", path))
}

/// Keeps stderr byte by byte; past the bound it is read and thrown away.
async fn keep_stderr(stderr: Option<impl AsyncRead + Unpin>, mut log: File) {
    let Some(mut stderr) = stderr else { return };
    let (mut kept, mut chunk) = (0, vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let room = usize::try_from(MOST_STDERR_BYTES - kept).unwrap_or(usize::MAX).min(count);
        // A full disk costs the rest of this log and nothing else.
        let _ = log.write_all(&chunk[..room]);
        kept += room as u64;
        if room > 0 && kept == MOST_STDERR_BYTES {
            let _ = log.write_all(b"\n[the rest was not kept]\n");
        }
    }
}
