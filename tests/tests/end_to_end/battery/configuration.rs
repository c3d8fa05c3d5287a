//! What steers the battery: its command line, and a configuration that HEAD does not have.

use std::process::Stdio;

use grounding_tests::environment::shown;
use grounding_tests::{Repository, TestEnvironment};

use super::{battery, check, lines};

#[test]
fn a_configuration_that_head_does_not_have_blocks_whatever_git_state_says() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    let lenient =
        r#"{"checks": {"gitState": false, "commitConvention": false, "tdd": false}, "commands": {"lint": ["true"]}}"#;
    repository.write(".preflight.json", lenient);
    let (code, untracked) = battery(&environment, &repository);
    assert_eq!((code, lines(&untracked, "blockers").contains("is not in HEAD")), (1, true), "{untracked:#}");
    repository.git(&["add", "--all"]);
    assert_eq!(battery(&environment, &repository).0, 1, "an added file is not in HEAD either");

    repository.commit("chore: configure");
    let (code, committed) = battery(&environment, &repository);
    assert_eq!((code, lines(&committed, "blockers").as_str()), (0, ""), "{committed:#}");

    repository.write(".preflight.json", r#"{"checks": {"gitState": false}, "commands": {"lint": ["true"]}}"#);
    repository.git(&["update-index", "--assume-unchanged", ".preflight.json"]);
    let (code, hidden) = battery(&environment, &repository);
    assert_eq!((code, lines(&hidden, "blockers").contains("differs from HEAD")), (1, true), "{hidden:#}");

    std::fs::remove_file(repository.path().join(".preflight.json")).expect("removed");
    let (code, removed) = battery(&environment, &repository);
    assert_eq!((code, lines(&removed, "blockers").contains("was removed")), (1, true), "{removed:#}");
}

#[test]
fn the_users_own_git_command_is_not_disturbed() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    repository.write(".preflight.json", r#"{"commands": {"lint": ["true"]}}"#);
    repository.commit("chore: configure");
    repository.write(".git/index.lock", "");
    repository.write("new.txt", "Untracked.\n");
    let (code, answer) = battery(&environment, &repository);
    assert_eq!(
        (code, &check(&answer, "clean-worktree")["details"]),
        (1, &serde_json::json!(["?? new.txt"])),
        "{answer:#}"
    );
    assert!(repository.path().join(".git/index.lock").exists());
}

#[test]
fn the_repository_is_the_one_that_was_named() {
    let environment = TestEnvironment::new();
    let (named, other) = (environment.repository("named"), environment.repository("other"));
    other.write("new.txt", "Untracked.\n");
    named.write(".preflight.json", r#"{"commands": {"lint": ["git rev-parse --show-toplevel"]}}"#);
    named.commit("chore: configure");
    let mut command = environment.command(grounding_tests::binaries::groundingd());
    command.args(["preflight", "run", "../named", "--json"]).current_dir(other.path()).stdin(Stdio::null());
    command.env("GIT_DIR", other.path().join(".git")).env("GIT_WORK_TREE", other.path());
    let output = command.output().expect("groundingd starts");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &answer["ready"]), (Some(0), &serde_json::json!(true)), "{answer:#}");
    let log = check(&answer, "lint:1")["details"][0].as_str().expect("a log").to_owned();
    let log = std::fs::read_to_string(log.strip_prefix("full output: ").expect("a log")).expect("the log");
    assert!(log.trim().ends_with("/named"), "{log}");
}

#[test]
fn a_configuration_that_is_no_file_blocks_and_is_not_waited_for() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    let path = repository.path().join(".preflight.json");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let (code, pipe) = battery(&environment, &repository);
    assert_eq!((code, lines(&pipe, "blockers").contains("is no regular file")), (1, true), "{pipe:#}");
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("README.md", &path).expect("a link");
    repository.commit("chore: link");
    let (code, link) = battery(&environment, &repository);
    assert_eq!((code, lines(&link, "blockers").contains("is no regular file")), (1, true), "{link:#}");
}

