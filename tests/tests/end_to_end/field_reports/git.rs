//! Sections F and N: HEAD, the work tree, and git beside other gits.

use std::process::Stdio;

use grounding_proto::environment::find_program;
use grounding_tests::environment::shown;
use grounding_tests::{Repository, TestEnvironment, binaries};
use serde_json::{Value, json};

use crate::repositories::{commit, git};
use crate::stub::{self, task};

/// Has the built-in battery run these commands, one after the other.
fn configure(repository: &Repository<'_>, checks: &[&str]) {
    let named = |(index, command): (usize, &&str)| json!({ "name": format!("check {index}"), "command": command });
    let checks: Vec<_> = checks.iter().enumerate().map(named).collect();
    repository.write(".preflight.json", &json!({ "customChecks": checks, "checks": { "audit": false } }).to_string());
    repository.commit("chore: configure");
}

/// Has git see a repository of somebody else.
const OTHER_OWNER: &str = "GIT_TEST_ASSUME_DIFFERENT_OWNER";

/// Returns an environment in which the built-in battery evaluates.
fn built_in() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    environment
}

/// 79, pmcfadin/cqlite#2926: the tree was changed in the middle of the gate, whose summary named it all the same.
#[test]
fn a_work_tree_mutated_mid_gate_gives_no_verdict() {
    let environment = built_in();
    let repository = environment.repository("repo");
    configure(&repository, &["true", "sh \"$HOME/second\"", "true", "true", "true"]);
    let mut shim = environment.shim();
    let mut evaluate = |second: &str| {
        environment.write("second", second);
        shim.answer("solution_evaluate", task(&repository))
    };
    let ready = evaluate("touch README.md");
    assert_eq!(ready["verdict"]["ready"], true, "{ready}");
    for (second, says) in [
        ("git commit --quiet --allow-empty --message 'feat: more'", "HEAD moved from"),
        ("git checkout --quiet main; git checkout --quiet feature/work", "came back"),
        ("echo edited >> README.md", "tracked files changed"),
        ("git checkout --quiet -- README.md", "tracked files changed"),
        ("git rm --quiet --cached README.md", "tracked files changed"),
    ] {
        let evaluated = evaluate(second);
        assert_eq!((&evaluated["status"], &evaluated["verdict"]), (&json!("failed"), &Value::Null), "{evaluated}");
        assert!(evaluated["error"].as_str().is_some_and(|error| error.contains(says)), "{second}: {evaluated}");
        assert!(!stub::file(&environment, ".json").exists(), "{second}: a marker stands");
    }
}

/// 79 again, for what git's configuration hides from whoever only asks for the difference.
#[test]
fn a_mutation_that_configuration_hides_gives_no_verdict() {
    let environment = stub::environment();
    let (repository, other) = (environment.repository("repo"), environment.repository("other"));
    other.write("README.md", "Changed.\n");
    other.commit("feat: change");
    repository.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub"]);
    repository.git(&["config", "--file", ".gitmodules", "submodule.sub.ignore", "all"]);
    repository.git(&["config", "diff.ignoreSubmodules", "all"]);
    repository.git(&["config", "diff.relative", "true"]);
    repository.git(&["config", "core.trustctime", "false"]);
    repository.git(&["config", "core.checkStat", "minimal"]);
    std::fs::create_dir(repository.path().join("below")).expect("a directory");
    repository.write("below/file", "one\n");
    repository.write("old", "one\n");
    repository.git(&["add", "--all"]);
    repository.git(&["commit", "--quiet", "--message", "feat: all"]);
    let mut shim = environment.shim();
    let mut evaluate = |then: &str| {
        environment.write("stub/then", format!("( cd \"$2/..\" && {{ {then}; }} ) >/dev/null || exit 9"));
        let below = repository.path().join("below");
        shim.answer("solution_evaluate", json!({ "id": "task", "repoPath": below }))
    };
    for then in [
        "git -C sub checkout --quiet HEAD~1",
        "echo once >> sub/README.md",
        "echo twice >> sub/README.md",
        "echo edited >> README.md",
        // Of one size and one time, as an edit within the clock's step is.
        "touch -r old time; printf 'two\\n' > old; touch -r time old; rm time",
    ] {
        let evaluated = evaluate(then);
        let error = evaluated["error"].as_str().unwrap_or_else(|| panic!("{then}: {evaluated}"));
        assert!(error.contains("tracked files changed"), "{then}: {evaluated}");
    }
    let evaluated = evaluate("touch sub/untracked untracked");
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
}

