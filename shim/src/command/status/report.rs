//! What `status` finds: the daemon's own words, or that it is down, and what only a client knows.

use grounding_proto::wire::{Health, HealthAnswer, PROTOCOL};
use serde::Serialize;

use crate::client::Client;
use crate::command::failure::CommandError;
use crate::context::VERSION;
use crate::error::ClientError;

/// How the daemon is. Its JSON is a promise: keys are added, none is renamed or removed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) health: HealthAnswer,
    /// Whether `groundingctl stop` keeps clients from starting it.
    pub(super) stopped: bool,
    /// Its log file.
    pub(super) log: String,
}

impl Report {
    /// Asks the daemon; one that does not run is an answer, too.
    ///
    /// # Errors
    /// When the daemon is there but can't be asked.
    pub(super) async fn look(client: &Client) -> Result<Self, CommandError> {
        let state = client.state()?;
        let health = match client.health().await {
            Err(ClientError::NotRunning { socket }) => down(socket.display().to_string()),
            other => other?,
        };
        Ok(Self { health, stopped: state.is_stopped(), log: state.log_file().display().to_string() })
    }
}

fn down(socket: String) -> HealthAnswer {
    HealthAnswer {
        status: Health::Down,
        version: VERSION.to_owned(),
        protocol: PROTOCOL,
        pid: None,
        uptime_ms: None,
        socket,
        ledger: None,
        attempts: None,
        clients: None,
        running_attempts: None,
    }
}
