//! One shell command, run under guard: bounded in time, memory and disk, whatever it does (SPEC-battery "Checks").
//!
//! Its end is its process's exit. Everything it started ends with it. Its whole output, bytes as they are and stderr
//! between stdout as it came, goes to a log; only the last lines and the first bytes are kept.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::attempt::guarded::{self, Chunk, Drained, Event, Guarded};
use crate::process::ClientEnvironment;

const SHELL: &str = "/bin/sh";
/// Most output that a log keeps, in bytes.
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// How much of the end is kept for the answer, in bytes, lines, and characters a line.
const MAX_TAIL_BYTES: usize = 32 * 1024;
const MAX_LINES: usize = 20;
const MAX_LINE_CHARACTERS: usize = 400;
/// How long output that goes on after the command's end is read.
const MAX_DRAIN: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug)]
pub struct CommandRequest<'a> {
    /// The shell command.
    pub command: &'a str,
    /// Where.
    pub directory: &'a Path,
    /// With which environment.
    pub environment: &'a ClientEnvironment,
    /// How long it may take.
    pub limit: Duration,
    /// Where its output goes; made anew.
    pub log: &'a Path,
    /// How many of the first bytes of stdout and of stderr are kept.
    pub most_bytes: usize,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled(String),
    /// It took too long and was stopped.
    TimedOut(Duration),
    /// It never ran, or nobody knows how it ended.
    Failed(String),
}

/// What a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub ending: Ending,
    /// The first bytes of its stdout.
    pub stdout: Vec<u8>,
    /// The first bytes of its stderr.
    pub stderr: Vec<u8>,
    /// The last lines of both, made printable.
    pub last_lines: Vec<String>,
    /// What is odd about its output.
    pub note: Option<String>,
    /// How long it took.
    pub duration: Duration,
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            ending: Ending::Exited(0),
            stdout: Vec::new(),
            stderr: Vec::new(),
            last_lines: Vec::new(),
            note: None,
            duration: Duration::ZERO,
        }
    }
}

/// Runs a command to its end.
pub async fn run(request: CommandRequest<'_>) -> Ended {
    let started = Instant::now();
    let log = OpenOptions::new().write(true).create_new(true).mode(0o600).open(request.log);
    let mut output = match log {
        Ok(log) => Output::new(log, request.most_bytes),
        Err(error) => {
            let ending = Ending::Failed(format!("can't create {}: {error}", request.log.display()));
            return Ended { ending, ..Ended::default() };
        }
    };
    let ending = supervise(&request, &mut output).await;
    output.finish(ending, started.elapsed())
}

async fn supervise(request: &CommandRequest<'_>, output: &mut Output) -> Ending {
    let arguments = ["-c".as_ref(), request.command.as_ref()];
    let guarded = Guarded::start(SHELL.as_ref(), &arguments, request.environment, request.directory).await;
    let mut guarded = match guarded {
        Ok(guarded) => guarded,
        Err(why) => return Ending::Failed(format!("{why} (in {})", request.directory.display())),
    };
    let watched = tokio::time::timeout(request.limit, async {
        loop {
            match guarded.next().await {
                Event::Output(chunk) => output.keep(chunk),
                Event::Ended(ending) => return told(ending),
                Event::Abandoned => return Ending::Failed("its guard ended before it did".to_owned()),
            }
        }
    });
    let ending = match watched.await {
        Ok(ending) => {
            let drained = guarded.drain(MAX_DRAIN, |chunk| {
                output.keep(chunk);
                true
            });
            output.endless = drained.await == Drained::Endless;
            ending
        }
        Err(_) => {
            // How it ended then is no matter: it was ended.
            let _ = guarded.stop().await;
            Ending::TimedOut(request.limit)
        }
    };
    guarded.finish().await;
    ending
}

fn told(ending: guarded::Ending) -> Ending {
    match (ending.code, ending.signal) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Signaled(signal),
        (None, None) => Ending::Failed("how it ended is not known".to_owned()),
    }
}

/// What is kept of a command's output.
struct Output {
    log: File,
    logged: u64,
    written: u64,
    most_bytes: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    tail: VecDeque<u8>,
    endless: bool,
}

