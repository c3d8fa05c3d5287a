//! `groundingctl stop`.

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::wait;
use crate::client::{Client, StartPolicy};
use crate::output;
use crate::service;
use crate::stop::{end, start_lock};

/// Stop the daemon, and keep clients from starting it until `groundingctl start`.
///
/// The daemon finishes the calls it has. Attempts that are running go on and keep their results.
#[derive(Debug, clap::Args)]
pub struct Stop {}

impl Stop {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon does not end in time.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment.clone(), StartPolicy::Never);
        let state = client.state()?;
        state.create_directories()?;
        state.write_stopped()?;
        let lock = start_lock(&state).await?;
        let responsible = service::responsible(&environment).await;
        if let Some((manager, _)) = &responsible {
            // Else the next connection would start the daemon again, this command's own included.
            manager.stop_listening().await?;
        }
        match wait::shown("waiting for groundingd to finish what it has", end(&client, &state)).await? {
            Some(pid) => output::talk(&format!("groundingd (pid {pid}) has stopped.")),
            None => output::talk("groundingd was not running."),
        }
        if let Some((manager, _)) = &responsible {
            // The daemon is gone; its restart may be due, after a crash.
            manager.stop().await?;
        }
        drop(lock);
        output::talk("Clients will not start it until `groundingctl start`.");
        Ok(exit::OK)
    }
}
