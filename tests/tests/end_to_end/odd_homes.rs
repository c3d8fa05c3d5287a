//! Homes that are not as they should be: it works, or one line names the path.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use grounding_tests::environment::{not_run_here, shown};
use grounding_tests::{TestEnvironment, binaries};
use serde_json::{Value, json};

/// Returns a command that runs `groundingctl` while these mounts stand. Root may write where permissions forbid it, so a
/// directory that can't be written is one of a mount that is read-only; without root, permissions do.
fn with_mounts(environment: &TestEnvironment, mounts: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        let mut command = environment.command("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]).arg(format!("{mounts}; exec \"$0\" \"$@\""));
        command.arg(binaries::groundingctl());
        command
    } else {
        environment.command(binaries::groundingctl())
    }
}

fn read_only(directory: &Path) -> String {
    if rustix::process::geteuid().is_root() {
        let shown = directory.display();
        format!("set -e; mount --bind '{shown}' '{shown}'; mount -o remount,bind,ro '{shown}'")
    } else {
        let sealed = std::fs::Permissions::from_mode(0o500);
        std::fs::set_permissions(directory, sealed).expect("the directory is ours");
        String::new()
    }
}

fn writable_again(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).expect("the directory is ours");
}

fn run(mut command: Command, arguments: &[&str]) -> Output {
    command.args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

/// One error, one line long, which names the path; what caused it may follow.
#[track_caller]
fn assert_named(output: &Output, path: &Path) {
    assert!(!output.status.success(), "{}", shown(output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].contains(path.to_str().expect("UTF-8")), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

const ADD: [&str; 3] = ["call", "ledger_add", r#"{"sessionId":"s","type":"fact","content":"c"}"#];

#[test]
fn a_home_that_can_not_be_written() {
    let environment = TestEnvironment::new();
    let mounts = read_only(environment.home());
    let output = run(with_mounts(&environment, &mounts), &ADD);
    assert_named(&output, &environment.path(".local/state/agent-grounding"));
    writable_again(environment.home());
}

#[test]
fn a_state_directory_elsewhere_makes_up_for_a_home_that_can_not_be_written() {
    let mut environment = TestEnvironment::new();
    let elsewhere = tempfile();
    environment.set("GROUNDING_STATE_DIR", elsewhere.path());
    environment.set("EVIDENCE_LEDGER_DB", elsewhere.path().join("ledger.db"));
    let mounts = read_only(environment.home());
    let output = run(with_mounts(&environment, &mounts), &ADD);
    assert!(output.status.success(), "{}", shown(&output));
    // Without the second variable one tool fails, and says where.
    let sessions =
        run(with_mounts(&environment, &mounts), &["call", "grounding_start", r#"{"keyword":"k","problem":"p"}"#]);
    let said = String::from_utf8_lossy(&sessions.stderr).into_owned();
    assert!(
        !sessions.status.success() && said.contains(environment.path(".grounding-mcp").to_str().expect("UTF-8")),
        "{said}"
    );
    assert!(environment.groundingctl(&["stop"]).status.success());
    writable_again(environment.home());
}

fn tempfile() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("g").tempdir_in("/tmp").expect("a directory in /tmp")
}

#[test]
fn a_state_directory_that_can_not_be_written() {
    let environment = TestEnvironment::new();
    let state = environment.path(".local/state/agent-grounding");
    std::fs::create_dir_all(&state).expect("created");
    let mounts = read_only(&state);
    assert_named(&run(with_mounts(&environment, &mounts), &ADD), &state);
    writable_again(&state);

    // One that was writable before, with all that belongs there.
    assert!(environment.groundingctl(&ADD).status.success());
    assert!(environment.groundingctl(&["stop"]).status.success());
    assert!(environment.groundingctl(&["start"]).status.success());
    environment.kill_daemon();
    let mounts = read_only(&state);
    if rustix::process::geteuid().is_root() {
        assert_named(&run(with_mounts(&environment, &mounts), &ADD), &state);
    }
    writable_again(&state);
    assert!(environment.groundingctl(&ADD).status.success());
}

#[test]
fn a_state_directory_that_is_a_file() {
    let environment = TestEnvironment::new();
    environment.write(".local/state/agent-grounding", "in the way");
    assert_named(&environment.groundingctl(&ADD), &environment.path(".local/state/agent-grounding"));
    assert_eq!(environment.read(".local/state/agent-grounding"), "in the way");
}

#[test]
fn a_home_whose_socket_path_is_too_long() {
    let mut environment = TestEnvironment::new();
    let deep = environment.path(&"a-long-name/".repeat(6));
    std::fs::create_dir_all(&deep).expect("created");
    environment.set("HOME", &deep);
    let output = environment.groundingctl(&ADD);
    assert_named(&output, &deep);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("100") && said.contains("GROUNDING_STATE_DIR"), "{said}");
    // As the error says.
    let state = environment.path("state");
    environment.set("GROUNDING_STATE_DIR", &state);
    let output = environment.groundingctl(&ADD);
    assert!(output.status.success(), "{}", shown(&output));
    assert!(environment.groundingctl(&["stop"]).status.success());
    // What the environment looks after belongs to the home that it made.
    environment.set("HOME", environment.home().to_owned());
}

#[test]
fn a_runtime_directory_that_is_absent_or_nobodys() {
    let mut environment = TestEnvironment::new();
    for value in ["", "/nowhere/at/all", "relative", "/tmp"] {
        environment.set("XDG_RUNTIME_DIR", value);
        let output = environment.groundingctl(&ADD);
        assert!(output.status.success(), "{value}: {}", shown(&output));
        environment.kill_daemon();
    }
}

#[test]
fn a_directory_for_temporary_files_that_is_not_there_or_can_not_be_written() {
    let mut environment = TestEnvironment::new();
    environment.set("TMPDIR", "/nowhere/at/all");
    let mut shim = environment.shim();
    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    shim.answer("grounding_start", json!({ "keyword": "k", "problem": "p" }));
    environment.kill_daemon();
    if !rustix::process::geteuid().is_root() {
        not_run_here("/tmp can be made read-only by root alone");
        return;
    }
    environment.set("TMPDIR", "/tmp");
    let home = environment.home().display().to_string();
    let mounts = format!(
        "set -e; mount --bind /tmp /tmp; mount --bind '{home}' '{home}'; mount -o remount,bind,ro /tmp; ! touch /tmp/x 2>/dev/null"
    );
    for arguments in [&ADD[..], &["call", "grounding_start", r#"{"keyword":"k","problem":"p"}"#]] {
        let output = run(with_mounts(&environment, &mounts), arguments);
        assert!(output.status.success(), "{}", shown(&output));
    }
    let repository = environment.repository("repo");
    let arguments = json!({ "id": "t", "repoPath": repository.text() }).to_string();
    let output = run(with_mounts(&environment, &mounts), &["call", "solution_evaluate", &arguments]);
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
    assert_eq!(answer["status"], "completed", "{answer}");
}

#[test]
fn a_home_that_is_a_link() {
    let environment = TestEnvironment::new();
    let directory = tempfile();
    let link: PathBuf = directory.path().join("home");
    std::os::unix::fs::symlink(environment.home(), &link).expect("a link");
    let add = |home: &Path| {
        let mut command = environment.command(binaries::groundingctl());
        command.env("HOME", home);
        let output = run(command, &ADD);
        assert!(output.status.success(), "{}", shown(&output));
        let entry: Value = serde_json::from_slice(&output.stdout).expect("an entry");
        entry["id"].clone()
    };
    // Both names lead to one daemon and one ledger, whichever it was started by.
    assert_eq!([add(&link), add(environment.home()), add(&link)], [1, 2, 3]);
    let mut status = environment.command(binaries::groundingctl());
    status.env("HOME", &link);
    let by_link: Value = serde_json::from_slice(&run(status, &["status", "--json"]).stdout).expect("a status");
    assert_eq!(by_link["pid"], environment.daemon());
    assert!(environment.groundingctl(&["stop"]).status.success());
    assert!(!environment.socket().exists());
}
