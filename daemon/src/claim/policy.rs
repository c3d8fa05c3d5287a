//! What each kind of claim needs, and how far a context meets it (SPEC 5).
//!
//! Missing keys, reasons and next steps follow the order of the policy. The sentences must never promise that a claim is
//! true: the gate knows only whether the groundwork was done.

use grounding_proto::claim::{ClaimAnswer, ClaimContext, ClaimType, Prerequisite};
use serde_json::{Map, Value};

use super::detection::detect;
use crate::ledger::Evidence;

/// Returns whether a claim may be made in a context, and what is missing; the kind is detected when none is given.
#[must_use]
pub fn evaluate(claim: &str, claim_type: Option<ClaimType>, context: ClaimContext) -> ClaimAnswer {
    let claim_type = claim_type.unwrap_or_else(|| detect(claim));
    let policy = policy(claim_type);
    let missing: Vec<_> = policy.iter().copied().filter(|key| !is_met(*key, context)).collect();
    ClaimAnswer {
        claim: claim.to_owned(),
        claim_type,
        allowed: missing.is_empty(),
        reasons: missing.iter().map(|key| reason(*key).to_owned()).collect(),
        next_steps: missing.iter().map(|key| next_step(*key).to_owned()).collect(),
        score: percent(policy.len() - missing.len(), policy.len()),
        missing,
        derived_context: None,
    }
}

/// Evaluates a claim in the context that a session's phases and its ledger entries prove.
#[must_use]
pub fn evaluate_from_session(
    claim: &str,
    claim_type: Option<ClaimType>,
    phase_status: &Map<String, Value>,
    evidence: Evidence,
) -> ClaimAnswer {
    let context = derive_context(phase_status, evidence);
    ClaimAnswer { derived_context: Some(context), ..evaluate(claim, claim_type, context) }
}

/// Returns the context that a session proves: `phase_status` as in its summary, `evidence` as in its ledger.
fn derive_context(phase_status: &Map<String, Value>, evidence: Evidence) -> ClaimContext {
    let passed = |phase: &str| matches!(phase_status.get(phase).and_then(Value::as_str), Some("done" | "skipped"));
    let inspected = passed("runtime-inspection");
    ClaimContext {
        readme_read: passed("doc-reading"),
        process_checked: inspected,
        config_checked: inspected,
        health_checked: inspected,
        has_evidence: evidence.facts,
        alternatives_considered: evidence.rejected,
    }
}

fn policy(claim_type: ClaimType) -> &'static [Prerequisite] {
    use Prerequisite::{AlternativesConsidered, ConfigChecked, HasEvidence, HealthChecked, ProcessChecked, ReadmeRead};
    match claim_type {
        ClaimType::Architecture => &[ReadmeRead, ProcessChecked, ConfigChecked, AlternativesConsidered],
        ClaimType::RootCause => &[ReadmeRead, ProcessChecked, ConfigChecked, HasEvidence, AlternativesConsidered],
        ClaimType::Security => &[ReadmeRead, ConfigChecked, HasEvidence],
        ClaimType::Network | ClaimType::Availability => &[HealthChecked, ProcessChecked],
        ClaimType::Configuration => &[ReadmeRead, ConfigChecked],
        ClaimType::Process => &[ProcessChecked],
        ClaimType::Token => &[ConfigChecked, HasEvidence],
        ClaimType::Generic => &[HasEvidence],
    }
}

fn is_met(key: Prerequisite, context: ClaimContext) -> bool {
    match key {
        Prerequisite::ReadmeRead => context.readme_read,
        Prerequisite::ProcessChecked => context.process_checked,
        Prerequisite::ConfigChecked => context.config_checked,
        Prerequisite::HealthChecked => context.health_checked,
        Prerequisite::HasEvidence => context.has_evidence,
        Prerequisite::AlternativesConsidered => context.alternatives_considered,
    }
}

