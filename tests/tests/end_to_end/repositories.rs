//! Every layout and format of a repository: HEAD is right, or a reason of its own says why there is none.

use std::ffi::OsStr;
use std::path::Path;

use grounding_tests::environment::shown;
use grounding_tests::{Repository, Shim, TestEnvironment};
use serde_json::{Value, json};

use super::stub;

/// Runs git in a directory and returns what it printed.
pub(crate) fn git(environment: &TestEnvironment, directory: &Path, arguments: &[&str]) -> String {
    let mut command = environment.command("git");
    let output = command.current_dir(directory).args(arguments).output().expect("git is installed");
    assert!(output.status.success(), "git {arguments:?}: {}", shown(&output));
    String::from_utf8(output.stdout).expect("git prints UTF-8 here").trim().to_owned()
}

/// Evaluates a directory and asks the gate; both are to speak of that commit.
pub(crate) fn head_is(shim: &mut Shim, path: &Path, head: &str) {
    let arguments = json!({ "id": "task", "repoPath": path });
    let evaluated = shim.answer("solution_evaluate", arguments.clone());
    assert_eq!(evaluated["verdict"]["head"], head, "{}: {evaluated}", path.display());
    let gate = shim.answer("solution_gate", arguments);
    assert_eq!((&gate["code"], &gate["currentHead"]), (&json!("ready"), &json!(head)), "{}: {gate}", path.display());
}

/// Makes an empty commit in a directory and returns it.
pub(crate) fn commit(environment: &TestEnvironment, directory: &Path, message: &str) -> String {
    let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    let arguments = [&identity[..], &["commit", "--quiet", "--allow-empty", "--message", message]].concat();
    git(environment, directory, &arguments);
    git(environment, directory, &["rev-parse", "HEAD"])
}

#[test]
fn head_is_right_in_every_layout() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let main = repository.head();
    let mut shim = environment.shim();

    let linked = environment.path("linked");
    repository.git(&["worktree", "add", "--quiet", "-b", "linked", "../linked"]);
    let head = commit(&environment, &linked, "feat: in the linked worktree");
    assert_ne!(head, main);
    head_is(&mut shim, &linked, &head);
    let below = linked.join("deep/below");
    std::fs::create_dir_all(&below).expect("a directory");
    head_is(&mut shim, &below, &head);
    head_is(&mut shim, repository.path(), &main);

    repository.git(&["checkout", "--quiet", "--detach"]);
    let detached = commit(&environment, repository.path(), "feat: detached");
    head_is(&mut shim, repository.path(), &detached);

    let other = environment.repository("other");
    let allowed = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub"];
    repository.git(&allowed);
    commit(&environment, repository.path(), "feat: add a submodule");
    head_is(&mut shim, &repository.path().join("sub"), &other.head());

    let separate = environment.path("separate");
    git(&environment, environment.home(), &["init", "--quiet", "--separate-git-dir", "elsewhere.git", "separate"]);
    let head = commit(&environment, &separate, "feat: begin");
    head_is(&mut shim, &separate, &head);

    commit(&environment, other.path(), "feat: more");
    let url = format!("file://{}", other.text());
    git(&environment, environment.home(), &["clone", "--quiet", "--depth", "1", &url, "shallow"]);
    head_is(&mut shim, &environment.path("shallow"), &other.head());
}

#[test]
fn head_is_right_in_every_format() {
    let environment = stub::environment();
    let mut shim = environment.shim();
    for (name, option, length) in [("sha256", "--object-format=sha256", 64), ("reftable", "--ref-format=reftable", 40)]
    {
        let path = environment.path(name);
        git(&environment, environment.home(), &["init", "--quiet", option, name]);
        let head = commit(&environment, &path, "feat: begin");
        assert_eq!(head.len(), length);
        head_is(&mut shim, &path, &head);
        let later = commit(&environment, &path, "feat: more");
        let gate = shim.answer("solution_gate", json!({ "id": "task", "repoPath": path }));
        assert_eq!((&gate["code"], &gate["currentHead"]), (&json!("stale_head"), &json!(later)), "{gate}");
        // There and back is seen in each format.
        let there_and_back =
            "( cd \"$2\" && git checkout -q --detach HEAD~1 && git checkout -q - ) >/dev/null 2>&1 || exit 9";
        environment.write("stub/then", there_and_back);
        let evaluated = shim.answer("solution_evaluate", json!({ "id": "task", "repoPath": path }));
        assert!(evaluated["error"].as_str().is_some_and(|error| error.contains("came back")), "{name}: {evaluated}");
        std::fs::remove_file(environment.path("stub/then")).expect("written just now");
    }
}

