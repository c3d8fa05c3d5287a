//! The daemon starts when it is needed, once, and stays stopped when it was stopped.

use std::sync::Barrier;

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, process, wait_for};
use serde_json::json;

const CLIENTS: usize = 20;

fn call_at_once(environment: &TestEnvironment) {
    let begin = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let begin = &begin;
            scope.spawn(move || {
                let mut shim = environment.shim();
                begin.wait();
                let content = format!("client {number}");
                shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": content }));
            });
        }
    });
    assert_eq!(environment.daemons(), [environment.daemon()]);
}

#[test]
fn twenty_clients_at_once_start_one_daemon_cold_and_over_a_stale_socket() {
    let environment = TestEnvironment::new();
    call_at_once(&environment);
    environment.kill_daemon();
    assert!(environment.socket().exists(), "a killed daemon leaves its socket");
    call_at_once(&environment);
    let summary = environment.shim().answer("ledger_summary", json!({ "sessionId": "s" }));
    assert_eq!(summary["counts"]["facts"], 2 * CLIENTS);
}

#[test]
fn status_exits_3_when_down_0_when_well_and_1_when_degraded() {
    let environment = TestEnvironment::new();
    let status = || environment.groundingctl(&["status", "--json"]);
    let code = |output: &std::process::Output| (output.status.code(), shown(output));

    let (down, said) = code(&status());
    assert_eq!(down, Some(3), "{said}");
    assert_eq!(environment.daemons(), Vec::<u32>::new(), "status starts nothing");
    assert!(said.contains("\"down\""), "{said}");

    let started = environment.groundingctl(&["start"]);
    assert!(started.status.success(), "{}", shown(&started));
    let (well, said) = code(&status());
    assert_eq!(well, Some(0), "{said}");
    assert_eq!(environment.status().socket, environment.socket().to_str().expect("UTF-8"));

    let stopped = environment.groundingctl(&["stop"]);
    assert!(stopped.status.success(), "{}", shown(&stopped));
    environment.write(".evidence-ledger/ledger.db", "This is no database. ".repeat(100));
    let started = environment.groundingctl(&["start"]);
    assert!(started.status.success(), "{}", shown(&started));
    let (degraded, said) = code(&status());
    assert_eq!(degraded, Some(1), "{said}");
    assert!(said.contains("ledger.db"), "{said}");
}

#[test]
fn stop_suppresses_the_automatic_start_until_start() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));

    let stopped = environment.groundingctl(&["stop"]);
    assert!(stopped.status.success(), "{}", shown(&stopped));
    wait_for("the daemon to end", || match environment.daemons().as_slice() {
        [] => Ok(()),
        daemons => Err(format!("{daemons:?}")),
    });
    assert!(!environment.socket().exists(), "a stopped daemon removes its socket");
    let said = shim.refusal("ledger_status", json!({}));
    assert!(said.contains("groundingctl start"), "{said}");
    assert_eq!(environment.daemons(), Vec::<u32>::new());

    let started = environment.groundingctl(&["start"]);
    assert!(started.status.success(), "{}", shown(&started));
    shim.answer("ledger_status", json!({}));
}

#[test]
fn a_daemon_may_be_replaced_between_two_calls_of_one_shim() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let session = shim.answer("grounding_start", json!({ "keyword": "k", "problem": "p" }));
    let advance = json!({ "sessionId": session["sessionId"] });

    let killed = environment.kill_daemon();
    assert_eq!(shim.answer("grounding_advance", advance.clone())["currentPhase"], "doc-reading");
    assert_ne!(environment.daemon(), killed);

    assert!(environment.groundingctl(&["stop"]).status.success());
    assert!(environment.groundingctl(&["start"]).status.success());
    assert_eq!(shim.answer("grounding_advance", advance)["currentPhase"], "playbook-loading");
}

#[test]
fn a_daemon_whose_socket_was_removed_is_reached_again() {
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_status", json!({}));
    let daemon = environment.daemon();
    std::fs::remove_file(environment.socket()).expect("the socket was there");
    wait_for(
        "the socket to be bound again",
        || if environment.socket().exists() { Ok(()) } else { Err("gone".into()) },
    );
    environment.shim().answer("ledger_status", json!({}));
    assert_eq!(environment.daemons(), [daemon]);
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let environment = TestEnvironment::new();
    let run = environment.socket().parent().expect("a directory").to_path_buf();
    std::fs::create_dir_all(&run).expect("created");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).expect("permissions are set");
    let said = environment.shim().refusal("ledger_status", json!({}));
    assert!(said.contains(run.to_str().expect("UTF-8")), "{said}");
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}

#[test]
fn a_command_line_with_little_environment_and_a_shim_reach_one_daemon() {
    let environment = TestEnvironment::new();
    let mut full = environment.shim_with(&[
        ("XDG_RUNTIME_DIR", "/tmp/none".as_ref()),
        ("XDG_STATE_HOME", environment.path("elsewhere").as_os_str()),
        ("TMPDIR", "/tmp".as_ref()),
    ]);
    full.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    let output = environment.groundingctl(&["call", "ledger_summary", r#"{"sessionId":"s"}"#]);
    assert!(output.status.success(), "{}", shown(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("data on stdout");
    assert_eq!(summary["counts"]["facts"], 1);
    assert_eq!(environment.daemons().len(), 1);
    assert!(process::is_alive(full.pid()));
}
