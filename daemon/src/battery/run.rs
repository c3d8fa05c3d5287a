//! One evaluation of a repository, from its configuration to the report (SPEC-battery).
//!
//! git is asked first, before any command of the repository runs. Commands that do not test run side by side; tests
//! run alone after them. Nothing is written inside the repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use grounding_proto::environment::Environment;
use tokio::sync::Semaphore;

use super::configuration::{self, Configuration, FILE, SecretScope, Toggle};
use super::files::{self, Branch, Files};
use super::glob::PathList;
use super::logs::{LogError, LogPlaces, Logs};
use super::project::{Ecosystem, Project};
use super::read::{self, Content};
use super::report::{self, Check, Kind, Notes, Outcome, Report, Status};
use super::step::{Planned, Step};
use super::{audit, commit_convention, custom, git_state, lint, secret_detection, tdd, test, typecheck};
use crate::clock::{Clock, iso};
use crate::process::ClientEnvironment;
use crate::solution::repository::{Repository, RepositoryError};

/// The kinds whose commands follow from what the repository holds.
const COMMAND_KINDS: [Kind; 4] = [Kind::Lint, Kind::Typecheck, Kind::Test, Kind::Audit];

/// Largest configuration that is read, and largest source that is asked whether it holds tests, in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1024 * 1024;
const MAX_SOURCE_BYTES: u64 = 4 * 1024 * 1024;

/// An evaluation that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// git can't tell what the repository is.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The configuration can't be read.
    #[error("can't read {}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no place for logs.
    #[error(transparent)]
    Logs(#[from] LogError),
}

