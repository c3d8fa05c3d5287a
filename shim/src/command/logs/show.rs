//! Prints pieces of a log: the bytes as they are, without what would steer a terminal, or a JSON object per line.

use std::io;
use std::path::Path;

use grounding_proto::text::printable_lines;
use serde_json::{Value, json};

use super::tail::LogFile;
use crate::command::failure::CommandError;
use crate::output;

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// Most bytes of a line that are shown; the daemon writes none as long.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// What stands in the place of what was cut.
const CUT: &str = " … (cut)";

const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

/// How a log is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Its bytes.
    Raw,
    /// Its lines as a terminal may show them.
    Terminal,
    /// An object per line.
    Json,
}

/// Prints a log piece by piece.
#[derive(Debug)]
pub(super) struct Show {
    form: Form,
    /// A line whose end was not read yet.
    line: Vec<u8>,
    is_cut: bool,
}

impl Show {
    /// Returns what prints in a form.
    pub(super) fn new(form: Form) -> Self {
        Self { form, line: Vec::new(), is_cut: false }
    }

    /// Prints what can be read of a file now.
    ///
    /// # Errors
    /// When the file can't be read, or stdout not written.
    pub(super) fn rest_of(&mut self, log: &mut LogFile, path: &Path) -> Result<(), CommandError> {
        let mut piece = vec![0; PIECE];
        loop {
            let read = log.read(&mut piece).map_err(CommandError::io("read", path))?;
            if read == 0 {
                return Ok(());
            }
            self.piece(&piece[..read], &mut |text| output::bytes(text))?;
        }
    }

    /// Prints a line that has no end.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub(super) fn end(&mut self) -> Result<(), CommandError> {
        if !self.line.is_empty() {
            self.finish_line(&mut |text| output::bytes(text))?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &[u8], print: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.form == Form::Raw {
            return print(piece);
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = MAX_LINE_BYTES - self.line.len();
            self.is_cut |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                self.finish_line(print)?;
            }
        }
        Ok(())
    }

    fn finish_line(&mut self, print: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut line = String::from_utf8_lossy(&self.line).into_owned();
        if std::mem::take(&mut self.is_cut) {
            line.push_str(CUT);
        }
        self.line.clear();
        let shown = match self.form {
            Form::Json => grounding_proto::text::printable_json(&parts(&line).to_string()),
            Form::Raw | Form::Terminal => printable_lines(&line),
        };
        print(format!("{shown}\n").as_bytes())
    }
}

/// Returns the parts of a line: `<time>  <level> <message>`.
fn parts(line: &str) -> Value {
    let parted = line.split_once(' ').and_then(|(time, rest)| {
        let (level, message) = rest.trim_start().split_once(' ')?;
        let is_time = time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok();
        (is_time && LEVELS.contains(&level)).then(|| json!({ "time": time, "level": level, "message": message }))
    });
    parted.unwrap_or_else(|| json!({ "line": line }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(form: Form, pieces: &[&[u8]]) -> String {
        let mut text = Vec::new();
        let mut show = Show::new(form);
        let mut print = |bytes: &[u8]| {
            text.extend_from_slice(bytes);
            Ok(())
        };
        for piece in pieces {
            show.piece(piece, &mut print).unwrap();
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_terminal_is_not_steered_even_between_pieces() {
        assert_eq!(shown(Form::Terminal, &[b"a\x1b[3", b"1mb\xc3", b"\xa9\r\nc\xff\n"]), "a?[31mbé?\nc\u{fffd}\n");
        assert_eq!(shown(Form::Raw, &[b"a\x1b\n"]), "a\x1b\n");
    }

    #[test]
    fn a_line_is_bounded_and_says_that_it_was_cut() {
        let long = vec![b'x'; 3 * MAX_LINE_BYTES];
        let text = shown(Form::Terminal, &[&long, b"y\nz\n"]);
        assert_eq!(text, format!("{}{CUT}\nz\n", "x".repeat(MAX_LINE_BYTES)));
    }

    #[test]
    fn lines_are_taken_apart_where_they_have_parts() {
        let line = "2026-12-01T12:00:00.000001Z  WARN a ledger was still in use error=\"x\"";
        let expected = json!({
            "time": "2026-12-01T12:00:00.000001Z", "level": "WARN", "message": "a ledger was still in use error=\"x\""
        });
        assert_eq!(parts(line), expected);
        for other in ["", "  at some file", "2026-12-01T12:00:00Z", "2026-12-01T12:00:00Z  LOUD x", "x  INFO y"] {
            assert_eq!(parts(other), json!({ "line": other }));
        }
        assert_eq!(shown(Form::Json, &[b"a\x1b\n"]), "{\"line\":\"a\\u001b\"}\n");
    }
}
