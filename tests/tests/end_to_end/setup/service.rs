//! Set-up where a real `systemd --user` answers.

use std::fs;

use grounding_tests::{TestEnvironment, UserManager};

use super::{ends, names, setup, succeeds, tree};

const SERVICE: &str = "groundingd.service";

#[test]
fn the_daemon_becomes_a_service_and_ceases_to_be_one() {
    let mut environment = TestEnvironment::new();
    // A name that a unit has to quote.
    let home = environment.path("my %h $HOME home");
    fs::create_dir(&home).expect("a home");
    environment.set("HOME", &home);
    let Some(manager) = UserManager::start(&mut environment) else { return };
    let before = names(&home);
    let said = succeeds(&setup(&environment, &["--host", "cursor"]));
    assert!(said.contains("Install and enable the service of systemd"), "{said}");
    assert_eq!(manager.property(&environment, SERVICE, "UnitFileState"), "enabled");
    assert_eq!(manager.property(&environment, SERVICE, "MainPID"), environment.daemon().to_string());

    let installed = tree(&home);
    let said = succeeds(&setup(&environment, &["--host", "cursor"]));
    assert!(said.starts_with("Nothing has to be changed.") && said.contains("The service is installed"), "{said}");
    assert!(installed == tree(&home), "a second set-up changed something");

    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(manager.property(&environment, SERVICE, "LoadState"), "not-found");
    let mut after = names(&home);
    after.retain(|name| !name.starts_with(".evidence-ledger"));
    assert_eq!(after, before);
}

#[test]
fn a_unit_without_a_record_and_one_of_its_own_are_told_apart() {
    let mut environment = TestEnvironment::new();
    let Some(manager) = UserManager::start(&mut environment) else { return };
    let unit = environment.path(".config/systemd/user").join(SERVICE);
    environment.write(".config/systemd/user/groundingd.service", "[Service]\nExecStart=/bin/true\n");
    manager.done(&environment, &["daemon-reload"]);
    // Clients would start the daemon through that unit, so it is no small thing.
    let said = ends(&setup(&environment, &["--host", "cursor"]), 1);
    assert!(said.contains("starts another program"), "{said}");
    assert!(environment.daemons().is_empty());
    assert!(fs::read_to_string(&unit).expect("a unit").contains("/bin/true"));
    fs::remove_file(&unit).expect("removed");
    manager.done(&environment, &["daemon-reload"]);

    succeeds(&setup(&environment, &["--host", "cursor"]));
    assert!(unit.is_file());
    let edited = fs::read_to_string(&unit).expect("a unit") + "# mine\n";
    fs::write(&unit, edited).expect("written");
    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(said.contains("was changed since it was installed"), "{said}");
    assert!(unit.is_file());
    assert_eq!(environment.groundingctl(&["status"]).status.code(), Some(3));
}
