//! What stands in the state directory is not trusted: planted links, held locks.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use grounding_tests::TestEnvironment;
use grounding_tests::environment::shown;

const STATE: &str = ".local/state/agent-grounding";

#[test]
fn a_link_in_the_place_of_lock_or_log_is_refused_and_its_target_stays() {
    for name in ["groundingd.lock", "log/groundingd.log"] {
        let environment = TestEnvironment::new();
        environment.write("victim", "precious");
        let planted = environment.path(STATE).join(name);
        fs::create_dir_all(planted.parent().expect("a directory")).expect("the state directory");
        symlink(environment.path("victim"), &planted).expect("a link");
        let output = environment.groundingctl(&["start"]);
        assert!(!output.status.success(), "{name}: {}", shown(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("symlink") && said.contains(name.rsplit('/').next().expect("a name")), "{said}");
        assert_eq!(environment.read("victim"), "precious", "{name}");
    }
}

#[test]
fn a_lock_that_somebody_holds_without_serving_is_named() {
    let environment = TestEnvironment::new();
    fs::create_dir_all(environment.path(STATE)).expect("the state directory");
    let held = File::create(environment.path(STATE).join("groundingd.lock")).expect("the lock file");
    held.lock().expect("the lock");
    let output = environment.groundingctl(&["start"]);
    assert!(!output.status.success(), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("groundingd.lock") && said.contains("does not serve"), "{said}");
}
