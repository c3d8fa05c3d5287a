//! Whether a run claims the change at hand: its recorded base, else its date, against the history (SPEC-workflow 21
//! to 23).
//!
//! All history is git's word. A question that git can't answer blocks, but for a fork point that does not exist.

use std::path::Path;

use grounding_proto::solution::WorkflowBlocker;

use super::active_run::Run;
use super::blocker::blocker;
use super::text::excerpt;
use crate::solution::repository::{CommitId, Repository, RepositoryError};

/// Most objects that an abbreviated base is looked for among.
const CANDIDATES: usize = 64;

/// What a check of the history came to.
#[derive(Debug, Default)]
pub(super) struct Binding {
    /// What blocks; at most one.
    pub(super) blocker: Option<WorkflowBlocker>,
    /// What could not be checked.
    pub(super) notes: Vec<String>,
}

/// The marker a base was read from.
pub(super) struct Base<'a> {
    /// The value as recorded.
    pub(super) value: &'a str,
    /// The file that records it.
    pub(super) file: &'a Path,
    /// The file's name in messages.
    pub(super) subject: &'a str,
    /// The line that records it.
    pub(super) line: Option<u64>,
}

/// Checks that the recorded base is a commit that HEAD builds on, and does not lie behind the fork point.
pub(super) async fn check_base(repository: &Repository, base: &Base<'_>) -> Binding {
    let mut notes = Vec::new();
    let blocker = match base_fault(repository, base.value, &mut notes).await {
        Ok(()) => None,
        Err((code, sentence)) => Some(blocker(code, base.subject, base.file, base.line, &sentence)),
    };
    Binding { blocker, notes }
}

/// Checks that the run is not older than the first commit of the change.
pub(super) async fn check_date(repository: &Repository, run: &Run) -> Binding {
    let mut notes = Vec::new();
    let blocker = match date_fault(repository, run, &mut notes).await {
        Ok(()) => None,
        Err((code, sentence)) => Some(blocker(code, &run.name, &run.directory, None, &sentence)),
    };
    Binding { blocker, notes }
}

