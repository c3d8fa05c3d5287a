//! git-state: nothing uncommitted, and not on a branch that work is not done on.

use super::configuration::Configuration;
use super::files::Branch;
use super::report::{Kind, Outcome, Status};
use crate::solution::repository::{Repository, RepositoryError};

/// Most files that are listed.
const MAX_LISTED: usize = 20;

/// Checks that no tracked file is changed and no file is untracked.
///
/// # Errors
/// When git can't be run or fails.
pub async fn clean_worktree(repository: &Repository) -> Result<Outcome, RepositoryError> {
    let arguments =
        ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=none"];
    let listed = repository.ask(&arguments).await?;
    let entries: Vec<_> = listed.split('\0').filter(|entry| !entry.is_empty()).collect();
    if entries.is_empty() {
        return Ok(Outcome::pass("clean-worktree", Kind::GitState));
    }
    let mut details: Vec<_> = entries.iter().take(MAX_LISTED).map(|entry| (*entry).to_owned()).collect();
    if entries.len() > MAX_LISTED {
        details.push(format!("and {} more", entries.len() - MAX_LISTED));
    }
    let what = if entries.len() == 1 { "1 path is".to_owned() } else { format!("{} paths are", entries.len()) };
    let message = format!("the working tree is not clean: {what} changed or untracked; commit, ignore or remove");
    let outcome = Outcome::new("clean-worktree", Kind::GitState, Status::Fail, Some(message));
    Ok(outcome.with_details(details))
}

/// Checks that the branch is none of the protected ones.
#[must_use]
pub fn protected_branch(branch: &Branch, configuration: &Configuration) -> Outcome {
    const NAME: &str = "protected-branch";
    match &branch.name {
        None => Outcome::pass(NAME, Kind::GitState).with_details(vec!["HEAD is on no branch".to_owned()]),
        Some(name) if configuration.protected_branches.contains(name) => {
            let message = format!("HEAD is on the protected branch {name}; work on a branch of your own");
            Outcome::new(NAME, Kind::GitState, Status::Fail, Some(message))
        }
        Some(name) => Outcome::pass(NAME, Kind::GitState).with_details(vec![format!("on branch {name}")]),
    }
}
