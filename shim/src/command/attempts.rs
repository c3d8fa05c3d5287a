//! `groundingctl attempts`.

use std::os::unix::ffi::OsStrExt;

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::text::{printable, printable_json};
use grounding_proto::wire::{AttemptRow, Root};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;

use super::failure::CommandError;
use crate::client::{Client, StartPolicy};
use crate::output;

/// List the attempts of the verdict directory, newest first.
#[derive(Debug, clap::Args)]
pub struct Attempts {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Attempts {
    /// Runs the command.
    ///
    /// # Errors
    /// When the daemon can't be reached.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let path = path(&environment, "/v1/attempts")?;
        let client = Client::new(environment, StartPolicy::WhenAbsent);
        if self.json {
            let rows: Value = client.get(&path).await?;
            output::line(&printable_json(&format!("{rows:#}")))?;
        } else {
            let rows: Vec<AttemptRow> = client.get(&path).await?;
            output::data(&table(&rows))?;
        }
        Ok(exit::OK)
    }
}

/// Returns the path with the client's verdict directory and stale time as its query.
///
/// # Errors
/// When the directory was refused.
pub fn path(environment: &Environment, path: &str) -> Result<String, CommandError> {
    match environment.roots().verdicts {
        Root::Path(directory) => {
            let (directory, stale_ms) =
                (percent_encode(directory.0.as_bytes(), NON_ALPHANUMERIC), environment.settings().0.stale_ms);
            Ok(format!("{path}?verdicts={directory}&staleMs={stale_ms}"))
        }
        Root::Refused(why) => Err(CommandError::Usage(why)),
    }
}

/// Returns a word of the wire for a value that is one.
pub fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn table(rows: &[AttemptRow]) -> String {
    if rows.is_empty() {
        return "no attempts\n".to_owned();
    }
    let mut lines = vec![["ATTEMPT", "ID", "STATUS", "STARTED", "SUMMARY"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let started = printable(row.started_at.as_deref().unwrap_or("-"));
        let summary = printable(row.summary.as_deref().unwrap_or("-"));
        [printable(&row.attempt_id), printable(&row.id), word(row.status), started, summary]
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..4).map(width).collect();
    let line = |[attempt, id, status, started, summary]: &[String; 5]| {
        format!(
            "{attempt:<0$}  {id:<1$}  {status:<2$}  {started:<3$}  {summary}\n",
            widths[0], widths[1], widths[2], widths[3]
        )
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grounding_proto::solution::AttemptStatus;

    #[test]
    fn the_verdict_directory_is_the_query() {
        let variables = vec![("SOLUTION_VERDICT_DIR".into(), "/a b/ä".into())];
        let path = path(&Environment::of_variables(variables), "/v1/attempts").unwrap();
        assert_eq!(path, "/v1/attempts?verdicts=%2Fa%20b%2F%C3%A4&staleMs=30000");
    }

    #[test]
    fn columns_line_up() {
        let row = |id: &str, status| AttemptRow {
            attempt_id: "1".into(),
            id: id.into(),
            status,
            repo_path: None,
            head: None,
            started_at: None,
            ended_at: None,
            outcome_class: None,
            summary: Some("a\nb".into()),
        };
        let text = table(&[row("long-id", AttemptStatus::Running), row("x", AttemptStatus::RunningUnconfirmed)]);
        let columns: Vec<_> = text.lines().skip(1).map(|line| line.find("a b")).collect();
        assert!(columns[0].is_some() && columns[0] == columns[1], "{text}");
    }
}
