//! A program under guard, seen from the side that started it: its output, its end, and how it is ended (DESIGN 8).
//!
//! The program's end is its process's exit, never its pipes'. Memory is bounded: output waits in the pipe until it is
//! taken. Dropping the handle ends the whole group, because the guard sees its socket close.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::guard::{Command, Report};
use crate::process::{self, ClientEnvironment};

/// How long a pipe that outlives the program may be silent, twice in a row, before it counts as done.
const IDLE: Duration = Duration::from_millis(150);
/// Time between SIGTERM and SIGKILL when a program is stopped.
const GRACE: Duration = Duration::from_secs(5);

/// A piece of output.
#[derive(Debug)]
pub enum Chunk {
    /// From stdout.
    Stdout(Vec<u8>),
    /// From stderr.
    Stderr(Vec<u8>),
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// What comes next of a program.
#[derive(Debug)]
pub enum Event {
    /// It wrote something.
    Output(Chunk),
    /// It ended.
    Ended(Ending),
    /// Its guard is gone without having said how it ended; the group was killed.
    Abandoned,
}

/// Whether output was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// It ended, or was silent for a while.
    Whole,
    /// Somebody went on writing after the program ended.
    Endless,
}

/// A program under guard.
#[derive(Debug)]
pub struct Guarded {
    child: tokio::process::Child,
    control: OwnedWriteHalf,
    reports: mpsc::Receiver<Report>,
    output: mpsc::Receiver<Chunk>,
    open: bool,
    group: Option<rustix::process::Pid>,
}

impl Guarded {
    /// Starts a program in a group of its own, with a guard that is in another one.
    ///
    /// # Errors
    /// A sentence that says why it could not be started.
    pub async fn start(
        program: &Path,
        arguments: &[&OsStr],
        environment: &ClientEnvironment,
        cwd: &Path,
    ) -> Result<Self, String> {
        let mut guarded = Self::spawn(program, arguments, environment, cwd).map_err(|error| error.to_string())?;
        match guarded.reports.recv().await {
            Some(Report::Started { group }) => guarded.group = rustix::process::Pid::from_raw(group),
            Some(Report::Unstartable { error }) => return Err(error),
            Some(Report::Ended { .. }) | None => return Err("its guard ended".to_owned()),
        }
        Ok(guarded)
    }

    fn spawn(
        program: &Path,
        arguments: &[&OsStr],
        environment: &ClientEnvironment,
        cwd: &Path,
    ) -> std::io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reports, control) = UnixStream::from_std(ours)?.into_split();
        let mut command = process::this_build(environment, cwd)?;
        command.arg("exec").arg("--").arg(program).args(arguments);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: whoever kills ours must not kill the guard before it did its work. For the same reason it
        // is not killed on drop; it ends the program when our end of the socket closes.
        command.process_group(0).kill_on_drop(false);
        let mut child = command.spawn()?;
        let (sender, output) = mpsc::channel(16);
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            tokio::spawn(forward(stdout, Chunk::Stdout, sender.clone()));
            tokio::spawn(forward(stderr, Chunk::Stderr, sender));
        }
        Ok(Self { child, control, reports: listen(reports), output, open: true, group: None })
    }

    /// Returns what comes next.
    pub async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                report = self.reports.recv() => return match report {
                    Some(Report::Ended { code, signal }) => Event::Ended(Ending { code, signal }),
                    Some(Report::Started { .. } | Report::Unstartable { .. }) => continue,
                    None => {
                        self.kill();
                        Event::Abandoned
                    }
                },
                chunk = self.output.recv(), if self.open => match chunk {
                    Some(chunk) => return Event::Output(chunk),
                    None => self.open = false,
                },
            }
        }
    }

    /// SIGTERM, a grace, SIGKILL; returns how the program ended. What it writes meanwhile is thrown away.
    pub async fn stop(&mut self) -> Option<Ending> {
        for command in [Command::Terminate, Command::Kill] {
            self.tell(command).await;
            let deadline = Instant::now() + GRACE;
            loop {
                match tokio::time::timeout_at(deadline, self.next()).await {
                    Ok(Event::Output(_)) => {}
                    Ok(Event::Ended(ending)) => return Some(ending),
                    Ok(Event::Abandoned) => return None,
                    Err(_) => break,
                }
            }
        }
        None
    }

    /// Takes what is left in the pipes after the program ended; `keep` returns false when it has enough.
    pub async fn drain(&mut self, most: Duration, mut keep: impl FnMut(Chunk) -> bool) -> Drained {
        let deadline = Instant::now() + most;
        let mut silences = 0;
        while silences < 2 {
            match timeout(IDLE, self.output.recv()).await {
                Ok(None) => return Drained::Whole,
                Ok(Some(chunk)) => {
                    if !keep(chunk) {
                        return Drained::Whole;
                    }
                    silences = 0;
                }
                // A process that did not get to run for so long finds its timer and its data due at the same time:
                // one silence proves nothing.
                Err(_) => silences += 1,
            }
            if Instant::now() > deadline {
                return Drained::Endless;
            }
        }
        Drained::Whole
    }

    /// Has the guard end everything that is left, and waits until it did, bounded.
    pub async fn finish(mut self) {
        self.tell(Command::Clean).await;
        // What is still written is read and thrown away, so that nobody hangs in a full pipe.
        let end = async {
            let ended = self.child.wait();
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    ended = &mut ended => return ended.is_ok_and(|status| status.success()),
                    Some(_) = self.output.recv() => {}
                }
            }
        };
        match timeout(GRACE * 2, end).await {
            Ok(true) => {}
            // The guard was killed; without it the group is ended all the same.
            Ok(false) => self.kill(),
            Err(_) => {
                self.kill();
                // As above, for one that is stuck or stopped.
                let _ = self.child.start_kill();
            }
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
        let _ = self.control.write_all(&[command as u8]).await;
    }
}

/// Reads the guard's reports; the channel closes when the guard is gone or speaks nonsense.
fn listen(control: OwnedReadHalf) -> mpsc::Receiver<Report> {
    let (sender, reports) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut lines = BufReader::new(control).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(report) = serde_json::from_str(&line) else { return };
            if sender.send(report).await.is_err() {
                return;
            }
        }
    });
    reports
}

async fn forward(mut pipe: impl AsyncRead + Unpin, wrap: fn(Vec<u8>) -> Chunk, chunks: mpsc::Sender<Chunk>) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        if chunks.send(wrap(chunk[..count].to_vec())).await.is_err() {
            return;
        }
    }
}
