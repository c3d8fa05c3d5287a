//! `groundingctl status`.

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::ledger::{LedgerHealth, LedgerStatusAnswer};
use grounding_proto::text::{printable, printable_json};
use grounding_proto::wire::{Health, HealthAnswer, PROTOCOL};

use super::failure::CommandError;
use crate::client::{Client, StartPolicy};
use crate::context::VERSION;
use crate::error::ClientError;
use crate::output;
use crate::state::State;

/// Show how the daemon is; never starts it.
///
/// Exit code 0: all is well; 1: it runs, but something it needs does not work; 3: it is not running.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon is there but can't be asked.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment, StartPolicy::Never);
        let state = client.state()?;
        let health = match client.health().await {
            Err(ClientError::NotRunning { .. }) => down(&state),
            other => other?,
        };
        if self.json {
            output::line(&printable_json(&serde_json::to_string_pretty(&health).map_err(std::io::Error::other)?))?;
        } else {
            output::data(&described(&health, &state))?;
        }
        Ok(match health.status {
            Health::Ok => exit::OK,
            Health::Degraded => exit::NEGATIVE,
            Health::Down => exit::DOWN,
        })
    }
}

fn down(state: &State) -> HealthAnswer {
    HealthAnswer {
        status: Health::Down,
        version: VERSION.to_owned(),
        protocol: PROTOCOL,
        pid: None,
        uptime_ms: None,
        socket: state.socket().display().to_string(),
        ledger: None,
        attempts: None,
        clients: None,
    }
}

fn described(health: &HealthAnswer, state: &State) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<10}{}\n", printable(value)));
    if health.status == Health::Down {
        row("daemon", if state.is_stopped() { "not running (stopped by `groundingctl stop`)" } else { "not running" });
    } else {
        let pid = health.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let uptime = health.uptime_ms.map(|ms| format!(", up {}", duration(ms))).unwrap_or_default();
        let state = if health.status == Health::Ok { "running" } else { "running, degraded" };
        row("daemon", &format!("{state}: groundingd {}{pid}{uptime}", health.version));
    }
    row("socket", &health.socket);
    if let Some(ledger) = &health.ledger {
        row("ledger", &ledger_line(ledger));
    }
    if let Some(attempts) = health.attempts {
        row("attempts", &format!("{} running, {} finished", attempts.running, attempts.finished));
    }
    if let Some(clients) = health.clients {
        row("clients", &clients.to_string());
    }
    row("log", &state.log_file().display().to_string());
    text
}

fn ledger_line(ledger: &LedgerStatusAnswer) -> String {
    if ledger.status == LedgerHealth::Error {
        return format!("error: {}", ledger.message.as_deref().unwrap_or("no reason given"));
    }
    let last = match &ledger.last_write_at {
        Some(Some(time)) => format!(", last write {time} UTC"),
        _ => String::new(),
    };
    let path = ledger.db_path.as_deref().unwrap_or_default();
    format!("ok, {} entries{last}, {path}", ledger.entry_count.unwrap_or_default())
}

/// Returns a time in its two largest units.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_two_units() {
        assert_eq!(duration(900), "0 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(duration(3_660_000), "1 h 1 min");
        assert_eq!(duration(90_000_000), "1 d 1 h");
    }
}
