//! A command that is planned, how its end is judged, and the outcome that comes of it.
//!
//! Whatever a command does, exactly one outcome comes of it, with the last lines and the log's path in its details.

use std::path::Path;

use grounding_proto::text::printable;

use super::command::{self, CommandRequest, Ended, Ending};
use super::configuration::Severity;
use super::project::missing_tool;
use super::report::{Kind, Outcome, Status};
use crate::process::ClientEnvironment;

/// Most output of an audit that is kept to be judged, in bytes, and of anything else.
const MAX_AUDIT_BYTES: usize = 8 * 1024 * 1024;
const MAX_OTHER_BYTES: usize = 64 * 1024;

const NO_TEST: &str = "found no test to run";

/// How much of a command is shown, in characters.
const MAX_COMMAND_CHARACTERS: usize = 400;

/// What is planned for a kind of check.
#[derive(Debug)]
pub enum Planned {
    /// A command.
    Run(Step),
    /// Nothing, and why.
    Skip(Outcome),
}

/// A command that is planned.
#[derive(Debug, Clone)]
pub struct Step {
    /// Names it among its kind.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The shell command.
    pub command: String,
    severity: Severity,
    judge: Judge,
    lateness: Lateness,
}

/// What it amounts to when a command takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lateness {
    /// It failed.
    Fails,
    /// Somebody out there did not answer.
    Skips,
}

/// Says what the end of a command that ran amounts to.
pub type Judge = fn(&Ended, i32) -> Finding;

/// What the end of a command amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It found nothing.
    Pass,
    /// It found something that stands in the way.
    Fail(String),
    /// It found something to look at.
    Warn(String),
    /// It could not look.
    Skip(String),
    /// It looked at nothing although there is something to look at.
    Idle(String),
    /// A part of its tool is not installed.
    Missing(&'static str),
}

impl Step {
    /// Plans a command that is judged by its exit code.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind, command: impl Into<String>) -> Self {
        let (name, command) = (name.into(), command.into());
        Self { name, kind, command, severity: Severity::Fail, judge: by_exit, lateness: Lateness::Fails }
    }

    /// Has it judged otherwise.
    #[must_use]
    pub fn judged(mut self, judge: Judge) -> Self {
        self.judge = judge;
        self
    }

    /// Says what its failure amounts to.
    #[must_use]
    pub fn failing_as(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Says that it asks a registry, whose silence is no failure of the repository.
    #[must_use]
    pub fn asking_registry(mut self) -> Self {
        self.lateness = Lateness::Skips;
        self
    }

    /// Runs it.
    pub async fn run(
        &self,
        directory: &Path,
        environment: &ClientEnvironment,
        limit: std::time::Duration,
        log: &Path,
    ) -> Outcome {
        let most_bytes = if self.kind == Kind::Audit { MAX_AUDIT_BYTES } else { MAX_OTHER_BYTES };
        let request = CommandRequest { command: &self.command, directory, environment, limit, log, most_bytes };
        let ended = command::run(request).await;
        let mut outcome = self.outcome(&ended, environment);
        outcome.check.duration_ms = u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX);
        let details = self.details(&outcome, &ended, log);
        outcome.check.details.extend(details);
        outcome
    }

    fn outcome(&self, ended: &Ended, environment: &ClientEnvironment) -> Outcome {
        let finding = match &ended.ending {
            Ending::Exited(code) => (self.judge)(ended, *code),
            Ending::Signaled(signal) => Finding::Fail(format!("was ended by {signal}")),
            Ending::TimedOut(limit) => {
                let said = format!("did not end within {} s and was stopped", limit.as_secs_f64());
                match self.lateness {
                    Lateness::Fails => Finding::Fail(said),
                    Lateness::Skips => Finding::Skip(said),
                }
            }
            Ending::Failed(why) => Finding::Fail(format!("could not be run: {why}")),
        };
        let named =
            |status, what: String| Outcome::new(&self.name, self.kind, status, Some(format!("{} {what}", self.name)));
        match finding {
            Finding::Pass => Outcome::pass(&self.name, self.kind),
            Finding::Fail(what) => match self.severity {
                Severity::Fail => named(Status::Fail, what),
                Severity::Warn => named(Status::Warn, what),
            },
            Finding::Warn(what) => named(Status::Warn, what),
            Finding::Skip(what) => Outcome::skip(&self.name, self.kind, format!("{} {what}", self.name)),
            Finding::Idle(what) => {
                Outcome::skip(&self.name, self.kind, format!("{} {what}", self.name)).blocking_by_its_message()
            }
            Finding::Missing(tool) => missing_tool(environment, self.kind, &self.name, tool),
        }
    }

    fn details(&self, outcome: &Outcome, ended: &Ended, log: &Path) -> Vec<String> {
        let mut details = vec![format!("full output: {}", log.display())];
        details.extend(ended.note.clone());
        if outcome.check.status != Status::Pass {
            details.extend(ended.last_lines.iter().cloned());
        }
        let command: String = self.command.chars().take(MAX_COMMAND_CHARACTERS).collect();
        details.push(format!("command: {}", printable(&command)));
        details
    }
}

/// Judges by the exit code: 0 passes.
#[must_use]
pub fn by_exit(_: &Ended, code: i32) -> Finding {
    match code {
        0 => Finding::Pass,
        127 => Finding::Fail("failed with exit code 127: a command was not found".to_owned()),
        code => Finding::Fail(format!("failed with exit code {code}")),
    }
}

