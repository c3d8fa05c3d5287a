//! `groundingctl doctor`: one look at everything that a call depends on, each with what to do about it.
//!
//! Starts no daemon, waits for nothing without a bound, changes nothing, and prints no secret. `check` is what a look
//! found; each other module looks at one kind of thing.

mod check;
mod daemon;
mod file_system;
mod hosts;
mod programs;
mod service;
mod storage;

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::text::printable;
use serde::Serialize;

use self::check::{Check, Status};
use self::daemon::Reached;
use super::failure::CommandError;
use super::wait;
use crate::client::{Client, StartPolicy};
use crate::output::{self, Color, Style};
use crate::state::State;

/// Look at everything that calls depend on, and say what to do about what is wrong; starts no daemon.
///
/// Exit code 0: nothing has failed, warnings or not; 1: something has.
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// All looks, and the worst of them.
#[derive(Debug, Serialize)]
struct Report {
    overall: Status,
    checks: Vec<Check>,
}

impl Doctor {
    /// Runs the command.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let style = Style::of(&environment);
        let checks = wait::shown("looking", look(environment)).await;
        let overall = checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok);
        let report = Report { overall, checks };
        if self.json {
            output::json(&report)?;
        } else {
            output::data(&text(&report, style))?;
        }
        Ok(if overall == Status::Failure { exit::NEGATIVE } else { exit::OK })
    }
}

async fn look(environment: Environment) -> Vec<Check> {
    let state = match State::new(&environment) {
        Ok(state) => state,
        Err(error) => {
            let remedy = "set HOME, or GROUNDING_STATE_DIR to a short absolute path, for every client alike";
            let mut checks = vec![Check::failure("state-directory", printable(&error.to_string()), remedy)];
            checks.extend(programs::checks(&environment).await);
            return checks;
        }
    };
    let client = Client::new(environment.clone(), StartPolicy::Never);
    let (storage, programs, hosts, (daemon, service)) = tokio::join!(
        storage::checks(&environment, &state),
        programs::checks(&environment),
        hosts::checks(&environment),
        async {
            // The manager first: where it listens in the daemon's place, a connection would start the daemon.
            let service = service::look(&environment).await;
            let reached = if service.is_asleep { Reached::Asleep } else { daemon::reach(&client).await };
            (daemon::checks(&client, &state, &reached).await, service.checks)
        },
    );
    [daemon, storage, programs, service, hosts].concat()
}

fn text(report: &Report, style: Style) -> String {
    let width = report.checks.iter().map(|check| check.check.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Check { check, status, message, remedy } in &report.checks {
        let (word, color) = match status {
            Status::Ok => ("ok", Color::Green),
            Status::Warning => ("warning", Color::Yellow),
            Status::Failure => ("failure", Color::Red),
        };
        let padding = " ".repeat("failure".len() - word.len());
        text.push_str(&format!("{}{padding}  {check:<width$}  {}\n", style.paint(color, word), printable(message)));
        if let Some(remedy) = remedy {
            text.push_str(&format!("{:9}{:width$}  to do: {}\n", "", "", printable(remedy)));
        }
    }
    let count = |wanted| report.checks.iter().filter(|check| check.status == wanted).count();
    let (ok, warnings, failures) = (count(Status::Ok), count(Status::Warning), count(Status::Failure));
    text.push_str(&format!("\n{ok} ok, {warnings} warnings, {failures} failures\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_is_a_line_and_each_remedy_one_below_it() {
        let checks = vec![Check::ok("git", "found\u{1b}[2J"), Check::failure("lock", "held", "end it")];
        let expected = "\
ok       git   found?[2J
failure  lock  held
               to do: end it

1 ok, 0 warnings, 1 failures
";
        assert_eq!(text(&Report { overall: Status::Failure, checks }, Style::Plain), expected);
    }

    #[test]
    fn the_worst_look_counts() {
        assert!(Status::Ok < Status::Warning && Status::Warning < Status::Failure);
    }
}
