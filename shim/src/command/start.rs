//! `groundingctl start`.

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::wait;
use crate::client::{Client, StartPolicy};
use crate::output;
use crate::service;

/// Start the daemon if it is not running, and wait until it is ready.
///
/// Also lets clients start it by themselves again after `groundingctl stop`.
#[derive(Debug, clap::Args)]
pub struct Start {}

impl Start {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon does not get ready.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment.clone(), StartPolicy::WhenAbsent);
        let state = client.state()?;
        state.clear_stopped()?;
        state.forget_failure();
        wait::shown("waiting for groundingd to get ready", client.connect()).await?;
        let version = client.version().await?;
        output::talk(&format!("groundingd {} is running (pid {}).", version.version, version.pid));
        if let Some((manager, unit)) = service::responsible(&environment).await
            && unit.main_pid != Some(version.pid)
        {
            let name = manager.name();
            output::talk(&format!(
                "It was not started by {name}, where its unit is installed; `groundingctl restart` moves it there."
            ));
        }
        Ok(exit::OK)
    }
}
