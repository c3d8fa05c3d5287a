//! Answers about attempts: one constructor per kind, and the bound that every answer keeps (SPEC 6 and 9.8).
//!
//! What does not fit is left out in a fixed order, preflight's payload first and blockers last; the answer says so and
//! names the file that holds the whole. It never reads a file and never judges how an attempt stands.

use std::path::Path;

use grounding_proto::solution::{
    AttemptStatus, Diagnostics, Omitted, SolutionEvaluateAnswer, SolutionResultAnswer, Verdict,
};
use grounding_proto::wire::Settings;

use super::result::{self, AttemptResult};
use crate::json;
use crate::solution::bounds::{MAX_ANSWER_BYTES, MAX_TEXTS, cut, shorten};
use crate::solution::diagnostics::not_run;

/// An answer of that status and nothing else.
#[must_use]
pub fn bare(status: AttemptStatus, id: &str) -> SolutionEvaluateAnswer {
    SolutionEvaluateAnswer {
        verdict: None,
        marker_path: None,
        error: None,
        diagnostics: None,
        status,
        id: id.to_owned(),
        attempt_id: None,
        poll_after_ms: None,
        omitted: Omitted::default(),
    }
}

/// The attempt goes on.
#[must_use]
pub fn running(id: &str, attempt_id: &str, settings: &Settings) -> SolutionEvaluateAnswer {
    SolutionEvaluateAnswer {
        attempt_id: Some(attempt_id.to_owned()),
        poll_after_ms: Some(settings.poll_after_ms),
        ..bare(AttemptStatus::Running, id)
    }
}

/// Somebody holds the lock, and no attempt is known to.
#[must_use]
pub fn unconfirmed(id: &str, settings: &Settings) -> SolutionEvaluateAnswer {
    SolutionEvaluateAnswer {
        poll_after_ms: Some(settings.poll_after_ms),
        ..bare(AttemptStatus::RunningUnconfirmed, id)
    }
}

/// Nothing was started because something is live.
#[must_use]
pub fn refused(id: &str, attempt_id: Option<String>, error: String) -> SolutionEvaluateAnswer {
    SolutionEvaluateAnswer { attempt_id, error: Some(error), ..bare(AttemptStatus::Refused, id) }
}

/// Nothing was started because it could not be.
#[must_use]
pub fn failed(id: &str, error: String) -> SolutionEvaluateAnswer {
    SolutionEvaluateAnswer {
        verdict: Some(None),
        marker_path: Some(None),
        error: Some(error),
        diagnostics: Some(not_run()),
        ..bare(AttemptStatus::Failed, id)
    }
}

/// The attempt ended and its result stands.
#[must_use]
pub fn settled(result: AttemptResult, verdict_dir: &Path) -> SolutionEvaluateAnswer {
    let path = result::result_path(verdict_dir, &result.attempt_id);
    let mut answer = SolutionEvaluateAnswer {
        verdict: Some(result.verdict),
        marker_path: Some(result.marker_path),
        error: result.error,
        diagnostics: Some(result.diagnostics),
        attempt_id: Some(result.attempt_id),
        ..bare(result.status, &result.id)
    };
    if json::length(&answer) > MAX_ANSWER_BYTES {
        omit_payload(&mut answer.omitted, answer.diagnostics.as_mut(), path.as_deref());
        if json::length(&answer) > MAX_ANSWER_BYTES {
            omit_blockers(&mut answer.omitted, answer.diagnostics.as_mut(), answer.verdict.as_mut());
        }
    }
    answer
}

/// Keeps a result answer within the bound.
pub fn bound(answer: &mut SolutionResultAnswer, verdict_dir: &Path) {
    if json::length(answer) <= MAX_ANSWER_BYTES {
        return;
    }
    let path = answer.attempt_id.as_ref().and_then(|attempt_id| result::result_path(verdict_dir, attempt_id));
    omit_payload(&mut answer.omitted, answer.diagnostics.as_mut(), path.as_deref());
    if json::length(answer) > MAX_ANSWER_BYTES {
        omit_blockers(&mut answer.omitted, answer.diagnostics.as_mut(), answer.verdict.as_mut());
    }
}

fn omit_payload(omitted: &mut Omitted, diagnostics: Option<&mut Diagnostics>, path: Option<&Path>) {
    if let Some(diagnostics) = diagnostics
        && diagnostics.payload.take().is_some()
    {
        omitted.payload_omitted = Some(true);
    }
    omitted.result_file = path.map(|path| path.display().to_string());
}

fn omit_blockers(omitted: &mut Omitted, diagnostics: Option<&mut Diagnostics>, verdict: Option<&mut Option<Verdict>>) {
    if let Some(Some(verdict)) = verdict {
        omitted.blockers_omitted = shorten(&mut verdict.blockers);
    }
    if let Some(diagnostics) = diagnostics {
        shorten(&mut diagnostics.issues);
        if let Some(skipped) = &mut diagnostics.skipped_checks {
            shorten(skipped);
        }
        if let Some(workflow) = &mut diagnostics.workflow {
            workflow.blockers.truncate(MAX_TEXTS);
            workflow.blockers.iter_mut().for_each(|blocker| cut(&mut blocker.message));
        }
    }
}

#[cfg(test)]
mod tests {
    use grounding_proto::solution::OutcomeClass;
    use uuid::Uuid;

    use super::*;

    fn result(payload: serde_json::Value, blockers: Vec<String>) -> AttemptResult {
        let verdict = Verdict {
            id: "t".into(),
            head: String::new(),
            ready: false,
            confidence: 0.5,
            blockers,
            timestamp: String::new(),
            source: "preflight".into(),
        };
        AttemptResult {
            attempt_id: Uuid::new_v4().to_string(),
            id: "t".into(),
            repo_path: "/repo".into(),
            started_at: String::new(),
            terminal_at: String::new(),
            status: AttemptStatus::Completed,
            outcome_class: OutcomeClass::NotReady,
            summary: String::new(),
            error: None,
            verdict: Some(verdict),
            marker_path: Some("/m".into()),
            diagnostics: Diagnostics { payload: Some(payload), ..Diagnostics::default() },
        }
    }

    #[test]
    fn a_large_payload_goes_first_and_the_blockers_stay() {
        let large = serde_json::Value::from("x".repeat(MAX_ANSWER_BYTES));
        let answer = settled(result(large, vec!["b".into()]), Path::new("/v"));
        assert!(json::length(&answer) < MAX_ANSWER_BYTES);
        assert_eq!(answer.omitted.payload_omitted, Some(true));
        assert_eq!(answer.omitted.blockers_omitted, None);
        assert!(answer.omitted.result_file.unwrap().starts_with("/v/results/"));
        assert_eq!(answer.verdict.unwrap().unwrap().blockers, ["b"]);
    }

    #[test]
    fn many_large_blockers_are_counted_and_cut() {
        let blockers = vec!["é".repeat(10_000); 1_000];
        let answer = settled(result(serde_json::json!({}), blockers), Path::new("/v"));
        assert!(json::length(&answer) < MAX_ANSWER_BYTES);
        assert_eq!(answer.omitted.blockers_omitted, Some(950));
        assert_eq!(answer.verdict.unwrap().unwrap().blockers.len(), 50);
    }

    #[test]
    fn a_small_answer_is_whole() {
        let answer = settled(result(serde_json::json!({"a": 1}), vec![]), Path::new("/v"));
        assert_eq!(answer.omitted, Omitted::default());
        assert!(answer.diagnostics.unwrap().payload.is_some());
    }
}
