//! The arm as a whole: knob, active run, its three files, and its binding to the change, in the order blockers have
//! (SPEC-workflow 19a).
//!
//! A file that can't be read blocks in the place of what it would have said.

use std::path::PathBuf;

use grounding_proto::solution::{RunBaseKind, WorkflowBlocker, WorkflowReport};

use super::active_run::{Run, Search, find};
use super::binding::{Base, Binding, check_base, check_date};
use super::blocker::blocker;
use super::field::{FINAL_STATUS, Field, RECOMMENDATION, Reading};
use super::findings::{Fault, Findings, MAX_PROBLEMS, Problem};
use super::knob::{Knob, knob};
use super::run_base::{Goal, Selection, shown_list};
use super::run_file::{RunFile, read};
use super::text::excerpt;
use super::worktree::{names, plain, worktree_root};
use super::{field, findings, run_base};
use crate::solution::repository::Repository;

/// Evaluates the arm for a repository; nothing when its knob is off.
///
/// Run files are read on the calling thread: at most 4 MiB of each, from regular files only.
pub async fn evaluate(repository: &Repository) -> Option<WorkflowReport> {
    let path = plain(&std::path::absolute(repository.path()).unwrap_or_else(|_| repository.path().to_owned()));
    let knob = knob(&path);
    if knob == Knob::Off {
        return None;
    }
    let mut report = WorkflowReport { enforced: true, ..WorkflowReport::default() };
    match find(&path) {
        Search::Found(run) => {
            let names = names(worktree_root(&path));
            let goal = examine(&run, &names, &mut report);
            if let Some(goal) = goal {
                let binding = bind(repository, &run, &goal).await;
                report.blockers.extend(binding.blocker);
                report.notes.extend(binding.notes);
            }
        }
        Search::BadPointer(blocker) => report.blockers.push(blocker),
        Search::None(note) => {
            report.enforced = knob == Knob::On;
            report.notes.extend(note);
            if knob == Knob::On {
                let sentence = "there is no active run; start one, or set orchestratorWorkflow to auto in \
                                .ai/solution-acceptance.json";
                report.blockers.push(blocker("no_run", ".ai/runs", &path.join(".ai/runs"), None, sentence));
            }
        }
    }
    report.complete = report.blockers.is_empty();
    Some(report)
}

/// The run-base marker that counts, apart from the text it was read from.
pub(super) struct BaseMarker {
    kind: RunBaseKind,
    value: Option<String>,
    line: Option<u64>,
}

/// Adds what the files of a run say; returns its run-base, or nothing when the goal can't be read.
pub(super) fn examine(run: &Run, names: &[String], report: &mut WorkflowReport) -> Option<BaseMarker> {
    report.run_name = Some(run.name.clone());
    report.run_source = Some(run.source);

    let handoff = File::of(run, "06-handoff.md");
    match handoff.text() {
        Ok(text) => report.blockers.extend(handoff.field(&FINAL_STATUS, "status", &text)),
        Err(blocker) => report.blockers.push(blocker),
    }
    let review = File::of(run, "05-review-findings.md");
    match review.text() {
        Ok(text) => {
            report.blockers.extend(review.field(&RECOMMENDATION, "recommendation", &text));
            review.findings(&findings::read(&text), &mut report.blockers);
        }
        Err(blocker) => report.blockers.push(blocker),
    }
    let goal = File::of(run, "00-goal.md");
    match goal.text() {
        Ok(text) => Some(goal.run_base(&run_base::read(&text), names, report)),
        Err(blocker) => {
            report.blockers.push(blocker);
            None
        }
    }
}

async fn bind(repository: &Repository, run: &Run, marker: &BaseMarker) -> Binding {
    let goal = File::of(run, "00-goal.md");
    match (marker.kind, &marker.value) {
        (RunBaseKind::Sha, Some(value)) => {
            let base = Base { value, file: &goal.path, subject: &goal.subject, line: marker.line };
            check_base(repository, &base).await
        }
        (RunBaseKind::Todo | RunBaseKind::Absent, _) => check_date(repository, run).await,
        _ => Binding::default(),
    }
}

/// A file of a run and how messages name it.
struct File {
    path: PathBuf,
    subject: String,
}

impl File {
    fn of(run: &Run, name: &str) -> Self {
        Self { path: run.directory.join(name), subject: format!("{}/{name}", excerpt(&run.name, 100)) }
    }

    fn blocker(&self, code: &str, line: Option<u64>, sentence: &str) -> WorkflowBlocker {
        blocker(code, &self.subject, &self.path, line, sentence)
    }

    /// Returns the file's text, empty when there is no such file.
    fn text(&self) -> Result<String, WorkflowBlocker> {
        match read(&self.path) {
            RunFile::Text(text) => Ok(text),
            RunFile::Missing => Ok(String::new()),
            RunFile::Unreadable(reason) => {
                let sentence = format!("the file can't be read ({reason}); make it a readable file");
                Err(self.blocker("file_unreadable", None, &sentence))
            }
            RunFile::TooLarge => {
                let sentence = "the file is larger than 4 MiB and was not read; shorten it";
                Err(self.blocker("file_too_large", None, sentence))
            }
        }
    }

