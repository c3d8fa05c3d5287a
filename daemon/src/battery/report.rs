//! What a run answers, and the arithmetic of it (SPEC-battery "Output", shapes of SPEC 6).
//!
//! Every number and every word of readiness is decided here; checks only say what they found.

use serde::Serialize;

/// What a limitation takes from the confidence, and what all of them take at the most.
const LIMITATION_PENALTY: f64 = 0.03;
const MAX_PENALTY: f64 = 0.2;

/// A kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Branch and working tree.
    GitState,
    /// Style and suspicious code.
    Lint,
    /// Types, or whether it compiles.
    Typecheck,
    /// Tests.
    Test,
    /// Known vulnerabilities of dependencies.
    Audit,
    /// Keys and tokens in files.
    SecretDetection,
    /// Messages of commits.
    CommitConvention,
    /// Whether changed sources have tests.
    Tdd,
    /// What the repository adds.
    Custom,
}

impl Kind {
    /// Returns the weight of one check of this kind; of `Tdd`, that of a check with something to judge.
    #[must_use]
    fn weight(self) -> f64 {
        match self {
            Self::Typecheck | Self::Test => 0.20,
            Self::Lint | Self::Audit => 0.15,
            Self::SecretDetection | Self::Custom | Self::Tdd => 0.10,
            Self::GitState | Self::CommitConvention => 0.05,
        }
    }

    /// Returns the word for it in sentences and configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::GitState => "gitState",
            Self::Lint => "lint",
            Self::Typecheck => "typecheck",
            Self::Test => "test",
            Self::Audit => "audit",
            Self::SecretDetection => "secretDetection",
            Self::CommitConvention => "commitConvention",
            Self::Tdd => "tdd",
            Self::Custom => "custom",
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing found.
    Pass,
    /// Something that stands in the way.
    Fail,
    /// Something to look at.
    Warn,
    /// It did not run.
    Skip,
    /// It failed, and the configuration says why that is known.
    Acknowledged,
}

/// One check and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Names it among its kind.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// How it ended.
    pub status: Status,
    /// What was found, in one sentence; always there unless it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was found, in lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// What it weighs; 0 when it did not run.
    pub confidence_contribution: f64,
}

impl Check {
    /// Returns whether it says something about the code itself.
    #[must_use]
    fn checked_code(&self) -> bool {
        match self.kind {
            Kind::Lint | Kind::Typecheck | Kind::Test => self.status != Status::Skip,
            // Its failure may amount to a warning only, whatever it was to look at.
            Kind::Custom => matches!(self.status, Status::Pass | Status::Fail),
            Kind::Audit | Kind::GitState | Kind::SecretDetection | Kind::CommitConvention | Kind::Tdd => false,
        }
    }
}

/// A check, and what it leaves unsaid.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The check.
    pub check: Check,
    /// What it could not look at.
    pub limitations: Vec<String>,
    /// What stands in the way although the check did not fail.
    pub blockers: Vec<String>,
}

impl Outcome {
    /// Returns an outcome of a name and kind, with the kind's weight.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind, status: Status, message: Option<String>) -> Self {
        let confidence_contribution = if status == Status::Skip { 0.0 } else { kind.weight() };
        let check = Check {
            name: name.into(),
            kind,
            status,
            message,
            details: Vec::new(),
            duration_ms: 0,
            confidence_contribution,
        };
        Self { check, limitations: Vec::new(), blockers: Vec::new() }
    }

    /// Returns a check that passed.
    #[must_use]
    pub fn pass(name: impl Into<String>, kind: Kind) -> Self {
        Self::new(name, kind, Status::Pass, None)
    }

    /// Returns a check that did not run, with a limitation that says why.
    #[must_use]
    pub fn skip(name: impl Into<String>, kind: Kind, why: impl Into<String>) -> Self {
        let (name, why) = (name.into(), why.into());
        let mut outcome = Self::new(name.clone(), kind, Status::Skip, Some(why.clone()));
        outcome.limitations.push(format!("{name} was skipped: {why}"));
        outcome
    }

    /// Has what it says stand in the way too.
    #[must_use]
    pub fn blocking_by_its_message(mut self) -> Self {
        self.blockers.extend(self.check.message.clone());
        self
    }

    /// Adds lines of detail.
    #[must_use]
    pub fn with_details(mut self, details: Vec<String>) -> Self {
        self.check.details = details;
        self
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether nothing stands in the way.
    pub ready: bool,
    /// How much of what can be checked was checked and passed, 0 to 1.
    pub confidence: f64,
    /// The checks.
    pub checks: Vec<Check>,
    /// What stands in the way.
    pub blockers: Vec<String>,
    /// What to look at.
    pub warnings: Vec<String>,
    /// What could not be checked.
    pub limitations: Vec<String>,
    /// How long all of it took.
    pub duration_ms: u64,
    /// When it began, UTC with milliseconds.
    pub timestamp: String,
}

/// What is known beside the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// What stands in the way.
    pub blockers: Vec<String>,
    /// What could not be checked.
    pub limitations: Vec<String>,
}

