//! The one place that prints: data on stdout, talk on stderr.
//!
//! A reader that went away is no error of ours: stdout reports it for the caller to end quietly, stderr is written
//! without looking.

use std::io::{self, IsTerminal, Write};

use grounding_proto::environment::Environment;
use grounding_proto::text::{printable, printable_json, printable_lines};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;
use serde::Serialize;

/// Writes text to stdout; what of it is foreign was made printable before.
///
/// # Errors
/// As writing gives them; `BrokenPipe` means that the reader has seen enough.
pub fn data(text: &str) -> io::Result<()> {
    bytes(text.as_bytes())
}

/// Writes a line to stdout.
///
/// # Errors
/// As `data`.
pub fn line(text: &str) -> io::Result<()> {
    data(&format!("{text}\n"))
}

/// Writes a value to stdout as JSON that a terminal may show.
///
/// # Errors
/// As `data`.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    line(&printable_json(&serde_json::to_string_pretty(value).map_err(io::Error::other)?))
}

/// Writes a value to stdout as one line of such JSON.
///
/// # Errors
/// As `data`.
pub fn json_line(value: &impl Serialize) -> io::Result<()> {
    line(&printable_json(&serde_json::to_string(value).map_err(io::Error::other)?))
}

/// Writes bytes to stdout.
///
/// # Errors
/// As `data`.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes bytes that somebody else's program made: exactly, but to a terminal without what would steer it.
///
/// # Errors
/// As `data`.
pub fn foreign(foreign: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() { data(&printable_lines(&String::from_utf8_lossy(foreign))) } else { bytes(foreign) }
}

/// Writes lines to stderr, without what would steer a terminal; one that can't be written is nobody's loss.
pub fn talk(text: &str) {
    // Nobody may read stderr any more.
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Shows a line of progress on a terminal, in place of the one before; an empty one clears it. Elsewhere: nothing.
pub fn progress(text: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // A terminal that is gone shows no progress.
        let _ = write!(stderr, "\r\x1b[2K{}", printable(text)).and_then(|()| stderr.flush());
    }
}

/// Returns whether stdout is a terminal.
#[must_use]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns columns and rows of the terminal that stdout is; nothing where it is none or does not know.
#[must_use]
pub fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Returns whether nobody can read stdout any more; for who has nothing to write now and would learn of it only then.
#[must_use]
pub fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// A color of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// All is well.
    Green,
    /// Something wants a look.
    Yellow,
    /// Something is wrong.
    Red,
}

/// How words are shown on stdout: with color, or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// With color.
    Colored,
    /// As they are.
    Plain,
}

impl Style {
    /// Returns the style for this stdout: color on a terminal only, and none where NO_COLOR is set.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let is_dumb = environment.get("TERM").is_none_or(|terminal| terminal == "dumb");
        if is_terminal() && !is_dumb && environment.get("NO_COLOR").is_none() { Self::Colored } else { Self::Plain }
    }

    /// Returns the word in a color.
    #[must_use]
    pub fn paint(self, color: Color, word: &str) -> String {
        let code = match color {
            Color::Green => 32,
            Color::Yellow => 33,
            Color::Red => 31,
        };
        match self {
            Self::Colored => format!("\x1b[{code}m{word}\x1b[0m"),
            Self::Plain => word.to_owned(),
        }
    }
}
