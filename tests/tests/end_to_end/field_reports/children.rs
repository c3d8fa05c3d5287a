//! Section G: what checks start, print and leave behind.

use std::time::{Duration, Instant};

use grounding_tests::process::{kill, processes_of};
use grounding_tests::{Repository, TestEnvironment, wait_for};
use serde_json::{Value, json};

use crate::stub::{self, attempt_of, task};

/// Evaluates with that script as the end of preflight.
fn evaluate(environment: &TestEnvironment, repository: &Repository<'_>, then: &str) -> Value {
    environment.write("stub/then", then);
    environment.shim().answer("solution_evaluate", task(repository))
}

/// Returns the process id that a script left in a file of the stub.
fn pid(environment: &TestEnvironment, name: &str) -> u32 {
    wait_for("a process id", || {
        let text = std::fs::read_to_string(environment.path(&format!("stub/{name}"))).unwrap_or_default();
        text.trim().parse().map_err(|_| format!("{name}: {text:?}"))
    })
}

/// 105, apmantza/pi-lens#1656: a fixed deadline after the exit cut the output, and a cut prober read as "no findings".
#[test]
fn output_in_flight_at_the_exit_is_read_whole() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    // Six megabytes, a hundred bytes at a time, by one process that was left behind.
    let whole = evaluate(
        &environment,
        &repository,
        "{ printf '{\"ready\":false,\"confidence\":1,\"blockers\":[\"late\"],\"pad\":\"'; count=0
           while [ $count -lt 60000 ]; do printf %0100d 0; count=$((count + 1)); done; printf '\"}'; } & exit 1",
    );
    assert_eq!((&whole["status"], &whole["verdict"]["blockers"]), (&json!("completed"), &json!(["late"])), "{whole}");
    // Silent for longer than is waited: what came is no answer.
    let cut = evaluate(
        &environment,
        &repository,
        "{ printf '{\"ready\":true,\"confidence\":1,\"blockers\":['; sleep 5; printf ']}'; } & exit 0",
    );
    assert_eq!((&cut["status"], &cut["verdict"]), (&json!("failed"), &Value::Null), "{cut}");
    assert!(cut["error"].as_str().is_some_and(|error| error.contains("was cut")), "{cut}");
}

/// 105 again: at the cap, what was read is no answer either, although it is a whole one so far.
#[test]
fn output_that_never_ends_is_incomplete_and_no_pass() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let endless = evaluate(&environment, &repository, "cat payload; (while :; do echo; sleep 0.05; done) & exit 0");
    assert_eq!((&endless["status"], &endless["verdict"]), (&json!("failed"), &Value::Null), "{endless}");
    assert!(
        endless["error"].as_str().is_some_and(|error| error.contains("did not end after preflight did")),
        "{endless}"
    );
    assert!(!stub::file(&environment, ".json").exists(), "a marker stands");
}

/// 108, FrameOS/frameos PR#372: the shell died of SIGTERM, so the escalation never fired, and the compilers lived on.
#[test]
fn a_shell_that_dies_of_sigterm_does_not_save_its_deaf_children() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let deaf = "sh -c 'trap \"\" TERM; echo $$ > compiler; while :; do sleep 1; done' & wait";

    environment.write("stub/then", deaf);
    let mut shim = environment.shim_with(&[("GROUNDING_PREFLIGHT_TIMEOUT_MS", "1500".as_ref())]);
    let late = shim.answer("solution_evaluate", task(&repository));
    assert!(late["error"].as_str().is_some_and(|error| error.contains("did not end within")), "{late}");
    assert_eq!(late["diagnostics"]["execution"]["signal"], "SIGTERM", "the shell was to die of it: {late}");
    stub::wait_until_gone(pid(&environment, "compiler"));

    std::fs::remove_file(environment.path("stub/compiler")).expect("written before");
    let mut shim = stub::hurried(&environment);
    let _ = shim.answer("solution_evaluate", task(&repository));
    let compiler = pid(&environment, "compiler");
    let attempt = attempt_of(&shim.answer("solution_evaluate_status", json!({ "id": "task" })));
    let cancelled = environment.groundingctl(&["attempt", "cancel", &attempt]);
    assert!(cancelled.status.success(), "{cancelled:?}");
    assert_eq!(stub::settled(&mut shim, &attempt)["error"], "cancelled");
    stub::wait_until_gone(compiler);
}

/// 110, openai/codex PR#5258, Dave-London/Pare#548, sixty-north/cosmic-ray#603: workers outlived a killed daemon.
#[test]
fn no_test_worker_is_orphaned_when_daemon_and_supervisor_are_killed() {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    environment.set("GROUNDING_ATTEMPT_WAIT_MS", "1");
    let repository = environment.repository("repo");
    // A runner with workers in its group, in sessions of their own, and one that is deaf.
    let workers = "for worker in 1 2 3 4; do sleep 604 & done; setsid sleep 604 & (setsid sleep 604 &); \
                   (trap '' TERM INT HUP; exec sleep 604) & wait";
    let checks = json!([{ "name": "workers", "command": workers }]);
    repository.write(".preflight.json", &json!({ "customChecks": checks, "checks": { "audit": false } }).to_string());
    repository.commit("chore: configure");
    let _ = environment.shim().answer("solution_evaluate", task(&repository));
    let workers = || processes_of(environment.home()).into_iter().filter(|(_, line)| line == "sleep 604").count();
    wait_for("all workers", || if workers() == 7 { Ok(()) } else { Err(format!("{} workers", workers())) });

    // The daemon alone costs its attempt nothing; with the supervisor everything goes.
    environment.kill_daemon();
    assert_eq!(workers(), 7);
    kill(stub::process_with(&environment, "supervise"));
    wait_for(
        "no worker",
        || if workers() == 0 { Ok(()) } else { Err(format!("{:?}", processes_of(environment.home()))) },
    );
    let unknown = environment.shim().answer("solution_evaluate_status", json!({ "id": "task" }));
    assert_eq!(unknown["status"], "unknown", "{unknown}");
}

/// 113, Nukesor/pueue#41, OpenJobDescription/openjd-sessions PR#343, PrimeIntellect-ai/nano-rlm PR#61: one byte that is
/// not UTF-8 ended the daemon, or the reader, so that the rest was lost.
#[test]
fn one_byte_that_is_not_utf8_costs_neither_the_rest_nor_the_daemon() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let odd = b"a\xff\0\r\x1b[31m\x80\x93cp1252\x94\n";
    environment.write("stub/odd", odd);
    let since = Instant::now();
    let ready = evaluate(
        &environment,
        &repository,
        "cat odd >&2; head -c 1000000 /dev/zero | tr '\\0' y >&2; cat odd >&2; cat payload; exit 0",
    );
    assert_eq!(ready["verdict"]["ready"], true, "{ready}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let log = environment.path(&format!("{}/results/{}.log", stub::VERDICTS, attempt_of(&ready)));
    let expected = [odd.as_slice(), &[b'y'; 1_000_000], odd].concat();
    assert!(std::fs::read(log).expect("the log") == expected, "the log is not what was written");
    let daemon = environment.daemon();
    // In the answer itself it costs the verdict, wherever it stands.
    for bytes in ["\\377", "\\200", "\\355\\240\\275"] {
        let then = format!("printf '{{\"ready\":true,\"confidence\":1,\"blockers\":[],\"x\":\"{bytes}\"}}'; exit 0");
        let failed = evaluate(&environment, &repository, &then);
        assert!(failed["error"].as_str().is_some_and(|error| error.contains("UTF-8")), "{bytes}: {failed}");
    }
    assert_eq!(environment.daemon(), daemon);
}
