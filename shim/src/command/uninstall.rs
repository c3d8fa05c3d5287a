//! `groundingctl uninstall`: as `setup`, for the way back; asks before data is deleted.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::setup::Announcement;
use super::wait;
use crate::output;
use crate::setup::error::SetupError;
use crate::setup::removal::{Fate, plan};
use crate::setup::remove::remove;

/// Undo what setup did: unregister from the hosts, stop the daemon, remove the service and the programs.
///
/// Your data stays, and its places are printed; `--purge` deletes it, all but the signing key. Exit code 1: something was
/// left, and the reason is printed.
#[derive(Debug, clap::Args)]
pub struct Uninstall {
    /// Print what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Delete sessions, hypotheses, the ledger, verdicts and logs of checks, too.
    #[arg(long)]
    purge: bool,
    /// Don't ask before data is deleted.
    #[arg(long)]
    yes: bool,
}

impl Uninstall {
    /// Runs the command.
    ///
    /// # Errors
    /// When nothing can be done at all, or what was begun can't be finished.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let fate = if self.purge { Fate::Deleted } else { Fate::Kept };
        let is_asking = self.purge && !self.yes && !self.dry_run;
        if is_asking && !std::io::stdin().is_terminal() {
            return Err(CommandError::Usage(
                "--purge deletes data: add --yes, or run it on a terminal, where it asks".to_owned(),
            ));
        }
        let removal = plan(&environment, fate).await?;
        Announcement {
            heading: if self.dry_run { "Would do:" } else { "To do:" },
            nothing: "There is nothing to remove.",
            changes: &removal.changes,
            notes: &removal.notes,
            refusals: &removal.refusals,
        }
        .print()?;
        let refused = !removal.refusals.is_empty();
        let code = |failed| if failed { exit::NEGATIVE } else { exit::OK };
        if self.dry_run {
            return Ok(code(refused));
        }
        if fate == Fate::Deleted && removal.attempts > 0 {
            return Err(SetupError::AttemptsRun.into());
        }
        if is_asking && !is_confirmed()? {
            output::talk("Nothing was done.");
            return Ok(exit::NEGATIVE);
        }
        let failures = wait::shown("removing", remove(&environment, removal, fate)).await?;
        for failure in &failures {
            output::talk(&format!("error: {failure}"));
        }
        if failures.is_empty() && !refused {
            output::line("Done.")?;
        }
        Ok(code(refused || !failures.is_empty()))
    }
}

fn is_confirmed() -> Result<bool, CommandError> {
    output::talk("Delete this data for good? Type yes to go on:");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(CommandError::io("read the answer from", Path::new("stdin")))?;
    Ok(answer.trim() == "yes")
}