/// 87, altano/npm-packages#299 (and R4): a hook's inherited GIT_DIR won over the repository that was asked about.
#[test]
fn inherited_git_dir_of_another_repository_does_not_win() {
    let environment = built_in();
    let (named, other) = (environment.repository("named"), environment.repository("other"));
    configure(&named, &["git rev-parse HEAD"]);
    assert_eq!(environment.shim().answer("solution_evaluate", task(&named))["verdict"]["ready"], true);

    // In a linked worktree git tells its hooks everything by absolute paths.
    other.git(&["worktree", "add", "--quiet", "-b", "linked", "../linked"]);
    let ctl = binaries::groundingctl();
    let ctl = ctl.display();
    let hook = format!(
        "#!/bin/sh\nexec 2>\"$HOME/complaints\"\nenv | grep '^GIT_DIR=' > \"$HOME/inherited\"\n\
         {ctl} call solution_evaluate '{}' > \"$HOME/evaluated\"\n\
         {ctl} gate task --repo \"$HOME/named\" --json > \"$HOME/gate\"\n\
         {ctl} verify task --repo \"$HOME/named\" --json > \"$HOME/verify\"\n\
         {ctl} preflight run \"$HOME/named\" --json > \"$HOME/battery\"\n",
        task(&named)
    );
    environment.write("other/.git/hooks/post-commit", hook);
    let hook = environment.path("other/.git/hooks/post-commit");
    std::fs::set_permissions(hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("made executable");
    commit(&environment, &environment.path("linked"), "feat: with a hook");

    let inherited = environment.read("inherited");
    assert!(inherited.contains("/other/.git/worktrees/linked"), "the hook proves nothing: {inherited}");
    let read = |name: &str| -> Value {
        let text = environment.read(name);
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", environment.read("complaints")))
    };
    let head = json!(named.head());
    assert_eq!((&read("evaluated")["verdict"]["head"], &read("gate")["currentHead"]), (&head, &head));
    assert_eq!((&read("gate")["code"], &read("verify")["currentHead"]), (&json!("ready"), &head));
    let battery = read("battery");
    let log = battery["checks"].as_array().and_then(|checks| checks.iter().find(|check| check["kind"] == "custom"));
    let log = log.and_then(|check| check["details"][0].as_str()?.strip_prefix("full output: ")).expect("a log");
    assert_eq!(json!(std::fs::read_to_string(log).expect("the log").trim()), head, "{battery}");
}

/// 87 again: every variable of git's own, on the command lines that ask no daemon.
#[test]
fn no_inherited_variable_of_git_moves_gate_or_verify() {
    let environment = stub::environment();
    let (named, other) = (environment.repository("named"), environment.repository("other"));
    commit(&environment, other.path(), "feat: elsewhere");
    assert_eq!(environment.shim().answer("solution_evaluate", task(&named))["verdict"]["ready"], true);
    let elsewhere = other.path().join(".git");
    for (variable, value) in [
        ("GIT_DIR", elsewhere.clone()),
        ("GIT_COMMON_DIR", elsewhere.clone()),
        ("GIT_WORK_TREE", other.path().to_owned()),
        ("GIT_INDEX_FILE", elsewhere.join("index")),
        ("GIT_OBJECT_DIRECTORY", elsewhere.join("objects")),
        ("GIT_CEILING_DIRECTORIES", named.path().to_owned()),
        ("GIT_NAMESPACE", "n".into()),
    ] {
        for verb in ["gate", "verify"] {
            let mut command = environment.command(binaries::groundingctl());
            command.args([verb, "task", "--repo", named.text(), "--json"]).env(variable, &value).stdin(Stdio::null());
            let output = command.output().expect("groundingctl starts");
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)));
            let found = (&answer["currentHead"], &answer["worktree"]);
            assert_eq!(found, (&json!(named.head()), &json!("clean")), "{variable}, {verb}: {answer}");
        }
    }
}

