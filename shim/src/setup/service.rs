//! The daemon as a service of the user: whether it can be one, is one, and how it becomes one.
//!
//! Asks `crate::service` and decides; without a manager the clients start the daemon, which is no failure.

use std::path::{Path, PathBuf};

use grounding_proto::environment::Environment;
use grounding_proto::wire::OsText;

use super::error::SetupError;
use super::files::{PRIVATE_DIRECTORY, create_directories, sha256};
use super::record::{Record, Written};
use crate::error::chain;
use crate::service::{Enablement, ServiceManager};

/// What is to be done about the service.
#[derive(Debug)]
pub enum ServicePlan {
    /// It is installed and enabled.
    Holds {
        /// Its file.
        file: PathBuf,
    },
    /// It is to be installed and enabled.
    Install {
        /// Its manager.
        manager: Box<ServiceManager>,
        /// Its file.
        file: PathBuf,
    },
    /// There will be none, for this reason.
    None(String),
    /// A unit of another program has its name, and clients would start that.
    Foreign {
        /// Its file.
        file: PathBuf,
    },
}

/// Finds out what is to be done so that the program becomes a service.
pub async fn plan(environment: &Environment, program: &Path) -> ServicePlan {
    let manager = match ServiceManager::find(environment).await {
        Ok(manager) => manager,
        Err(error) => return ServicePlan::None(chain(&error)),
    };
    let (unit, text) = match (manager.unit().await, manager.text(program)) {
        (Ok(unit), Ok(text)) => (unit, text),
        (Err(error), _) | (_, Err(error)) => return ServicePlan::None(chain(&error)),
    };
    let file = manager.file();
    if !manager.serves_the_same_state(&unit) {
        return ServicePlan::None(
            "a service would use another state directory than GROUNDING_STATE_DIR names".to_owned(),
        );
    }
    if unit.enablement == Enablement::Masked {
        return ServicePlan::None(format!("{} is masked", file.display()));
    }
    let is_written = std::fs::read(&file).is_ok_and(|content| content == text.as_bytes());
    let is_current = unit.is_installed() && unit.staleness(program).is_none();
    // A unit that starts this program is left as its owner wrote it.
    if is_current && unit.enablement == Enablement::Enabled {
        return ServicePlan::Holds { file: unit.file.unwrap_or(file) };
    }
    if file.exists() && !is_written && !is_current && !starts_ours(&file) {
        return ServicePlan::Foreign { file };
    }
    ServicePlan::Install { manager: Box::new(manager), file }
}

/// Returns whether a unit's file starts a daemon of ours, of an earlier place.
fn starts_ours(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("groundingd"))
}

/// Installs and enables the service.
///
/// # Errors
/// When the manager refuses or a file can't be written.
pub async fn install(
    environment: &Environment,
    manager: &ServiceManager,
    program: &Path,
    record: &mut Record,
) -> Result<(), SetupError> {
    let file = manager.file();
    let directory = file.parent().unwrap_or(Path::new("/"));
    create_directories(directory, PRIVATE_DIRECTORY, &mut record.directories)?;
    let text = manager.text(program)?;
    let unit = manager.unit().await?;
    if unit.staleness(program).is_some() || !unit.is_installed() {
        keep_edited(environment, &file, record)?;
        record.service = Some(Written { path: OsText::from(file), sha256: sha256(text.as_bytes()) });
        record.save(environment)?;
        manager.install(program).await?;
    }
    Ok(manager.enable().await?)
}

/// Keeps a unit that somebody edited before it is written anew.
fn keep_edited(environment: &Environment, file: &Path, record: &mut Record) -> Result<(), SetupError> {
    let Ok(content) = std::fs::read(file) else { return Ok(()) };
    if record.service.as_ref().is_some_and(|known| known.sha256 == sha256(&content)) {
        return Ok(());
    }
    record.keep(environment, "groundingd.service", &content).map(drop)
}
