//! What `doctor` says of a real user manager, and of a home that was set up.

use grounding_tests::environment::shown;
use grounding_tests::user_manager::unit;
use grounding_tests::{TestEnvironment, UserManager, binaries};
use serde_json::json;

use super::{assert_check, doctor, failures};

#[test]
fn a_home_that_was_set_up_has_no_failure() {
    let mut environment = TestEnvironment::new();
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let programs = binaries::groundingctl().parent().expect("a directory").to_owned();
    let directories = [programs].into_iter().chain(std::env::split_paths(&path));
    environment.set("PATH", std::env::join_paths(directories).expect("a PATH"));
    environment.write(".cursor/mcp.json", "{}");
    let manager = UserManager::start(&mut environment);
    let output = environment.groundingctl(&["setup"]);
    assert!(output.status.success(), "{}", shown(&output));
    let (code, report) = doctor(&environment);
    assert_eq!((code, failures(&report)), (Some(0), vec![]), "{report:#}");
    assert_check(&report, "host-cursor", "ok", &["grounding-mcp"]);
    if manager.is_some() {
        assert_check(&report, "service", "ok", &["groundingd.service"]);
    }
}

#[test]
fn a_unit_that_is_of_no_use_is_named_with_the_remedy() {
    let mut environment = TestEnvironment::new();
    let Some(manager) = UserManager::start(&mut environment) else { return };
    assert_check(&doctor(&environment).1, "service", "ok", &["no unit"]);
    manager.install_service(&environment);
    assert_check(&doctor(&environment).1, "service", "ok", &["when it is needed"]);

    // The manager forgets the text of a unit that does nothing, so that no change of it is missed.
    environment.shim().answer("ledger_status", json!({}));
    assert_check(&doctor(&environment).1, "service", "ok", &["runs the daemon"]);
    let file = ".config/systemd/user/groundingd.service";
    environment.write(file, format!("{}# changed\n", environment.read(file)));
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(0));
    assert_check(&report, "service", "warning", &["not read again", "daemon-reload"]);

    let text = unit("groundingd.service").replace("%h/.local/bin/groundingd", "/nowhere/groundingd");
    environment.write(file, text);
    manager.done(&environment, &["daemon-reload"]);
    let (code, report) = doctor(&environment);
    assert_eq!(code, Some(1));
    assert_check(&report, "service", "failure", &["/nowhere/groundingd", "groundingctl setup"]);
}

#[test]
fn looking_at_a_daemon_behind_the_managers_socket_does_not_start_it() {
    let mut environment = TestEnvironment::new();
    let Some(manager) = UserManager::start(&mut environment) else { return };
    manager.install_service(&environment);
    manager.install_socket(&environment);
    manager.done(&environment, &["start", "groundingd.socket"]);
    let (code, report) = doctor(&environment);
    assert_eq!((code, failures(&report)), (Some(0), vec![]), "{report:#}");
    assert_check(&report, "daemon", "ok", &["the service manager starts it"]);
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}
