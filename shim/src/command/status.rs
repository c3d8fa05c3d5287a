//! `groundingctl status`: `report` is what is found, `text` how people read it, `watch` looks again and again.

mod report;
mod text;
mod watch;

use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::wire::Health;

use self::report::Report;
use super::failure::CommandError;
use crate::client::{Client, StartPolicy};
use crate::output::{self, Style};

/// Show how the daemon is; never starts it.
///
/// Exit code 0: all is well; 1: it runs, but something it needs does not work; 3: it is not running. With --watch: 0
/// when it is ended by Ctrl-C or because nobody reads any more.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// Print JSON; with --watch one object per line.
    #[arg(long)]
    json: bool,
    /// Look again and again until Ctrl-C, and show it in place.
    #[arg(long)]
    watch: bool,
    /// Seconds between two looks, 0.2 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "watch")]
    interval: Duration,
}

impl Status {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon is there but can't be asked.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let style = Style::of(&environment);
        let client = Client::new(environment, StartPolicy::Never);
        if self.watch {
            return match self.json {
                true => watch::lines(&client, self.interval).await,
                false => watch::in_place(&client, self.interval, style).await,
            };
        }
        let report = Report::look(&client).await?;
        if self.json {
            output::json(&report)?;
        } else {
            output::data(&text::text(&report, style))?;
        }
        Ok(match report.health.status {
            Health::Ok => exit::OK,
            Health::Degraded => exit::NEGATIVE,
            Health::Down => exit::DOWN,
        })
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.2..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "must be a number of seconds from 0.2 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_bounded() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.1", "3601", "-1", "NaN", "inf", "x", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
