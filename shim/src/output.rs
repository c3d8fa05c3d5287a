//! The one place that prints: data on stdout, talk on stderr.
//!
//! A reader that went away is no error of ours: stdout reports it for the caller to end quietly, stderr is written
//! without looking.

use std::io::{self, IsTerminal, Write};

use grounding_proto::text::{printable, printable_lines};

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
