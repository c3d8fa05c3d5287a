//! `groundingctl uninstall`.

use std::io::{BufRead, IsTerminal};

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::wait;
use crate::output;
use crate::setup::error::SetupError;
use crate::setup::removal::{Fate, Removal, plan};
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
        print(&removal, if self.dry_run { "Would do:" } else { "To do:" })?;
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

fn print(removal: &Removal, heading: &str) -> std::io::Result<()> {
    match removal.changes.as_slice() {
        [] => output::line("There is nothing to remove.")?,
        changes => {
            output::line(heading)?;
            for change in changes {
                output::line(&format!("  {change}"))?;
            }
        }
    }
    for note in &removal.notes {
        output::line(note)?;
    }
    for refusal in &removal.refusals {
        output::talk(&format!("error: {refusal}"));
    }
    Ok(())
}

fn is_confirmed() -> std::io::Result<bool> {
    output::talk("Delete this data for good? Type yes to go on:");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}
