//! The arm in real git repositories, and every recorded case.

use std::ffi::OsString;
use std::hint::black_box;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::solution::{RunBaseKind, WorkflowReport, WorkflowRunSource};
use serde_json::Value;
use tempfile::TempDir;

use super::active_run::{Search, find};
use super::evaluate::{evaluate, examine};
use super::field::{self, FINAL_STATUS, RECOMMENDATION};
use super::worktree::{names, worktree_root};
use super::{findings, run_base};
use crate::process::{self, ClientEnvironment};
use crate::solution::repository::Repository;

const RUN: &str = "2026-09-01-slug";
const HANDOFF: &str = "# Handoff\n\n<!-- solution-acceptance: final-status = accepted -->\n";
const REVIEW: &str = "# Review\n\n<!-- solution-acceptance: acceptance-recommendation = accept -->\n\n## Findings\n\n\
                      | Severity | Category | Description | Suggested Fix | Decision |\n|---|---|---|---|---|\n";

/// A private folder with repositories in it.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn environment(date: &str) -> ClientEnvironment {
        let fixed = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "C"),
            ("GIT_COMMITTER_EMAIL", "c@example.org"),
            ("GIT_AUTHOR_DATE", date),
            ("GIT_COMMITTER_DATE", "2026-10-01T12:00:00+0000"),
        ];
        ClientEnvironment::new(fixed.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    /// Runs git in a folder; commits are authored at `date`.
    async fn git_at(&self, date: &str, repository: &Path, arguments: &[&str]) -> String {
        let environment = Self::environment(date);
        let git = environment.find_program("git").unwrap();
        let mut command = process::command(&git, &environment, repository);
        command.args(arguments);
        let output = process::run(command, Duration::from_secs(60), 1 << 20).await.unwrap();
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    async fn git(&self, repository: &Path, arguments: &[&str]) -> String {
        self.git_at("2026-09-01T12:00:00+0000", repository, arguments).await
    }

    /// Adds an empty commit authored at `date`; returns its id.
    async fn commit_at(&self, date: &str, repository: &Path) -> String {
        self.git_at(date, repository, &["commit", "-q", "--allow-empty", "-m", date]).await;
        self.git(repository, &["rev-parse", "HEAD"]).await
    }

    async fn commit(&self, repository: &Path) -> String {
        self.commit_at("2026-09-01T12:00:00+0000", repository).await
    }

    /// Makes a repository with one commit.
    async fn repository(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        self.git(&path, &["init", "-q", "-b", "main"]).await;
        self.commit(&path).await;
        path
    }

    /// Makes a repository `alpha` that was cloned from `origin` when that had two commits, with a branch of one more.
    async fn clone_with_change(&self) -> Change {
        let origin = self.repository("origin").await;
        let old = self.git(&origin, &["rev-parse", "HEAD"]).await;
        let fork = self.commit(&origin).await;
        let path = self.path("alpha");
        self.git(&origin, &["clone", "-q", &origin.to_string_lossy(), &path.to_string_lossy()]).await;
        self.git(&path, &["switch", "-q", "-c", "change"]).await;
        let head = self.commit_at("2026-09-02T12:00:00+0000", &path).await;
        Change { path, old, fork, head }
    }
}

struct Change {
    path: PathBuf,
    old: String,
    fork: String,
    head: String,
}

async fn report(repository: &Path) -> WorkflowReport {
    let environment = World::environment("2026-09-01T12:00:00+0000");
    let repository = Repository::at(repository, &environment).unwrap();
    // On a task of its own, as a supervisor may run it.
    let task = tokio::spawn(async move { evaluate(&repository).await });
    task.await.unwrap().expect("the knob is not off")
}

fn codes(report: &WorkflowReport) -> Vec<String> {
    assert_eq!(report.complete, report.blockers.is_empty());
    for blocker in &report.blockers {
        assert!(blocker.message.starts_with("orchestrator-workflow: "), "{}", blocker.message);
        assert!(blocker.file.is_some(), "{}", blocker.message);
        if let Some(line) = blocker.line {
            assert!(blocker.message.contains(&format!("line {line}")), "{}", blocker.message);
        }
    }
    let code = |(code, kind): (&String, &Option<String>)| match kind {
        Some(kind) => format!("{code}:{kind}"),
        None => code.clone(),
    };
    report.blockers.iter().map(|blocker| code((&blocker.code, &blocker.kind))).collect()
}

async fn codes_of(repository: &Path) -> Vec<String> {
    codes(&report(repository).await)
}

/// Writes an accepted run with this goal.
fn write_run(directory: &Path, goal: &str) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("06-handoff.md"), HANDOFF).unwrap();
    std::fs::write(directory.join("05-review-findings.md"), REVIEW).unwrap();
    std::fs::write(directory.join("00-goal.md"), goal).unwrap();
}

