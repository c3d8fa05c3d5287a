//! A preflight that a test steers: a shell script with files beside it, and the processes and files of its attempts.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grounding_tests::process::{self, processes_of};
use grounding_tests::{Repository, Shim, TestEnvironment, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Counts its runs, waits as long as it is held, then prints what it is to print and exits as it is to exit.
const STUB: &str = r#"[ "$1" = run ] || exit 0
cd "$(dirname "$0")"
echo $$ >> runs
[ ! -e say ] || cat say >&2
while [ -e hold ]; do sleep 0.02; done
[ ! -e then ] || . ./then
cat payload
exit "$(cat code)""#;

/// Where verdicts are kept by default.
pub(crate) const VERDICTS: &str = ".local/state/agent-grounding/solution-verdicts";

/// Returns an environment whose preflight is the stub; it answers ready.
pub(crate) fn environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let stub = environment.script("stub/preflight", STUB);
    environment.set("SOLUTION_PREFLIGHT_BIN", stub);
    answer(&environment, true);
    environment
}

/// Has the stub give an answer of that kind, and exit as it should.
pub(crate) fn answer(environment: &TestEnvironment, ready: bool) {
    let blockers = if ready { json!([]) } else { json!(["lint failed"]) };
    environment.write("stub/payload", core(ready, &blockers).to_string());
    environment.write("stub/code", u8::from(!ready).to_string());
}

/// Returns a whole answer of preflight.
pub(crate) fn core(ready: bool, blockers: &Value) -> Value {
    json!({
        "ready": ready, "confidence": 0.9, "checks": [], "blockers": blockers, "warnings": [], "limitations": [],
        "durationMs": 5, "timestamp": "2026-12-01T07:12:02.000Z"
    })
}

/// Has the stub's next runs wait until `release`.
pub(crate) fn hold(environment: &TestEnvironment) {
    environment.write("stub/hold", "");
}

/// Lets waiting runs go on.
pub(crate) fn release(environment: &TestEnvironment) {
    std::fs::remove_file(environment.path("stub/hold")).expect("the stub was held");
}

/// Returns the processes that runs of the stub had, in their order.
pub(crate) fn runs(environment: &TestEnvironment) -> Vec<u32> {
    let runs = std::fs::read_to_string(environment.path("stub/runs")).unwrap_or_default();
    runs.lines().map(|line| line.parse().expect("a process id")).collect()
}

/// Waits until the stub was run that often and returns the last run's process.
pub(crate) fn wait_for_run(environment: &TestEnvironment, count: usize) -> u32 {
    wait_for("a run of preflight", || match runs(environment) {
        runs if runs.len() >= count => Ok(runs[count - 1]),
        runs => Err(format!("{runs:?}")),
    })
}

/// Returns a shim that is answered after 100 ms at the most.
pub(crate) fn hurried(environment: &TestEnvironment) -> Shim {
    environment.shim_with(&[("GROUNDING_ATTEMPT_WAIT_MS", "100".as_ref())])
}

/// Returns the arguments of an evaluation.
pub(crate) fn task(repository: &Repository<'_>) -> Value {
    json!({ "id": "task", "repoPath": repository.text() })
}

/// Starts an attempt of the held stub and returns its name, once preflight runs.
pub(crate) fn start(environment: &TestEnvironment, shim: &mut Shim, repository: &Repository<'_>) -> String {
    let before = runs(environment).len();
    // A busy machine may need longer than the caller waits until the attempt has a name; asking again joins it.
    let running = wait_for("the attempt to be named", || match shim.answer("solution_evaluate", task(repository)) {
        answer if answer["status"] == "running-unconfirmed" => Err(answer.to_string()),
        answer => Ok(answer),
    });
    assert_eq!(running["status"], "running", "{running}");
    wait_for_run(environment, before + 1);
    attempt_of(&running)
}

/// Returns a shim that pings every 20 ms, so that a test sees that a call is on its way.
pub(crate) fn pinging(environment: &TestEnvironment) -> Shim {
    environment.shim_with(&[("GROUNDING_PROGRESS_MS", "20".as_ref())])
}

