//! What is said of a preflight run beside its verdict (SPEC 6): how complete the answer is, and what is odd about it.
//!
//! Advisory: nothing here makes or breaks a verdict; `preflight::accept` does.

use grounding_proto::solution::{Availability, Diagnostics, Execution};
use serde_json::{Map, Value};

use crate::clock::iso;

const KINDS: [&str; 10] = [
    "git-state",
    "lint",
    "typecheck",
    "test",
    "audit",
    "ci-simulation",
    "commit-convention",
    "secret-detection",
    "tdd",
    "custom",
];
const STATUSES: [&str; 5] = ["pass", "fail", "warn", "skip", "acknowledged"];

/// What preflight wrote: its answer, or why there is none to read.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// The parsed JSON.
    Json(Value),
    /// It ran, and its output is no JSON: why.
    Unreadable(String),
    /// It never ran, or never got to answer.
    None,
}

/// Assesses a run.
#[must_use]
pub fn assess(payload: Payload, execution: Execution) -> Diagnostics {
    let mut issues = Vec::new();
    let availability = match &payload {
        Payload::Json(_) => Availability::Available,
        Payload::Unreadable(_) | Payload::None => Availability::Unavailable,
    };
    match &payload {
        Payload::Json(Value::Object(object)) => assess_object(object, &mut issues),
        Payload::Json(_) => issues.push("the answer is not a JSON object".to_owned()),
        Payload::Unreadable(why) if execution.exit_code.is_some() => issues.push(why.clone()),
        Payload::Unreadable(_) | Payload::None => {}
    }
    assess_execution(&payload, &execution, &mut issues);
    let complete = availability == Availability::Available && issues.is_empty();
    let payload = match payload {
        Payload::Json(value) => Some(value),
        Payload::Unreadable(_) | Payload::None => None,
    };
    let skipped_checks = payload.as_ref().map(skipped_checks).filter(|names| !names.is_empty());
    Diagnostics { availability, complete, payload, execution, issues, skipped_checks, ..Diagnostics::default() }
}

/// Diagnostics of a run that never was.
#[must_use]
pub fn not_run() -> Diagnostics {
    assess(Payload::None, Execution::default())
}

/// Diagnostics of a run whose program could not even be started.
#[must_use]
pub fn not_started(error: &str) -> Diagnostics {
    assess(Payload::None, Execution { error: Some(error.to_owned()), ..Execution::default() })
}

fn assess_execution(payload: &Payload, execution: &Execution, issues: &mut Vec<String>) {
    match (execution.exit_code, payload) {
        (None, _) => issues.push("there is no exit code".to_owned()),
        (Some(code), Payload::Json(answer)) => {
            if let Some(ready) = answer.get("ready").and_then(Value::as_bool) {
                let expected = i32::from(!ready);
                if code != expected {
                    issues.push(format!("exit code {code} does not go with ready {ready}; it should be {expected}"));
                }
            }
        }
        (Some(_), Payload::Unreadable(_) | Payload::None) => {}
    }
    if let Some(signal) = &execution.signal {
        issues.push(format!("ended by {signal}"));
    }
    if let Some(error) = &execution.error {
        issues.push(error.clone());
    }
}

fn assess_object(answer: &Map<String, Value>, issues: &mut Vec<String>) {
    let mut expect = |holds: bool, field: &str, what: &str| {
        if !holds {
            issues.push(format!("`{field}` is not {what}"));
        }
    };
    expect(answer.get("ready").is_some_and(Value::is_boolean), "ready", "a boolean");
    expect(confidence(answer).is_some(), "confidence", "a number from 0 to 1");
    for field in ["blockers", "warnings", "limitations"] {
        expect(answer.get(field).is_some_and(is_strings), field, "an array of strings");
    }
    expect(answer.get("durationMs").is_some_and(is_duration), "durationMs", "a number of at least 0");
    expect(answer.get("timestamp").is_some_and(is_timestamp), "timestamp", "a UTC time with milliseconds and Z");
    match answer.get("checks") {
        Some(Value::Array(checks)) => {
            for (index, check) in checks.iter().enumerate() {
                assess_check(check, &format!("checks[{index}]"), issues);
            }
        }
        _ => issues.push("`checks` is not an array".to_owned()),
    }
}

