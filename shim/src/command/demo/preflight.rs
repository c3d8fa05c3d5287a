//! Finds the checks that the demonstration runs: the real `preflight`, installed privately when there is none.

use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, SOLUTION_PREFLIGHT_BIN};

use super::super::wait;
use super::DemoError;
use crate::process;

/// What is installed when there is no preflight; the version that the demonstration was written for.
const PACKAGE: &str = "@lannguyensi/agent-preflight@0.6.2";

/// Finds preflight: SOLUTION_PREFLIGHT_BIN, PATH, the private folder, else installs it there.
///
/// # Errors
/// When there is none and it can't be installed.
pub(super) async fn find(environment: &Environment) -> Result<PathBuf, DemoError> {
    if let Some(named) = environment.get(SOLUTION_PREFLIGHT_BIN) {
        return Ok(PathBuf::from(named));
    }
    if let Some(found) = process::on_path(environment, "preflight") {
        return Ok(found);
    }
    let private = environment.private_preflight().unwrap_or_default();
    if process::is_executable(&private) {
        return Ok(private);
    }
    let folder = environment.data_dir().unwrap_or_default().join("preflight");
    let Some(npm) = process::on_path(environment, "npm").filter(|_| folder.is_absolute()) else {
        return Err(DemoError::NoPreflight { private });
    };
    let text = format!("installing {PACKAGE} into {}", folder.display());
    wait::shown(&text, install(&npm, &folder)).await?;
    Ok(private)
}

async fn install(npm: &Path, folder: &Path) -> Result<(), DemoError> {
    std::fs::create_dir_all(folder).map_err(DemoError::io(format!("create {}", folder.display())))?;
    let mut command = process::plain(npm);
    command.arg("install").arg("--prefix").arg(folder).args(["--no-audit", "--no-fund", PACKAGE]);
    process::run(command).await?;
    Ok(())
}
