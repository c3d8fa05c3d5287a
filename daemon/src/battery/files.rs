//! Which files and commits are the branch's own, as git tells it. Only reads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::solution::repository::{CommitId, Repository, RepositoryError};

/// The branch, and where it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its name; nothing when HEAD is detached.
    pub name: Option<String>,
    /// The commit it began at; nothing when git can't tell.
    pub base: Option<CommitId>,
}

/// The files of a working tree, relative to its root, as git would take them, whatever bytes their paths hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// All that git tracks.
    pub tracked: Vec<PathBuf>,
    /// All that git does not ignore.
    pub all: Vec<PathBuf>,
    /// Those that the branch or the working tree changed; nothing when git can't tell where the branch began.
    pub changed: Option<Vec<PathBuf>>,
    /// Those that the last commit or the working tree changed.
    pub recent: Vec<PathBuf>,
}

/// Returns the branch that is checked out.
///
/// # Errors
/// When git can't be run.
pub async fn branch(repository: &Repository, protected: &[String]) -> Result<Branch, RepositoryError> {
    // In full: git's short form of it is another one where a tag has the same name.
    let named = repository.git(&["symbolic-ref", "--quiet", "HEAD"]).await?;
    let full = String::from_utf8_lossy(&named.stdout);
    let short = full.trim_end_matches('\n');
    let name = (named.code == Some(0)).then(|| short.strip_prefix("refs/heads/").unwrap_or(short).to_owned());
    let mut base = repository.fork_point().await?;
    if base.is_none() {
        base = local_fork_point(repository, protected, name.as_deref()).await?;
    }
    Ok(Branch { name, base })
}

/// Without a remote default branch, a local protected one is what the branch began at.
async fn local_fork_point(
    repository: &Repository,
    protected: &[String],
    current: Option<&str>,
) -> Result<Option<CommitId>, RepositoryError> {
    for branch in protected.iter().filter(|branch| Some(branch.as_str()) != current) {
        let tip = format!("refs/heads/{branch}^{{commit}}");
        let found = repository.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &tip]).await?;
        if found.code == Some(0) {
            let tip = String::from_utf8_lossy(&found.stdout);
            let base = repository.git(&["merge-base", "HEAD", tip.trim()]).await?;
            if let Some(base) = CommitId::parse(String::from_utf8_lossy(&base.stdout).trim()) {
                return Ok(Some(base));
            }
        }
    }
    Ok(None)
}

/// Lists the files. `repository` must be at the root of the working tree.
///
/// # Errors
/// When git can't be run or fails.
pub async fn files(repository: &Repository, branch: &Branch) -> Result<Files, RepositoryError> {
    let tracked = list(repository, &["ls-files", "-z", "--cached"]).await?;
    let untracked = list(repository, &["ls-files", "-z", "--others", "--exclude-standard"]).await?;
    let with_untracked = |mut tracked: Vec<PathBuf>| {
        tracked.extend(untracked.iter().cloned());
        tracked.sort_unstable();
        tracked.dedup();
        tracked
    };
    let all = with_untracked(tracked.clone());
    let changed = match &branch.base {
        Some(base) => Some(with_untracked(since(repository, base.as_str()).await?)),
        None => None,
    };
    let recent = match since(repository, "HEAD^").await {
        Ok(recent) => with_untracked(recent),
        // The first commit brought all of it.
        Err(_) => all.clone(),
    };
    Ok(Files { tracked, all, changed, recent })
}

async fn since(repository: &Repository, commit: &str) -> Result<Vec<PathBuf>, RepositoryError> {
    let arguments = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--name-only",
        "--diff-filter=d",
        "-z",
        commit,
        "--",
    ];
    list(repository, &arguments).await
}

/// Runs git and returns the entries that it prints, each ended by a NUL byte.
///
/// # Errors
/// When git can't be run or fails, or prints more than is kept.
pub async fn list(repository: &Repository, arguments: &[&str]) -> Result<Vec<PathBuf>, RepositoryError> {
    let listed = repository.git(arguments).await?;
    let unreadable = |message: String| RepositoryError::Unreadable { path: repository.path().to_owned(), message };
    if listed.truncated {
        return Err(unreadable("it holds too many files to list".to_owned()));
    }
    if listed.code != Some(0) {
        return Err(unreadable(String::from_utf8_lossy(&listed.stderr).trim().replace('\n', " ")));
    }
    let entries = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(entries.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
}
