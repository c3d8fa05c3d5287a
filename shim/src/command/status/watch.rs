//! Looks again and again, while the daemon goes and comes: in place on a terminal, or a line of JSON each time.
//!
//! The terminal is left in no other mode than it was found in, so an end at any point needs no repair. It ends when it is
//! told to, or when nobody reads any more.

use std::time::Duration;

use grounding_proto::exit;
use grounding_proto::text::printable;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::report::Report;
use super::text::text;
use crate::client::Client;
use crate::command::failure::CommandError;
use crate::command::interrupt::Interrupt;
use crate::command::table::cut;
use crate::error::chain;
use crate::output::{self, Color, Style};

/// How often a watch that waits looks whether anybody still reads.
const GLANCE: Duration = Duration::from_millis(500);

/// Prints a line of JSON per look.
///
/// # Errors
/// When stdout can't be written, or the environment leads to no daemon.
pub(super) async fn lines(client: &Client, interval: Duration) -> Result<u8, CommandError> {
    client.state()?;
    watch(client, interval, |report| {
        match report {
            Ok(report) => output::json_line(&report)?,
            Err(error) => output::json_line(&json!({ "error": chain(&error) }))?,
        }
        Ok(())
    })
    .await
}

/// Shows each look in the place of the one before.
///
/// # Errors
/// When stdout is no terminal or can't be written, or the environment leads to no daemon.
pub(super) async fn in_place(client: &Client, interval: Duration, style: Style) -> Result<u8, CommandError> {
    let is_dumb = client.environment().get("TERM").is_none_or(|terminal| terminal == "dumb");
    if !output::is_terminal() || is_dumb {
        let why = "--watch refreshes a terminal in place, and stdout is no terminal that can; use --json --watch";
        return Err(CommandError::Usage(why.to_owned()));
    }
    client.state()?;
    let mut screen = Screen::default();
    watch(client, interval, move |report| {
        let mut shown = match report {
            Ok(report) => text(&report, style),
            Err(error) => {
                format!("daemon    {}: {}\n", style.paint(Color::Red, "can't be asked"), printable(&chain(&error)))
            }
        };
        shown.push_str(&format!("looked at every {} s; Ctrl-C ends\n", interval.as_secs_f64()));
        Ok(output::data(&screen.frame(&shown, output::size().unwrap_or((80, 24))))?)
    })
    .await
}

async fn watch(
    client: &Client,
    interval: Duration,
    mut show: impl FnMut(Result<Report, CommandError>) -> Result<(), CommandError>,
) -> Result<u8, CommandError> {
    let mut interrupt = Interrupt::listen().map_err(CommandError::Signals)?;
    loop {
        let next = Instant::now() + interval;
        let report = tokio::select! {
            report = Report::look(client) => report,
            () = interrupt.heard() => return Ok(exit::OK),
        };
        show(report)?;
        while Instant::now() < next {
            tokio::select! {
                () = sleep_until(next.min(Instant::now() + GLANCE)) => {}
                () = interrupt.heard() => return Ok(exit::OK),
            }
            if output::reader_is_gone() {
                return Ok(exit::OK);
            }
        }
    }
}

/// What is on the screen.
#[derive(Debug, Default)]
struct Screen {
    lines: usize,
    size: (usize, usize),
}

impl Screen {
    /// Returns what replaces the lines that are shown by these, as many as fit.
    fn frame(&mut self, text: &str, size: (usize, usize)) -> String {
        let (columns, rows) = size;
        // Another width wraps what is there anew, so where it begins is not known any more.
        let back = match (self.lines, self.size == size) {
            (0, _) => String::new(),
            (lines, true) => format!("\r\x1b[{lines}A"),
            (_, false) => "\x1b[H\x1b[2J".to_owned(),
        };
        // The cursor's own line stays free.
        let lines: Vec<_> = text.lines().take(rows.saturating_sub(1).max(1)).collect();
        (self.lines, self.size) = (lines.len(), size);
        let shown: String = lines.iter().map(|line| format!("{}\x1b[K\n", cut_painted(line, columns))).collect();
        format!("{back}{shown}\x1b[J")
    }
}

/// Cuts a line that may hold color, which takes no room; a line that is cut loses it.
fn cut_painted(line: &str, columns: usize) -> String {
    let mut bare = String::new();
    let mut rest = line;
    while let Some((before, painted)) = rest.split_once("\x1b[") {
        bare.push_str(before);
        rest = painted.split_once('m').map_or("", |(_, after)| after);
    }
    bare.push_str(rest);
    let fitting = cut(&bare, columns);
    if fitting == bare { line.to_owned() } else { fitting }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_the_place_of_the_one_before() {
        let mut screen = Screen::default();
        assert_eq!(screen.frame("a\nb\n", (80, 24)), "a\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen.frame("c\n", (80, 24)), "\r\x1b[2Ac\x1b[K\n\x1b[J");
        assert!(screen.frame("c\n", (70, 24)).starts_with("\x1b[H\x1b[2J"));
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let frame = Screen::default().frame(&"0123456789\n".repeat(9), (5, 4));
        assert_eq!(frame, format!("{}\x1b[J", "0123…\x1b[K\n".repeat(3)));
        assert_eq!(cut_painted("a \x1b[32mok\x1b[0m", 4), "a \x1b[32mok\x1b[0m");
        assert_eq!(cut_painted("a \x1b[32mok\x1b[0m", 3), "a …");
    }
}