/// Draws the conclusion from all outcomes.
#[must_use]
pub fn conclude(outcomes: Vec<Outcome>, notes: Notes, duration_ms: u64, timestamp: String) -> Report {
    let Notes { mut blockers, mut limitations } = notes;
    let (mut warnings, mut checks) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let said = || outcome.check.message.clone().unwrap_or_else(|| outcome.check.name.clone());
        match outcome.check.status {
            Status::Fail => blockers.push(said()),
            Status::Warn => warnings.push(said()),
            Status::Pass | Status::Skip | Status::Acknowledged => {}
        }
        blockers.extend(outcome.blockers);
        limitations.extend(outcome.limitations);
        checks.push(outcome.check);
    }
    if !checks.iter().any(Check::checked_code) {
        blockers.push(
            "nothing about the code was checked: no lint, typecheck or test ran, and no custom check passed or failed; \
             name commands under `commands` in .preflight.json"
                .to_owned(),
        );
    }
    let confidence = confidence(&checks, limitations.len());
    Report { ready: blockers.is_empty(), confidence, checks, blockers, warnings, limitations, duration_ms, timestamp }
}

/// Weight of what passed over weight of what ran, less what the limitations take.
fn confidence(checks: &[Check], limitations: usize) -> f64 {
    let weigh = |holds: fn(&Check) -> bool| -> f64 {
        checks.iter().filter(|check| holds(check)).map(|check| check.confidence_contribution).sum()
    };
    let ran = weigh(|check| check.status != Status::Skip);
    if ran <= 0.0 {
        return 0.0;
    }
    let passed = weigh(|check| check.status == Status::Pass);
    // No run has as many limitations as a float can't count.
    let limitations = u32::try_from(limitations).unwrap_or(u32::MAX);
    let penalty = (f64::from(limitations) * LIMITATION_PENALTY).min(MAX_PENALTY);
    let exact = (passed / ran - penalty).clamp(0.0, 1.0);
    // Four digits say all there is to say, and spare readers 0.8200000000000001. The sum of nothing is -0.0, to which
    // 0.0 is added.
    (exact * 10_000.0).round() / 10_000.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concluded(outcomes: &[(Kind, Status)], limitations: usize) -> Report {
        let outcomes = outcomes.iter().map(|(kind, status)| Outcome::new("it", *kind, *status, None)).collect();
        let notes = Notes { blockers: Vec::new(), limitations: vec!["l".to_owned(); limitations] };
        conclude(outcomes, notes, 1, "2026-01-01T00:00:00.000Z".to_owned())
    }

    #[test]
    fn confidence_is_what_passed_of_what_ran() {
        use Kind::{Audit, GitState, Lint, Test};
        use Status::{Acknowledged, Fail, Pass, Skip, Warn};
        type Ran<'a> = &'a [(Kind, Status)];
        let cases: &[(Ran<'_>, usize, f64)] = &[
            (&[], 0, 0.0),
            (&[(Lint, Skip)], 0, 0.0),
            (&[(Lint, Pass)], 0, 1.0),
            (&[(Lint, Pass), (Audit, Fail)], 0, 0.5),
            (&[(Lint, Pass), (Audit, Skip)], 0, 1.0),
            (&[(Test, Pass), (GitState, Warn)], 0, 0.8),
            (&[(Test, Pass), (GitState, Acknowledged)], 0, 0.8),
            (&[(Lint, Pass)], 3, 0.91),
            (&[(Lint, Pass)], 50, 0.8),
            (&[(Lint, Fail)], 0, 0.0),
            (&[(Lint, Fail)], 2, 0.0),
        ];
        for (outcomes, limitations, expected) in cases {
            let report = concluded(outcomes, *limitations);
            assert!((report.confidence - expected).abs() < 1e-9, "{outcomes:?}: {}", report.confidence);
            assert!(report.confidence.is_sign_positive(), "{outcomes:?}");
        }
    }

    #[test]
    fn nothing_that_ran_means_not_ready() {
        for outcomes in [
            vec![],
            vec![(Kind::Test, Status::Skip)],
            vec![(Kind::SecretDetection, Status::Pass)],
            vec![(Kind::Custom, Status::Warn)],
            vec![(Kind::Custom, Status::Skip)],
        ] {
            let report = concluded(&outcomes, 0);
            assert!(!report.ready && report.blockers[0].contains("nothing about the code"), "{report:?}");
        }
        assert!(concluded(&[(Kind::Custom, Status::Pass), (Kind::Custom, Status::Warn)], 0).ready);
        assert!(concluded(&[(Kind::Lint, Status::Warn)], 0).ready);
        assert_eq!(concluded(&[(Kind::Custom, Status::Fail)], 0).blockers, ["it"]);
    }

    #[test]
    fn a_skip_may_block_and_says_so() {
        let mut outcome = Outcome::skip("go-vet", Kind::Lint, "go is not there");
        outcome.blockers.push("no go".to_owned());
        let report = conclude(vec![outcome, Outcome::pass("t", Kind::Test)], Notes::default(), 0, String::new());
        assert_eq!((report.ready, report.blockers.as_slice()), (false, ["no go".to_owned()].as_slice()));
        assert!(report.limitations[0].contains("go is not there"));
    }

    #[test]
    fn keys_come_in_their_order() {
        let json = serde_json::to_string(&concluded(&[(Kind::SecretDetection, Status::Pass)], 1)).unwrap();
        let keys = ["ready", "confidence", "checks", "blockers", "warnings", "limitations", "durationMs", "timestamp"];
        let places: Vec<_> = keys.iter().map(|key| json.rfind(&format!("\"{key}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{json}");
        assert!(json.contains("\"kind\":\"secret-detection\"") && json.contains("\"status\":\"pass\""));
    }
}
