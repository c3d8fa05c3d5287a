//! `groundingctl setup`.

use std::path::PathBuf;

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::wait;
use crate::host::known::Host;
use crate::output;
use crate::setup::carry_out::carry_out;
use crate::setup::plan::{Plan, Service, Wish, plan};

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
        print(&plan, if self.dry_run { "Would do:" } else { "To do:" })?;
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

fn print(plan: &Plan, heading: &str) -> std::io::Result<()> {
    match plan.changes.as_slice() {
        [] => output::line("Nothing has to be changed.")?,
        changes => {
            output::line(heading)?;
            for change in changes {
                output::line(&format!("  {change}"))?;
            }
        }
    }
    for note in &plan.notes {
        output::line(note)?;
    }
    for refusal in &plan.refusals {
        output::talk(&format!("error: {refusal}"));
    }
    Ok(())
}
