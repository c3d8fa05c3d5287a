//! Goes on with a log: what is appended, and the file that takes its place when it is set aside.

use std::path::Path;
use std::time::Duration;

use grounding_proto::exit;

use super::show::Show;
use super::tail::LogFile;
use crate::command::failure::CommandError;
use crate::command::interrupt::Interrupt;
use crate::output;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Prints what is written from now on, until Ctrl-C or until nobody reads.
///
/// # Errors
/// When the log can't be read, or stdout not written.
pub(super) async fn follow(path: &Path, mut log: Option<LogFile>, show: &mut Show) -> Result<u8, CommandError> {
    let mut interrupt = Interrupt::listen().map_err(CommandError::Signals)?;
    if log.is_none() {
        output::talk(&format!("{} is not there yet; waiting for it.", path.display()));
    }
    loop {
        // Looked at before the file is read: what was written before it was set aside is then read below.
        let in_place = log.as_ref().is_some_and(|log| log.is_at(path));
        if let Some(log) = &mut log {
            show.rest_of(log, path)?;
        }
        if !in_place && let Some(next) = LogFile::open(path).map_err(CommandError::io("read", path))? {
            show.end()?;
            if log.as_ref().is_some_and(|log| !log.is_at(&path.with_extension("log.1"))) {
                output::talk("The log was set aside more than once since the last look: lines may be missing here.");
            }
            log = Some(next);
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = interrupt.heard() => return Ok(exit::OK),
        }
        if output::reader_is_gone() {
            return Ok(exit::OK);
        }
    }
}
