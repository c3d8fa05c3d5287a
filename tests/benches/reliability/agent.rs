//! What one simulated agent calls, in which order, and what it may expect to find of it afterwards.

use std::time::{Duration, Instant};

use grounding_tests::{Repository, TestEnvironment};
use serde_json::{Value, json};

/// The tools that neither scan nor run checks, in the order in which an agent calls them again and again.
pub(crate) const STEADY: [&str; 18] = [
    "grounding_start",
    "grounding_guardrail_check",
    "ledger_add",
    "ledger_summary",
    "hypothesis_record",
    "claim_evaluate",
    "hypothesis_list",
    "hypothesis_check_done",
    "hypothesis_evidence",
    "hypothesis_support",
    "grounding_advance",
    "claim_evaluate_from_session",
    "ledger_status",
    "solution_gate",
    "solution_evaluate_status",
    "solution_evaluate_result",
    "hypothesis_reject",
    "hypothesis_reset",
];

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered.
    Answered,
    /// Whether it was carried out is not known: the daemon was killed meanwhile.
    Unknown,
    /// It was refused.
    Refused,
}

/// How often a session was advanced; a start of unknown outcome leaves the agent at the session before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Advances {
    /// Advances that were answered.
    pub(crate) answered: usize,
    /// Advances whose outcome is not known.
    pub(crate) unknown: usize,
}

/// One agent.
#[derive(Debug)]
pub(crate) struct Agent {
    name: String,
    repository: String,
    session: String,
    hypothesis: String,
    entries: u64,
    /// The entries that were answered.
    pub(crate) added: Vec<String>,
    /// The entries whose outcome is not known.
    pub(crate) unknown: Vec<String>,
    /// The sessions that were answered, each with its advances.
    pub(crate) sessions: Vec<(String, Advances)>,
    /// The ids that were evaluated.
    pub(crate) solutions: Vec<String>,
}

impl Agent {
    /// Returns an agent that has done nothing yet.
    pub(crate) fn new(name: String, repository: String) -> Self {
        Self {
            name,
            repository,
            session: "none".into(),
            hypothesis: "none".into(),
            entries: 0,
            added: Vec::new(),
            unknown: Vec::new(),
            sessions: Vec::new(),
            solutions: Vec::new(),
        }
    }

    /// Returns the arguments with which a tool is called now.
    pub(crate) fn arguments(&mut self, tool: &str) -> Value {
        if tool == "ledger_add" {
            self.entries += 1;
        }
        let Self { name, repository, session, hypothesis, entries, .. } = self;
        // The ledger's session is the agent's own for the whole run; the grounding session is a new one in each turn.
        match tool {
            "grounding_start" => json!({ "keyword": "agent", "problem": format!("the problem of {name}") }),
            "grounding_advance" => json!({ "sessionId": session }),
            "grounding_guardrail_check" => json!({ "sessionId": session, "guardrail": "no-step-skipping" }),
            "ledger_add" => {
                let content = format!("{name}: observation {entries}, of a usual length, with what was seen");
                json!({ "sessionId": name, "type": "fact", "content": content, "source": "a log" })
            }
            "ledger_summary" => json!({ "sessionId": name }),
            "claim_evaluate" => json!({ "claim": "The root cause is an expired token" }),
            "claim_evaluate_from_session" => json!({ "sessionId": session, "claim": "The service is down" }),
            "hypothesis_record" => {
                json!({ "sessionId": name, "text": "The token expired", "requiredChecks": ["look"] })
            }
            "hypothesis_list" | "hypothesis_reset" => json!({ "sessionId": name }),
            "hypothesis_evidence" => json!({ "sessionId": name, "hypothesisId": hypothesis, "evidence": "It says so" }),
            "hypothesis_check_done" => json!({ "sessionId": name, "hypothesisId": hypothesis, "checkIndex": 0 }),
            "hypothesis_support" | "hypothesis_reject" => json!({ "sessionId": name, "hypothesisId": hypothesis }),
            "verify_memory_reference" => json!({ "kind": "symbol", "value": "repository", "repoRoot": repository }),
            tool if tool.starts_with("solution_") => json!({ "id": name, "repoPath": repository }),
            _ => json!({}),
        }
    }

    /// Takes in the line of a tool's result and returns how the call ended.
    pub(crate) fn take(&mut self, tool: &str, arguments: &Value, line: &str) -> Outcome {
        let response: Value = serde_json::from_str(line).unwrap_or_default();
        let result = &response["result"];
        let outcome = match (&result["isError"], result["content"][0]["text"].as_str()) {
            (Value::Bool(true), Some(text)) if text.contains("whether it was carried out is not known") => {
                Outcome::Unknown
            }
            _ if result["structuredContent"].is_object() => Outcome::Answered,
            _ => Outcome::Refused,
        };
        let answer = &result["structuredContent"];
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        match (tool, outcome) {
            ("ledger_add", Outcome::Answered) => self.added.push(text(&arguments["content"])),
            ("ledger_add", Outcome::Unknown) => self.unknown.push(text(&arguments["content"])),
            ("grounding_start", Outcome::Answered) => {
                self.session = text(&answer["sessionId"]);
                self.sessions.push((self.session.clone(), Advances::default()));
            }
            ("grounding_advance", outcome) => {
                if let Some((_, advances)) = self.sessions.iter_mut().rfind(|(id, _)| *id == self.session) {
                    advances.answered += usize::from(outcome == Outcome::Answered);
                    advances.unknown += usize::from(outcome == Outcome::Unknown);
                }
            }
            ("hypothesis_record", Outcome::Answered) => self.hypothesis = text(&answer["hypothesis"]["id"]),
            ("solution_evaluate", _) if !self.solutions.contains(&self.name) => self.solutions.push(self.name.clone()),
            _ => {}
        }
        outcome
    }
}

/// Waits until the next call of an agent is due, and returns when the one after it is.
pub(crate) fn pace(due: Instant, period: Duration) -> Instant {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    due + period
}

/// Makes the repository of an agent, whose built-in checks are one that runs at once.
pub(crate) fn repository(environment: &TestEnvironment, number: u32) -> Repository<'_> {
    let repository = environment.repository(&format!("repository-{number}"));
    let configuration = json!({
        "commands": { "test": ["true"] },
        "checks": { "lint": false, "typecheck": false, "audit": false },
    });
    repository.write(".preflight.json", &configuration.to_string());
    repository.commit("chore: configure the checks");
    repository
}
