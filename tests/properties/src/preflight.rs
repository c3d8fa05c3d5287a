//! Preflight's answer: what may become a verdict, and what is called complete.
//!
//! The first line of the input says how the process ended, as JSON (`{"exitCode":0}`); the rest is its stdout. Without
//! such a line the whole is the stdout of a process that exited with 0.

use grounding_proto::solution::Execution;
use groundingd::solution::diagnostics::{self, Payload};
use groundingd::solution::preflight;
use serde_json::Value;

/// Checks that nothing becomes a verdict that a second judgement forbids, nor is called complete without being so.
pub fn check(input: &[u8]) {
    let (execution, stdout) = split(input);
    let payload = preflight::parse(stdout);
    let answer = serde_json::from_slice::<Value>(stdout).ok();
    match (&payload, &answer) {
        (Payload::Json(payload), Some(answer)) => assert_eq!(payload, answer),
        (Payload::Unreadable(_), None) => {}
        other => panic!("{other:?}"),
    }
    let accepted = preflight::accept(&payload, &execution);
    let allowed = answer.as_ref().and_then(|answer| allowed(answer, &execution));
    let found = accepted.map(|core| (core.ready, core.confidence, core.blockers));
    assert_eq!(found.as_ref().ok(), allowed.as_ref(), "{found:?}");

    let diagnostics = diagnostics::assess(payload, execution.clone());
    assert_eq!(diagnostics.payload, answer);
    assert_eq!(diagnostics.complete, diagnostics.issues.is_empty() && answer.is_some());
    if diagnostics.complete {
        let answer = answer.expect("what is complete is there");
        assert!(is_complete(&answer), "{answer}");
        let contradicts = answer["ready"] == true && answer["blockers"] != Value::Array(Vec::new());
        assert_eq!(allowed.is_some(), !contradicts);
    }
}

fn split(input: &[u8]) -> (Execution, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    match serde_json::from_slice::<Execution>(&input[..end]) {
        Ok(execution) => (execution, input.get(end + 1..).unwrap_or_default()),
        Err(_) => (Execution { exit_code: Some(0), ..Execution::default() }, input),
    }
}

/// Returns what a verdict may be made of: ready, confidence and blockers.
fn allowed(answer: &Value, execution: &Execution) -> Option<(bool, f64, Vec<String>)> {
    let answer = answer.as_object()?;
    let ready = match answer.get("ready")? {
        Value::Bool(ready) => *ready,
        _ => return None,
    };
    let confidence = answer.get("confidence").filter(|confidence| confidence.is_number())?.as_f64()?;
    let blockers: Vec<String> = serde_json::from_value(answer.get("blockers")?.clone()).ok()?;
    let in_range = (0.0..=1.0).contains(&confidence);
    let undisturbed = execution.signal.is_none() && execution.error.is_none();
    let exit = if ready { Some(0) } else { Some(1) };
    let consistent = !ready || blockers.is_empty();
    (in_range && undisturbed && consistent && execution.exit_code == exit).then_some((ready, confidence, blockers))
}

fn is_complete(answer: &Value) -> bool {
    let strings = |value: &Value| serde_json::from_value::<Vec<String>>(value.clone()).is_ok();
    let duration = |value: &Value| value.as_f64().is_some_and(|number| number >= 0.0);
    answer["ready"].is_boolean()
        && answer["confidence"].as_f64().is_some_and(|number| (0.0..=1.0).contains(&number))
        && ["blockers", "warnings", "limitations"].iter().all(|field| strings(&answer[*field]))
        && duration(&answer["durationMs"])
        && answer["timestamp"].as_str().is_some_and(is_timestamp)
        && answer["checks"].as_array().is_some_and(|checks| checks.iter().all(is_complete_check))
}

fn is_complete_check(check: &Value) -> bool {
    const KINDS: &str =
        "git-state lint typecheck test audit ci-simulation commit-convention secret-detection tdd custom";
    let text = |field: &str| check[field].as_str();
    let message = text("message").unwrap_or_default();
    let acknowledged = message.to_lowercase().contains("acknowledged:") && !message.trim().ends_with("acknowledged:");
    text("name").is_some_and(|name| !name.trim().is_empty())
        && text("kind").is_some_and(|kind| KINDS.split(' ').any(|known| known == kind))
        && match text("status") {
            Some("pass" | "fail" | "warn" | "skip") => check["message"].is_null() || check["message"].is_string(),
            Some("acknowledged") => acknowledged || message.to_lowercase().matches("acknowledged:").count() > 1,
            _ => false,
        }
        && check["durationMs"].as_f64().is_some_and(|number| number >= 0.0)
        && check["confidenceContribution"].is_number()
}

/// Returns whether a text has the form `YYYY-MM-DDTHH:MM:SS.mmmZ`.
fn is_timestamp(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:dd.dddZ";
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(found, wanted)| match wanted {
            'd' => found.is_ascii_digit(),
            other => found == other,
        })
}
