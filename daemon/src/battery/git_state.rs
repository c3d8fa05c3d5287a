//! git-state: nothing uncommitted, hidden or half-done, and not on a branch that work is not done on. Only reads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::configuration::Configuration;
use super::files::{self, Branch};
use super::report::{Kind, Outcome, Status};
use crate::solution::repository::{Repository, RepositoryError};

/// Most files that are listed.
const MAX_LISTED: usize = 20;

/// What git keeps in its directory while it is in the middle of something, and the word for that.
const UNFINISHED: [(&str, &str); 6] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick or revert"),
];

/// Checks that no tracked file is changed or hidden from git, no file is untracked, and nothing is half-done.
///
/// # Errors
/// When git can't be run or fails.
pub async fn clean_worktree(repository: &Repository) -> Result<Outcome, RepositoryError> {
    let (changed, hidden) = (changed(repository).await?, hidden(repository).await?);
    let (mut messages, mut details) = (Vec::new(), Vec::new());
    if let Some(what) = unfinished(repository).await? {
        messages.push(format!("a {what} is in progress; finish or abort it"));
    }
    let paths = |count: usize| if count == 1 { "1 path is".to_owned() } else { format!("{count} paths are") };
    if !changed.is_empty() {
        let what = paths(changed.len());
        messages.push(format!("the working tree is not clean: {what} changed or untracked; commit, ignore or remove"));
        details.extend(listed(&changed));
    }
    if !hidden.is_empty() {
        messages.push(format!(
            "{} marked assume-unchanged or skip-worktree, as a sparse checkout does: git hides whether the files are \
             those of the commit; take the marks away (git update-index --no-assume-unchanged --no-skip-worktree, or \
             git sparse-checkout disable)",
            paths(hidden.len())
        ));
        details.extend(listed(&hidden));
    }
    if messages.is_empty() {
        return Ok(Outcome::pass("clean-worktree", Kind::GitState));
    }
    let outcome = Outcome::new("clean-worktree", Kind::GitState, Status::Fail, Some(messages.join("; ")));
    Ok(outcome.with_details(details))
}

/// Returns what `status` names.
async fn changed(repository: &Repository) -> Result<Vec<String>, RepositoryError> {
    let arguments =
        ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=none"];
    entries(repository, &arguments).await
}

/// Returns the paths that `status` does not look at, with git's letter: small for assume-unchanged, S for skip-worktree.
async fn hidden(repository: &Repository) -> Result<Vec<String>, RepositoryError> {
    let mut entries = entries(repository, &["ls-files", "-v", "-z"]).await?;
    entries.retain(|entry| entry.starts_with(|tag: char| tag == 'S' || tag.is_ascii_lowercase()));
    Ok(entries)
}

