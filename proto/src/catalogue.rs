//! The tool catalogue: what the shim answers to `tools/list` without asking the daemon (SPEC 1 and 9).
//!
//! The list is fixed. A tool's name, its argument and answer types and its annotations stand here and nowhere else.

use std::sync::LazyLock;

use crate::schema::{self, Schema};
use crate::{claim, hypothesis, ledger, reference, session, solution};

/// What an agent is told about the server as a whole (SPEC 9.6: at most 1,500 characters).
pub const INSTRUCTIONS: &str = "\
Grounding keeps a debug task honest: evidence before claims, a real check run before \"done\". The order of work:
1. grounding_start with a keyword and the problem; keep the sessionId.
2. ledger_add each fact as you observe it (with its source), and each alternative you rule out as type rejected.
3. hypothesis_record every cause you can name, with the checks it needs; hypothesis_evidence and hypothesis_check_done as you go; hypothesis_reject with a reason. hypothesis_list before you name a cause.
4. grounding_advance when a phase is done.
5. claim_evaluate_from_session before you state a cause or any other conclusion. Not allowed: do its next_steps first.
6. verify_memory_reference before you rely on a path, symbol or flag that you remember. unknown is not absent.
7. Work committed: solution_evaluate with the task's id runs the repository's checks and signs a verdict for the current HEAD. status running: poll solution_evaluate_status with the same id after pollAfterMs; never call solution_evaluate again to get past a wait.
8. solution_gate with the same id before you say that the task is done. Any commit after the verdict makes it stale: evaluate again.";

/// One tool of the catalogue.
#[derive(Debug)]
pub struct Tool {
    /// The name on the wire.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// When to call it, and its limits.
    pub description: &'static str,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may remove what was stored.
    pub destructive: bool,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Whether a host should show it to the model at once.
    pub always_load: bool,
    /// Schema of its arguments.
    pub input_schema: Schema,
    /// Schema of its answer.
    pub output_schema: Schema,
}

/// Returns all tools, in the order they are listed.
#[must_use]
pub fn tools() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(build);
    &TOOLS
}

/// Returns the tool of that name.
#[must_use]
pub fn tool(name: &str) -> Option<&'static Tool> {
    tools().iter().find(|tool| tool.name == name)
}

/// Returns whether a call of the tool carries the client's environment: these start programs on the client's behalf.
#[must_use]
pub fn carries_environment(name: &str) -> bool {
    matches!(name, "solution_evaluate" | "solution_gate")
}

/// Returns whether the tool resolves a default or relative path against the client's working directory.
#[must_use]
pub fn needs_working_directory(name: &str) -> bool {
    matches!(name, "solution_evaluate" | "solution_gate" | "verify_memory_reference")
}

fn define<Arguments: schemars::JsonSchema, Answer: schemars::JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> Tool {
    Tool {
        name,
        title,
        description,
        read_only: false,
        destructive: false,
        idempotent: false,
        always_load: false,
        input_schema: schema::input::<Arguments>(),
        output_schema: schema::output::<Answer>(),
    }
}

impl Tool {
    fn read_only(self) -> Self {
        Self { read_only: true, idempotent: true, ..self }
    }

    fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    fn destructive(self) -> Self {
        Self { destructive: true, ..self }
    }

    fn always_load(self) -> Self {
        Self { always_load: true, ..self }
    }
}

