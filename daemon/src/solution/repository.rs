//! What git says of a repository: HEAD, tracked changes, and whether either moved while checks ran (DESIGN 7).
//!
//! Everything is asked of the `git` executable, so that every format, worktree layout and ownership rule is git's own.
//! Nothing here writes to a repository or takes its index lock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use crate::process::{self, ClientEnvironment, Output, RunError};

const LIMIT: Duration = Duration::from_secs(60);
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Submodules are part of the tree, whatever configuration or `.gitmodules` hides; what is untracked there is not.
const SUBMODULES: &str = "--ignore-submodules=untracked";

/// A commit's full name: 40 hex digits, or 64 in a SHA-256 repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitId(String);

impl CommitId {
    /// Returns the commit id, or nothing when the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (hex && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    /// Returns the whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns as much of the id as people are shown.
    #[must_use]
    pub fn short(&self) -> &str {
        short(&self.0)
    }
}

/// Returns as much of a commit's name as people are shown, 12 digits, whatever the text is.
#[must_use]
pub fn short(head: &str) -> &str {
    head.get(..12).unwrap_or(head)
}

/// Why a repository's HEAD is not known; the reasons stay apart.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The path is no directory.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// The path is in no repository.
    #[error("{} is not inside a git repository", .0.display())]
    NotARepository(PathBuf),
    /// There is no commit yet.
    #[error("the repository at {} has no commit yet; commit the work first", .0.display())]
    NoCommit(PathBuf),
    /// git refuses because of who owns it.
    #[error("git refuses the repository at {}: dubious ownership; if you trust it: {remedy}", path.display())]
    DubiousOwnership {
        /// The repository.
        path: PathBuf,
        /// git's own remedy.
        remedy: String,
    },
    /// There is no git.
    #[error("git was not found on PATH ({0}); install git")]
    NoGit(String),
    /// git could not be run.
    #[error("git could not be run in {}", path.display())]
    Run {
        /// The repository.
        path: PathBuf,
        /// Why.
        source: RunError,
    },
    /// git said something else.
    #[error("git can't read the repository at {}: {message}", path.display())]
    Unreadable {
        /// The repository.
        path: PathBuf,
        /// What git said, in one line.
        message: String,
    },
}

/// What a verdict describes: it must be the same before and after the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeState {
    /// The commit.
    pub head: CommitId,
    /// Length of HEAD's reflog, so that a move there and back shows.
    pub reflog_length: u64,
    /// Digest of the difference between the tracked files and HEAD.
    pub tracked_digest: [u8; 32],
}

impl TreeState {
    /// Returns what moved between two states, in words, or nothing.
    #[must_use]
    pub fn moved(&self, later: &Self) -> Option<String> {
        if self.head != later.head {
            Some(format!("HEAD moved from {} to {}", self.head.short(), later.head.short()))
        } else if self.reflog_length != later.reflog_length {
            Some(format!("HEAD moved and came back to {}", self.head.short()))
        } else if self.tracked_digest != later.tracked_digest {
            Some("tracked files changed".to_owned())
        } else {
            None
        }
    }
}

/// A repository as a client's git sees it.
#[derive(Debug, Clone)]
pub struct Repository {
    path: PathBuf,
    git: PathBuf,
    environment: ClientEnvironment,
}

