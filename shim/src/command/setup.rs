//! `groundingctl setup`: asks `crate::setup` for a plan, says it, and has it carried out.

use std::path::PathBuf;

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::wait;
use crate::host::known::Host;
use crate::output;
use crate::setup::carry_out::carry_out;
use crate::setup::plan::{Service, Wish, plan};

/// Install the programs, make the daemon a service, and register the server in the hosts that are found.
///
/// Says what it does, keeps what it changes, and changes nothing that is as it should be: run it again at any time, and
/// after an upgrade. `groundingctl uninstall` undoes it. Exit code 1: something was left out, and the reason is printed.
#[derive(Debug, clap::Args)]
pub struct Setup {
    /// Print what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Install in DIR/bin; default: ~/.local.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Register in this project's .mcp.json, too, which Claude Code reads.
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Register in this host alone, found or not; may be repeated.
    #[arg(long = "host", value_name = "NAME", value_enum)]
    hosts: Vec<Host>,
    /// Leave the service manager alone.
    #[arg(long)]
    no_service: bool,
}

impl Setup {
    /// Runs the command.
    ///
    /// # Errors
    /// When nothing can be done at all, or the programs can't be installed.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let service = if self.no_service { Service::No } else { Service::WherePossible };
        let wish = Wish { prefix: self.prefix, project: self.project, hosts: self.hosts, service };
        let plan = plan(&environment, &wish).await?;
        Announcement {
            heading: if self.dry_run { "Would do:" } else { "To do:" },
            nothing: "Nothing has to be changed.",
            changes: &plan.changes,
            notes: &plan.notes,
            refusals: &plan.refusals,
        }
        .print()?;
        let refused = !plan.refusals.is_empty();
        let code = |failed| if failed { exit::NEGATIVE } else { exit::OK };
        if self.dry_run {
            return Ok(code(refused));
        }
        let changes = plan.changes.len();
        let outcome = wait::shown("setting up", carry_out(&environment, plan)).await?;
        for sentence in &outcome.kept {
            output::line(sentence)?;
        }
        for failure in &outcome.failures {
            output::talk(&format!("error: {failure}"));
        }
        if changes > 0 && outcome.failures.is_empty() {
            output::line("Done.")?;
        }
        Ok(code(refused || !outcome.failures.is_empty()))
    }
}

/// What `setup` or `uninstall` is about to do, in sentences.
pub(super) struct Announcement<'a> {
    /// What stands above the changes.
    pub(super) heading: &'a str,
    /// What is said when there are none.
    pub(super) nothing: &'a str,
    pub(super) changes: &'a [String],
    pub(super) notes: &'a [String],
    pub(super) refusals: &'a [String],
}

impl Announcement<'_> {
    /// Prints it: what is left out on stderr, the rest on stdout.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub(super) fn print(&self) -> std::io::Result<()> {
        output::line(if self.changes.is_empty() { self.nothing } else { self.heading })?;
        for change in self.changes {
            output::line(&format!("  {change}"))?;
        }
        for note in self.notes {
            output::line(note)?;
        }
        for refusal in self.refusals {
            output::talk(&format!("error: {refusal}"));
        }
        Ok(())
    }
}
