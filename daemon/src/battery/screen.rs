//! What a person sees of a run: a line for each check while it runs, on stderr, and a summary or JSON on stdout.
//!
//! On a terminal a last line shows what runs now and for how long. A reader that went away is no error.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use grounding_proto::text::printable;

use super::report::{Check, Report, Status};
use super::run::Progress;

const TICK: Duration = Duration::from_millis(100);
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

/// Shows the progress of a run.
#[derive(Debug)]
pub struct Screen {
    running: Mutex<Vec<(String, Instant)>>,
    live: bool,
}

impl Default for Screen {
    fn default() -> Self {
        Self { running: Mutex::default(), live: io::stderr().is_terminal() }
    }
}

impl Screen {
    /// Shows one step of a run.
    pub fn hear(&self, progress: &Progress<'_>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Began(name) => running.push(((*name).to_owned(), Instant::now())),
            Progress::Ended(check) => {
                if let Some(index) = running.iter().position(|(name, _)| *name == check.name) {
                    running.remove(index);
                }
                talk(&format!("{}{}\n", self.cleared(), line(check)));
            }
        }
    }

    /// Keeps the last line of a terminal alive; never returns.
    pub async fn spin(&self) {
        let mut ticks = tokio::time::interval(TICK);
        for turn in SPINNER.iter().cycle() {
            ticks.tick().await;
            if !self.live {
                continue;
            }
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let names: Vec<_> =
                running.iter().map(|(name, since)| format!("{name} {} s", since.elapsed().as_secs())).collect();
            let shown: String = printable(&names.join(", ")).chars().take(76).collect();
            talk(&format!("{}{turn} {shown}", self.cleared()));
        }
    }

    /// Takes the last line away.
    pub fn clear(&self) {
        talk(self.cleared());
    }

    fn cleared(&self) -> &'static str {
        if self.live { "\r\x1b[2K" } else { "" }
    }
}

/// Returns the summary of a report, without a newline at its end.
#[must_use]
pub fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} (confidence {:.0} %, {} checks, {})\n",
        if report.ready { "ready" } else { "not ready" },
        report.confidence * 100.0,
        report.checks.len(),
        seconds(report.duration_ms)
    );
    for (title, lines) in
        [("blockers", &report.blockers), ("warnings", &report.warnings), ("not checked", &report.limitations)]
    {
        if !lines.is_empty() {
            text.push_str(&format!("\n{title}:\n"));
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    }
    let failed = report.checks.iter().filter(|check| matches!(check.status, Status::Fail | Status::Warn));
    for check in failed.filter(|check| !check.details.is_empty()) {
        text.push_str(&format!("\n{}:\n", check.name));
        check.details.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text.truncate(text.trim_end().len());
    text
}

fn line(check: &Check) -> String {
    let status = match check.status {
        Status::Pass => "pass",
        Status::Fail => "FAIL",
        Status::Warn => "warn",
        Status::Skip => "skip",
        Status::Acknowledged => "known",
    };
    let message = check.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    printable(&format!("{status:<5} {} ({}){message}", check.name, seconds(check.duration_ms)))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn seconds(milliseconds: u64) -> String {
    format!("{:.1} s", milliseconds as f64 / 1000.0)
}

fn talk(text: &str) {
    let mut stderr = io::stderr();
    // Nobody may read stderr any more.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