impl Output {
    fn new(log: File, most_bytes: usize) -> Self {
        let (stdout, stderr, tail) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { log, logged: 0, written: 0, most_bytes, stdout, stderr, tail, endless: false }
    }

    fn keep(&mut self, chunk: Chunk) {
        let (bytes, first) = match chunk {
            Chunk::Stdout(bytes) => (bytes, &mut self.stdout),
            Chunk::Stderr(bytes) => (bytes, &mut self.stderr),
        };
        let room = self.most_bytes.saturating_sub(first.len()).min(bytes.len());
        first.extend_from_slice(&bytes[..room]);
        self.written += bytes.len() as u64;

        let room = usize::try_from(MAX_LOG_BYTES - self.logged).unwrap_or(usize::MAX).min(bytes.len());
        // A full disk costs the rest of this log and nothing else.
        let _ = self.log.write_all(&bytes[..room]);
        self.logged += room as u64;

        let last = &bytes[bytes.len().saturating_sub(MAX_TAIL_BYTES)..];
        let over = (self.tail.len() + last.len()).saturating_sub(MAX_TAIL_BYTES);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    fn finish(mut self, ending: Ending, duration: Duration) -> Ended {
        let mut notes = Vec::new();
        if self.written > self.logged {
            notes.push(format!("the log holds the first {} of {} bytes", self.logged, self.written));
            // As above.
            let _ = self.log.write_all(b"\n[the rest was not kept]\n");
        }
        if self.endless {
            notes.push("something it started went on writing after it ended, and was ended".to_owned());
        }
        Ended {
            ending,
            last_lines: last_lines(self.tail.make_contiguous()),
            stdout: self.stdout,
            stderr: self.stderr,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            duration,
        }
    }
}

/// Returns the last lines that say something, without what a terminal would obey.
fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split(['\n', '\r']).map(printable).filter(|line| !line.trim().is_empty());
    let lines: Vec<_> = lines.collect();
    lines[lines.len().saturating_sub(MAX_LINES)..].to_vec()
}

/// Takes escape sequences and control characters out of a line, and cuts it.
fn printable(line: &str) -> String {
    let mut shown = String::new();
    let mut characters = line.chars().peekable();
    let mut count = 0;
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.next_if_eq(&'[').is_some() {
                // Parameters up to the letter that ends the sequence.
                while characters.next_if(|it| !('@'..='~').contains(it)).is_some() {}
                characters.next();
            }
        } else if character == '\t' {
            shown.push(' ');
            count += 1;
        } else if !character.is_control() {
            shown.push(character);
            count += 1;
        }
        if count == MAX_LINE_CHARACTERS {
            shown.push_str(" ...");
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(chunks: impl IntoIterator<Item = Vec<u8>>) -> (Ended, u64) {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut output = Output::new(log.reopen().unwrap(), 10);
        chunks.into_iter().for_each(|chunk| output.keep(Chunk::Stdout(chunk)));
        (output.finish(Ending::Exited(0), Duration::ZERO), log.path().metadata().unwrap().len())
    }

    #[test]
    fn last_lines_are_printable_and_few() {
        let (ended, _) = output([b"a\x1b[31mred\x1b[0m\tb\x07\r\n\n\xff\0end".to_vec()]);
        assert_eq!(ended.last_lines, ["ared b", "\u{fffd}end"]);
        let (ended, _) = output((0..100).map(|number| format!("{number}\n").into_bytes()));
        assert_eq!(ended.last_lines.len(), MAX_LINES);
        assert_eq!(ended.last_lines[MAX_LINES - 1], "99");
        let (ended, _) = output([vec![b'x'; 1 << 20]]);
        assert_eq!(ended.last_lines[0].chars().count(), MAX_LINE_CHARACTERS + 4);
    }

    #[test]
    fn a_flood_is_cut_in_memory_and_on_disk() {
        let (ended, logged) = output((0..70).map(|_| vec![b'x'; 1 << 20]));
        assert_eq!((ended.stdout.len(), ended.last_lines.len()), (10, 1));
        assert!(ended.note.unwrap().contains(&(70 << 20).to_string()));
        assert!((MAX_LOG_BYTES..MAX_LOG_BYTES + 100).contains(&logged), "{logged}");
    }
}
