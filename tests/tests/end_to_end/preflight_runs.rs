//! One preflight run: what its output, its end and its surroundings may be, and what each of them comes to.

use std::time::{Duration, Instant};

use grounding_tests::{Repository, Shim, TestEnvironment, binaries};
use serde_json::{Value, json};

use super::stub::{self, attempt_of, task};

/// A green marker of the id `task`, and the shim that evaluated it.
struct Green<'a> {
    environment: &'a TestEnvironment,
    repository: &'a Repository<'a>,
    shim: Shim,
    marker: String,
}

impl<'a> Green<'a> {
    fn new(environment: &'a TestEnvironment, repository: &'a Repository<'a>) -> Self {
        let mut shim = environment.shim();
        let evaluated = shim.answer("solution_evaluate", task(repository));
        assert_eq!(evaluated["verdict"]["ready"], true, "{evaluated}");
        let marker = std::fs::read_to_string(stub::file(environment, ".json")).expect("a marker");
        Self { environment, repository, shim, marker }
    }

    /// Evaluates again, with the script as preflight.
    fn evaluate(&mut self, script: &str) -> Value {
        self.environment.write("stub/then", script);
        std::fs::write(stub::file(self.environment, ".json"), &self.marker).expect("the green marker");
        self.shim.answer("solution_evaluate", task(self.repository))
    }

    /// Evaluates again, which is to fail with an error that holds a text, and to leave no verdict.
    fn fails(&mut self, script: &str, says: &str) -> Value {
        let evaluated = self.evaluate(script);
        assert_eq!(evaluated["status"], "failed", "{script}: {evaluated}");
        let error = evaluated["error"].as_str().expect("an error");
        assert!(error.contains(says), "{script}: no {says:?} in {error:?}");
        assert_eq!((&evaluated["verdict"], &evaluated["markerPath"]), (&Value::Null, &Value::Null), "{script}");
        let gate = self.shim.answer("solution_gate", task(self.repository));
        assert_eq!(gate["code"], "no_verdict", "{script}: an old verdict survived: {gate}");
        evaluated
    }

    /// Evaluates again, which is to give a ready verdict.
    fn is_ready(&mut self, script: &str) -> Value {
        let evaluated = self.evaluate(script);
        assert_eq!(evaluated["verdict"]["ready"], true, "{script}: {evaluated}");
        evaluated
    }
}

#[test]
fn only_the_two_right_pairings_make_a_verdict_and_nothing_else_leaves_one() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut green = Green::new(&environment, &repository);
    let answer = |ready: bool, confidence: &str, blockers: &str| {
        format!("printf '%s' '{{\"ready\":{ready},\"confidence\":{confidence},\"blockers\":{blockers}}}'; ")
    };
    let (ready, not_ready) = (answer(true, "1", "[]"), answer(false, "0.5", "[\"b\"]"));

    green.is_ready(&format!("{ready} exit 0"));
    let evaluated = green.evaluate(&format!("{not_ready} exit 1"));
    assert_eq!((&evaluated["status"], &evaluated["verdict"]["ready"]), (&json!("completed"), &json!(false)));
    let evaluated = green.evaluate(&format!("{} exit 1", answer(false, "0", "[]")));
    assert_eq!(evaluated["verdict"]["blockers"], json!([]), "{evaluated}");

    for (script, says) in [
        (format!("{ready} exit 1"), "exit code 1"),
        (format!("{not_ready} exit 0"), "exit code 0"),
        (format!("{ready} exit 2"), "exit code 2"),
        (format!("{not_ready} exit 2"), "exit code 2"),
        (format!("{ready} kill -9 $$"), "SIGKILL"),
        (format!("{not_ready} kill -15 $$"), "SIGTERM"),
        (format!("{ready} kill -11 $$"), "SIGSEGV"),
        (answer(true, "1.5", "[]") + "exit 0", "confidence"),
        (answer(true, "-0.1", "[]") + "exit 0", "confidence"),
        (answer(true, "\"1\"", "[]") + "exit 0", "confidence"),
        (answer(true, "1e999", "[]") + "exit 0", "not JSON"),
        (answer(true, "1", "[\"b\"]") + "exit 0", "contradicts"),
        (answer(false, "1", "[1]") + "exit 1", "blockers"),
        (answer(false, "1", "{}") + "exit 1", "blockers"),
        ("printf '{\"confidence\":1,\"blockers\":[]}'; exit 0".into(), "ready"),
        ("printf '{\"ready\":\"true\",\"confidence\":1,\"blockers\":[]}'; exit 0".into(), "ready"),
        ("printf '[true]'; exit 0".into(), "not a JSON object"),
        ("printf 'All good.'; exit 0".into(), "not JSON"),
        (format!("{ready} printf x; exit 0"), "not JSON"),
        ("exit 0".into(), "nothing"),
        ("exec false".into(), "nothing"),
        (format!("printf '\\0'; {ready} exit 0"), "not JSON"),
        (format!("{ready} printf '\\0'; exit 0"), "not JSON"),
        ("printf '{\"ready\":true,\"confidence\":1,\"blockers\":[],\"a\":\"\\377\"}'; exit 0".into(), "UTF-8"),
    ] {
        let evaluated = green.fails(&script, says);
        assert_eq!(evaluated["diagnostics"]["complete"], false, "{script}");
    }
}