/// 91, gitpython-developers/GitPython#1475, jorio/gitfourchette#90 (and R3): names of 64 digits were refused.
#[test]
fn the_sha256_object_format_is_accepted_end_to_end() {
    let environment = built_in();
    git(&environment, environment.home(), &["init", "--quiet", "--object-format=sha256", "-b", "feature/work", "repo"]);
    let repository = Repository::of(&environment, "repo");
    configure(&repository, &["true"]);
    let head = repository.head();
    assert_eq!(head.len(), 64);
    let mut shim = environment.shim();
    let evaluated = shim.answer("solution_evaluate", task(&repository));
    let verdict = &evaluated["verdict"];
    assert_eq!((&verdict["ready"], &verdict["head"]), (&json!(true), &json!(head)), "{evaluated}");
    let marker = std::fs::read(stub::file(&environment, ".json")).expect("a marker");
    let marker: Value = serde_json::from_slice(&marker).expect("JSON");
    assert_eq!(marker["head"], json!(head));
    assert_eq!(shim.answer("solution_evaluate_status", json!({ "id": "task" }))["head"], json!(head));
    let verify = environment.groundingctl(&["verify", "task", "--repo", repository.text(), "--json"]);
    let verify: Value = serde_json::from_slice(&verify.stdout).unwrap_or_else(|_| panic!("{}", shown(&verify)));
    assert_eq!((&verify["headMatches"], &verify["worktree"]), (&json!(true), &json!("clean")), "{verify}");

    let later = commit(&environment, repository.path(), "feat: more");
    let gate = shim.answer("solution_gate", task(&repository));
    let reason = gate["reason"].as_str().expect("a reason");
    assert_eq!(gate["code"], "stale_head", "{gate}");
    assert!(reason.contains(&head[..12]) && reason.contains(&later[..12]) && !reason.contains(&head), "{reason}");
}

/// 93, anthropics/claude-code-action#161 (and R5): a container's other owner looked like a repository without a commit.
#[test]
fn dubious_ownership_is_said_with_the_safe_directory_command() {
    let environment = built_in();
    let repository = environment.repository("repo");
    configure(&repository, &["true"]);
    assert_eq!(environment.shim().answer("solution_evaluate", task(&repository))["verdict"]["ready"], true);
    for arguments in [&["gate", "task", "--repo"][..], &["verify", "task", "--repo"], &["preflight", "run"]] {
        let mut command = environment.command(binaries::groundingctl());
        command.args([arguments, &[repository.text()]].concat()).env(OTHER_OWNER, "1").stdin(Stdio::null());
        let output = command.output().expect("groundingctl starts");
        let said = [output.stdout.as_slice(), &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("git refuses") && said.contains("dubious ownership"), "{arguments:?}: {said}");
        assert!(said.contains("git config --global --add safe.directory"), "{arguments:?}: {said}");
    }
    // git's own remedy is one: it names this repository, so that it may be copied.
    let gate = environment.shim_with(&[(OTHER_OWNER, "1".as_ref())]).answer("solution_gate", task(&repository));
    assert!(gate["reason"].as_str().is_some_and(|reason| reason.contains(repository.text())), "{gate}");
}

/// 95, open-gsd/gsd-core#4885: below a linked worktree, the root was that of the main checkout.
#[test]
fn a_subdirectory_of_a_linked_worktree_is_not_the_main_checkout() {
    let environment = built_in();
    let repository = environment.repository("repo");
    configure(&repository, &["test \"$(cat where)\" = linked"]);
    repository.write("where", "main\n");
    let main = repository.commit("feat: in the main checkout");
    repository.git(&["worktree", "add", "--quiet", "-b", "linked", "../linked"]);
    let linked = Repository::of(&environment, "linked");
    linked.write("where", "linked\n");
    let below = linked.path().join("sub");
    std::fs::create_dir(&below).expect("a directory");
    let configuration = std::fs::read_to_string(linked.path().join(".preflight.json")).expect("the configuration");
    linked.write("sub/.preflight.json", &configuration.replace("cat where", "cat ../where"));
    let head = linked.commit("feat: in the linked worktree");
    assert_ne!(head, main);

    let mut shim = environment.shim();
    let evaluated = shim.answer("solution_evaluate", json!({ "id": "task", "repoPath": below }));
    let verdict = &evaluated["verdict"];
    assert_eq!((&verdict["head"], &verdict["ready"]), (&json!(head), &json!(true)), "{evaluated:#}");
    let of_main = shim.answer("solution_gate", task(&repository));
    assert_eq!((&of_main["code"], &of_main["currentHead"]), (&json!("stale_head"), &json!(main)), "{of_main}");
}