/// What is heard of a run while it goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A check of this name begins.
    Began(&'a str),
    /// A check ended.
    Ended(&'a Check),
}

/// Checks the repository at `path`.
///
/// # Errors
/// When it is no repository with a commit, or the configuration can't be read, or logs can't be written.
pub async fn run(
    path: &Path,
    environment: &Environment,
    clock: &dyn Clock,
    heard: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Report, RunError> {
    let (started, timestamp) = (Instant::now(), iso(clock.now()));
    let client = ClientEnvironment::new(environment.variables().iter().cloned());
    let here = Repository::at(path, &client)?;
    here.head().await?;
    let root = root(&here).await?;
    let (configuration, mut notes) = configure(&here, path).await?;

    let repository = Repository::at(&root, &client)?;
    let branch = files::branch(&repository, &configuration.protected_branches).await?;
    if branch.base.is_none() {
        notes.limitations.push(
            "git can't tell where the branch began (no remote default branch and no other local one, or a shallow \
             clone): all files and the last commits were looked at"
                .to_owned(),
        );
    }
    let listed = files::files(&repository, &branch).await?;
    let state_dir = environment.state_dir().ok();
    let real_root = root.canonicalize().unwrap_or_else(|_| root.clone());
    let places = LogPlaces {
        configured: configuration.log_dir.as_deref(),
        home: environment.home().ok(),
        state_dir: state_dir.as_deref(),
        repository: &real_root,
    };
    let (logs, limitation) = Logs::create(places)?;
    notes.limitations.extend(limitation);

    let evaluation =
        Evaluation { configuration, repository, branch, listed, root: real_root, environment: client, logs, heard };
    let outcomes = evaluation.checks(path, &mut notes).await?;
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report::conclude(outcomes, notes, duration_ms, timestamp))
}

/// Returns the root of the working tree, whatever bytes its path holds.
async fn root(here: &Repository) -> Result<PathBuf, RepositoryError> {
    let shown = here.git(&["rev-parse", "--show-toplevel"]).await?;
    let path = shown.stdout.strip_suffix(b"\n").unwrap_or(&shown.stdout);
    if shown.code != Some(0) || path.is_empty() {
        let message = "it has no working tree".to_owned();
        return Err(RepositoryError::Unreadable { path: here.path().to_owned(), message });
    }
    Ok(PathBuf::from(OsStr::from_bytes(path)))
}

/// Reads the configuration, and blocks on one that HEAD does not have: it would steer what it is judged by.
async fn configure(here: &Repository, path: &Path) -> Result<(Configuration, Notes), RunError> {
    let file = path.join(FILE);
    let committed = format!("HEAD:./{FILE}");
    let committed = here.git(&["rev-parse", "--verify", "--quiet", &committed]).await?;
    let committed = (committed.code == Some(0)).then(|| String::from_utf8_lossy(&committed.stdout).trim().to_owned());
    let mut bytes = Vec::new();
    let read = match read::read(&file, MAX_CONFIGURATION_BYTES, &mut bytes) {
        Ok(read) => Some(read),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(RunError::Configuration { path: file, source }),
    };
    let blocked = |why: &str| {
        let notes = Notes { blockers: vec![format!("{FILE} {why}")], ..Notes::default() };
        Ok((Configuration::default(), notes))
    };
    match read {
        None if committed.is_some() => return blocked("is in HEAD and was removed from the working tree"),
        None => return Ok((Configuration::default(), Notes::default())),
        Some(Content::NoFile) => return blocked("is no regular file"),
        Some(Content::TooLarge) => return blocked("is over 1 MiB"),
        Some(Content::Whole) => {}
    }
    let (configuration, mut notes) = configuration::parse(&bytes);
    // Asked by content: flags in the index can hide a change from `status`.
    let present = here.ask(&["hash-object", "--", FILE]).await?;
    match committed {
        None => {
            notes.blockers.push(format!("{FILE} is not in HEAD: commit it, so that what steers the checks is reviewed"))
        }
        Some(committed) if committed != present => {
            notes
                .blockers
                .push(format!("{FILE} differs from HEAD's: commit it, so that what steers the checks is reviewed"));
        }
        Some(_) => {}
    }
    Ok((configuration, notes))
}

/// The repository's own commands, else those of what it holds, else a Make target.
fn plan_kind(
    configuration: &Configuration,
    project: &Project<'_>,
    ecosystems: &[Ecosystem],
    kind: Kind,
) -> Vec<Planned> {
    match custom::configured(configuration, kind) {
        None => detect(project, ecosystems, kind),
        Some(configured) if configured.is_empty() && kind != Kind::Audit => {
            let detected = detect(project, ecosystems, kind);
            detected.first().map(|_| Planned::Skip(custom::replaced_by_nothing(kind))).into_iter().collect()
        }
        Some(configured) => configured,
    }
}

fn detect(project: &Project<'_>, ecosystems: &[Ecosystem], kind: Kind) -> Vec<Planned> {
    let plan = |ecosystem: &Ecosystem| match kind {
        Kind::Lint => lint::plan(project, ecosystem),
        Kind::Typecheck => typecheck::plan(project, ecosystem),
        Kind::Test => test::plan(project, ecosystem),
        _ => audit::plan(project, ecosystem),
    };
    let found: Vec<_> = ecosystems.iter().flat_map(plan).collect();
    if found.is_empty() && kind != Kind::Audit {
        return custom::make_target(project, kind).into_iter().collect();
    }
    found
}

/// Everything that the checks of one run share.
struct Evaluation<'a> {
    configuration: Configuration,
    repository: Repository,
    branch: Branch,
    listed: Files,
    root: PathBuf,
    environment: ClientEnvironment,
    logs: Logs,
    heard: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl Evaluation<'_> {
    async fn checks(&self, path: &Path, notes: &mut Notes) -> Result<Vec<Outcome>, RunError> {
        let mut outcomes = self.git_state().await?;
        let directory = self.working_directory(path);
        let planned = match &directory {
            Ok(directory) => self.plan(directory, notes),
            Err(why) => {
                notes.blockers.push(why.clone());
                Vec::new()
            }
        };
        let directory = directory.unwrap_or_default();
        let (tests, others): (Vec<_>, Vec<_>) =
            planned.into_iter().enumerate().partition(|(_, planned)| planned.kind() == Kind::Test);
        let (mut commands, own) = tokio::join!(self.side_by_side(&directory, others), self.own_checks(notes));
        outcomes.extend(own?);
        for (number, planned) in tests {
            commands.push(self.carry_out(&directory, number, planned).await);
        }
        outcomes.extend(commands);
        // A stable sort: equal kinds keep their order.
        outcomes.sort_by_key(|outcome| outcome.check.kind);
        Ok(outcomes)
    }

    async fn git_state(&self) -> Result<Vec<Outcome>, RunError> {
        if !self.configuration.runs(Kind::GitState) {
            return Ok(Vec::new());
        }
        let protected = git_state::protected_branch(&self.branch, &self.configuration);
        let clean = git_state::clean_worktree(&self.repository).await?;
        Ok([protected, clean].map(|outcome| self.settle(outcome)).into())
    }

    /// The checks that run no command of the repository.
    async fn own_checks(&self, notes: &mut Notes) -> Result<Vec<Outcome>, RunError> {
        let mut outcomes = Vec::new();
        if self.configuration.runs(Kind::SecretDetection) {
            let allowed = self.path_list("secretAllowlist", &self.configuration.secret_allowlist, notes);
            let files = match (self.configuration.secret_scope, &self.listed.changed) {
                (SecretScope::Changed, Some(changed)) => changed.clone(),
                (SecretScope::All, _) | (SecretScope::Changed, None) => self.listed.all.clone(),
            };
            let (root, started) = (self.root.clone(), Instant::now());
            let searched = tokio::task::spawn_blocking(move || secret_detection::check(&root, &files, &allowed)).await;
            let searched = searched.unwrap_or_else(|error| {
                let why = format!("the search ended early: {error}");
                Outcome::new("secret-detection", Kind::SecretDetection, Status::Fail, Some(why))
            });
            outcomes.push(self.settle(timed(searched, started)));
        }
        if self.configuration.runs(Kind::CommitConvention)
            && self.configuration.convention == configuration::Convention::Conventional
        {
            let started = Instant::now();
            let checked = commit_convention::check(&self.repository, &self.branch).await?;
            outcomes.push(self.settle(timed(checked, started)));
        }
        if self.configuration.runs(Kind::Tdd) {
            let started = Instant::now();
            let exceptions = self.path_list("tddExceptions", &self.configuration.tdd_exceptions, notes);
            let checked = tdd::check(&self.listed, &exceptions, |file| self.holds_tests(file));
            outcomes.push(self.settle(timed(checked, started)));
        }
        Ok(outcomes)
    }

    fn path_list(&self, key: &str, entries: &[String], notes: &mut Notes) -> PathList {
        let (list, unread) = PathList::parse(entries);
        notes
            .limitations
            .extend(unread.into_iter().map(|what| format!("`{key}` in {FILE} has a glob that can't be read: {what}")));
        list
    }

    /// Rust's sources may hold their own tests.
    fn holds_tests(&self, file: &Path) -> bool {
        let mut bytes = Vec::new();
        file.extension() == Some(OsStr::new("rs"))
            && read::read(&self.root.join(file), MAX_SOURCE_BYTES, &mut bytes).is_ok_and(|it| it == Content::Whole)
            && memchr::memmem::find(&bytes, b"#[cfg(test)]").is_some()
    }

    /// Returns where commands run: a directory that holds what git tracks, symlinks resolved.
    fn working_directory(&self, path: &Path) -> Result<PathBuf, String> {
        let named = &self.configuration.working_dir;
        let holds_work = |directory: &PathBuf| {
            let inside = directory.strip_prefix(&self.root);
            directory.is_dir() && inside.is_ok_and(|inside| self.listed.tracked.iter().any(|it| it.starts_with(inside)))
        };
        path.join(named).canonicalize().ok().filter(holds_work).ok_or_else(|| {
            format!(
                "`workingDir` in {FILE} is {named}, which is no directory of the repository with a tracked file: no \
                 command ran"
            )
        })
    }

    fn plan(&self, directory: &Path, notes: &mut Notes) -> Vec<Planned> {
        let inside = directory.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let below = |file: &PathBuf| Some(file.strip_prefix(inside).ok()?.to_string_lossy().into_owned());
        let files: Vec<_> = self.listed.all.iter().filter_map(below).collect();
        let project = Project { directory, root: &self.root, environment: &self.environment, files: &files };
        notes.blockers.extend(project.unreadable_manifests());
        let ecosystems = project.ecosystems();
        let mut planned = Vec::new();
        let mut unsaid = false;
        for kind in COMMAND_KINDS.into_iter().filter(|kind| self.configuration.runs(*kind)) {
            let found = plan_kind(&self.configuration, &project, &ecosystems, kind);
            unsaid |= !self.configuration.commands.contains_key(&kind) && kind != Kind::Audit;
            if found.is_empty() {
                notes.limitations.push(custom::nothing_known(kind));
            }
            planned.extend(found);
        }
        if unsaid {
            notes.limitations.extend(project.unknown_ecosystems());
        }
        planned.extend(custom::plan(&self.configuration));
        planned
    }

    async fn side_by_side(&self, directory: &Path, planned: Vec<(usize, Planned)>) -> Vec<Outcome> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let places = Semaphore::new(cores);
        let each = planned.into_iter().map(|(number, planned)| {
            let places = &places;
            async move {
                // The semaphore is never closed; without a place the check would only run sooner.
                let _place = places.acquire().await;
                self.carry_out(directory, number, planned).await
            }
        });
        futures_util::future::join_all(each).await
    }

    async fn carry_out(&self, directory: &Path, number: usize, planned: Planned) -> Outcome {
        match planned {
            Planned::Skip(outcome) => self.settle(outcome),
            Planned::Run(step) => {
                (self.heard)(Progress::Began(&step.name));
                let outcome = self.run_step(directory, number, &step).await;
                self.settle(outcome)
            }
        }
    }

    async fn run_step(&self, directory: &Path, number: usize, step: &Step) -> Outcome {
        let log = self.logs.path(number, &step.name);
        step.run(directory, &self.environment, self.configuration.time_limit(step.kind), &log).await
    }

    /// Takes a failure that the configuration acknowledges for what it is, and says how the check ended.
    fn settle(&self, mut outcome: Outcome) -> Outcome {
        let check = &mut outcome.check;
        if check.status == Status::Fail
            && let Some(Toggle::Acknowledged(reason)) = self.configuration.toggles.get(&check.kind)
        {
            check.status = Status::Acknowledged;
            let message = check.message.take().unwrap_or_else(|| check.name.clone());
            check.message = Some(format!("{message}; acknowledged: {reason}"));
            outcome.limitations.push(format!("{} failed and is acknowledged: {reason}", check.name));
        }
        (self.heard)(Progress::Ended(&outcome.check));
        outcome
    }
}

