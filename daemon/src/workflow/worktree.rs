//! Where a worktree begins and what it may be called in a keyed marker (SPEC-workflow 2 and 19).
//!
//! Paths are taken as they are written: symlinks are not resolved, and git is not asked.

use std::path::{Component, Path, PathBuf};

use super::run_file::{RunFile, read};
use super::text::{lines, trim};

/// Returns the nearest ancestor of `repository`, itself included, that has a `.git` entry of any kind; else itself.
pub(super) fn worktree_root(repository: &Path) -> &Path {
    let holds_git = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    repository.ancestors().find(holds_git).unwrap_or(repository)
}

/// Returns the names that a keyed marker may give the worktree, in the order they are tried: its own, then the main
/// repository's.
pub(super) fn names(root: &Path) -> Vec<String> {
    let main = main_repository(root);
    let paths = [Some(root), main.as_deref()];
    let mut names: Vec<String> = paths
        .into_iter()
        .flatten()
        .filter_map(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.dedup();
    names
}

/// Returns the path without `.` and `..`, by its words alone.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

fn main_repository(root: &Path) -> Option<PathBuf> {
    let RunFile::Text(link) = read(&root.join(".git")) else { return None };
    let target = trim(lines(&link).next()?.text.strip_prefix("gitdir:")?);
    let git = plain(&root.join(target));
    if let RunFile::Text(common) = read(&git.join("commondir")) {
        let common = plain(&git.join(trim(&common)));
        if common.file_name().is_some_and(|name| name == ".git") {
            return common.parent().map(Path::to_owned);
        }
    }
    let is_git_of_worktrees = |folder: &&Path| folder.ends_with(".git/worktrees");
    git.ancestors().skip(1).find(is_git_of_worktrees)?.ancestors().nth(2).map(Path::to_owned)
}