/// 100, prebid/salesagent#1705, zapier/tfbuddy#7: no merge base in a shallow clone meant that nothing had changed.
#[test]
fn an_empty_merge_base_in_a_shallow_clone_is_no_all_clear() {
    let environment = stub::environment();
    let origin = environment.repository("origin");
    origin.write(".preflight.json", "{\"checks\": {\"audit\": false}}");
    origin.commit("chore: steer the checks");
    origin.git(&["switch", "--quiet", "main"]);
    commit(&environment, origin.path(), "feat: on main");
    origin.git(&["switch", "--quiet", "feature/work"]);
    let url = format!("file://{}", origin.text());
    let mut shim = environment.shim();
    let mut changed = |clone: &Repository<'_>| {
        let evaluated = shim.answer("solution_evaluate", task(clone));
        assert_eq!(evaluated["status"], "completed", "{evaluated}");
        evaluated["diagnostics"].get("policyFilesChanged").cloned()
    };
    for (name, depth) in
        [("both", &["--depth", "1", "--no-single-branch"][..]), ("one", &["--depth", "1"]), ("whole", &[])]
    {
        git(&environment, environment.home(), &[&["clone", "--quiet"], depth, &[&url, name]].concat());
        let clone = Repository::of(&environment, name);
        let expected = if depth.is_empty() {
            clone.git(&["remote", "set-head", "origin", "main"]);
            Some(json!([".preflight.json"]))
        } else {
            if name == "both" {
                clone.git(&["remote", "set-head", "origin", "main"]);
            } else {
                clone.git(&["remote", "set-head", "origin", "--delete"]);
            }
            None
        };
        assert_eq!(changed(&clone), expected, "{name}");
    }
}

/// 136, evilmartians/lefthook#1084, jdx/hk#32: parallel git commands collided with the user's over `.git/index.lock`.
#[test]
fn no_git_call_of_ours_takes_an_optional_lock() {
    let mut environment = built_in();
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let real = find_program(&path, "git").expect("git is on PATH");
    let spy = format!(
        "echo \"$GIT_OPTIONAL_LOCKS $*\" >> \"{}/calls\"\nexec \"{}\" \"$@\"",
        environment.home().display(),
        real.display()
    );
    let _ = environment.script("spy/git", &spy);
    let directories = [environment.path("spy")].into_iter().chain(std::env::split_paths(&path));
    environment.set("PATH", std::env::join_paths(directories).expect("directories"));
    let repository = environment.repository("repo");
    configure(&repository, &["true"]);
    std::fs::create_dir_all(repository.path().join(".ai/runs/2026-01-02-run")).expect("a run");
    let head = repository.head();
    std::fs::remove_file(environment.path("calls")).expect("the test's own calls");
    let lock = repository.path().join(".git/index.lock");
    std::fs::write(&lock, "").expect("the user's own git is at work");

    let mut shim = environment.shim();
    let evaluated = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(evaluated["verdict"]["head"], json!(head), "{evaluated}");
    shim.answer("solution_gate", task(&repository));
    let verify = environment.groundingctl(&["verify", "task", "--repo", repository.text()]);
    assert_eq!(verify.status.code(), Some(0), "{}", shown(&verify));
    assert!(lock.exists());
    let calls = environment.read("calls");
    assert!(calls.lines().count() > 20, "{calls}");
    for call in calls.lines() {
        assert!(call.starts_with("0 --no-optional-locks "), "{call}");
    }
}
