//! The solution gate with the real preflight on real repositories.

use std::path::Path;

use grounding_tests::environment::shown;
use grounding_tests::{Repository, Shim, TestEnvironment, binaries};
use serde_json::{Value, json};

fn environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", binaries::preflight());
    environment
}

fn evaluate(shim: &mut Shim, repository: &Repository<'_>) -> Value {
    shim.answer("solution_evaluate", json!({ "id": "task", "repoPath": repository.text() }))
}

fn gate(shim: &mut Shim, repository: &Repository<'_>) -> Value {
    shim.answer("solution_gate", json!({ "id": "task", "repoPath": repository.text() }))
}

#[test]
fn a_clean_branch_is_ready_and_one_more_commit_makes_it_stale() {
    let environment = environment();
    let repository = environment.repository("repo");
    repository.write("notes.txt", "A change.\n");
    let head = repository.commit("feat: add notes");
    let mut shim = environment.shim();

    let evaluated = evaluate(&mut shim, &repository);
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    assert_eq!(evaluated["verdict"]["ready"], true, "{evaluated}");
    assert_eq!(evaluated["verdict"]["head"], *head);
    assert_eq!(evaluated["diagnostics"]["complete"], true, "{evaluated}");
    assert!(Path::new(evaluated["markerPath"].as_str().expect("a path")).is_file());

    let allowed = gate(&mut shim, &repository);
    assert_eq!((&allowed["allowed"], &allowed["code"]), (&json!(true), &json!("ready")), "{allowed}");
    assert_eq!(allowed["worktree"], "clean");
    let output = environment.groundingctl(&["gate", "task", "--repo", repository.text()]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));

    repository.write("notes.txt", "Another change.\n");
    let dirty = gate(&mut shim, &repository);
    assert_eq!((&dirty["allowed"], &dirty["worktree"]), (&json!(true), &json!("dirty")), "{dirty}");

    let later = repository.commit("feat: change notes");
    let stale = gate(&mut shim, &repository);
    assert_eq!((&stale["allowed"], &stale["code"]), (&json!(false), &json!("stale_head")), "{stale}");
    assert_eq!(stale["currentHead"], *later);
    let reason = stale["reason"].as_str().expect("a reason");
    assert!(reason.contains(&head[..7]) && reason.contains(&later[..7]), "{reason}");
    let output = environment.groundingctl(&["gate", "task", "--repo", repository.text()]);
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
}

#[test]
fn a_dirty_tree_is_not_ready_and_the_blocker_is_named() {
    let environment = environment();
    let repository = environment.repository("repo");
    repository.write("README.md", "Changed and not committed.\n");
    let mut shim = environment.shim();
    let evaluated = evaluate(&mut shim, &repository);
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    assert_eq!(evaluated["verdict"]["ready"], false, "{evaluated}");
    let blockers = evaluated["verdict"]["blockers"].as_array().expect("a list");
    assert!(!blockers.is_empty());
    let denied = gate(&mut shim, &repository);
    assert_eq!((&denied["allowed"], &denied["code"]), (&json!(false), &json!("not_ready")), "{denied}");
    for blocker in blockers {
        let blocker = blocker.as_str().expect("text");
        assert!(denied["reason"].as_str().is_some_and(|reason| reason.contains(blocker)), "{denied}");
    }
}

#[test]
fn the_default_repository_is_the_working_directory_of_the_client() {
    let environment = environment();
    let repository = environment.repository("repo");
    let mut command = environment.command(binaries::grounding_mcp());
    command.current_dir(repository.path());
    let mut shim = Shim::spawn(command);
    shim.initialize();
    // The daemon was started by this shim and serves another working directory all the same.
    let evaluated = shim.answer("solution_evaluate", json!({ "id": "here" }));
    assert_eq!(evaluated["verdict"]["head"], *repository.head(), "{evaluated}");
    let mut elsewhere = environment.shim();
    let relative = elsewhere.answer("solution_gate", json!({ "id": "here", "repoPath": "repo" }));
    assert_eq!(relative["allowed"], true, "{relative}");
    let outside = elsewhere.answer("solution_gate", json!({ "id": "here" }));
    assert_eq!(outside["code"], "head_unresolved", "{outside}");
}

#[test]
fn a_marker_that_was_changed_is_forged() {
    let environment = environment();
    let repository = environment.repository("repo");
    repository.write("README.md", "Changed and not committed.\n");
    let mut shim = environment.shim();
    let evaluated = evaluate(&mut shim, &repository);
    let marker = Path::new(evaluated["markerPath"].as_str().expect("a path"));
    let text = std::fs::read_to_string(marker).expect("the marker");
    std::fs::write(marker, text.replace("\"ready\": false", "\"ready\": true")).expect("written");
    let denied = gate(&mut shim, &repository);
    assert_eq!((&denied["code"], &denied["verdict"]), (&json!("forged"), &Value::Null), "{denied}");
}
