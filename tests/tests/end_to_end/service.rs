//! The daemon as a service of the user's manager: a real `systemd --user` starts it, restarts it and keeps it stopped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use grounding_tests::environment::{not_run_here, shown};
use grounding_tests::user_manager::unit_file;
use grounding_tests::{TestEnvironment, UserManager, binaries, process, wait_for};
use serde_json::json;

use super::client_storm::storm;

const SERVICE: &str = "groundingd.service";

fn managed() -> Option<(UserManager, TestEnvironment)> {
    let mut environment = TestEnvironment::new();
    let manager = UserManager::start(&mut environment)?;
    manager.install_service(&environment);
    Some((manager, environment))
}

/// The manager's child serves, and nobody else.
fn assert_managed(manager: &UserManager, environment: &TestEnvironment) -> u32 {
    let daemon = environment.daemon();
    assert_eq!(environment.daemons(), [daemon]);
    assert_eq!(manager.property(environment, SERVICE, "MainPID"), daemon.to_string());
    let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).expect("the daemon runs");
    assert!(status.contains(&format!("\nPPid:\t{}\n", manager.pid())), "{status}");
    daemon
}

fn groundingctl(environment: &TestEnvironment, verb: &str) -> String {
    let output = environment.groundingctl(&[verb]);
    assert!(output.status.success(), "{verb}: {}", shown(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn systemd_accepts_the_units() {
    let environment = TestEnvironment::new();
    let Ok(output) = environment.command("systemd-analyze").arg("--version").output() else {
        not_run_here("systemd-analyze is not installed");
        return;
    };
    assert!(output.status.success(), "{}", shown(&output));
    std::fs::create_dir_all(environment.path(".local/bin")).expect("a directory");
    std::os::unix::fs::symlink(binaries::groundingd(), environment.path(".local/bin/groundingd")).expect("a link");
    let mut verify = environment.command("systemd-analyze");
    verify.args(["--user", "--recursive-errors=no", "verify"]).env("XDG_RUNTIME_DIR", environment.home());
    let output = verify.args(["groundingd.service", "groundingd.socket"].map(unit_file)).output().expect("it starts");
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "warnings");
}

#[test]
fn clients_start_the_daemon_through_the_manager_and_stop_keeps_it_stopped() {
    let Some((manager, environment)) = managed() else { return };
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let first = assert_managed(&manager, &environment);
    let status = manager.property(&environment, SERVICE, "StatusText");
    assert!(status.contains("Serving on") && status.ends_with("groundingd.sock"), "{status}");

    groundingctl(&environment, "stop");
    assert_eq!(environment.daemons(), Vec::<u32>::new());
    assert_eq!(manager.property(&environment, SERVICE, "ActiveState"), "inactive");
    assert_eq!(manager.property(&environment, SERVICE, "Result"), "success");
    // What starts it at the next login does not start it either.
    manager.done(&environment, &["start", SERVICE]);
    assert_eq!(environment.daemons(), Vec::<u32>::new());
    assert!(shim.refusal("ledger_status", json!({})).contains("groundingctl start"));

    groundingctl(&environment, "start");
    assert_ne!(assert_managed(&manager, &environment), first);
    shim.answer("ledger_status", json!({}));
}

#[test]
fn a_killed_daemon_is_started_again_by_the_manager() {
    let Some((manager, environment)) = managed() else { return };
    groundingctl(&environment, "start");
    let killed = environment.kill_daemon();
    wait_for("the manager to start the daemon again", || match environment.daemons().as_slice() {
        [daemon] if *daemon != killed && environment.status().pid == Some(*daemon) => Ok(()),
        daemons => Err(format!("{daemons:?}")),
    });
    assert_managed(&manager, &environment);
    assert_eq!(manager.property(&environment, SERVICE, "NRestarts"), "1");
    // A client that calls at once finds the one that the manager starts.
    let mut shim = environment.shim();
    for _ in 0..3 {
        environment.kill_daemon();
        shim.answer("ledger_status", json!({}));
        assert_managed(&manager, &environment);
    }
}

#[test]
fn a_daemon_whose_executable_was_replaced_ends_well_and_the_next_call_starts_the_new_one() {
    let Some((manager, environment)) = managed() else { return };
    let program = environment.path("bin/groundingd");
    std::fs::create_dir_all(environment.path("bin")).expect("a directory");
    std::fs::copy(binaries::groundingd(), &program).expect("a copy");
    let unit = environment.read(".config/systemd/user/groundingd.service");
    let moved = unit.replace(binaries::groundingd().to_str().expect("UTF-8"), program.to_str().expect("UTF-8"));
    environment.write(".config/systemd/user/groundingd.service", moved);
    manager.done(&environment, &["daemon-reload"]);
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let old = assert_managed(&manager, &environment);

    std::fs::copy(binaries::groundingd(), environment.path("bin/new")).expect("a copy");
    std::fs::rename(environment.path("bin/new"), &program).expect("the new one takes the old one's name");
    wait_for("the old daemon to end", || {
        let state = manager.property(&environment, SERVICE, "ActiveState");
        if state == "inactive" { Ok(()) } else { Err(state) }
    });
    assert_eq!(manager.property(&environment, SERVICE, "Result"), "success");
    shim.answer("ledger_status", json!({}));
    assert_ne!(assert_managed(&manager, &environment), old);
}

#[test]
fn a_unit_that_does_not_start_the_daemon_is_named_with_the_reason() {
    let Some((manager, environment)) = managed() else { return };
    let unit = environment.read(".config/systemd/user/groundingd.service");
    environment.write(
        ".config/systemd/user/groundingd.service",
        unit.replace(binaries::groundingd().to_str().expect("UTF-8"), "/nowhere/groundingd"),
    );
    manager.done(&environment, &["daemon-reload"]);
    let mut shim = environment.shim();
    let said = shim.refusal("ledger_status", json!({}));
    for part in
        ["groundingd.service", "/nowhere/groundingd", "gone", "journalctl --user -u groundingd", "groundingd.log"]
    {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    let again = shim.refusal("ledger_status", json!({}));
    assert!(again.contains("not tried again") && again.contains("groundingd.service"), "{again}");
    assert_eq!(environment.daemons(), Vec::<u32>::new(), "it is not started behind the manager's back");

    // The daemon's own words, when it has any.
    manager.install_service(&environment);
    std::fs::create_dir_all(environment.path(".local/state/agent-grounding/log")).expect("a directory");
    let log = environment.path(".local/state/agent-grounding/log/groundingd.log");
    std::os::unix::fs::symlink(environment.path("victim"), &log).expect("a link");
    let output = environment.groundingctl(&["start"]);
    assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("groundingd.service") && said.contains("symlink"), "{said}");
    assert_eq!(manager.property(&environment, SERVICE, "NRestarts"), "0", "what it can't mend is not tried again");
    std::fs::remove_file(&log).expect("the link is removed");
    groundingctl(&environment, "start");
    assert_managed(&manager, &environment);
}

#[test]
fn a_manager_of_another_home_or_a_state_directory_of_ones_own_leaves_the_start_to_clients() {
    let Some((manager, environment)) = managed() else { return };
    let state = environment.path("state");
    let mut shim = environment.shim_with(&[("GROUNDING_STATE_DIR", state.as_os_str())]);
    shim.answer("ledger_status", json!({}));
    assert_eq!(manager.property(&environment, SERVICE, "MainPID"), "0");
    assert_eq!(environment.daemons().len(), 1);
    drop(shim);

    let mut other = TestEnvironment::new();
    other.set("XDG_RUNTIME_DIR", environment.environment().get("XDG_RUNTIME_DIR").expect("set"));
    groundingctl(&other, "start");
    assert_eq!(manager.property(&environment, SERVICE, "MainPID"), "0");
    assert_eq!(other.daemons(), [other.daemon()]);
}

#[test]
fn a_daemon_that_a_client_started_is_moved_to_the_manager_by_restart() {
    let mut environment = TestEnvironment::new();
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let started_by_client = environment.daemon();
    let Some(manager) = UserManager::start(&mut environment) else { return };
    manager.install_service(&environment);
    // The manager's own finds the lock taken, says so, and is not tried again and again.
    let output = manager.systemctl(&environment, &["start", SERVICE]);
    assert!(!output.status.success(), "{}", shown(&output));
    let said = manager.property(&environment, SERVICE, "StatusText");
    assert!(said.contains("another groundingd") && said.contains("groundingctl restart"), "{said}");
    assert_eq!(manager.property(&environment, SERVICE, "NRestarts"), "0");
    assert_eq!(environment.daemon(), started_by_client);

    assert!(groundingctl(&environment, "start").contains("groundingctl restart"));
    let said = groundingctl(&environment, "restart");
    assert!(!said.contains("groundingctl restart"), "{said}");
    assert_ne!(assert_managed(&manager, &environment), started_by_client);
    shim.answer("ledger_status", json!({}));
}

#[test]
fn forty_clients_at_once_have_the_manager_start_one_daemon() {
    let Some((manager, environment)) = managed() else { return };
    storm(&environment, 1);
    assert_managed(&manager, &environment);
}

#[test]
fn a_start_behind_the_managers_socket_may_take_longer_than_an_answer() {
    let Some((manager, environment)) = managed() else { return };
    // Longer than clients wait for an answer of a daemon that serves.
    environment.write(".config/systemd/user/groundingd.service.d/slow.conf", "[Service]\nExecStartPre=/bin/sleep 12\n");
    manager.install_socket(&environment);
    manager.done(&environment, &["enable", "--now", "groundingd.socket"]);
    environment.shim().answer("ledger_status", json!({}));
    assert_managed(&manager, &environment);
}

#[test]
fn clients_notice_nothing_of_replacements_through_the_manager() {
    let Some((manager, environment)) = managed() else { return };
    replace_under_load(&manager, &environment);
}

#[test]
fn clients_notice_nothing_of_replacements_behind_the_managers_socket() {
    let Some((manager, environment)) = managed() else { return };
    manager.install_socket(&environment);
    manager.done(&environment, &["enable", "--now", "groundingd.socket"]);
    assert_eq!(environment.daemons(), Vec::<u32>::new());
    replace_under_load(&manager, &environment);
    // The manager's socket outlives the daemon and leads to the next one; stop ends both, start brings both back.
    let socket = manager.property(&environment, "groundingd.socket", "ActiveState");
    assert_eq!(socket, "active");
    groundingctl(&environment, "stop");
    assert_eq!(manager.property(&environment, "groundingd.socket", "ActiveState"), "inactive");
    assert_eq!(environment.daemons(), Vec::<u32>::new());
    assert_eq!(environment.groundingctl(&["status"]).status.code(), Some(3));
    assert!(environment.shim().refusal("ledger_status", json!({})).contains("groundingctl start"));
    groundingctl(&environment, "start");
    assert_eq!(manager.property(&environment, "groundingd.socket", "ActiveState"), "active");
    assert_managed(&manager, &environment);
}

const CLIENTS: usize = 4;
const REPLACEMENTS: usize = 10;

fn replace_under_load(manager: &UserManager, environment: &TestEnvironment) {
    let done = AtomicBool::new(false);
    let add_until_done = |client: usize| {
        let mut shim = environment.shim();
        let mut added = 0_u64;
        while !done.load(Ordering::Relaxed) {
            let content = format!("{client} {added}");
            shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": content }));
            added += 1;
        }
        added
    };
    let added: u64 = std::thread::scope(|scope| {
        let add_until_done = &add_until_done;
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || add_until_done(client))).collect();
        let mut seen = BTreeSet::new();
        for _ in 0..REPLACEMENTS {
            // Whatever happens here, the clients come to an end.
            let output = environment.groundingctl(&["restart"]);
            if !output.status.success() {
                done.store(true, Ordering::Relaxed);
                panic!("{}", shown(&output));
            }
            seen.insert(environment.daemon());
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(seen.len(), REPLACEMENTS, "each replacement is a new process");
        clients.into_iter().map(|client| client.join().expect("no call of this client failed")).sum()
    });
    assert_managed(manager, environment);
    let summary = environment.shim().answer("ledger_summary", json!({ "sessionId": "s", "limit": 10_000 }));
    assert_eq!(summary["counts"]["facts"], added, "every answered entry is there once");
    let entries = summary["entries"]["facts"].as_array().expect("a list");
    let contents: BTreeSet<_> = entries.iter().map(|entry| entry["content"].as_str().expect("text")).collect();
    assert_eq!(contents.len(), entries.len(), "no entry was written twice");
    assert!(process::is_alive(manager.pid()));
}