fn assess_check(check: &Value, path: &str, issues: &mut Vec<String>) {
    let Value::Object(check) = check else {
        issues.push(format!("`{path}` is not an object"));
        return;
    };
    let text = |field: &str| check.get(field).and_then(Value::as_str);
    let mut expect = |holds: bool, field: &str, what: &str| {
        if !holds {
            issues.push(format!("`{path}.{field}` is not {what}"));
        }
    };
    expect(text("name").is_some_and(|name| !name.trim().is_empty()), "name", "a name");
    expect(text("kind").is_some_and(|kind| KINDS.contains(&kind)), "kind", "a known kind");
    let status = text("status");
    expect(status.is_some_and(|status| STATUSES.contains(&status)), "status", "a known status");
    if status == Some("acknowledged") {
        expect(text("message").is_some_and(names_reason), "message", "one that holds `acknowledged: <reason>`");
    }
    expect(check.get("durationMs").is_some_and(is_duration), "durationMs", "a number of at least 0");
    expect(check.get("confidenceContribution").is_some_and(Value::is_number), "confidenceContribution", "a number");
    if status != Some("acknowledged") {
        expect(check.get("message").is_none_or(Value::is_string), "message", "a string");
    }
    expect(check.get("details").is_none_or(is_strings), "details", "an array of strings");
}

/// Returns the confidence of an answer when it is one.
#[must_use]
pub fn confidence(answer: &Map<String, Value>) -> Option<f64> {
    answer.get("confidence").and_then(Value::as_f64).filter(|number| (0.0..=1.0).contains(number))
}

/// Returns whether a value is an array of strings.
#[must_use]
pub fn is_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

fn is_duration(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number >= 0.0)
}

fn is_timestamp(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    text.parse().is_ok_and(|time: jiff::Timestamp| iso(time) == text)
}

/// Returns whether a message holds `acknowledged:`, in any case, with text after it.
fn names_reason(message: &str) -> bool {
    const WORD: &str = "acknowledged:";
    let lower = message.to_lowercase();
    lower.match_indices(WORD).any(|(start, _)| !lower[start + WORD.len()..].trim().is_empty())
}

fn skipped_checks(answer: &Value) -> Vec<String> {
    let checks = answer.get("checks").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let skipped = checks.iter().filter(|check| check.get("status").is_some_and(|status| status == "skip"));
    skipped.filter_map(|check| check.get("name").and_then(Value::as_str)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solution::preflight::accept;

    #[test]
    fn runs_are_assessed_as_recorded() {
        let fixture: Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/preflight-results.json")).unwrap();
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() > 30);
        for case in cases {
            let name = case["name"].as_str().unwrap();
            let execution: Execution = serde_json::from_value(case["execution"].clone()).unwrap();
            let payload = Payload::Json(case["payload"].clone());
            let accepted = accept(&payload, &execution).is_ok();
            let diagnostics = assess(payload, execution);
            let expected = &case["expect"];
            assert_eq!(accepted, expected["accepted"], "{name}: accepted");
            assert_eq!(diagnostics.complete, expected["complete"], "{name}: complete, {:?}", diagnostics.issues);
            assert_eq!(diagnostics.issues.len() as u64, expected["issues"], "{name}: {:?}", diagnostics.issues);
        }
    }

    #[test]
    fn a_run_that_never_was_has_an_issue_for_each_thing_missing() {
        let error = Execution { error: Some("no such program".to_owned()), ..Execution::default() };
        assert_eq!(assess(Payload::None, error).issues.len(), 2);
        assert_eq!(assess(Payload::None, Execution::default()).issues.len(), 1);
        let ended = Execution { exit_code: Some(0), ..Execution::default() };
        assert_eq!(assess(Payload::Unreadable("it is not JSON".to_owned()), ended).issues.len(), 1);
    }

    #[test]
    fn an_acknowledgement_needs_a_reason() {
        assert!(names_reason("lint failed; ACKNOWLEDGED:legacy"));
        assert!(names_reason("acknowledged: x"));
        assert!(!names_reason("acknowledged:  "));
        assert!(!names_reason("acknowledged"));
    }
}
