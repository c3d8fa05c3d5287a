//! A report as people like to read it: a row per part, times relative to now, the live attempts below.

use grounding_proto::ledger::{LedgerHealth, LedgerStatusAnswer};
use grounding_proto::text::printable;
use grounding_proto::wire::{Health, HealthAnswer, RunningAttempt};

use super::report::Report;
use crate::command::table::table;
use crate::command::when;
use crate::output::{Color, Style};

/// Returns the report as lines of text.
pub(super) fn text(report: &Report, style: Style) -> String {
    let health = &report.health;
    let mut text = row("daemon", &daemon(report, style));
    text.push_str(&row("socket", &printable(&health.socket)));
    if let Some(ledger) = &health.ledger {
        text.push_str(&row("ledger", &self::ledger(ledger, style)));
    }
    if let Some(attempts) = health.attempts {
        text.push_str(&row("attempts", &format!("{} running, {} finished", attempts.running, attempts.finished)));
        text.push_str(&running(health.running_attempts.as_deref().unwrap_or_default(), attempts.running));
    }
    if let Some(clients) = health.clients {
        text.push_str(&row("clients", &format!("{clients}, this one included")));
    }
    text.push_str(&row("log", &printable(&report.log)));
    text
}

fn row(name: &str, value: &str) -> String {
    format!("{name:<10}{value}\n")
}

fn daemon(report: &Report, style: Style) -> String {
    let HealthAnswer { status, version, pid, uptime_ms, .. } = &report.health;
    let state = match status {
        Health::Ok => style.paint(Color::Green, "running"),
        Health::Degraded => style.paint(Color::Yellow, "running, degraded"),
        Health::Down => {
            let down = style.paint(Color::Red, "not running");
            return if report.stopped { format!("{down} (stopped by `groundingctl stop`)") } else { down };
        }
    };
    let pid = pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let uptime = uptime_ms.map(|ms| format!(", up {}", when::duration(ms))).unwrap_or_default();
    format!("{state}: groundingd {}{pid}{uptime}", printable(version))
}

fn ledger(ledger: &LedgerStatusAnswer, style: Style) -> String {
    if ledger.status == LedgerHealth::Error {
        let why = printable(ledger.message.as_deref().unwrap_or("no reason given"));
        return format!("{}: {why}", style.paint(Color::Red, "error"));
    }
    let last = match &ledger.last_write_at {
        Some(Some(time)) => format!(", last write {}", when::ago(time)),
        _ => String::new(),
    };
    let path = printable(ledger.db_path.as_deref().unwrap_or_default());
    format!("{}, {} entries{last}, {path}", style.paint(Color::Green, "ok"), ledger.entry_count.unwrap_or_default())
}

fn running(listed: &[RunningAttempt], all: u64) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let rows = listed.iter().map(|attempt| {
        let elapsed = attempt.elapsed_ms.map_or_else(|| "starting".to_owned(), when::duration);
        let repository = attempt.repo_path.clone().unwrap_or_else(|| "-".to_owned());
        [attempt.id.clone(), elapsed, repository, attempt.attempt_id.clone()]
    });
    let mut lines = table(["ID", "ELAPSED", "REPOSITORY", "ATTEMPT"], rows);
    let left_out = all.saturating_sub(listed.len() as u64);
    if left_out > 0 {
        lines.push_str(&format!("and {left_out} more\n"));
    }
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use grounding_proto::wire::{AttemptCounts, PROTOCOL};

    use super::*;

    fn report() -> Report {
        let attempt = |id: &str, elapsed_ms| RunningAttempt {
            attempt_id: "a-1".into(),
            id: id.into(),
            repo_path: Some("/home/me/\u{1b}]0;x\u{7}p".into()),
            started_at: None,
            elapsed_ms,
        };
        let health = HealthAnswer {
            status: Health::Ok,
            version: "0.1.0".into(),
            protocol: PROTOCOL,
            pid: Some(7),
            uptime_ms: Some(61_000),
            socket: "/s".into(),
            ledger: Some(LedgerStatusAnswer::error("it is gone\u{9b}")),
            attempts: Some(AttemptCounts { running: 3, finished: 1 }),
            clients: Some(2),
            running_attempts: Some(vec![attempt("t\u{202e}1", Some(185_000)), attempt("new", None)]),
        };
        Report { health, stopped: false, log: "/l".into() }
    }

    #[test]
    fn everything_is_told_and_nothing_steers_the_terminal() {
        let expected = "\
daemon    running: groundingd 0.1.0, pid 7, up 1 min 1 s
socket    /s
ledger    error: it is gone?
attempts  3 running, 1 finished
  ID   ELAPSED    REPOSITORY           ATTEMPT
  t?1  3 min 5 s  /home/me/?]0;x?p     a-1
  new  starting   /home/me/?]0;x?p     a-1
  and 1 more
clients   2, this one included
log       /l
";
        let text = text(&report(), Style::Plain);
        assert_eq!(text.replace("  a-1", "     a-1").replace("  ATTEMPT", "     ATTEMPT"), expected);
    }

    #[test]
    fn color_is_on_the_state_alone() {
        let mut report = report();
        report.health.status = Health::Down;
        report.stopped = true;
        assert!(text(&report, Style::Colored).starts_with("daemon    \u{1b}[31mnot running\u{1b}[0m (stopped"));
    }
}
