//! `groundingctl session`.

use clap::Subcommand;
use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::hypothesis::HypothesisCounts;
use grounding_proto::ledger::EntryCounts;
use grounding_proto::session::{
    DEFAULT_SESSIONS, MAX_SESSIONS, SessionDetails, SessionList, SessionListAnswer, SessionRow, SessionSummary,
};
use grounding_proto::text::{printable, printable_lines};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::failure::CommandError;
use super::table::{cut, table};
use super::when;
use crate::client::{Client, StartPolicy};
use crate::error::{ClientError, chain};
use crate::output;

/// Columns that a list gives to a problem.
const PROBLEM_COLUMNS: usize = 60;

/// List the grounding sessions, or show one.
#[derive(Debug, clap::Args)]
pub struct Session {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the sessions, newest first.
    ///
    /// A file among them that is no session is named on stderr; the rest is listed all the same.
    List {
        /// At most so many, 1 to 1000.
        #[arg(long, value_name = "N", default_value_t = DEFAULT_SESSIONS,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SESSIONS)))]
        limit: u32,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a session: its phases and guardrails, and how many hypotheses and ledger entries it has.
    Show {
        /// The session.
        session_id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A session with what was recorded under its id.
#[derive(Debug, Serialize)]
struct Shown {
    session: SessionDetails,
    hypotheses: Option<HypothesisCounts>,
    ledger: Option<EntryCounts>,
    /// Why one of them is missing.
    problems: Vec<String>,
}

impl Session {
    /// Runs the command.
    ///
    /// # Errors
    /// When the session is not known or the daemon can't be reached.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let client = Client::new(environment, StartPolicy::WhenAbsent);
        match self.verb {
            Verb::List { limit, json } => {
                let answer: SessionListAnswer = client.ask_for("/v1/sessions", SessionList { limit }).await?;
                if json { output::json(&answer)? } else { print_list(&answer)? }
            }
            Verb::Show { session_id, json } => {
                let shown = show(&client, &session_id).await?;
                if json { output::json(&shown)? } else { output::data(&described(&shown))? }
            }
        }
        Ok(exit::OK)
    }
}

fn print_list(answer: &SessionListAnswer) -> Result<(), CommandError> {
    if answer.sessions.is_empty() {
        output::line(&format!("no sessions in {}", printable(&answer.directory)))?;
    } else {
        output::data(&listed(&answer.sessions))?;
    }
    for file in &answer.unreadable {
        output::talk(&format!("warning: {}", printable(&file.problem)));
    }
    if answer.truncated {
        let (shown, total) = (answer.sessions.len(), answer.total);
        output::talk(&format!("These are {shown} of {total} session files; --limit shows more."));
    }
    Ok(())
}

fn listed(sessions: &[SessionRow]) -> String {
    let rows = sessions.iter().map(|row| {
        let started = row.started_at.as_deref().map_or_else(|| "-".to_owned(), when::ago);
        let problem = cut(&printable(&row.problem), PROBLEM_COLUMNS);
        [row.session_id.clone(), row.keyword.clone(), row.current_phase.clone(), started, problem]
    });
    table(["SESSION", "KEYWORD", "PHASE", "STARTED", "PROBLEM"], rows)
}

async fn show(client: &Client, session_id: &str) -> Result<Shown, CommandError> {
    let id = utf8_percent_encode(session_id, NON_ALPHANUMERIC);
    let session: SessionDetails = client.ask(&format!("/v1/sessions/{id}/details")).await?;
    let mut problems = Vec::new();
    let mut counted = |what: &str, counts: Result<Value, ClientError>| match counts {
        Ok(counts) => Some(counts),
        Err(error) => {
            problems.push(format!("{what}: {}", chain(&error)));
            None
        }
    };
    let hypotheses = tool(client, "hypothesis_list", json!({ "sessionId": session_id }), "summary").await;
    let ledger = tool(client, "ledger_summary", json!({ "sessionId": session_id, "limit": 1 }), "counts").await;
    let hypotheses = counted("hypotheses", hypotheses).and_then(typed);
    let ledger = counted("ledger", ledger).and_then(typed);
    Ok(Shown { session, hypotheses, ledger, problems })
}

/// Returns one field of a tool's answer.
async fn tool(client: &Client, tool: &str, arguments: Value, field: &str) -> Result<Value, ClientError> {
    let mut answer = client.tool(tool, arguments).await?;
    Ok(answer.remove(field).unwrap_or_default())
}

fn typed<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

fn described(shown: &Shown) -> String {
    let SessionDetails { summary, started_at, steps, .. } = &shown.session;
    let SessionSummary { session_id, keyword, problem, current_phase, phase_status, workspace, .. } = summary;
    let mut text = String::new();
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<12}{value}\n"));
    row("session", &printable(session_id));
    row("keyword", &printable(keyword));
    let mut problem_lines = printable_lines(problem).lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
    row("problem", &problem_lines.next().unwrap_or_default());
    problem_lines.for_each(|line| row("", &line));
    if let Some(time) = started_at {
        row("started", &format!("{} ({})", when::ago(time), printable(time)));
    }
    if let Some(workspace) = workspace {
        row("workspace", &printable(workspace));
    }
    row("phase", &printable(current_phase));
    for (position, (phase, status)) in phase_status.iter().enumerate() {
        let status = printable(status.as_str().unwrap_or("-"));
        row(if position == 0 { "phases" } else { "" }, &format!("{status:<8}  {}", printable(phase)));
    }
    let mut name = "steps";
    for step in steps.iter().filter(|step| step.phase == *current_phase) {
        let optional = if step.mandatory { "" } else { " (optional)" };
        row(name, &format!("{}{optional}: {}", printable(&step.tool), printable(&step.description)));
        name = "";
    }
    let guardrails: Vec<_> = summary.active_guardrails.iter().map(|name| printable(name)).collect();
    row("guardrails", if guardrails.is_empty() { "none" } else { &guardrails[0] });
    guardrails.iter().skip(1).for_each(|guardrail| row("", guardrail));
    if let Some(HypothesisCounts { total, unverified, supported, rejected, pending_checks }) = shown.hypotheses {
        let by_status = format!("{unverified} unverified, {supported} supported, {rejected} rejected");
        row("hypotheses", &format!("{total}: {by_status}; {pending_checks} checks open"));
    }
    if let Some(EntryCounts { facts, hypotheses, rejected, unknowns, policy_decisions }) = shown.ledger {
        let counts = format!("{facts} facts, {hypotheses} hypotheses, {rejected} rejected, {unknowns} unknowns");
        row("ledger", &format!("{counts}, {policy_decisions} policy decisions"));
    }
    shown.problems.iter().for_each(|problem| row("problem in", &printable(problem)));
    text
}