async fn unfinished(repository: &Repository) -> Result<Option<&'static str>, RepositoryError> {
    for (file, what) in UNFINISHED {
        let shown = repository.git(&["rev-parse", "--git-path", file]).await?;
        let place = shown.stdout.strip_suffix(b"\n").unwrap_or(&shown.stdout);
        if shown.code == Some(0) && repository.path().join(OsStr::from_bytes(place)).symlink_metadata().is_ok() {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// Runs git and returns what it lists, which must be all of it.
async fn entries(repository: &Repository, arguments: &[&str]) -> Result<Vec<String>, RepositoryError> {
    let listed = files::list(repository, arguments).await?;
    Ok(listed.iter().map(|entry| entry.to_string_lossy().into_owned()).collect())
}

fn listed(entries: &[String]) -> Vec<String> {
    let mut lines: Vec<_> = entries.iter().take(MAX_LISTED).cloned().collect();
    if entries.len() > MAX_LISTED {
        lines.push(format!("and {} more", entries.len() - MAX_LISTED));
    }
    lines
}

/// Checks that the branch is none of the protected ones.
#[must_use]
pub fn protected_branch(branch: &Branch, configuration: &Configuration) -> Outcome {
    const NAME: &str = "protected-branch";
    match &branch.name {
        None => Outcome::pass(NAME, Kind::GitState).with_details(vec!["HEAD is on no branch".to_owned()]),
        Some(name) if configuration.protects(name) => {
            let message = format!("HEAD is on the protected branch {name}; work on a branch of your own");
            Outcome::new(NAME, Kind::GitState, Status::Fail, Some(message))
        }
        Some(name) => Outcome::pass(NAME, Kind::GitState).with_details(vec![format!("on branch {name}")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ClientEnvironment;

    struct World {
        dir: tempfile::TempDir,
        repository: Repository,
    }

    impl World {
        /// A repository on the branch `topic` whose commit holds the files `a`, `d/b` and one whose name is no UTF-8.
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().canonicalize().unwrap();
            let environment = ClientEnvironment::new([
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), home.into()),
                ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ]);
            let root = dir.path().join("repo");
            std::fs::create_dir_all(root.join("d")).unwrap();
            let world = Self { repository: Repository::at(&root, &environment).unwrap(), dir };
            world.git(&["init", "-q", "-b", "topic"]).await;
            world.git(&["config", "user.name", "n"]).await;
            world.git(&["config", "user.email", "n@localhost"]).await;
            world.write("a", "1\n");
            world.write("d/b", "1\n");
            std::fs::write(root.join(OsStr::from_bytes(b"caf\xe9")), "1\n").unwrap();
            world.git(&["add", "."]).await;
            world.git(&["commit", "-q", "-m", "feat: a"]).await;
            world
        }

        async fn git(&self, arguments: &[&str]) {
            self.repository.ask(arguments).await.unwrap();
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.dir.path().join("repo").join(name), text).unwrap();
        }

        async fn failure(&self) -> Option<(String, Vec<String>)> {
            let outcome = clean_worktree(&self.repository).await.unwrap();
            (outcome.check.status == Status::Fail).then(|| (outcome.check.message.unwrap(), outcome.check.details))
        }
    }

    #[tokio::test]
    async fn what_is_committed_is_clean_and_a_path_is_listed_as_it_is() {
        let world = World::new().await;
        assert_eq!(world.failure().await, None);
        let branch = files::branch(&world.repository, &[]).await.unwrap();
        let listed = files::files(&world.repository, &branch).await.unwrap();
        assert_eq!(listed.tracked.len(), 3);
        assert!(listed.all.iter().any(|path| path.as_os_str().as_bytes() == b"caf\xe9"), "{listed:?}");
        world.write("new", "");
        assert_eq!(world.failure().await.unwrap().1, ["?? new"]);
    }

    #[tokio::test]
    async fn a_branch_is_protected_whatever_else_bears_its_name() {
        let world = World::new().await;
        world.git(&["tag", "topic"]).await;
        let branch = files::branch(&world.repository, &[]).await.unwrap();
        let configuration = Configuration { protected_branches: vec!["top*".to_owned()], ..Configuration::default() };
        assert_eq!(protected_branch(&branch, &configuration).check.status, Status::Fail);
        assert_eq!(protected_branch(&branch, &Configuration::default()).check.status, Status::Pass);
    }

    #[tokio::test]
    async fn what_the_index_hides_is_not_clean() {
        for (mark, expected) in [("--assume-unchanged", "h a"), ("--skip-worktree", "S a")] {
            let world = World::new().await;
            world.git(&["update-index", mark, "a"]).await;
            world.write("a", "2\n");
            let (message, details) = world.failure().await.unwrap();
            assert!(message.starts_with("1 path is marked"), "{message}");
            assert_eq!(details, [expected]);
        }
        let world = World::new().await;
        world.git(&["sparse-checkout", "set", "--no-cone", "/a"]).await;
        assert_eq!(world.failure().await.unwrap().1, ["S caf\u{fffd}", "S d/b"]);
    }

    #[tokio::test]
    async fn what_is_half_done_is_not_clean() {
        let world = World::new().await;
        world.git(&["switch", "-q", "-c", "other"]).await;
        world.git(&["commit", "-q", "--allow-empty", "-m", "feat: b"]).await;
        world.git(&["switch", "-q", "topic"]).await;
        world.git(&["merge", "-q", "--no-ff", "--no-commit", "other"]).await;
        let (message, details) = world.failure().await.unwrap();
        assert!(message.starts_with("a merge is in progress"), "{message}");
        assert!(details.is_empty(), "{details:?}");
        world.git(&["merge", "--abort"]).await;
        assert_eq!(world.failure().await, None);
    }
}
