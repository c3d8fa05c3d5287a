//! Does what a plan says, and goes on with the next host when one fails.

use grounding_proto::environment::Environment;

use super::error::SetupError;
use super::plan::{Plan, Start};
use super::service;
use crate::error::chain;
use crate::process;

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// A sentence for each file that is kept as it was.
    pub kept: Vec<String>,
    /// A sentence for each part that was not done.
    pub failures: Vec<String>,
}

/// Does what the plan says.
///
/// # Errors
/// When the programs can't be installed or the record can't be written: everything else needs them.
pub async fn carry_out(environment: &Environment, mut plan: Plan) -> Result<Outcome, SetupError> {
    let mut outcome = Outcome::default();
    if plan.changes.is_empty() {
        return Ok(outcome);
    }
    let writes = !plan.installation.copies.is_empty() || plan.service.is_some() || !plan.registering.is_empty();
    let lock = if writes { Some(plan.record.lock(environment)?) } else { None };
    if writes {
        plan.record.save(environment)?;
        plan.installation.carry_out(environment, &mut plan.record)?;
    }
    let daemon = plan.installation.program(process::DAEMON);
    if let Some(manager) = &plan.service
        && let Err(error) = service::install(environment, manager, &daemon, &mut plan.record).await
    {
        outcome.failures.push(format!("service: {}", chain(&error)));
    }
    for registering in &plan.registering {
        let site = &registering.site;
        match registering.carry_out(environment, &plan.server, &mut plan.record).await {
            Ok(None) => {}
            Ok(Some(path)) => {
                outcome.kept.push(format!("{} as it was is kept in {}.", site.file.display(), path.display()));
            }
            Err(error) => outcome.failures.push(format!("{}: {}", site.host.title(), chain(&error))),
        }
    }
    if writes {
        plan.record.save(environment)?;
    }
    drop(lock);
    if plan.start == Start::Needed {
        start(&plan).await?;
    }
    Ok(outcome)
}

/// Starts the daemon by the installed programs, so that it does not depend on the place this one was unpacked or built in.
async fn start(plan: &Plan) -> Result<(), SetupError> {
    let mut command = process::plain(plan.installation.program("groundingctl"));
    command.arg("start");
    process::run(command).await.map(drop).map_err(SetupError::Daemon)
}