fn timed(mut outcome: Outcome, started: Instant) -> Outcome {
    outcome.check.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    outcome
}

impl Planned {
    fn kind(&self) -> Kind {
        match self {
            Self::Run(step) => step.kind,
            Self::Skip(outcome) => outcome.check.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::project::tests::with_project;
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn an_empty_list_in_place_of_a_detected_command_blocks() {
        let commands = [Kind::Lint, Kind::Typecheck, Kind::Test, Kind::Audit].map(|kind| (kind, Vec::new()));
        let configuration = Configuration { commands: commands.into(), ..Configuration::default() };
        let planned = |files: &[(&str, &str)], kind| {
            with_project(files, &["go"], |project| plan_kind(&configuration, project, &project.ecosystems(), kind))
        };
        for kind in [Kind::Lint, Kind::Typecheck, Kind::Test] {
            let said = planned(&[("go.mod", "")], kind);
            let [Planned::Skip(outcome)] = &said[..] else { panic!("{said:?}") };
            let [blocker] = &outcome.blockers[..] else { panic!("{outcome:?}") };
            let word = kind.word();
            assert!(
                blocker.contains(&format!("commands.{word}")) && blocker.contains(&format!("checks.{word}: false"))
            );
            assert!(planned(&[], kind).is_empty());
        }
        assert!(planned(&[("go.mod", "")], Kind::Audit).is_empty());
        assert_eq!(planned(&[("Makefile", "test:\n\tx\n")], Kind::Test).len(), 1);
    }

    #[tokio::test]
    async fn a_working_directory_holds_what_git_tracks() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", dir.path().to_str().unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ];
        let environment = Environment::of_variables(variables.map(|(name, it)| (name.into(), it.into())).into());
        for name in ["held", "empty", "untracked"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("held/a"), "").unwrap();
        std::fs::write(root.join("untracked/a"), "").unwrap();
        let git = Repository::at(&root, &ClientEnvironment::new(environment.variables().iter().cloned())).unwrap();
        git.ask(&["init", "-q"]).await.unwrap();
        for (named, blocked) in
            [(".", false), ("held", false), ("empty", true), ("untracked", true), (".git", true), ("..", true)]
        {
            std::fs::write(root.join(FILE), format!(r#"{{"workingDir": "{named}"}}"#)).unwrap();
            git.ask(&["add", FILE, "held"]).await.unwrap();
            let author = ["-c", "user.name=n", "-c", "user.email=n@localhost"];
            git.ask(&[&author[..], &["commit", "-q", "-m", named]].concat()).await.unwrap();
            let report = run(&root, &environment, &*SystemClock::shared(), &|_| ()).await.unwrap();
            assert_eq!(report.blockers.iter().any(|it| it.contains("`workingDir`")), blocked, "{named}: {report:?}");
        }
    }
}
