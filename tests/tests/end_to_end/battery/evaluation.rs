//! The battery as the checks of a solution: found last, named in marker and diagnostics, and at work twice at once.

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, wait_for};
use serde_json::{Value, json};

use super::check;

/// An environment in which no `preflight` is on PATH.
fn without_preflight() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let without = std::env::split_paths(&path).filter(|directory| !directory.join("preflight").exists());
    environment.set("PATH", std::env::join_paths(without).expect("directories of a PATH"));
    environment
}

#[test]
fn without_a_preflight_the_built_in_battery_runs_and_says_so() {
    let environment = without_preflight();
    let repository = environment.repository("repo");
    repository.write(
        ".preflight.json",
        r#"{"commands": {"test": ["true"]}, "checks": {"lint": false, "typecheck": false, "audit": false}}"#,
    );
    repository.commit("chore: configure");
    let mut shim = environment.shim();
    let evaluated = shim.answer("solution_evaluate", json!({ "id": "it", "repoPath": repository.text() }));
    assert_eq!(evaluated["verdict"]["ready"], true, "{evaluated:#}");
    assert_eq!(evaluated["verdict"]["source"], "preflight-builtin", "{evaluated:#}");
    let diagnostics = &evaluated["diagnostics"];
    assert_eq!((&diagnostics["complete"], &diagnostics["issues"]), (&json!(true), &json!([])), "{diagnostics:#}");
    assert_eq!(diagnostics["preflight"]["foundBy"], "builtin");
    assert!(diagnostics["preflight"]["version"].is_string() && diagnostics["preflight"]["path"].is_string());
    let keys: Vec<_> = diagnostics["payload"].as_object().expect("an object").keys().cloned().collect();
    let order = ["ready", "confidence", "checks", "blockers", "warnings", "limitations", "durationMs", "timestamp"];
    assert_eq!(keys, order);
    let marker = std::fs::read_to_string(evaluated["markerPath"].as_str().expect("a path")).expect("the marker");
    assert!(marker.contains("\"source\": \"preflight-builtin\""), "{marker}");
    let output = environment.groundingctl(&["gate", "it", "--repo", repository.text()]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
}

#[test]
fn the_variable_names_the_built_in_battery_beside_an_installed_preflight() {
    let mut environment = without_preflight();
    let stub = environment.script("stub/preflight", "echo stub; exit 2");
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let directories =
        std::iter::once(stub.parent().expect("a directory").to_owned()).chain(std::env::split_paths(&path));
    environment.set("PATH", std::env::join_paths(directories.collect::<Vec<_>>()).expect("directories of a PATH"));
    let repository = environment.repository("repo");
    let evaluate = |environment: &TestEnvironment| {
        environment.shim().answer("solution_evaluate", json!({ "id": "it", "repoPath": repository_text(environment) }))
    };
    drop(repository);
    let stubbed = evaluate(&environment);
    assert_eq!(
        (&stubbed["status"], &stubbed["diagnostics"]["preflight"]["foundBy"]),
        (&json!("failed"), &json!("PATH"))
    );
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    let built_in = evaluate(&environment);
    assert_eq!(built_in["verdict"]["source"], "preflight-builtin", "{built_in:#}");
    assert_eq!(built_in["diagnostics"]["preflight"]["foundBy"], "SOLUTION_PREFLIGHT_BIN");
    assert_eq!(built_in["verdict"]["ready"], false, "nothing about the code was checked: {built_in:#}");
}

fn repository_text(environment: &TestEnvironment) -> String {
    environment.path("repo").to_str().expect("UTF-8").to_owned()
}

#[test]
fn two_worktrees_are_evaluated_at_once_and_do_not_meet() {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    let repository = environment.repository("one");
    // Each waits until the other runs, so that they surely run at once.
    let meet = environment.path("meet");
    std::fs::create_dir(&meet).expect("a directory");
    let wait = format!(
        "touch {0}/$(basename $PWD); i=0; while [ $(ls {0} | wc -l) -lt 2 ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; \
         [ $(ls {0} | wc -l) -eq 2 ] && echo in $(basename $PWD) && test ! -e fail",
        meet.display()
    );
    let configuration =
        json!({ "commands": { "test": [wait] }, "checks": { "lint": false, "typecheck": false, "audit": false } });
    repository.write(".preflight.json", &configuration.to_string());
    repository.commit("chore: configure");
    let two = environment.path("two");
    let two = two.to_str().expect("UTF-8");
    repository.git(&["worktree", "add", "--quiet", "-b", "feature/two", two]);
    std::fs::write(environment.path("two/fail"), "").expect("a file");
    repository.git(&["-C", two, "add", "--all"]);
    repository.git(&["-C", two, "commit", "--quiet", "--message", "feat: fail"]);

    let evaluate = |id: &str, path: &str| -> Value {
        environment.shim().answer("solution_evaluate", json!({ "id": id, "repoPath": path }))
    };
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| evaluate("one", repository.text()));
        let two = evaluate("two", two);
        (one.join().expect("no panic"), two)
    });
    assert_eq!(one["verdict"]["ready"], true, "{one:#}");
    assert_eq!(two["verdict"]["ready"], false, "{two:#}");
    let log = |answer: &Value| {
        check(&answer["diagnostics"]["payload"], "test:1")["details"][0].as_str().expect("a log").to_owned()
    };
    let text =
        |line: String| std::fs::read_to_string(line.strip_prefix("full output: ").expect("a log")).expect("the log");
    assert_eq!((text(log(&one)).as_str(), text(log(&two)).as_str()), ("in one\n", "in two\n"));
    wait_for("both repositories to be as they were", || {
        let status = repository.git(&["status", "--porcelain"]);
        if status.is_empty() { Ok(()) } else { Err(status) }
    });
}
