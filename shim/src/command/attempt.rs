//! `groundingctl attempt`.

use std::time::Duration;

use clap::Subcommand;
use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::solution::AttemptStatus;
use grounding_proto::text::printable;
use grounding_proto::wire::AttemptRow;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::attempts::path;
use super::failure::CommandError;
use crate::client::{Client, StartPolicy};
use crate::output;

/// Time between two looks at the log of a running attempt.
const POLL: Duration = Duration::from_millis(300);

/// Show, follow or cancel one attempt.
#[derive(Debug, clap::Args)]
pub struct Attempt {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what is known of an attempt.
    Show {
        /// The attempt.
        attempt_id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print an attempt's log, and follow it while the attempt runs.
    Log {
        /// The attempt.
        attempt_id: String,
    },
    /// End a running attempt; it fails with the error "cancelled".
    Cancel {
        /// The attempt.
        attempt_id: String,
    },
}

impl Attempt {
    /// Runs the command.
    ///
    /// # Errors
    /// When the attempt is not known or the daemon can't be reached.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment, StartPolicy::WhenAbsent);
        match self.verb {
            Verb::Show { attempt_id, json } => {
                let attempt: Map<String, Value> = client.get(&attempt_path(&client, &attempt_id, "")?).await?;
                if json { output::json(&attempt)? } else { output::data(&described(&attempt))? }
            }
            Verb::Log { attempt_id } => follow(&client, &attempt_id).await?,
            Verb::Cancel { attempt_id } => {
                let _: Value = client.post(&attempt_path(&client, &attempt_id, "/cancel")?).await?;
                output::talk(&format!("Asked {} to end; it then reads failed, \"cancelled\".", printable(&attempt_id)));
            }
        }
        Ok(exit::OK)
    }
}

fn attempt_path(client: &Client, attempt_id: &str, suffix: &str) -> Result<String, CommandError> {
    let id = utf8_percent_encode(attempt_id, NON_ALPHANUMERIC);
    path(client.environment(), &format!("/v1/attempts/{id}{suffix}"))
}

/// Prints the log until the attempt has ended, and then what is left of it.
async fn follow(client: &Client, attempt_id: &str) -> Result<(), CommandError> {
    let (status, log) = (attempt_path(client, attempt_id, "")?, attempt_path(client, attempt_id, "/log")?);
    let mut printed = 0;
    loop {
        // Asked before the log is read, so that the last look at the log is after the end.
        let attempt: AttemptRow = client.get(&status).await?;
        loop {
            let piece = client.get_bytes(&format!("{log}&from={printed}")).await?;
            if piece.is_empty() {
                break;
            }
            output::foreign(&piece)?;
            printed += piece.len();
        }
        if !matches!(attempt.status, AttemptStatus::Running | AttemptStatus::RunningUnconfirmed) {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

fn described(attempt: &Map<String, Value>) -> String {
    let line = |(name, value): (&String, &Value)| {
        let shown = printable(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        format!("{name:<14}{shown}\n")
    };
    attempt.iter().map(line).collect()
}
