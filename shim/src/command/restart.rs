//! `groundingctl restart`.

use grounding_proto::environment::Environment;

use super::failure::CommandError;
use super::start::Start;
use super::stop::{end, start_lock};
use super::wait;
use crate::client::{Client, StartPolicy};
use crate::context::VERSION;
use crate::error::ClientError;
use crate::service;

/// Replace the running daemon by the one that is installed; a daemon of a newer build is left alone.
///
/// Attempts that are running go on and keep their results.
#[derive(Debug, clap::Args)]
pub struct Restart {}

impl Restart {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon is newer, does not end, or does not get ready again.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment.clone(), StartPolicy::Never);
        let state = client.state()?;
        state.create_directories()?;
        let lock = start_lock(&state).await?;
        match client.version().await {
            Ok(daemon) if numbers(&daemon.version) > numbers(VERSION) => {
                return Err(CommandError::Newer { daemon: daemon.version, own: VERSION });
            }
            Ok(_) | Err(ClientError::NotRunning { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some((manager, _)) = service::responsible(&environment).await {
            // Where it listens for the daemon, it starts the next one by itself.
            manager.forget_failures().await;
        }
        wait::shown("waiting for groundingd to finish what it has", end(&client, &state)).await?;
        drop(lock);
        Start {}.run(environment).await
    }
}

/// Returns the numbers of a version, to be compared in order.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|character: char| !character.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("0.10.0") > numbers("0.9.1"));
        assert!(numbers("1.0.0") > numbers("0.99.99"));
        assert_eq!(numbers("0.1.0"), numbers("0.1.0"));
    }
}