#[test]
fn output_is_read_whole_or_refused_and_memory_and_disk_are_bounded() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut green = Green::new(&environment, &repository);
    let large = "printf '{\"ready\":true,\"confidence\":1,\"blockers\":[],\"pad\":\"'
        head -c 5000000 /dev/zero | tr '\\0' x; printf '\"}'";

    let evaluated = green.is_ready(&format!("{large}; exit 0"));
    assert_eq!((&evaluated["payloadOmitted"], evaluated["diagnostics"].get("payload")), (&json!(true), None));
    let whole = std::fs::read(evaluated["resultFile"].as_str().expect("a file")).expect("the whole result");
    let whole: Value = serde_json::from_slice(&whole).expect("JSON");
    assert_eq!(whole["diagnostics"]["payload"]["pad"].as_str().map(str::len), Some(5_000_000));

    // What a writer that does not wait for its pipe leaves behind.
    green.fails(&format!("{{ {large}; }} | head -c 65536; exit 0"), "was cut");
    let overflow = green.fails("exec yes", "16777216 bytes");
    assert_eq!(overflow["diagnostics"]["availability"], "unavailable");

    let flooded = green.is_ready("head -c 100000000 /dev/zero >&2; cat payload; exit 0");
    let attempt = attempt_of(&flooded);
    let log = environment.path(&format!("{}/results/{attempt}.log", stub::VERDICTS));
    let kept = std::fs::metadata(&log).expect("the log").len();
    assert!((60_000_000..70_000_000).contains(&kept), "{kept}");
}

#[test]
fn no_process_outlives_its_run_and_none_holds_it_up() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut green = Green::new(&environment, &repository);
    let pid = |name: &str| environment.read(&format!("stub/{name}")).trim().parse().expect("a process id");

    let since = Instant::now();
    green.is_ready("sleep 600 & echo $! > sleeper; cat payload; exit 0");
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    stub::wait_until_gone(pid("sleeper"));

    // In the group, and deaf to SIGTERM; judged by the group, whose leader has long ended.
    green.is_ready(
        "sh -c 'trap \"\" TERM; echo $$ > deaf; while :; do sleep 1; done' & \
         while [ ! -s deaf ]; do sleep 0.02; done; cat payload; exit 0",
    );
    stub::wait_until_gone(pid("deaf"));

    // In a session of its own, with a parent that has ended.
    if cfg!(target_os = "linux") {
        green.is_ready(
            "(setsid sh -c 'echo $$ > stray; exec sleep 600' &) ; while [ ! -s stray ]; do sleep 0.02; done; \
             cat payload; exit 0",
        );
        stub::wait_until_gone(pid("stray"));
    }
}

#[test]
fn a_run_ends_at_its_time_limit_however_deaf_it_is() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_PREFLIGHT_TIMEOUT_MS", "1000");
    let repository = environment.repository("repo");
    let mut green = Green::new(&environment, &repository);
    let since = Instant::now();
    let polite = green.fails("sleep 600", "did not end within 1 s");
    assert_eq!(polite["diagnostics"]["execution"]["signal"], "SIGTERM", "{polite}");
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    let deaf = green.fails("trap '' TERM; while :; do sleep 0.1; done", "did not end within 1 s");
    assert_eq!(deaf["diagnostics"]["execution"]["signal"], "SIGKILL", "{deaf}");
    stub::wait_until_gone(*stub::runs(&environment).last().expect("a run"));
}

