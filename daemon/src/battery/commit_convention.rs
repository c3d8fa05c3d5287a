//! commit-convention: the branch's commits say what they are, as Conventional Commits do.

use super::files::Branch;
use super::report::{Kind, Outcome, Status};
use crate::solution::repository::{Repository, RepositoryError};

/// Most commits that are looked at, and how many when git can't tell which are the branch's own.
const MAX_COMMITS: usize = 50;
const RECENT_COMMITS: usize = 10;
/// Most commits that are listed.
const MAX_LISTED: usize = 10;

/// Checks the subjects of the branch's commits; merges are passed over.
///
/// # Errors
/// When git can't be run or fails.
pub async fn check(repository: &Repository, branch: &Branch) -> Result<Outcome, RepositoryError> {
    let (range, most) = match &branch.base {
        Some(base) => (format!("{}..HEAD", base.as_str()), MAX_COMMITS),
        None => ("HEAD".to_owned(), RECENT_COMMITS),
    };
    let count = format!("--max-count={most}");
    let listed = repository
        .ask(&["log", "--no-merges", "--no-color", "--no-show-signature", &count, "--format=%h %s", &range, "--"])
        .await?;
    let odd: Vec<_> = listed.lines().filter(|line| !is_conventional(subject(line))).collect();
    if odd.is_empty() {
        return Ok(Outcome::pass("commit-convention", Kind::CommitConvention));
    }
    let message = match odd.len() {
        1 => "1 commit of the branch is not named as Conventional Commits ask".to_owned(),
        count => format!("{count} commits of the branch are not named as Conventional Commits ask"),
    };
    let details = odd.iter().take(MAX_LISTED).map(|line| line.chars().take(200).collect()).collect();
    let outcome = Outcome::new("commit-convention", Kind::CommitConvention, Status::Warn, Some(message));
    Ok(outcome.with_details(details))
}

fn subject(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, subject)| subject)
}

/// A type, a scope in parentheses or none, `!` or none, a colon, a space and a description.
fn is_conventional(subject: &str) -> bool {
    const TYPES: [&str; 12] =
        ["feat", "fix", "docs", "style", "refactor", "perf", "test", "tests", "build", "ci", "chore", "revert"];
    let Some((head, description)) = subject.split_once(": ") else { return false };
    let head = head.strip_suffix('!').unwrap_or(head);
    let kind = match head.split_once('(') {
        Some((kind, scope)) => match scope.strip_suffix(')') {
            Some(scope) if !scope.trim().is_empty() && !scope.contains(['(', ')']) => kind,
            _ => return false,
        },
        None => head,
    };
    TYPES.iter().any(|it| it.eq_ignore_ascii_case(kind)) && !description.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_told_apart() {
        for subject in ["feat: a", "fix(core): b", "feat!: c", "refactor(a-b)!: d", "Docs: e", "revert: f: g"] {
            assert!(is_conventional(subject), "{subject}");
        }
        for subject in
            ["", "add a thing", "feat:a", "feat : a", "feat(): a", "feat(a: b", "foo: bar", "feat: ", "wip", "(a): b"]
        {
            assert!(!is_conventional(subject), "{subject}");
        }
    }
}