#[test]
fn a_log_directory_inside_the_repository_is_not_used_and_nothing_is_written_there() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    repository
        .write(".preflight.json", r#"{"logDir": ".preflight-logs", "commands": {"lint": ["echo seen; exit 1"]}}"#);
    repository.commit("chore: configure");
    let before = listing(repository.path());
    let (_, answer) = battery(&environment, &repository);
    assert!(lines(&answer, "limitations").contains("`logDir`"), "{answer:#}");
    assert_eq!(listing(repository.path()), before);
    let details = check(&answer, "lint:1")["details"].as_array().expect("details").clone();
    let log = details[0].as_str().and_then(|line| line.strip_prefix("full output: ")).expect("the log is named");
    assert_eq!(std::fs::read_to_string(log).expect("the log"), "seen\n");
    assert_eq!(details[1], "seen");
}

/// All files below a directory, with their sizes and times.
fn listing(directory: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("metadata");
        found.push(format!("{:?} {} {:?}", entry.path(), metadata.len(), metadata.modified().expect("a time")));
        if metadata.is_dir() {
            found.extend(listing(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn exit_code_2_is_for_what_is_no_repository_and_for_bad_usage() {
    let environment = TestEnvironment::new();
    std::fs::create_dir(environment.path("plain")).expect("a directory");
    for (arguments, said) in [
        (&["preflight", "run", "plain", "--json"][..], "not inside a git repository"),
        (&["preflight", "run", "gone", "--json"], "is not a directory"),
        (&["preflight", "run", "--bogus"], "--bogus"),
        (&["preflight"], "Usage"),
    ] {
        let output = environment.groundingctl(arguments);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{arguments:?}: {}", shown(&output));
    }
}

#[test]
fn people_see_a_line_for_each_check_and_a_summary() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    repository.write(".preflight.json", r#"{"commands": {"lint": ["true"], "test": ["echo why; exit 1"]}}"#);
    repository.commit("chore: configure");
    let mut command = environment.command(grounding_tests::binaries::groundingctl());
    command.args(["preflight", "run"]).current_dir(repository.path()).stdin(Stdio::null());
    let output = command.output().expect("groundingctl starts");
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    let (data, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        data.starts_with("not ready (confidence ") && data.contains("test:1 failed") && data.contains("why"),
        "{data}"
    );
    for line in ["pass  lint:1 ", "FAIL  test:1 ", "pass  clean-worktree "] {
        assert!(talk.contains(line), "{line}: {talk}");
    }
    let state = environment.environment().state_dir().expect("a state directory");
    let mode = std::os::unix::fs::MetadataExt::mode(&state.metadata().expect("the logs are there"));
    assert_eq!(mode & 0o077, 0, "the daemon refuses a state directory that is open to others");
    assert!(!talk.contains('\u{1b}'), "no terminal, no escape sequences: {talk}");
}

#[test]
fn in_a_shallow_clone_all_files_are_searched_and_that_is_said() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    let token = format!("token: \"{}{}\"\n", "ghp_", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    repository.write("deploy.yaml", &token);
    repository.commit("feat: deploy");
    repository.write(".preflight.json", r#"{"commands": {"lint": ["true"]}}"#);
    repository.commit("chore: configure");
    let shallow = environment.path("shallow");
    let url = format!("file://{}", repository.text());
    repository.git(&[
        "clone",
        "--quiet",
        "--depth",
        "1",
        "--branch",
        "feature/work",
        &url,
        shallow.to_str().expect("UTF-8"),
    ]);
    let shallow = Repository::of(&environment, "shallow");
    shallow.git(&["remote", "set-head", "origin", "--delete"]);
    let (code, answer) = battery(&environment, &shallow);
    assert_eq!(code, 1);
    assert!(lines(&answer, "limitations").contains("can't tell where the branch began"), "{answer:#}");
    assert_eq!(check(&answer, "secret-detection")["status"], "fail", "{answer:#}");
}
