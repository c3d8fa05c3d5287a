//! Does what a removal says, and goes on with the next host when one fails.
//!
//! The record and the programs go last, and stay when something was left undone, so that the removal can be run again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use grounding_proto::environment::Environment;

use super::data;
use super::error::SetupError;
use super::files::{remove_empty_directory, remove_file};
use super::record::{self, Record};
use super::registration::{sites, unregister};
use super::removal::{Fate, LEFT, Removal, can_run, directories};
use crate::client::{Client, StartPolicy};
use crate::error::chain;
use crate::service::{ServiceError, ServiceManager};
use crate::state::State;
use crate::stop;
use crate::store;

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
    if let Some(unit) = &removal.socket_unit
        && let Err(error) = remove_socket_unit(environment, unit).await
    {
        failures.push(format!("{}: {}", unit.display(), chain(&error)));
    }
    if let Some(manager) = &removal.service
        && let Err(error) = remove_service(manager).await
    {
        failures.push(format!("service: {}", chain(&error)));
    }
    if let Some(unit) = &removal.unit {
        remove_unit(unit)?;
    }
    if can_run(environment) {
        stop_daemon(environment).await?;
    }
    let removed = remove_files(environment, &removal, fate, Completeness::of(&removal, &failures));
    if removal.refusals.is_empty() && !failures.is_empty() {
        failures.push(LEFT.to_owned());
    }
    // Without the programs nobody starts the daemon; the note must not outlive them to surprise the next set-up.
    drop(lock);
    State::to_remove(environment)?.clear_stopped().map_err(|error| SetupError::Stop(Box::new(error.into())))?;
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
    if fate == Fate::Deleted {
        for data in &removal.data {
            data::delete(data)?;
        }
    }
    if completeness == Completeness::Complete {
        sweep(environment, &removal.record)?;
        remove_state(environment, &removal.kept)?;
        // Last of the files, so that whatever fails before can be run again.
        for program in &removal.programs {
            remove_file(program)?;
        }
        for directory in directories(&removal.record) {
            remove_empty_directory(directory)?;
        }
    }
    Ok(())
}

/// Removes what interrupted writes of ours left beside the files that they were to become.
fn sweep(environment: &Environment, record: &Record) -> Result<(), SetupError> {
    let hosts = sites(environment, record).into_iter().map(|(site, _)| site.file);
    let written = record.programs.iter().chain(&record.service).map(|written| written.path.as_path().to_owned());
    let paths = hosts.chain(written).chain([record::path(environment)?]);
    let beside: BTreeSet<_> = paths.filter_map(|path| path.parent().map(Path::to_owned)).collect();
    // Those of a recorded directory, too: the record may not tell yet of what was to be written there.
    for directory in beside.iter().map(PathBuf::as_path).chain(directories(record)) {
        store::sweep(directory).map_err(SetupError::io("sweep", directory))?;
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
    remove_wanted(unit, "default.target.wants")
}

/// Ends the listening, and removes the unit that does it and what enables it; a manager forgets it with its next reload.
async fn remove_socket_unit(environment: &Environment, unit: &Path) -> Result<(), SetupError> {
    if let Ok(manager) = ServiceManager::find(environment).await {
        manager.stop_listening().await?;
    }
    remove_wanted(unit, "sockets.target.wants")
}

fn remove_wanted(unit: &Path, target: &str) -> Result<(), SetupError> {
    remove_file(unit)?;
    if let (Some(directory), Some(name)) = (unit.parent(), unit.file_name()) {
        let wants = directory.join(target);
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

/// Removes what is no data from the state directory: socket, locks, notes, log, record and kept files but these.
fn remove_state(environment: &Environment, kept: &[PathBuf]) -> Result<(), SetupError> {
    let (state, directory) = (State::to_remove(environment)?, environment.state_dir()?);
    remove_file(state.socket())?;
    remove_empty_directory(&environment.run_dir()?)?;
    let log = state.log_file();
    for directory in [record::backups(environment)?.as_path(), log.parent().unwrap_or(&directory)] {
        let files = std::fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let files = files.filter(|path| !kept.contains(path));
        for file in files.filter(|path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir())) {
            remove_file(&file)?;
        }
        remove_empty_directory(directory)?;
    }
    remove_empty_directory(&directory.join("setup"))?;
    for file in state.locks_and_notes() {
        remove_file(&file)?;
    }
    remove_file(&record::path(environment)?)?;
    // The note that keeps clients from starting the daemon goes last.
    remove_file(&state.stopped_file())?;
    remove_empty_directory(&directory)
}
