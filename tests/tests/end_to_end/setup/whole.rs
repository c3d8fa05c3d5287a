//! From an empty home to a healthy daemon and back.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, binaries, wait_for};

use super::{ends, names, server, setup, succeeds, tree};

/// Returns an empty home in which nothing is on PATH.
fn empty() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    environment.set("PATH", "/nowhere");
    environment
}

const BIN: &str = ".local/bin";

#[test]
fn an_empty_home_becomes_healthy_with_one_command_and_empty_again_with_another() {
    let environment = empty();
    let said = succeeds(&setup(&environment, &[]));
    for words in
        ["Install groundingd, grounding-mcp and groundingctl", "is not on PATH", "No host was found", "built-in"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    for name in ["groundingd", "grounding-mcp", "groundingctl"] {
        let path = environment.path(BIN).join(name);
        assert_eq!(path.metadata().expect("installed").permissions().mode() & 0o7777, 0o755);
    }
    assert_eq!(environment.groundingctl(&["status"]).status.code(), Some(0));
    let daemon = environment.daemon();
    let program = fs::read_link(format!("/proc/{daemon}/exe"));
    assert!(program.is_ok_and(|program| program == environment.path(BIN).join("groundingd")));

    let before = tree(environment.home());
    let said = succeeds(&setup(&environment, &[]));
    assert!(said.starts_with("Nothing has to be changed."), "{said}");
    assert!(before == tree(environment.home()), "a second set-up changed something");
    assert_eq!(environment.daemon(), daemon);

    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    let ledger = environment.path(".evidence-ledger/ledger.db");
    assert!(said.contains(&format!("Your data stays: evidence ledger in {}.", ledger.display())), "{said}");
    let left = names(environment.home());
    assert!(left.iter().all(|name| name.starts_with(".evidence-ledger")), "{left:?}");
    assert!(environment.daemons().is_empty());
}

#[test]
fn a_purge_asks_first_and_leaves_nothing_but_the_key() {
    let environment = empty();
    succeeds(&setup(&environment, &[]));
    let call = environment.groundingctl(&["call", "grounding_start", r#"{"keyword":"k","problem":"p"}"#]);
    assert!(call.status.success(), "{}", shown(&call));
    environment.write(".harness/harness.generated/.approval-signing.key", [7; 32]);
    environment.write(".grounding-mcp/sessions/notes.txt", "mine");

    let before = tree(environment.home());
    let said = ends(&environment.groundingctl(&["uninstall", "--purge"]), 2);
    assert!(said.contains("--yes"), "{said}");
    let said = succeeds(&environment.groundingctl(&["uninstall", "--purge", "--dry-run"]));
    assert!(said.contains("Delete the sessions in"), "{said}");
    assert!(before == tree(environment.home()), "nothing was asked to be done");

    let said = succeeds(&environment.groundingctl(&["uninstall", "--purge", "--yes"]));
    assert!(said.contains(".approval-signing.key stays"), "{said}");
    assert_eq!(
        names(environment.home()),
        [
            ".grounding-mcp",
            ".grounding-mcp/sessions",
            ".grounding-mcp/sessions/notes.txt",
            ".harness",
            ".harness/harness.generated",
            ".harness/harness.generated/.approval-signing.key"
        ]
    );
}

#[test]
fn a_purge_leaves_what_is_not_ours_where_an_override_leads() {
    let mut environment = empty();
    for variable in ["GROUNDING_MCP_SESSIONS_DIR", "GROUNDING_MCP_HYPOTHESES_DIR", "SOLUTION_VERDICT_DIR"] {
        let directory = environment.path(&format!("project/{variable}"));
        environment.set(variable, directory);
        for name in ["package.json", "notes.json", "mine.log"] {
            environment.write(&format!("project/{variable}/{name}"), r#"{"id": "package", "name": "mine"}"#);
        }
    }
    succeeds(&setup(&environment, &[]));
    let call = environment.groundingctl(&["call", "grounding_start", r#"{"keyword":"k","problem":"p"}"#]);
    assert!(call.status.success(), "{}", shown(&call));
    let count = || names(&environment.path("project")).len();
    assert_eq!(count(), 3 + 9 + 1);
    let said = succeeds(&environment.groundingctl(&["uninstall", "--purge", "--yes"]));
    assert_eq!(said.matches("3 other files stay in").count(), 3, "{said}");
    assert_eq!(count(), 3 + 9, "{:?}", names(&environment.path("project")));
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let environment = empty();
    environment.write(".cursor/mcp.json", "{}");
    let before = tree(environment.home());
    let said = succeeds(&setup(&environment, &["--dry-run"]));
    for words in ["Would do:", "Install groundingd", "Cursor", "Start groundingd"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(before == tree(environment.home()));
    assert!(environment.daemons().is_empty());
}

#[test]
fn odd_homes_work() {
    let mut environment = empty();
    let home = environment.path("my home");
    fs::create_dir_all(home.join(".cursor")).expect("a home");
    symlink(&home, environment.path("link")).expect("a link");
    environment.set("HOME", environment.path("link"));
    succeeds(&setup(&environment, &[]));
    let registered = environment.read("my home/.cursor/mcp.json");
    let path = environment.path("link/.local/bin/grounding-mcp");
    assert!(registered.contains(path.to_str().expect("UTF-8")), "{registered}");
    assert_eq!(environment.groundingctl(&["status"]).status.code(), Some(0));
    succeeds(&environment.groundingctl(&["uninstall"]));
    let left = names(&home);
    assert!(left.iter().all(|name| name.starts_with(".evidence-ledger") || name == ".cursor"), "{left:?}");
}

#[test]
fn where_no_daemon_can_listen_everything_is_removed() {
    let mut environment = empty();
    let home = environment.path(&"h".repeat(110));
    fs::create_dir_all(home.join(".cursor")).expect("a home");
    environment.set("HOME", &home);
    let _ = setup(&environment, &[]);
    assert!(home.join(".local/bin/groundingctl").is_file() || home.join(".cursor/mcp.json").exists());
    succeeds(&environment.groundingctl(&["uninstall"]));
    let left = names(&home);
    assert!(left.iter().all(|name| name.starts_with(".evidence-ledger") || name == ".cursor"), "{left:?}");
}

#[test]
fn a_home_that_can_not_be_written_is_named_in_one_line() {
    let mut environment = empty();
    // Not even root creates anything there.
    environment.set("HOME", "/sys");
    let said = ends(&setup(&environment, &["--no-service"]), 4);
    assert!(said.contains("error: can't create the directory /sys/.local"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error:")).count(), 1, "{said}");

    let environment = empty();
    environment.write(".local", "a file");
    let said = ends(&setup(&environment, &[]), 4);
    assert!(said.contains(environment.path(".local").to_str().expect("UTF-8")), "{said}");
    assert_eq!(environment.read(".local"), "a file");
}

#[test]
fn a_foreign_program_in_the_way_is_not_replaced() {
    let environment = empty();
    let script = environment.script(".local/bin/grounding-mcp", "exit 0");
    let before = tree(environment.home());
    let said = ends(&setup(&environment, &[]), 4);
    assert!(said.contains(script.to_str().expect("UTF-8")) && said.contains("--prefix"), "{said}");
    assert!(before == tree(environment.home()));

    succeeds(&setup(&environment, &["--prefix", "elsewhere"]));
    assert!(environment.path("elsewhere/bin/groundingd").is_file());
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(script.is_file() && !environment.path("elsewhere").exists());
}

#[test]
fn an_upgrade_replaces_programs_and_the_running_daemon_goes_by_itself() {
    let environment = empty();
    succeeds(&setup(&environment, &[]));
    let daemon = environment.daemon();
    // An older build differs in a byte.
    let mut older = fs::read(binaries::groundingd()).expect("the daemon");
    older.push(0);
    let path = environment.path(BIN).join("groundingd");
    let replacement = environment.path("older");
    fs::write(&replacement, older).expect("written");
    fs::set_permissions(&replacement, fs::Permissions::from_mode(0o755)).expect("executable");
    fs::rename(&replacement, &path).expect("replaced");
    wait_for("the daemon of the replaced file to end", || {
        if environment.daemons().contains(&daemon) { Err("it runs".to_owned()) } else { Ok(()) }
    });
    let start = environment.command(environment.path(BIN).join("groundingctl")).arg("start").output();
    assert!(start.is_ok_and(|output| output.status.success()));
    let daemon = environment.daemon();
    let said = succeeds(&setup(&environment, &[]));
    assert!(said.contains("Install groundingd in") && said.contains("ends by itself"), "{said}");
    assert_eq!(fs::read(&path).expect("the daemon"), fs::read(binaries::groundingd()).expect("the daemon"));
    wait_for("the daemon of the replaced file to end", || {
        if environment.daemons().contains(&daemon) { Err("it runs".to_owned()) } else { Ok(()) }
    });
}

#[test]
fn a_program_that_was_replaced_since_is_left() {
    let environment = empty();
    succeeds(&setup(&environment, &[]));
    let path = environment.path(BIN).join("grounding-mcp");
    fs::remove_file(&path).expect("removed");
    let _script = environment.script(&format!("{BIN}/grounding-mcp"), "exit 0");
    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(said.contains(&format!("{} was replaced", path.display())), "{said}");
    assert!(path.is_file() && !environment.path(BIN).join("groundingd").exists());
}

#[test]
fn a_stopped_daemon_stays_stopped() {
    let environment = super::environment();
    assert!(environment.groundingctl(&["stop"]).status.success());
    let said = succeeds(&setup(&environment, &["--host", "cursor"]));
    assert!(said.contains("stays stopped"), "{said}");
    assert!(environment.daemons().is_empty());
    assert!(environment.read(".cursor/mcp.json").contains(&server()));
}