fn unkeyed(base: &str) -> String {
    format!("# Goal\n\n<!-- solution-acceptance: run-base = {base} -->\n")
}

fn keyed(key: &str, base: &str) -> String {
    format!("<!-- solution-acceptance: run-base[{key}] = {base} -->\n")
}

#[test]
fn recorded_cases() {
    let recorded = include_str!("../../../tests/fixtures/workflow-completeness.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    assert!(cases.len() >= 110);
    for case in cases {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("alpha");
        let directory = repository.join(".ai/runs").join(RUN);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::create_dir(repository.join(".git")).unwrap();
        for (name, text) in case["files"].as_object().unwrap() {
            if let Some(text) = text.as_str() {
                std::fs::write(directory.join(name), text).unwrap();
            }
        }
        let Search::Found(run) = find(&repository) else { panic!("{}: no run", case["name"]) };
        let mut report = WorkflowReport::default();
        examine(&run, &names(worktree_root(&repository)), &mut report).unwrap();
        report.complete = report.blockers.is_empty();
        let found = serde_json::json!({
            "complete": report.complete,
            "codes": codes(&report),
            "runBase": report.run_base,
            "runBaseKind": report.run_base_kind,
        });
        assert_eq!(found, case["expect"], "{}", case["name"]);
    }
}

/// Replays what fuzzing starts from; every file is read as each of the three.
#[test]
fn the_fuzz_corpus_can_be_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/fuzz/workflow");
    let mut count = 0;
    for entry in corpus.read_dir().unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join(".ai/runs").join(RUN);
        std::fs::create_dir_all(&directory).unwrap();
        // Every prefix and suffix, so that each construct is also met cut off.
        for cut in 0..=bytes.len() {
            for part in [&bytes[..cut], &bytes[cut..]] {
                let text = String::from_utf8_lossy(part);
                black_box((field::read(&FINAL_STATUS, &text), field::read(&RECOMMENDATION, &text)));
                black_box((findings::read(&text), run_base::read(&text).select(&["alpha".to_owned()])));
            }
        }
        for name in ["06-handoff.md", "05-review-findings.md", "00-goal.md"] {
            std::fs::write(directory.join(name), &bytes).unwrap();
        }
        let Search::Found(run) = find(folder.path()) else { panic!("no run") };
        let mut report = WorkflowReport::default();
        assert!(examine(&run, &["alpha".to_owned()], &mut report).is_some());
        for blocker in &report.blockers {
            assert!(blocker.message.chars().count() < 1500, "{}", blocker.message);
        }
        count += 1;
    }
    assert!(count >= 12);
}