type Fault = (&'static str, String);

async fn base_fault(repository: &Repository, value: &str, notes: &mut Vec<String>) -> Result<(), Fault> {
    let shown = excerpt(value, 80);
    let remedy = "record the commit the change starts from, as git rev-parse prints it";
    if !is_object_name(repository, value).await {
        return Err(("base_not_sha", format!("run-base \"{shown}\" is no commit id; {remedy}")));
    }
    let head = head(repository).await?;
    let Some(base) = resolve(repository, &value.to_ascii_lowercase()).await else {
        let cause =
            if repository.is_shallow().await { "; this clone is shallow, so git fetch --unshallow first" } else { "" };
        return Err(("base_unknown", format!("run-base {shown} names no commit of this repository{cause}; {remedy}")));
    };
    match is_ancestor(repository, base.as_str(), head.as_str()).await {
        Ok(true) => {}
        Ok(false) => {
            let sentence = "is no ancestor of HEAD, so the run belongs to other work; start a run for this change";
            return Err(("base_not_ancestor", format!("run-base {shown} {sentence}, or record its base")));
        }
        Err(error) => {
            let sentence = format!("run-base {shown} could not be compared with HEAD ({error}); evaluate again");
            return Err(("base_not_ancestor", sentence));
        }
    }
    let Some(fork) = fork_point(repository, notes).await else { return Ok(()) };
    if base == fork {
        return Ok(());
    }
    let fork_shown = fork.short();
    match is_ancestor(repository, base.as_str(), fork.as_str()).await {
        Ok(false) => Ok(()),
        Ok(true) => {
            let sentence = "which the remote default branch already has; start a run for this change";
            Err(("base_behind_fork", format!("run-base {shown} lies behind the fork point {fork_shown}, {sentence}")))
        }
        Err(error) => {
            let sentence = format!("could not be compared with the fork point {fork_shown} ({error}); evaluate again");
            Err(("base_behind_fork", format!("run-base {shown} {sentence}")))
        }
    }
}

async fn date_fault(repository: &Repository, run: &Run, notes: &mut Vec<String>) -> Result<(), Fault> {
    let head = head(repository).await?;
    let mut dates = Vec::new();
    if let Some(fork) = fork_point(repository, notes).await {
        dates = author_dates(repository, &[&format!("{}..{}", fork.as_str(), head.as_str())]).await?;
    }
    if dates.is_empty() {
        dates = author_dates(repository, &["--max-count=1", head.as_str()]).await?;
    }
    match dates.into_iter().min() {
        Some(first) if run.date() < first.as_str() => {
            let sentence = format!("the run is from {}, before the first commit of this change ({first})", run.date());
            Err((
                "run_predates_change",
                format!("{sentence}; start a run for this change, or record its run-base in 00-goal.md"),
            ))
        }
        _ => Ok(()),
    }
}

async fn head(repository: &Repository) -> Result<CommitId, Fault> {
    let unresolved = |error: RepositoryError| {
        ("base_head_unresolved", format!("HEAD can't be resolved ({error}); commit the work, then evaluate again"))
    };
    repository.head().await.map_err(unresolved)
}

/// Returns whether the value can be the name of an object, before git sees it.
async fn is_object_name(repository: &Repository, value: &str) -> bool {
    if !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    match value.len() {
        7..=40 => true,
        41..=64 => {
            let format = repository.ask(&["rev-parse", "--show-object-format"]).await;
            format.is_ok_and(|format| format == "sha256")
        }
        _ => false,
    }
}

/// Returns the one commit whose id starts so. A branch of that name is not asked: it could shadow the commit.
async fn resolve(repository: &Repository, prefix: &str) -> Option<CommitId> {
    let listed = repository.ask(&["rev-parse", &format!("--disambiguate={prefix}")]).await.ok()?;
    let mut found = None;
    for object in listed.lines().take(CANDIDATES) {
        let commit = format!("{object}^{{commit}}");
        let Ok(id) = repository.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).await else {
            continue;
        };
        let id = CommitId::parse(&id)?;
        if found.as_ref().is_some_and(|found| *found != id) {
            return None;
        }
        found = Some(id);
    }
    found
}

async fn is_ancestor(repository: &Repository, ancestor: &str, descendant: &str) -> Result<bool, String> {
    let output = repository.git(&["merge-base", "--is-ancestor", ancestor, descendant]).await;
    let output = output.map_err(|error| error.to_string())?;
    match output.code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(excerpt(&String::from_utf8_lossy(&output.stderr), 200)),
    }
}

/// Returns where HEAD left the remote default branch; nothing without such a branch or without common history.
async fn fork_point(repository: &Repository, notes: &mut Vec<String>) -> Option<CommitId> {
    let unchecked = "the fork point from the remote default branch is unknown and was not checked";
    match repository.fork_point().await {
        Ok(Some(fork)) => return Some(fork),
        Ok(None) if repository.is_shallow().await => {
            notes.push(format!("this clone is shallow, so {unchecked}; git fetch --unshallow makes it known"));
        }
        Ok(None) => {}
        Err(error) => notes.push(format!("{unchecked}: {error}")),
    }
    None
}

/// Returns the days on which commits were authored, each in the commit's own time zone.
async fn author_dates(repository: &Repository, commits: &[&str]) -> Result<Vec<String>, Fault> {
    let mut arguments = vec!["log", "--no-show-signature", "--no-color", "--date=short", "--format=%ad"];
    arguments.extend(commits);
    arguments.push("--");
    match repository.ask(&arguments).await {
        Ok(dates) => Ok(dates.lines().map(str::to_owned).collect()),
        Err(error) => Err(("run_predates_change", format!("its date could not be checked ({error}); evaluate again"))),
    }
}