#[test]
fn without_a_head_the_reason_is_its_own() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    git(&environment, environment.home(), &["init", "--quiet", "unborn"]);
    git(&environment, environment.home(), &["clone", "--quiet", "--bare", "repo", "bare"]);
    environment.write("plain/file", "");
    environment.write("broken/.git", "gitdir: /nowhere\n");
    let mut shim = environment.shim();
    let mut suspicious = environment.shim_with(&[("GIT_TEST_ASSUME_DIFFERENT_OWNER", OsStr::new("1"))]);
    let mut without_git = environment.shim_with(&[("PATH", OsStr::new("/nowhere"))]);
    let mut reasons = Vec::new();
    let mut expect = |shim: &mut Shim, path: &str, says: &[&str]| {
        let arguments = json!({ "id": "task", "repoPath": environment.path(path) });
        let evaluated = shim.answer("solution_evaluate", arguments.clone());
        assert_eq!((&evaluated["status"], &evaluated["verdict"]), (&json!("failed"), &Value::Null), "{evaluated}");
        let error = evaluated["error"].as_str().expect("an error").to_owned();
        for part in says {
            assert!(error.contains(part), "{path}: no {part:?} in {error:?}");
        }
        let status = stub::status(shim, &stub::attempt_of(&evaluated));
        assert_eq!((&status["status"], &status["head"]), (&json!("failed"), &Value::Null), "{status}");
        reasons.push(error);
        arguments
    };
    let asked = [
        expect(&mut shim, "unborn", &["no commit"]),
        expect(&mut shim, "plain", &["not inside a git repository"]),
        expect(&mut shim, "bare", &["work tree"]),
        expect(&mut shim, "broken", &["/nowhere"]),
        expect(&mut shim, "absent", &["not a directory"]),
    ];
    let dubious = expect(&mut suspicious, "repo", &["dubious ownership", "safe.directory"]);
    let no_git = expect(&mut without_git, "repo", &["git was not found", "/nowhere"]);
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons.len(), 7, "{reasons:?}");
    assert_eq!(stub::runs(&environment).len(), 0, "nothing was checked");

    // The gate denies for the same reasons, whatever verdict stands.
    let evaluated = shim.answer("solution_evaluate", json!({ "id": "task", "repoPath": repository.text() }));
    assert_eq!(evaluated["verdict"]["ready"], true, "{evaluated}");
    let denied = |shim: &mut Shim, arguments: &Value| {
        let gate = shim.answer("solution_gate", arguments.clone());
        assert_eq!((&gate["allowed"], &gate["code"]), (&json!(false), &json!("head_unresolved")), "{gate}");
        assert_eq!((&gate["worktree"], &gate["currentHead"]), (&json!("unknown"), &Value::Null), "{gate}");
        gate["reason"].as_str().expect("a reason").to_owned()
    };
    // A bare repository has a HEAD; it is only no tree to check.
    for index in [0, 1, 3, 4] {
        denied(&mut shim, &asked[index]);
    }
    assert!(denied(&mut suspicious, &dubious).contains("safe.directory"));
    denied(&mut without_git, &no_git);
}

#[test]
fn a_locked_index_is_left_alone_and_in_nobodys_way() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let lock = repository.path().join(".git/index.lock");
    std::fs::write(&lock, "").expect("a lock as another git holds it");
    // A file whose time alone changed makes git want to write the index.
    environment.write("stub/then", "touch \"$2/README.md\"");
    head_is(&mut environment.shim(), repository.path(), &repository.head());
    assert!(lock.exists());
}

#[test]
fn variables_that_point_git_elsewhere_never_count() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let other = environment.repository("other");
    commit(&environment, other.path(), "feat: elsewhere");
    environment.write("stub/then", "( cd \"$2\" && git rev-parse HEAD ) > seen; env | grep '^GIT_' > variables");
    let elsewhere = other.path().join(".git");
    let objects = elsewhere.join("objects");
    let mut shim = environment.shim_with(&[
        ("GIT_DIR", elsewhere.as_os_str()),
        ("GIT_COMMON_DIR", elsewhere.as_os_str()),
        ("GIT_WORK_TREE", other.path().as_os_str()),
        ("GIT_INDEX_FILE", elsewhere.as_os_str()),
        ("GIT_OBJECT_DIRECTORY", objects.as_os_str()),
        ("GIT_NAMESPACE", OsStr::new("n")),
        ("GIT_PREFIX", OsStr::new("p/")),
        ("GIT_CEILING_DIRECTORIES", repository.path().as_os_str()),
        ("GIT_AUTHOR_NAME", OsStr::new("kept")),
    ]);
    head_is(&mut shim, repository.path(), &repository.head());
    let below = repository.path().join("below");
    std::fs::create_dir(&below).expect("a directory");
    head_is(&mut shim, &below, &repository.head());
    assert_eq!(environment.read("stub/seen").trim(), repository.head());
    assert_eq!(environment.read("stub/variables"), "GIT_AUTHOR_NAME=kept\n");
}

#[test]
fn a_path_that_is_not_utf8_or_full_of_signs_is_a_path() {
    let environment = stub::environment();
    let name = " a 'b' \"c\" $(d) é\n;";
    let repository = Repository::init(&environment, name);
    head_is(&mut environment.shim(), repository.path(), &repository.head());
}