fn build() -> Vec<Tool> {
    vec![
        define::<session::GroundingStart, session::SessionSummary>(
            "grounding_start",
            "Start a grounding session",
            "Open a session for a debug task. Call it first, with a keyword for the domain and the problem as reported. Returns the sessionId that the other tools take, the tool sequence to follow and the guardrails in force.",
        )
        .always_load(),
        define::<session::GroundingAdvance, session::SessionSummary>(
            "grounding_advance",
            "Advance the session",
            "Mark the session's current phase as done and move to the next. Call it when the steps of the phase are really done; phases without steps are skipped. A complete session stays complete.",
        ),
        define::<session::GroundingGuardrailCheck, session::GuardrailAnswer>(
            "grounding_guardrail_check",
            "Check a guardrail",
            "Tell whether a guardrail is in force in a session. Call it before a statement that the guardrail is about.",
        )
        .read_only(),
        define::<ledger::LedgerAdd, ledger::LedgerEntry>(
            "ledger_add",
            "Add evidence",
            "Append a fact, hypothesis, rejected alternative, unknown or policy decision to the session's ledger. Call it each time you observe or rule out something, with the source. The answered entry is on disk. Calling twice adds twice.",
        ),
        define::<ledger::LedgerSummary, ledger::LedgerSummaryAnswer>(
            "ledger_summary",
            "Read the ledger",
            "Return a session's entries by type, with counts. Without filters: the newest 200. To read everything, start with afterId 0 and follow nextAfterId.",
        )
        .read_only(),
        define::<ledger::LedgerStatus, ledger::LedgerStatusAnswer>(
            "ledger_status",
            "Ledger health",
            "Tell whether the ledger can be reached, where it is, how many entries it holds and when it was last written. For health checks; takes no arguments.",
        )
        .read_only(),
        define::<claim::ClaimEvaluate, claim::ClaimAnswer>(
            "claim_evaluate",
            "Evaluate a claim",
            "Run a claim through the gate with prerequisites you supply. Prefer claim_evaluate_from_session, which reads them from the session. Not allowed: do what next_steps says before you make the claim.",
        )
        .read_only(),
        define::<claim::ClaimEvaluateFromSession, claim::ClaimAnswer>(
            "claim_evaluate_from_session",
            "Evaluate a claim against the session",
            "Run a claim through the gate with prerequisites derived from the session's phases and ledger. Call it before you state a root cause or any other conclusion. Not allowed: do what next_steps says first.",
        )
        .read_only()
        .always_load(),
        define::<solution::SolutionEvaluate, solution::SolutionEvaluateAnswer>(
            "solution_evaluate",
            "Evaluate the solution",
            "Run the repository's real checks (preflight) and record a signed verdict for an id at the current git HEAD. Call it when the work is committed. Waits up to 45 seconds by default, then answers status running with an attemptId: poll solution_evaluate_status after pollAfterMs with the same id. Never call it again to get past a wait: a second call joins the live attempt.",
        )
        .always_load(),
        define::<solution::SolutionGate, solution::SolutionGateAnswer>(
            "solution_gate",
            "Solution gate",
            "Tell whether the solution may be called done: only with a ready, correctly signed verdict for the id at the current git HEAD. Call it before you say that a task is done. Any commit after the verdict makes it stale.",
        )
        .read_only(),
        define::<solution::SolutionLookup, solution::SolutionStatusAnswer>(
            "solution_evaluate_status",
            "Status of an evaluation",
            "Tell where an evaluation stands: running, running-unconfirmed, completed, failed, unknown or expired. Call it to poll, with the id you evaluated; leave attemptId out for the latest attempt. Never starts a check run and never blocks.",
        )
        .read_only(),
        define::<solution::SolutionLookup, solution::SolutionResultAnswer>(
            "solution_evaluate_result",
            "Result of an evaluation",
            "Return the outcome of an evaluation once it ended, or status running before. Not an authority for done: only solution_gate is.",
        )
        .read_only(),
        define::<reference::VerifyMemoryReference, reference::ReferenceAnswer>(
            "verify_memory_reference",
            "Verify a memory reference",
            "Check whether a path, symbol or flag that a memory names still exists in the repository. Call it before you recommend or use anything you remember rather than just read. verdict unknown means that not everything could be looked at: do not take it as absent.",
        )
        .read_only(),
        define::<hypothesis::HypothesisRecord, hypothesis::HypothesisAnswer>(
            "hypothesis_record",
            "Record a hypothesis",
            "Add a possible cause with the checks it needs. Call it as soon as you can name more than one cause, once for each, so that rivals stay alive until each is supported or rejected.",
        ),
        define::<hypothesis::HypothesisList, hypothesis::HypothesisListAnswer>(
            "hypothesis_list",
            "List hypotheses",
            "List the session's hypotheses with counts. Call it before you claim a root cause.",
        )
        .read_only(),
        define::<hypothesis::HypothesisEvidence, hypothesis::HypothesisAnswer>(
            "hypothesis_evidence",
            "Attach evidence",
            "Attach an observation to a hypothesis; an unverified one becomes supported. To rule a hypothesis out use hypothesis_reject.",
        ),
        define::<hypothesis::HypothesisCheckDone, hypothesis::HypothesisAnswer>(
            "hypothesis_check_done",
            "Mark a check as done",
            "Mark one of a hypothesis's required checks as done, by its index from 0.",
        )
        .idempotent(),
        define::<hypothesis::HypothesisReject, hypothesis::HypothesisAnswer>(
            "hypothesis_reject",
            "Reject a hypothesis",
            "Rule a hypothesis out. Give the reason: it is kept as evidence, and the hypothesis stays in the list as rejected.",
        ),
        define::<hypothesis::HypothesisSupport, hypothesis::HypothesisAnswer>(
            "hypothesis_support",
            "Support a hypothesis",
            "Mark a hypothesis as supported. Refused while required checks are open or after it was rejected. Usually hypothesis_evidence is enough.",
        )
        .idempotent(),
        define::<hypothesis::HypothesisReset, hypothesis::HypothesisResetAnswer>(
            "hypothesis_reset",
            "Reset hypotheses",
            "Remove all hypotheses of a session, for good. Call it only before a sessionId is used again for a new task.",
        )
        .destructive()
        .idempotent(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_schema_is_plain() {
        for tool in tools() {
            for (schema, input) in [(&tool.input_schema, true), (&tool.output_schema, false)] {
                assert_eq!(schema.get("type"), Some(&Value::from("object")), "{}", tool.name);
                let text = serde_json::to_string(schema).expect("a schema is JSON");
                for word in ["$ref", "$defs", "$schema", "\"format\""] {
                    assert!(!text.contains(word), "{} holds {word}: {text}", tool.name);
                }
                if input {
                    for word in ["\"type\":[", "oneOf", "anyOf", "allOf", "null"] {
                        assert!(!text.contains(word), "{} holds {word}: {text}", tool.name);
                    }
                }
            }
        }
    }

    #[test]
    fn every_argument_is_described() {
        for tool in tools() {
            let properties = tool.input_schema["properties"].as_object().expect("an object");
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{} {name}", tool.name);
            }
        }
    }

    #[test]
    fn the_tool_list_is_the_committed_one() {
        let shown = |tool: &Tool| {
            serde_json::json!({
                "name": tool.name,
                "readOnly": tool.read_only,
                "destructive": tool.destructive,
                "idempotent": tool.idempotent,
                "input": tool.input_schema,
                "output": tool.output_schema,
            })
        };
        let mut list = Value::Array(tools().iter().map(shown).collect());
        drop_wording(&mut list);
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/tool-list.golden.json");
        let text = format!("{list:#}\n");
        if std::fs::read_to_string(&golden).is_ok_and(|committed| committed == text) {
            return;
        }
        let actual = std::env::temp_dir().join("tool-list.actual.json");
        std::fs::write(&actual, text).expect("a temporary file can be written");
        panic!(
            "the tool list changed: would an older peer misread it? Then raise wire::PROTOCOL. Then copy {} to {}",
            actual.display(),
            golden.display()
        );
    }

    /// Wording may change; names, types and bounds are the contract.
    fn drop_wording(value: &mut Value) {
        match value {
            Value::Object(object) => {
                if object.get("description").is_some_and(Value::is_string) {
                    object.shift_remove("description");
                }
                object.values_mut().for_each(drop_wording);
            }
            Value::Array(items) => items.iter_mut().for_each(drop_wording),
            _ => {}
        }
    }

    #[test]
    fn there_are_twenty_tools_and_the_instructions_fit() {
        assert_eq!(tools().len(), 20);
        assert!(INSTRUCTIONS.chars().count() <= 1500, "{}", INSTRUCTIONS.chars().count());
    }
}