impl Repository {
    /// Returns the repository that holds `path`; nothing is asked of git yet.
    ///
    /// # Errors
    /// When the path is no directory or there is no git.
    pub fn at(path: &Path, environment: &ClientEnvironment) -> Result<Self, RepositoryError> {
        if !path.is_dir() {
            return Err(RepositoryError::NoDirectory(path.to_owned()));
        }
        let searched = || environment.get("PATH").map_or_else(|| "unset".to_owned(), |path| path.display().to_string());
        let git = environment.find_program("git").ok_or_else(|| RepositoryError::NoGit(searched()))?;
        let variables = environment.variables().iter().cloned();
        let plain = [("LC_ALL", "C"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_PAGER", "cat")];
        let kept = variables.filter(|(name, _)| !plain.iter().any(|(fixed, _)| name == *fixed));
        let fixed = plain.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Ok(Self { path: path.to_owned(), git, environment: ClientEnvironment::new(kept.chain(fixed)) })
    }

    /// Returns the path asked about.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git with these arguments in the repository.
    ///
    /// # Errors
    /// When git can't be run; an exit code other than 0 is the caller's to judge.
    pub async fn git(&self, arguments: &[&str]) -> Result<Output, RepositoryError> {
        let run = process::run(self.command(arguments), LIMIT, MAX_BYTES).await;
        run.map_err(|source| RepositoryError::Run { path: self.path.clone(), source })
    }

    /// Runs git and returns what it printed, less the newline at the end.
    ///
    /// # Errors
    /// When git can't be run or fails; the reason is told apart by what git said.
    pub async fn ask(&self, arguments: &[&str]) -> Result<String, RepositoryError> {
        let output = self.git(arguments).await?;
        if output.code != Some(0) {
            return Err(self.explain(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// Returns the commit that HEAD names.
    ///
    /// # Errors
    /// Each reason why there is none is a variant of its own.
    pub async fn head(&self) -> Result<CommitId, RepositoryError> {
        let output = self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"]).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        match (output.code, CommitId::parse(text.trim())) {
            (Some(0), Some(head)) => Ok(head),
            (Some(1), _) if output.stderr.is_empty() => Err(self.explain_no_commit().await),
            _ => Err(self.explain(&output.stderr)),
        }
    }

    /// Tells a branch without a commit from a HEAD that names one which is not there.
    async fn explain_no_commit(&self) -> RepositoryError {
        let path = self.path.clone();
        match self.git(&["rev-parse", "--verify", "--quiet", "HEAD"]).await {
            Ok(named) if named.code == Some(0) => {
                let name = String::from_utf8_lossy(&named.stdout).trim().to_owned();
                let message =
                    format!("HEAD names {name}, which is not a commit here; `git fsck` tells what is missing");
                RepositoryError::Unreadable { path, message }
            }
            Ok(_) => RepositoryError::NoCommit(path),
            Err(error) => error,
        }
    }

    /// Returns what a verdict would describe now.
    ///
    /// # Errors
    /// As `head`.
    pub async fn tree_state(&self) -> Result<TreeState, RepositoryError> {
        let head = self.head().await?;
        let count = self.git(&["rev-list", "--walk-reflogs", "--count", "HEAD"]).await?;
        // Without a reflog (core.logAllRefUpdates off) git fails or counts nothing: there is no length to compare.
        let reflog_length = String::from_utf8_lossy(&count.stdout).trim().parse().unwrap_or(0);
        Ok(TreeState { head, reflog_length, tracked_digest: self.tracked_digest().await? })
    }

    /// Returns the tracked files that differ from HEAD, at most `most`, as git names them.
    ///
    /// # Errors
    /// When git can't be run or fails.
    pub async fn changed_tracked_files(&self, most: usize) -> Result<Vec<String>, RepositoryError> {
        let arguments = ["diff", "--no-ext-diff", "--no-textconv", SUBMODULES, "--name-only", "-z", "HEAD", "--"];
        let listed = self.git(&arguments).await?;
        if listed.code != Some(0) {
            return Err(self.explain(&listed.stderr));
        }
        let names = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.take(most).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Returns which files that steer the checks the current change touches, committed or not: the change since the
    /// fork point from the remote default branch, else since HEAD. Nothing when git can't tell, as in a shallow clone that
    /// lacks the fork point: what was committed would be passed over.
    pub async fn policy_files_changed(&self) -> Option<Vec<String>> {
        const STEERING: [&str; 2] = [".preflight.json", ".ai/solution-acceptance.json"];
        let base = self.fork_point().await.ok()?;
        if base.is_none() && self.is_shallow().await {
            return None;
        }
        let base = base.as_ref().map_or("HEAD", CommitId::as_str);
        let mut arguments = vec!["diff", "--no-ext-diff", "--name-only", "-z", base, "--"];
        arguments.extend(STEERING);
        let changed = self.ask(&arguments).await.ok()?;
        // The checks read the working tree, so that a file that git does not know steers them as well.
        let untracked = ["ls-files", "--others", "--full-name", "-z", "--"].iter().chain(&STEERING).copied();
        let untracked = self.ask(&untracked.collect::<Vec<_>>()).await.ok()?;
        let names = changed.split('\0').chain(untracked.split('\0')).filter(|name| !name.is_empty());
        Some(names.map(str::to_owned).collect())
    }

    /// Returns the fork point of the current change: the merge base of HEAD with `refs/remotes/origin/HEAD`, when absent
    /// or dangling with origin/master, else with origin/main. Nothing when there is no remote default branch or no
    /// common commit.
    ///
    /// # Errors
    /// When git can't be run or can't tell.
    pub async fn fork_point(&self) -> Result<Option<CommitId>, RepositoryError> {
        for branch in ["origin/HEAD", "origin/master", "origin/main"] {
            let branch = format!("refs/remotes/{branch}^{{commit}}");
            let found = self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &branch]).await?;
            if found.code == Some(0) {
                let tip = String::from_utf8_lossy(&found.stdout);
                let base = self.git(&["merge-base", "HEAD", tip.trim()]).await?;
                return match base.code {
                    Some(0 | 1) => Ok(CommitId::parse(String::from_utf8_lossy(&base.stdout).trim())),
                    _ => Err(self.explain(&base.stderr)),
                };
            }
        }
        Ok(None)
    }

    /// Returns whether older commits were left out when the repository was cloned.
    pub async fn is_shallow(&self) -> bool {
        self.ask(&["rev-parse", "--is-shallow-repository"]).await.is_ok_and(|answer| answer == "true")
    }

    /// Digests the whole difference between tracked files and HEAD, however large, without keeping it.
    async fn tracked_digest(&self) -> Result<[u8; 32], RepositoryError> {
        let mut command = self.command(&[
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            SUBMODULES,
            "--submodule=diff",
            "--binary",
            "--full-index",
            "HEAD",
            "--",
        ]);
        let run_error = |source| RepositoryError::Run { path: self.path.clone(), source };
        let read_error = |source| run_error(RunError::Read { program: self.git.clone(), source });
        let spawned = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
        let mut child = spawned.map_err(|source| run_error(RunError::Start { program: self.git.clone(), source }))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let digest = async {
            let (mut hasher, mut chunk) = (Sha256::new(), vec![0; 64 * 1024]);
            if let Some(mut stdout) = stdout {
                loop {
                    let count = stdout.read(&mut chunk).await?;
                    if count == 0 {
                        break;
                    }
                    hasher.update(&chunk[..count]);
                }
            }
            Ok::<[u8; 32], std::io::Error>(hasher.finalize().into())
        };
        let complaint = async {
            let mut text = Vec::new();
            if let Some(stderr) = stderr {
                stderr.take(64 * 1024).read_to_end(&mut text).await?;
            }
            Ok(text)
        };
        let finish = async { tokio::try_join!(digest, complaint, child.wait()) };
        match tokio::time::timeout(LIMIT, finish).await {
            Err(_) => Err(run_error(RunError::TimedOut { program: self.git.clone(), limit: LIMIT })),
            Ok(Err(source)) => Err(read_error(source)),
            Ok(Ok((digest, complaint, status))) => {
                if status.success() {
                    Ok(digest)
                } else {
                    Err(self.explain(&complaint))
                }
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = process::command(&self.git, &self.environment, &self.path);
        // A file whose time alone changed is no difference, whatever the user's configuration says.
        // A monitor of the repository is a program of its own; a look starts none.
        command.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "diff.autoRefreshIndex=true"]);
        // Asked below the top, git still speaks of the whole work tree, and of each file whose times or size changed.
        command.args(["-c", "diff.relative=false", "-c", "core.ignoreStat=false"]);
        command.args(["-c", "core.checkStat=default", "-c", "core.trustctime=true"]);
        command.args(arguments);
        command
    }

    fn explain(&self, stderr: &[u8]) -> RepositoryError {
        let text = String::from_utf8_lossy(stderr);
        let path = self.path.clone();
        if text.contains("dubious ownership") {
            let remedy = text.lines().map(str::trim).find(|line| line.starts_with("git config"));
            let remedy = remedy.unwrap_or("git config --global --add safe.directory <path>").to_owned();
            return RepositoryError::DubiousOwnership { path, remedy };
        }
        // Without the parenthesis git speaks of a `.git` file that leads nowhere.
        if text.contains("not a git repository (or any") {
            return RepositoryError::NotARepository(path);
        }
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
        let message = if lines.is_empty() { "it ended without saying why".to_owned() } else { lines.join(" ") };
        RepositoryError::Unreadable { path, message }
    }
}