#[test]
fn a_tree_that_moves_during_the_run_gives_no_verdict() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut green = Green::new(&environment, &repository);
    // In the stub, $2 is the repository.
    let during = |commands: &str| format!("( cd \"$2\" && {{ {commands}; }} ) >/dev/null || exit 9");
    let head = repository.head();
    let moved = green.fails(&during("git commit -q --allow-empty -m 'feat: more'"), "HEAD moved from");
    assert!(moved["error"].as_str().is_some_and(|error| error.contains(&head[..7])), "{moved}");
    green.fails(&during("git checkout -q main; git checkout -q feature/work"), "came back");
    green.fails(&during("git reset -q --hard HEAD~1; git reset -q --hard HEAD@{1}"), "came back");
    green.fails(&during("echo changed >> README.md"), "tracked files changed");
    // Dirty before and after is one tree; so is one whose files were only touched, or that gained an untracked one.
    green.is_ready(&during("touch README.md"));
    green.is_ready(&during("echo new > untracked"));
    repository.git(&["checkout", "--quiet", "--", "README.md"]);
    green.is_ready(&during("touch -d '2001-01-01' README.md"));
}

#[test]
fn the_run_sees_the_environment_of_the_caller_of_today() {
    let mut environment = TestEnvironment::new();
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let path_with = |directory: &str| {
        let mut directories = vec![environment.path(directory)];
        directories.extend(std::env::split_paths(&path).filter(|directory| !directory.join("preflight").exists()));
        std::env::join_paths(directories).expect("directories")
    };
    let (old, new) = (path_with("old"), path_with("new"));
    for (directory, confidence) in [("old", "0.1"), ("new", "0.2")] {
        let answer = format!("{{\"ready\":true,\"confidence\":{confidence},\"blockers\":[]}}");
        let _ = environment.script(&format!("{directory}/tool"), &format!("printf '%s' '{answer}'"));
        let _ = environment.script(&format!("{directory}/preflight"), "exec tool");
    }
    environment.set("PATH", old);
    let repository = environment.repository("repo");
    let evaluate = |shim: &mut Shim| shim.answer("solution_evaluate", task(&repository));
    let first = evaluate(&mut environment.shim());
    assert_eq!((&first["verdict"]["confidence"], &first["verdict"]["ready"]), (&json!(0.1), &json!(true)), "{first}");
    let second = evaluate(&mut environment.shim_with(&[("PATH", new.as_os_str())]));
    assert_eq!(second["verdict"]["confidence"], 0.2, "{second}");
    let program = &second["diagnostics"]["preflight"];
    assert_eq!(program["path"], environment.path("new/preflight").to_str().expect("UTF-8"), "{program}");
    assert_eq!((&program["foundBy"], program.get("version")), (&json!("PATH"), None), "{program}");
    assert_eq!(environment.daemons().len(), 1);
}

#[test]
fn the_answer_tells_what_was_skipped_what_steers_the_checks_and_which_preflight_ran() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let check = |kind: &str, status: &str| json!({ "name": kind, "kind": kind, "status": status, "durationMs": 0, "confidenceContribution": 0 });
    let mut payload = stub::core(true, &json!([]));
    payload["checks"] = json!([check("audit", "skip"), check("lint", "pass")]);
    environment.write("stub/payload", payload.to_string());
    let mut shim = environment.shim();
    let mut diagnostics = || shim.answer("solution_evaluate", task(&repository))["diagnostics"].clone();
    let plain = diagnostics();
    assert_eq!((&plain["skippedChecks"], &plain["policyFilesChanged"]), (&json!(["audit"]), &json!([])), "{plain}");
    assert_eq!((&plain["complete"], &plain["issues"]), (&json!(true), &json!([])), "{plain}");

    repository.write(".preflight.json", "{}");
    assert_eq!(diagnostics()["policyFilesChanged"], json!([".preflight.json"]), "untracked");
    // The change is what the branch has beside the default branch of the remote.
    repository.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    std::fs::create_dir(repository.path().join(".ai")).expect("a directory");
    repository.write(".ai/solution-acceptance.json", "{}");
    repository.commit("chore: steer");
    let both = json!([".ai/solution-acceptance.json", ".preflight.json"]);
    assert_eq!(diagnostics()["policyFilesChanged"], both, "committed");
    repository.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    assert_eq!(diagnostics()["policyFilesChanged"], json!([]), "on the default branch already");

    let real = binaries::preflight();
    let mut shim = environment.shim_with(&[("SOLUTION_PREFLIGHT_BIN", real.as_os_str())]);
    let program = shim.answer("solution_evaluate", task(&repository))["diagnostics"]["preflight"].clone();
    assert_eq!((&program["path"], &program["foundBy"]), (&json!(real), &json!("SOLUTION_PREFLIGHT_BIN")), "{program}");
    assert!(program["version"].as_str().is_some_and(|version| version.starts_with("0.")), "{program}");
}
