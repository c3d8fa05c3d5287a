//! `solution_gate` (SPEC 6): allow only a ready verdict, correctly signed for the id, at the current HEAD.
//!
//! Fails closed: whatever is uncertain denies, and the reason says what to do. Never writes.

use std::path::Path;

use grounding_proto::solution::{GateCode, SolutionGateAnswer, Verdict, Worktree};

use super::bounds::{MAX_ANSWER_BYTES, shorten};
use super::repository::{Repository, RepositoryError, short};
use super::verdict::{self, MarkerError};
use crate::error::describe;
use crate::json;
use crate::process::ClientEnvironment;
use crate::store::FileKey;

const MAX_CHANGED_FILES: usize = 20;
const MAX_BLOCKERS: usize = 5;
const MAX_BLOCKER_CHARACTERS: usize = 200;

/// What the gate looks at.
#[derive(Debug, Clone, Copy)]
pub struct GateRequest<'a> {
    /// The id that was evaluated.
    pub id: &'a str,
    /// The repository whose HEAD counts.
    pub repo_path: &'a Path,
    /// Where verdicts are.
    pub verdict_dir: &'a Path,
    /// Where the signing key is.
    pub signing_key: &'a Path,
    /// The environment git is run with.
    pub environment: &'a ClientEnvironment,
}

/// Answers whether the solution may be called done.
pub async fn gate(request: GateRequest<'_>) -> SolutionGateAnswer {
    let tree = look_at_tree(request).await;
    let current_head = tree.head.as_ref().ok().cloned();
    let (code, reason, verdict) = decide(request, &tree);
    let reason = match (tree.worktree, code) {
        (Worktree::Dirty, GateCode::Ready) => {
            format!("{reason} Tracked files differ from HEAD now: the verdict does not speak of those changes.")
        }
        (Worktree::Dirty, _) => format!("{reason} Tracked files differ from HEAD now."),
        (Worktree::Clean | Worktree::Unknown, _) => reason,
    };
    let mut answer = SolutionGateAnswer {
        allowed: code == GateCode::Ready,
        reason,
        verdict,
        current_head,
        code,
        worktree: tree.worktree,
        changed_files: (!tree.changed_files.is_empty()).then_some(tree.changed_files),
        blockers_omitted: None,
    };
    if json::length(&answer) > MAX_ANSWER_BYTES
        && let Some(verdict) = &mut answer.verdict
    {
        answer.blockers_omitted = shorten(&mut verdict.blockers);
    }
    answer
}

/// The repository as it is now.
pub(super) struct Tree {
    pub(super) head: Result<String, RepositoryError>,
    pub(super) worktree: Worktree,
    changed_files: Vec<String>,
}

/// Looks at the repository.
pub(super) async fn look_at_tree(request: GateRequest<'_>) -> Tree {
    let unknown = |error| Tree { head: Err(error), worktree: Worktree::Unknown, changed_files: Vec::new() };
    let repository = match Repository::at(request.repo_path, request.environment) {
        Ok(repository) => repository,
        Err(error) => return unknown(error),
    };
    let (head, changed) = tokio::join!(repository.head(), repository.changed_tracked_files(MAX_CHANGED_FILES));
    let head = match head {
        Ok(head) => head,
        Err(error) => return unknown(error),
    };
    let (worktree, changed_files) = match changed {
        Ok(files) if files.is_empty() => (Worktree::Clean, files),
        Ok(files) => (Worktree::Dirty, files),
        Err(_) => (Worktree::Unknown, Vec::new()),
    };
    Tree { head: Ok(head.as_str().to_owned()), worktree, changed_files }
}

fn decide(request: GateRequest<'_>, tree: &Tree) -> (GateCode, String, Option<Verdict>) {
    let Some(key) = FileKey::of(request.id) else {
        return (GateCode::InvalidId, format!("\"{}\" can't name a verdict.", request.id), None);
    };
    let marker = verdict::marker_path(request.verdict_dir, &key);
    let verdict = match verdict::read_marker(&marker, request.id, request.signing_key) {
        Ok(verdict) => verdict,
        Err(error) => return (deny_code(&error), format!("{}.", sentence(&error)), None),
    };
    let (code, reason) = judge(&verdict, &tree.head);
    (code, reason, Some(verdict))
}

/// Judges a verdict whose signature was verified against HEAD as it is now.
#[must_use]
pub fn judge(verdict: &Verdict, head: &Result<String, RepositoryError>) -> (GateCode, String) {
    if !verdict.ready || !verdict.blockers.is_empty() {
        return (
            GateCode::NotReady,
            format!("The verdict at {} is not ready: {}.", short(&verdict.head), listed(verdict)),
        );
    }
    match head {
        Err(error) => (GateCode::HeadUnresolved, format!("HEAD can't be resolved: {}.", describe(error))),
        Ok(head) if *head != verdict.head => (
            GateCode::StaleHead,
            format!(
                "The verdict is for {} and HEAD is {}: run solution_evaluate again.",
                short(&verdict.head),
                short(head)
            ),
        ),
        Ok(head) => (GateCode::Ready, format!("A ready verdict stands at HEAD {}.", short(head))),
    }
}

/// Returns the code of a marker that is no verdict.
pub(super) fn deny_code(error: &MarkerError) -> GateCode {
    match error {
        MarkerError::Absent => GateCode::NoVerdict,
        MarkerError::Invalid(_) => GateCode::InvalidMarker,
        MarkerError::Forged(_) => GateCode::Forged,
        MarkerError::Key(_) => GateCode::KeyUnavailable,
    }
}

fn listed(verdict: &Verdict) -> String {
    let cut = |blocker: &String| match blocker.char_indices().nth(MAX_BLOCKER_CHARACTERS) {
        Some((end, _)) => format!("{}...", &blocker[..end]),
        None => blocker.clone(),
    };
    let shown: Vec<_> = verdict.blockers.iter().take(MAX_BLOCKERS).map(cut).collect();
    match verdict.blockers.len().saturating_sub(MAX_BLOCKERS) {
        _ if shown.is_empty() => "it names no blocker".to_owned(),
        0 => shown.join("; "),
        more => format!("{} (+{more} more)", shown.join("; ")),
    }
}

/// Makes a sentence of an error and its causes, first letter raised.
fn sentence(error: &dyn std::error::Error) -> String {
    let text = describe(error);
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