/// Sends an evaluation and returns its request once it was waited for during several pings of a `pinging` shim.
pub(crate) fn begin(shim: &mut Shim, repository: &Repository<'_>) -> i64 {
    let meta = json!({ "progressToken": "p" });
    let params = json!({ "name": "solution_evaluate", "arguments": task(repository), "_meta": meta });
    let request = shim.send_request("tools/call", params);
    for _ in 0..5 {
        assert_eq!(shim.notification()["method"], "notifications/progress");
    }
    request
}

/// Returns what a begun evaluation answers.
pub(crate) fn evaluated(shim: &mut Shim, request: i64) -> Value {
    shim.response(request)["result"]["structuredContent"].clone()
}

/// Returns the attempt that an answer names.
pub(crate) fn attempt_of(answer: &Value) -> String {
    answer["attemptId"].as_str().unwrap_or_else(|| panic!("no attempt in {answer}")).to_owned()
}

/// Waits until an attempt of the id `task` has settled and returns its result.
pub(crate) fn settled(shim: &mut Shim, attempt: &str) -> Value {
    wait_for("the attempt to settle", || {
        let result = shim.answer("solution_evaluate_result", json!({ "id": "task", "attemptId": attempt }));
        if result["status"] == "running" { Err(result.to_string()) } else { Ok(result) }
    })
}

/// Returns where an attempt of the id `task` stands.
pub(crate) fn status(shim: &mut Shim, attempt: &str) -> Value {
    shim.answer("solution_evaluate_status", json!({ "id": "task", "attemptId": attempt }))
}

/// Returns the path of a file of the id `task`.
pub(crate) fn file(environment: &TestEnvironment, suffix: &str) -> PathBuf {
    environment.path(&format!("{VERDICTS}/task{suffix}"))
}

/// Makes a directory with its parents, for its owner alone, as a daemon wants its state directory.
pub(crate) fn make_directory(path: &Path) {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Returns the records of the log of the id `task`.
pub(crate) fn records(environment: &TestEnvironment) -> Vec<Value> {
    let log = std::fs::read_to_string(file(environment, ".attempts.jsonl")).unwrap_or_default();
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Returns the kinds of the records of an attempt.
pub(crate) fn kinds(environment: &TestEnvironment, attempt: &str) -> Vec<String> {
    let of_attempt = records(environment).into_iter().filter(|record| record["attemptId"] == attempt);
    of_attempt.map(|record| record["kind"].as_str().expect("a kind").to_owned()).collect()
}

/// Returns the one process of this home that runs the daemon's executable with that verb.
pub(crate) fn process_with(environment: &TestEnvironment, verb: &str) -> u32 {
    wait_for("one process with that verb", || {
        let all = processes_of(environment.home());
        let found: Vec<_> = all.iter().filter(|(_, line)| line.starts_with(&format!("groundingd {verb}"))).collect();
        match found.as_slice() {
            [(pid, _)] => Ok(*pid),
            _ => Err(format!("{verb}: {all:?}")),
        }
    })
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("the process lives");
}

/// Waits until a process is gone.
pub(crate) fn wait_until_gone(pid: u32) {
    wait_for("a process to be gone", || if process::is_alive(pid) { Err(format!("{pid} lives")) } else { Ok(()) });
}

/// Waits until that much time has gone by since a moment.
pub(crate) fn wait_until(since: Instant, elapsed: Duration) {
    wait_for(
        "time to go by",
        || if since.elapsed() >= elapsed { Ok(()) } else { Err(format!("{:?}", since.elapsed())) },
    );
}

/// Returns the keys of an answer.
pub(crate) fn keys(answer: &Value) -> BTreeSet<&str> {
    answer.as_object().unwrap_or_else(|| panic!("{answer}")).keys().map(String::as_str).collect()
}

/// Returns every file below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() && !path.is_symlink() { files_below(&path) } else { vec![path] }).collect()
}