fn reason(key: Prerequisite) -> &'static str {
    match key {
        Prerequisite::ReadmeRead => "The README and the documents of the affected part have not been read.",
        Prerequisite::ProcessChecked => "Nobody has looked at the running process yet.",
        Prerequisite::ConfigChecked => "The configuration that is really in force has not been looked at.",
        Prerequisite::HealthChecked => "The health of the service has not been checked.",
        Prerequisite::HasEvidence => "No fact is recorded that the claim could rest on.",
        Prerequisite::AlternativesConsidered => "No other explanation has been ruled out.",
    }
}

fn next_step(key: Prerequisite) -> &'static str {
    match key {
        Prerequisite::ReadmeRead => {
            "Read the README and the documents of the affected part, then finish the doc-reading phase with grounding_advance."
        }
        Prerequisite::ProcessChecked => {
            "Check that the process runs, since when, and with which arguments and version; note what you see with ledger_add."
        }
        Prerequisite::ConfigChecked => {
            "Print the configuration and environment that the process really uses, and compare them with what is documented."
        }
        Prerequisite::HealthChecked => {
            "Call the health endpoint or status command of the service, and connect to it from where the problem is seen."
        }
        Prerequisite::HasEvidence => {
            "Record what you observed with ledger_add, type fact, naming the file, command or log line as source."
        }
        Prerequisite::AlternativesConsidered => {
            "Name another explanation, test it, and record why it does not hold with ledger_add, type rejected."
        }
    }
}

/// Returns the share in percent, rounded half up.
fn percent(met: usize, required: usize) -> u32 {
    u32::try_from((200 * met + required) / (2 * required)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> Value {
        serde_json::from_str(include_str!("../../../tests/fixtures/claims.json")).unwrap()
    }

    #[test]
    fn recorded_cases_are_evaluated_as_recorded() {
        let fixture = fixture();
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() > 250);
        for case in cases {
            let claim_type = case.get("type").map(|name| serde_json::from_value(name.clone()).unwrap());
            let context = serde_json::from_value(case["context"].clone()).unwrap();
            let answer = evaluate(case["claim"].as_str().unwrap(), claim_type, context);
            let shown = serde_json::to_value(&answer).unwrap();
            for (key, expected) in case["expect"].as_object().unwrap() {
                assert_eq!(&shown[key], expected, "{key} of {case}");
            }
            assert_eq!(answer.reasons.len(), answer.missing.len());
            assert_eq!(answer.next_steps.len(), answer.missing.len());
        }
    }

    #[test]
    fn recorded_claims_are_detected_as_recorded() {
        for case in fixture()["detection"].as_array().unwrap() {
            let detected = serde_json::to_value(detect(case["claim"].as_str().unwrap())).unwrap();
            assert_eq!(detected, case["expect"]["type"], "{case}");
        }
    }

    #[test]
    fn a_session_proves_what_its_phases_and_ledger_say() {
        let status = |docs: &str, runtime: &str| -> Map<String, Value> {
            [("doc-reading", docs), ("runtime-inspection", runtime)]
                .into_iter()
                .map(|(phase, status)| (phase.to_owned(), status.into()))
                .collect()
        };
        let nothing = Evidence { facts: false, rejected: false };
        assert_eq!(derive_context(&status("active", "pending"), nothing), ClaimContext::default());
        let context = derive_context(&status("done", "skipped"), Evidence { facts: true, rejected: false });
        assert!(context.readme_read && context.process_checked && context.config_checked && context.health_checked);
        assert!(context.has_evidence && !context.alternatives_considered);
        let answer = evaluate_from_session(
            "the root cause is x",
            None,
            &status("active", "pending"),
            Evidence { facts: true, rejected: true },
        );
        assert_eq!((answer.score, answer.missing.len()), (40, 3), "as in the recorded answer");
        assert_eq!(answer.derived_context.map(|context| context.has_evidence), Some(true));
    }
}
