//! `groundingctl stop`.

use std::fs::File;
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use tokio::time::{Instant, sleep};

use super::failure::CommandError;
use super::wait;
use crate::client::{Client, StartPolicy};
use crate::error::ClientError;
use crate::output;
use crate::service;
use crate::state::State;

/// How long the daemon may take to finish what it has.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

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

/// Takes the start lock: while it is held, no client starts a daemon.
///
/// # Errors
/// When another process keeps it.
pub async fn start_lock(state: &State) -> Result<File, CommandError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = state.try_start_lock()? {
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            return Err(CommandError::Busy { seconds: PATIENCE.as_secs() });
        }
        sleep(PAUSE).await;
    }
}

/// Drains the daemon and returns its pid when it is gone; nothing when none ran. To be called with the start lock held. Where
/// a service manager listens for the daemon, another one may have taken its place.
///
/// # Errors
/// When it can't be asked or does not end in time.
pub async fn end(client: &Client, state: &State) -> Result<Option<u32>, CommandError> {
    let pid = match client.version().await {
        Err(ClientError::NotRunning { .. }) => return Ok(None),
        other => other?.pid,
    };
    match client.drain().await {
        // It ended on its own meanwhile, which may also cost the answer.
        Ok(()) | Err(ClientError::NotRunning { .. } | ClientError::OutcomeUnknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.version().await {
            Err(ClientError::NotRunning { .. }) if state.daemon_is_gone()? => return Ok(Some(pid)),
            Ok(version) if version.pid != pid => return Ok(Some(pid)),
            _ => {}
        }
        if Instant::now() >= deadline {
            return Err(CommandError::StillRunning { pid, seconds: PATIENCE.as_secs() });
        }
        sleep(PAUSE).await;
    }
}