/// Judges pytest, which says with exit code 5 that there was no test.
#[must_use]
pub fn pytest(ended: &Ended, code: i32) -> Finding {
    if code == 5 { Finding::Skip(NO_TEST.to_owned()) } else { by_exit(ended, code) }
}

/// Judges unittest, which says how many tests it ran; before Python 3.12 none is success to it, since then exit code 5.
#[must_use]
pub fn unittest(ended: &Ended, code: i32) -> Finding {
    match (code, tests_of_unittest(ended)) {
        (5, _) | (0, Some(0)) => Finding::Skip(NO_TEST.to_owned()),
        // Said behind what was kept, unless all of it was kept.
        (0, None) if ended.stderr.len() < MAX_OTHER_BYTES => Finding::Skip("did not say that it ran a test".to_owned()),
        _ => by_exit(ended, code),
    }
}

/// Returns how many tests unittest says it ran, the last time it says so.
fn tests_of_unittest(ended: &Ended) -> Option<u64> {
    let said = |line: &str| line.strip_prefix("Ran ")?.split_once(" test")?.0.parse().ok();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let in_tail = ended.last_lines.iter().rev().find_map(|line| said(line));
    in_tail.or_else(|| stderr.lines().rev().find_map(said))
}

/// Judges pytest in a repository that has test files.
#[must_use]
pub fn pytest_with_files(ended: &Ended, code: i32) -> Finding {
    expecting_tests(pytest(ended, code))
}

/// Judges unittest in a repository that has test files.
#[must_use]
pub fn unittest_with_files(ended: &Ended, code: i32) -> Finding {
    expecting_tests(unittest(ended, code))
}

fn expecting_tests(finding: Finding) -> Finding {
    match finding {
        Finding::Skip(what) => {
            Finding::Idle(format!("{what}: test files exist and none was run; name the command in commands.test"))
        }
        finding => finding,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(step: &Step, ending: Ending) -> Outcome {
        let ended = Ended { ending, ..Ended::default() };
        step.outcome(&ended, &ClientEnvironment::new([("PATH".into(), "/p".into())]))
    }

    #[test]
    fn each_end_has_its_status() {
        let step = Step::new("it", Kind::Test, "x");
        let status = |ending| outcome(&step, ending).check.status;
        assert_eq!(status(Ending::Exited(0)), Status::Pass);
        assert_eq!(status(Ending::Exited(127)), Status::Fail);
        assert_eq!(status(Ending::Signaled("SIGSEGV".to_owned())), Status::Fail);
        assert_eq!(status(Ending::TimedOut(Duration::from_secs(1))), Status::Fail);
        assert_eq!(status(Ending::Failed("no shell".to_owned())), Status::Fail);
        let lenient = Step { severity: Severity::Warn, ..step.clone() };
        assert_eq!(outcome(&lenient, Ending::Exited(1)).check.status, Status::Warn);
        assert_eq!(outcome(&step.judged(pytest), Ending::Exited(5)).check.status, Status::Skip);
    }

    #[test]
    fn no_python_test_that_ran_is_never_a_pass() {
        let ended = |said: &str| Ended { stderr: said.as_bytes().to_vec(), ..Ended::default() };
        assert_eq!(unittest(&ended("Ran 2 tests in 0.1s\n\nOK\n"), 0), Finding::Pass);
        assert_eq!(unittest(&ended("Ran 1 test in 0.1s\n\nOK\n"), 0), Finding::Pass);
        assert!(matches!(unittest(&ended("Ran 1 test in 0.1s\n\nFAILED\n"), 1), Finding::Fail(_)));
        for (said, code) in [("Ran 0 tests in 0.000s\n\nOK\n", 0), ("Ran 0 tests in 0.000s\n", 5), ("", 0)] {
            assert!(matches!(unittest(&ended(said), code), Finding::Skip(_)), "{said}");
            assert!(matches!(unittest_with_files(&ended(said), code), Finding::Idle(_)), "{said}");
        }
        let flooded = Ended { stderr: vec![b'x'; MAX_OTHER_BYTES], ..Ended::default() };
        assert_eq!(unittest(&flooded, 0), Finding::Pass);
        let flooded = Ended { last_lines: vec!["Ran 0 tests in 0.000s".to_owned()], ..flooded };
        assert!(matches!(unittest(&flooded, 0), Finding::Skip(_)));
        let step = Step::new("pytest", Kind::Test, "x").judged(pytest_with_files);
        let outcome = outcome(&step, Ending::Exited(5));
        assert_eq!((outcome.check.status, outcome.limitations.len()), (Status::Skip, 1));
        assert!(outcome.blockers[0].contains("commands.test"), "{outcome:?}");
    }

    #[test]
    fn a_registry_that_does_not_answer_is_no_failure() {
        let slow = Ending::TimedOut(Duration::from_secs(1));
        let ours = Step::new("it", Kind::Audit, "x").asking_registry();
        assert_eq!(outcome(&ours, slow.clone()).check.status, Status::Skip);
        assert_eq!(outcome(&Step::new("it", Kind::Audit, "x"), slow).check.status, Status::Fail);
    }

    #[test]
    fn a_part_that_is_not_installed_is_a_missing_tool() {
        let step = Step::new("cargo-clippy", Kind::Lint, "x").judged(|_, _| Finding::Missing("cargo-clippy"));
        let outcome = outcome(&step, Ending::Exited(1));
        assert_eq!(outcome.check.status, Status::Skip);
        assert_eq!(outcome.blockers.len(), 1);
    }
}
