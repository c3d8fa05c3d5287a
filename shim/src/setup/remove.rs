//! Does what a removal says, and goes on with the next host when one fails.
//!
//! The record goes last, and stays when something was left undone, so that the removal can be run again.

use std::path::Path;

use grounding_proto::environment::Environment;

use super::data;
use super::error::SetupError;
use super::files::{remove_empty_directory, remove_file};
use super::record;
use super::registration::unregister;
use super::removal::{Fate, Removal, directories};
use crate::client::{Client, StartPolicy};
use crate::command::stop;
use crate::error::chain;
use crate::service::{ServiceError, ServiceManager};
use crate::state::State;

/// Does what the removal says, and returns a sentence for each part that was not done.
///
/// # Errors
/// When the daemon does not end, or a file of ours can't be removed.
pub async fn remove(environment: &Environment, mut removal: Removal, fate: Fate) -> Result<Vec<String>, SetupError> {
    let mut failures = Vec::new();
    if removal.changes.is_empty() {
        return Ok(failures);
    }
    let lock = removal.record.lock(environment)?;
    for (site, known) in &removal.sites {
        if let Err(error) = unregister(environment, site, known.as_ref()).await {
            failures.push(format!("{}: {}", site.host.title(), chain(&error)));
        }
    }
    if let Some(manager) = &removal.service
        && let Err(error) = remove_service(manager).await
    {
        failures.push(format!("service: {}", chain(&error)));
    }
    if let Some(unit) = &removal.unit {
        remove_unit(unit)?;
    }
    stop_daemon(environment).await?;
    let removed = remove_files(environment, &removal, fate, Completeness::of(&removal, &failures));
    // Without the programs nobody starts the daemon; the note must not outlive them to surprise the next set-up.
    drop(lock);
    State::new(environment)?.clear_stopped().map_err(|error| SetupError::Stop(Box::new(error.into())))?;
    removed.map(|()| failures)
}

/// Whether every host could be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Complete,
    Partial,
}

impl Completeness {
    fn of(removal: &Removal, failures: &[String]) -> Self {
        if failures.is_empty() && removal.refusals.is_empty() { Self::Complete } else { Self::Partial }
    }
}

fn remove_files(
    environment: &Environment,
    removal: &Removal,
    fate: Fate,
    completeness: Completeness,
) -> Result<(), SetupError> {
    for program in &removal.programs {
        remove_file(program)?;
    }
    if fate == Fate::Deleted {
        for data in &removal.data {
            data::delete(data)?;
        }
    }
    if completeness == Completeness::Complete {
        remove_state(environment)?;
        for directory in directories(&removal.record) {
            remove_empty_directory(directory)?;
        }
    }
    Ok(())
}

async fn remove_service(manager: &ServiceManager) -> Result<(), ServiceError> {
    manager.stop().await?;
    manager.disable().await?;
    manager.remove().await.map(drop)
}

/// Removes a unit that no manager can be asked about, and what enables it.
fn remove_unit(unit: &Path) -> Result<(), SetupError> {
    remove_file(unit)?;
    if let (Some(directory), Some(name)) = (unit.parent(), unit.file_name()) {
        let wants = directory.join("default.target.wants");
        remove_file(&wants.join(name))?;
        remove_empty_directory(&wants)?;
    }
    Ok(())
}

/// Ends the daemon, and keeps clients from starting it while its files go.
async fn stop_daemon(environment: &Environment) -> Result<(), SetupError> {
    let client = Client::new(environment.clone(), StartPolicy::Never);
    let state = client.state()?;
    let failed = |error| SetupError::Stop(Box::new(error));
    state.create_directories().map_err(|error| failed(error.into()))?;
    state.write_stopped().map_err(|error| failed(error.into()))?;
    let lock = stop::start_lock(&state).await.map_err(failed)?;
    stop::end(&client, &state).await.map_err(failed)?;
    drop(lock);
    Ok(())
}

/// Removes what is no data from the state directory: socket, locks, notes, log, record and kept files.
fn remove_state(environment: &Environment) -> Result<(), SetupError> {
    let state = environment.state_dir()?;
    if let Ok(paths) = State::new(environment) {
        remove_file(paths.socket())?;
    }
    remove_empty_directory(&environment.run_dir()?)?;
    for directory in [record::backups(environment)?, state.join("log")] {
        let files = std::fs::read_dir(&directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        for file in files.filter(|path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir())) {
            remove_file(&file)?;
        }
        remove_empty_directory(&directory)?;
    }
    remove_empty_directory(&state.join("setup"))?;
    for name in ["start-failed", "start.lock", "groundingd.lock"] {
        remove_file(&state.join(name))?;
    }
    remove_file(&record::path(environment)?)?;
    // The note that keeps clients from starting the daemon goes last.
    remove_file(&state.join("stopped"))?;
    remove_empty_directory(&state)
}