#[tokio::test]
async fn the_knob_decides_without_a_run() {
    let world = World::new();
    let repository = world.repository("alpha").await;
    let expected = WorkflowReport { complete: true, ..WorkflowReport::default() };
    assert_eq!(report(&repository).await, expected);
    let knob = repository.join(".ai/solution-acceptance.json");
    std::fs::create_dir(repository.join(".ai")).unwrap();
    std::fs::write(&knob, r#"{"orchestratorWorkflow":"on"}"#).unwrap();
    let found = report(&repository).await;
    assert_eq!((found.enforced, codes(&found)), (true, vec!["no_run".to_owned()]));
    std::fs::write(repository.join(".ai/runs"), "a file").unwrap();
    assert_eq!(codes_of(&repository).await, ["no_run"]);
    std::fs::write(&knob, r#"{"orchestratorWorkflow":"off"}"#).unwrap();
    std::fs::write(repository.join(".ai/run"), "broken").unwrap();
    let environment = World::environment("2026-09-01T12:00:00+0000");
    assert_eq!(evaluate(&Repository::at(&repository, &environment).unwrap()).await, None);
}

#[tokio::test]
async fn a_broken_pointer_blocks_and_leads_nowhere_else() {
    let world = World::new();
    let repository = world.repository("alpha").await;
    write_run(&repository.join(".ai/runs").join(RUN), "");
    assert_eq!(codes_of(&repository).await, [""; 0]);

    let pointer = repository.join(".ai/run");
    let (file, undated) = (world.path("2026-09-01-file"), world.path("undated"));
    std::fs::write(&file, "").unwrap();
    write_run(&undated, "");
    let link_to_undated = world.path("2026-09-01-link");
    symlink(&undated, &link_to_undated).unwrap();
    let relative = format!(".ai/runs/{RUN}");
    let missing = world.path("2026-09-01-missing");
    let texts = [
        String::new(),
        "\u{feff} \r\n\t\n".to_owned(),
        relative,
        missing.display().to_string(),
        file.display().to_string(),
        undated.display().to_string(),
        link_to_undated.display().to_string(),
        "/\0".to_owned(),
        "/".to_owned(),
        format!("{}\n{}", missing.display(), repository.join(".ai/runs").join(RUN).display()),
    ];
    for text in texts {
        std::fs::write(&pointer, &text).unwrap();
        let report = report(&repository).await;
        assert_eq!(codes(&report), ["bad_pointer"], "{text:?}");
        assert!(report.enforced && report.run_name.is_none() && report.run_source.is_none(), "{text:?}");
        assert_eq!(report.blockers[0].line, Some(1), "{text:?}");
    }
    std::fs::write(&pointer, "\n \nrelative\n").unwrap();
    assert_eq!(report(&repository).await.blockers[0].line, Some(3));
    std::fs::write(&pointer, vec![b'\n'; 4 * 1024 * 1024 + 1]).unwrap();
    assert_eq!(codes_of(&repository).await, ["bad_pointer"]);
    std::fs::remove_file(&pointer).unwrap();
    std::fs::create_dir(&pointer).unwrap();
    assert_eq!(codes_of(&repository).await, ["bad_pointer"]);
    std::fs::remove_dir(&pointer).unwrap();
    symlink(&pointer, &pointer).unwrap();
    assert_eq!(codes_of(&repository).await, ["bad_pointer"]);
    std::fs::remove_file(&pointer).unwrap();
    symlink(world.path("nowhere"), &pointer).unwrap();
    assert_eq!(report(&repository).await.run_source, Some(WorkflowRunSource::Scan));
    std::fs::remove_dir_all(repository.join(".ai")).unwrap();
    std::fs::write(repository.join(".ai"), "").unwrap();
    let found = report(&repository).await;
    assert_eq!(codes(&found), ["bad_pointer"]);
    assert_eq!(found.blockers[0].file, Some(repository.join(".ai").display().to_string()));
    assert!(found.blockers[0].message.ends_with("replace it with a directory"), "{}", found.blockers[0].message);
}

#[tokio::test]
async fn a_pointer_wins_over_newer_runs() {
    let world = World::new();
    let repository = world.repository("alpha").await;
    std::fs::create_dir_all(repository.join(".ai/runs/2026-12-31-newer")).unwrap();
    let elsewhere = world.path("2026-09-01-elsewhere");
    write_run(&elsewhere, "");
    let link = world.path("link");
    symlink(&elsewhere, &link).unwrap();
    for target in [&elsewhere, &link] {
        let text = format!("\u{feff}\r\n  {}\t\r\nbase=abc\n", target.display());
        std::fs::write(repository.join(".ai/run"), text).unwrap();
        let report = report(&repository).await;
        assert_eq!(codes(&report), [""; 0]);
        assert_eq!(report.run_name.as_deref(), Some("2026-09-01-elsewhere"));
        assert_eq!(report.run_source, Some(WorkflowRunSource::Pointer));
    }
    // The pointer stands at the root of the worktree, runs below the path asked about.
    let below = repository.join("below");
    std::fs::create_dir(&below).unwrap();
    assert_eq!(report(&below).await.run_source, Some(WorkflowRunSource::Pointer));
    // A dangling .git ends the search for the root all the same, so the pointer above is not seen.
    symlink(world.path("nowhere"), below.join(".git")).unwrap();
    assert_eq!(worktree_root(&below), below);
    assert_eq!(find(&below), Search::None(None));
}

#[tokio::test]
async fn the_last_dated_directory_is_the_active_run() {
    let world = World::new();
    let repository = world.repository("alpha").await;
    let runs = repository.join(".ai/runs");
    write_run(&runs.join("2026-08-31-zzz"), "");
    write_run(&runs.join("2026-09-01-aaa"), "");
    write_run(&runs.join("2027-1-01-short"), "");
    write_run(&runs.join("zzzz"), "");
    std::fs::write(runs.join("2026-09-02-file"), "").unwrap();
    symlink(runs.join("2026-08-31-zzz"), runs.join("2026-09-03-link")).unwrap();
    let report = report(&repository).await;
    assert_eq!(
        (report.run_name.as_deref(), report.run_source),
        (Some("2026-09-01-aaa"), Some(WorkflowRunSource::Scan))
    );
    assert_eq!(codes(&report), [""; 0]);
}

#[tokio::test]
async fn a_linked_worktree_has_two_names() {
    let world = World::new();
    let main = world.repository("Main").await;
    let head = world.git(&main, &["rev-parse", "HEAD"]).await;
    let (attached, detached) = (world.path("attached"), world.path("detached"));
    world.git(&main, &["worktree", "add", "-q", "-b", "work", &attached.to_string_lossy()]).await;
    world.git(&main, &["worktree", "add", "-q", "--detach", &detached.to_string_lossy()]).await;
    for (worktree, own) in [(&attached, "attached"), (&detached, "detached")] {
        assert_eq!(names(worktree), [own, "Main"]);
        let directory = worktree.join(".ai/runs").join(RUN);
        for (goal, expected) in [
            (keyed(own, &head), Ok(&head[..])),
            (keyed("MAIN", &head), Ok(&head[..])),
            (keyed("main", "bad") + &keyed(own, &head), Ok(&head[..])),
            (keyed("main", &head) + &keyed(own, "bad"), Err("base_not_sha")),
            (keyed("other", &head), Err("run_base_unmatched")),
            (keyed("other", "bad") + &unkeyed(&head), Ok(&head[..])),
        ] {
            write_run(&directory, &goal);
            let report = report(worktree).await;
            match expected {
                Ok(head) => assert_eq!((codes(&report), report.run_base.as_deref()), (vec![], Some(head)), "{goal}"),
                Err(code) => assert_eq!(codes(&report), [code], "{goal}"),
            }
        }
    }
    // Without commondir the path before .git/worktrees counts; a repository without a worktree of its own has no name.
    std::fs::remove_file(main.join(".git/worktrees/attached/commondir")).unwrap();
    assert_eq!(names(&attached), ["attached", "Main"]);
    let bare = world.path("bare.git");
    world.git(&main, &["clone", "-q", "--bare", &main.to_string_lossy(), &bare.to_string_lossy()]).await;
    let linked = world.path("linked");
    world.git(&bare, &["worktree", "add", "-q", "--detach", &linked.to_string_lossy()]).await;
    assert_eq!(names(&linked), ["linked"]);
    // Paths count as they are written, so a main repository that was reached by a symlink has the link's name.
    let alias = world.path("alias");
    symlink(&main, &alias).unwrap();
    std::fs::write(linked.join(".git"), format!("gitdir: {}/.git/worktrees/attached\n", alias.display())).unwrap();
    assert_eq!(names(&linked), ["linked", "alias"]);
    std::fs::write(main.join(".git/worktrees/attached/commondir"), "../..\n").unwrap();
    std::fs::write(linked.join(".git"), "gitdir: ../alias/.git/worktrees/attached\n").unwrap();
    assert_eq!(names(&linked), ["linked", "alias"]);
}

#[tokio::test]
async fn a_recorded_base_binds_the_run_to_the_change() {
    let world = World::new();
    let Change { path, old, fork, head } = world.clone_with_change().await;
    world.git(&path, &["switch", "-q", "-c", "aside", &old]).await;
    let aside = world.commit_at("2026-09-03T12:00:00+0000", &path).await;
    world.git(&path, &["switch", "-q", "change"]).await;
    // A branch that is named like the commit must not stand in for it.
    world.git(&path, &["branch", &fork[..7], &old]).await;
    let directory = path.join(".ai/runs").join(RUN);
    let shouted = fork.to_uppercase();
    for (base, expected) in [
        (&head[..], None),
        (&fork, None),
        (&fork[..7], None),
        (&shouted, None),
        (&old, Some("base_behind_fork")),
        (&aside, Some("base_not_ancestor")),
        ("0123456789012345678901234567890123456789", Some("base_unknown")),
        ("abcdef0", Some("base_unknown")),
        (&fork[..6], Some("base_not_sha")),
        (&format!("{fork}0"), Some("base_not_sha")),
        (&fork.repeat(2)[..64], Some("base_not_sha")),
        ("HEAD", Some("base_not_sha")),
        ("--all", Some("base_not_sha")),
        ("-->", Some("base_not_sha")),
        (&format!("{}-->", &fork[..7]), Some("base_not_sha")),
    ] {
        write_run(&directory, &unkeyed(base));
        let report = report(&path).await;
        assert_eq!(codes(&report), expected.into_iter().collect::<Vec<_>>(), "{base}");
        assert_eq!((report.run_base.as_deref(), report.run_base_kind), (Some(base), Some(RunBaseKind::Sha)));
        if expected.is_some() {
            assert_eq!(report.blockers[0].line, Some(3));
        }
    }
}

#[tokio::test]
async fn the_fork_point_is_that_of_the_remote_default_branch() {
    let world = World::new();
    let Change { path, old, fork, .. } = world.clone_with_change().await;
    write_run(&path.join(".ai/runs").join(RUN), &unkeyed(&old));
    assert_eq!(codes_of(&path).await, ["base_behind_fork"]);
    // origin/main counts when origin/HEAD is absent.
    world.git(&path, &["remote", "set-head", "origin", "--delete"]).await;
    assert_eq!(codes_of(&path).await, ["base_behind_fork"]);
    // origin/master comes before it, also when origin/HEAD dangles.
    world.git(&path, &["update-ref", "refs/remotes/origin/master", &old]).await;
    assert_eq!(codes_of(&path).await, [""; 0]);
    world.git(&path, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone"]).await;
    assert_eq!(codes_of(&path).await, [""; 0]);
    // A tip that is already on the default branch has no change left to claim.
    world.git(&path, &["update-ref", "-d", "refs/remotes/origin/master"]).await;
    world.git(&path, &["update-ref", "refs/remotes/origin/main", "HEAD"]).await;
    write_run(&path.join(".ai/runs").join(RUN), &unkeyed(&fork));
    assert_eq!(codes_of(&path).await, ["base_behind_fork"]);
    // Without a remote the check is skipped.
    world.git(&path, &["remote", "remove", "origin"]).await;
    world.git(&path, &["update-ref", "-d", "refs/remotes/origin/main"]).await;
    let report = report(&path).await;
    assert_eq!((codes(&report), report.notes), (vec![], vec![]));
}

#[tokio::test]
async fn a_shallow_clone_says_what_it_can_not_check() {
    let world = World::new();
    let Change { path: source, fork, .. } = world.clone_with_change().await;
    world.git(&source, &["switch", "-q", "main"]).await;
    world.commit(&source).await;
    world.git(&source, &["switch", "-q", "change"]).await;
    let (clone, url) = (world.path("shallow"), format!("file://{}", source.display()));
    let arguments = ["clone", "-q", "--depth", "1", "--no-single-branch", &url, &clone.to_string_lossy()];
    world.git(&source, &arguments).await;
    world.git(&clone, &["remote", "set-head", "origin", "main"]).await;
    let head = world.git(&clone, &["rev-parse", "HEAD"]).await;
    write_run(&clone.join(".ai/runs").join(RUN), &unkeyed(&head));
    let found = report(&clone).await;
    assert_eq!(codes(&found), [""; 0]);
    assert!(matches!(&found.notes[..], [note] if note.contains("shallow")), "{:?}", found.notes);
    write_run(&clone.join(".ai/runs").join(RUN), &unkeyed(&fork));
    let found = report(&clone).await;
    assert_eq!(codes(&found), ["base_unknown"]);
    assert!(found.blockers[0].message.contains("shallow"), "{}", found.blockers[0].message);
    write_run(&clone.join(".ai/runs/2026-09-02-slug"), "");
    let found = report(&clone).await;
    assert_eq!((codes(&found), found.notes.len()), (vec![], 1));
}

#[tokio::test]
async fn a_base_of_64_digits_names_a_commit_of_a_sha256_repository() {
    let world = World::new();
    let path = world.path("alpha");
    std::fs::create_dir(&path).unwrap();
    world.git(&path, &["init", "-q", "-b", "main", "--object-format=sha256"]).await;
    let base = world.commit(&path).await;
    world.commit_at("2026-09-02T12:00:00+0000", &path).await;
    assert_eq!(base.len(), 64);
    for (base, expected) in [
        (&base[..], None),
        (&base[..40], None),
        (&base[..50], None),
        (&"0".repeat(64), Some("base_unknown")),
        (&format!("{base}0"), Some("base_not_sha")),
    ] {
        write_run(&path.join(".ai/runs").join(RUN), &unkeyed(base));
        assert_eq!(codes_of(&path).await, expected.into_iter().collect::<Vec<_>>(), "{base}");
    }
}

#[tokio::test]
async fn without_a_base_the_date_of_the_run_counts() {
    let world = World::new();
    for (dates, expected) in [
        (vec!["2026-09-01T23:59:59+0000"], None),
        (vec!["2026-09-02T00:00:00+0000"], Some("run_predates_change")),
        // The day is that of the commit's own time zone, not of UTC.
        (vec!["2026-09-01T23:30:00-0800"], None),
        (vec!["2026-09-02T00:30:00+0800"], Some("run_predates_change")),
        // Rebased: every commit keeps its author date, in any order; the earliest counts.
        (vec!["2026-09-05T12:00:00+0000", "2026-08-31T12:00:00+0000", "2026-09-04T12:00:00+0000"], None),
        (vec!["2026-09-05T12:00:00+0000", "2026-09-02T12:00:00+0000"], Some("run_predates_change")),
        // Nothing after the fork point: HEAD itself.
        (vec![], None),
    ] {
        let world = World { folder: tempfile::tempdir_in(world.folder.path()).unwrap() };
        let Change { path, fork, .. } = world.clone_with_change().await;
        world.git(&path, &["reset", "-q", "--hard", &fork]).await;
        for date in &dates {
            world.commit_at(date, &path).await;
        }
        for goal in ["", &unkeyed("TODO")] {
            write_run(&path.join(".ai/runs").join(RUN), goal);
            let report = report(&path).await;
            assert_eq!(codes(&report), expected.into_iter().collect::<Vec<_>>(), "{dates:?}");
            assert_eq!(report.run_base, None);
        }
    }
    // Without a fork point HEAD alone counts, however old its ancestors.
    let path = world.repository("alone").await;
    write_run(&path.join(".ai/runs").join(RUN), "");
    assert_eq!(codes_of(&path).await, [""; 0]);
    world.commit_at("2026-09-02T12:00:00+0000", &path).await;
    assert_eq!(codes_of(&path).await, ["run_predates_change"]);
}

#[tokio::test]
async fn what_is_malformed_or_unmatched_blocks_once() {
    let world = World::new();
    let path = world.repository("alpha").await;
    world.commit_at("2026-09-09T12:00:00+0000", &path).await;
    let phrase = "- solution-acceptance run-base\n";
    for (goal, expected) in [
        ("<!-- solution-acceptance: run-base[alpha] -->".to_owned(), vec!["run_base_malformed:keyed"]),
        (phrase.to_owned(), vec!["run_base_malformed:phrase"]),
        (keyed("other", "aaaaaaa"), vec!["run_base_unmatched"]),
        (keyed("alpha", "TODO") + phrase, vec!["run_base_malformed:phrase", "run_predates_change"]),
        (unkeyed("aaaaaaa") + phrase, vec!["run_base_malformed:phrase", "base_unknown"]),
    ] {
        write_run(&path.join(".ai/runs").join(RUN), &goal);
        assert_eq!(codes_of(&path).await, expected, "{goal}");
    }
}

#[tokio::test]
async fn a_head_that_can_not_be_resolved_blocks() {
    let world = World::new();
    let path = world.path("alpha");
    std::fs::create_dir(&path).unwrap();
    world.git(&path, &["init", "-q"]).await;
    for goal in ["", &unkeyed("aaaaaaa")] {
        write_run(&path.join(".ai/runs").join(RUN), goal);
        assert_eq!(codes_of(&path).await, ["base_head_unresolved"], "{goal}");
    }
}

#[tokio::test]
async fn a_file_that_can_not_be_read_blocks_in_its_place() {
    let world = World::new();
    let path = world.repository("alpha").await;
    let directory = path.join(".ai/runs").join(RUN);
    let large = vec![b'`'; 4 * 1024 * 1024 + 1];
    for name in ["06-handoff.md", "05-review-findings.md", "00-goal.md"] {
        write_run(&directory, "");
        std::fs::write(directory.join(name), &large).unwrap();
        let found = report(&path).await;
        assert_eq!(codes(&found), ["file_too_large"], "{name}");
        assert!(found.blockers[0].message.contains(name), "{}", found.blockers[0].message);
        std::fs::remove_file(directory.join(name)).unwrap();
        std::fs::create_dir(directory.join(name)).unwrap();
        assert_eq!(codes_of(&path).await, ["file_unreadable"], "{name}");
        std::fs::remove_dir(directory.join(name)).unwrap();
    }
    for name in ["06-handoff.md", "05-review-findings.md"] {
        std::fs::remove_file(directory.join(name)).unwrap();
        symlink(directory.join("nowhere"), directory.join(name)).unwrap();
    }
    assert_eq!(codes_of(&path).await, ["status_missing", "recommendation_missing"]);
}

#[tokio::test]
async fn messages_stay_short_with_ten_thousand_keys() {
    let world = World::new();
    let path = world.repository("alpha").await;
    let goal: String = (0..10_000).map(|number| keyed(&format!("{}{number}", "k".repeat(200)), "aaaaaaa")).collect();
    write_run(&path.join(".ai/runs").join(RUN), &goal);
    let found = report(&path).await;
    assert_eq!(
        (codes(&found), found.run_base_kind),
        (vec!["run_base_unmatched".to_owned()], Some(RunBaseKind::UnmatchedKeyed))
    );
    let message = &found.blockers[0].message;
    // 200 characters of k and a number are one key when cut after 64; ten of them are shown.
    assert!(message.contains("(+9990 more)") && message.contains("keys tried alpha"), "{message}");
    assert!(!message.contains(&"k".repeat(65)) && message.chars().count() < 1200, "{message}");
}