    fn field(&self, field: &Field, code: &str, text: &str) -> Option<WorkflowBlocker> {
        let [plain, noted] = field.accepted;
        let remedy = format!("once it is, write <!-- solution-acceptance: {} = {plain} --> (or {noted})", field.name);
        let (state, line, sentence) = match field::read(field, text) {
            Reading::Accepted => return None,
            Reading::Todo(line) => ("todo", Some(line), format!("{} is still TODO; {remedy}", field.name)),
            Reading::Malformed(line) => {
                ("malformed", Some(line), format!("the {} marker has no readable value; {remedy}", field.name))
            }
            Reading::NotAccepted(line, value) => {
                let value = excerpt(value, 80);
                ("not_accepted", Some(line), format!("{} is \"{value}\", which does not accept; {remedy}", field.name))
            }
            Reading::Missing => {
                let heading = field.heading;
                ("missing", None, format!("there is no {} marker and no text under {heading}; {remedy}", field.name))
            }
        };
        Some(self.blocker(&format!("{code}_{state}"), line, &sentence))
    }

    fn findings(&self, findings: &Findings, blockers: &mut Vec<WorkflowBlocker>) {
        blockers.extend(findings.problems.iter().map(|problem| self.problem(problem)));
        if findings.omitted > 0 {
            let sentence =
                format!("(+{} more) findings block beyond these {MAX_PROBLEMS}; resolve them too", findings.omitted);
            blockers.push(self.blocker("open_finding", None, &sentence));
        }
        if let Some(line) = findings.placeholder {
            let sentence = "the template's own row still stands in for findings; replace it with findings, or delete it \
                            when there are none";
            blockers.push(self.blocker("placeholder_left", Some(line), sentence));
        }
        if let Some(line) = findings.unreadable_heading {
            let sentence = "the findings are in no table that can be read; write them as rows of a table with the columns \
                            Severity and Decision, or leave the section empty when there are none";
            blockers.push(self.blocker("findings_format", Some(line), sentence));
        }
    }

    fn problem(&self, problem: &Problem) -> WorkflowBlocker {
        let Problem { line, severity, description, decision, fault } = problem;
        let (code, sentence) = match fault {
            Fault::Open => {
                let decision = if decision.is_empty() { "blank" } else { decision };
                let remedy = "resolve it, then decide accepted or defer";
                (
                    "open_finding",
                    format!("{severity} finding \"{description}\" is open (decision {decision}); {remedy}"),
                )
            }
            Fault::TooManyCells => {
                let remedy = "write a pipe inside a cell as \\|";
                ("unreadable_finding", format!("the row \"{description}\" has more cells than its header; {remedy}"))
            }
            Fault::UnknownSeverity => {
                let remedy = "write low, medium, high or critical in its column";
                let severity = if severity.is_empty() { "blank" } else { severity };
                let sentence = format!("the severity of \"{description}\" is {severity} (decision {decision})");
                ("unreadable_finding", format!("{sentence}; {remedy}"))
            }
        };
        self.blocker(code, Some(*line), &sentence)
    }

    fn run_base(&self, goal: &Goal<'_>, names: &[String], report: &mut WorkflowReport) -> BaseMarker {
        let name = shown_list(names.iter().take(1).map(String::as_str));
        let shape = format!("<!-- solution-acceptance: run-base[{name}] = <commit> -->");
        let nets = [
            ("keyed", &goal.keyed_attempts, format!("write the whole line as {shape}")),
            (
                "phrase",
                &goal.phrases,
                format!("write a marker as {shape} on a line of its own, or quote it in backticks"),
            ),
        ];
        for (kind, malformed, remedy) in nets {
            if let Some((line, _)) = malformed.shown.first() {
                let sentence =
                    format!("this names the run-base marker and is none: {}; {remedy}", malformed.shown_lines());
                let blocker = self.blocker("run_base_malformed", Some(*line), &sentence);
                report.blockers.push(WorkflowBlocker { kind: Some(kind.to_owned()), ..blocker });
            }
        }
        let Selection { kind, value, line } = goal.select(names);
        if kind == RunBaseKind::UnmatchedKeyed {
            let tried = shown_list(names.iter().map(String::as_str));
            let sentence = format!("no run-base marker is for this repository: keys found {}", goal.shown_keys());
            let sentence = format!("{sentence}; keys tried {tried}; add {shape}");
            report.blockers.push(self.blocker("run_base_unmatched", line, &sentence));
        }
        report.run_base_kind = Some(kind);
        report.run_base = value.map(|value| excerpt(value, 80));
        BaseMarker { kind, value: value.map(str::to_owned), line }
    }
}
