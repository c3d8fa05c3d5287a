//! `groundingctl logs`: reads the daemon's log file itself, so it works without a daemon.
//!
//! `tail` finds where the last lines begin, `show` prints pieces of the file, `follow` waits for more. None of them holds
//! more of a log than one line, and a line only up to a bound.

mod follow;
mod show;
mod tail;

use std::path::Path;

use grounding_proto::environment::Environment;

use self::show::{Form, Show};
use self::tail::LogFile;
use super::failure::CommandError;
use crate::output;
use crate::state::State;

/// Print the daemon's log; works without a running daemon.
///
/// A log that has reached its size is set aside as groundingd.log.1; the last lines are taken from both.
#[derive(Debug, clap::Args)]
pub struct Logs {
    /// How many lines, counted from the end.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    lines: u64,
    /// Go on with what is written from now on, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Print each line as a JSON object: time, level and message, or line for one that has no such parts.
    #[arg(long)]
    json: bool,
}

impl Logs {
    /// Runs the command.
    ///
    /// # Errors
    /// When there is no log, or it can't be read.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let path = State::new(&environment)?.log_file();
        let form = match (self.json, output::is_terminal()) {
            (true, _) => Form::Json,
            (false, true) => Form::Terminal,
            (false, false) => Form::Raw,
        };
        let mut show = Show::new(form);
        let log = last_lines(&path, self.lines, &mut show)?;
        if self.follow {
            return follow::follow(&path, log, &mut show).await;
        }
        show.end()?;
        match log {
            Some(_) => Ok(grounding_proto::exit::OK),
            None => Err(CommandError::NoLog { path }),
        }
    }
}

/// Prints the last lines of the log and of the one before, and returns the log, read to where its end was.
fn last_lines(path: &Path, lines: u64, show: &mut Show) -> Result<Option<LogFile>, CommandError> {
    let Some(mut log) = LogFile::open(path).map_err(CommandError::io("read", path))? else { return Ok(None) };
    let found = log.seek_last(lines).map_err(CommandError::io("read", path))?;
    let before = path.with_extension("log.1");
    if found < lines
        && let Some(mut aside) = LogFile::open(&before).map_err(CommandError::io("read", &before))?
    {
        aside.seek_last(lines - found).map_err(CommandError::io("read", &before))?;
        show.rest_of(&mut aside, &before)?;
        show.end()?;
    }
    show.rest_of(&mut log, path)?;
    Ok(Some(log))
}
