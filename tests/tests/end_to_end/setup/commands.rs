//! A host's own command: what happens when it fails, lies or must not be called. The real ones are in `tests/hosts/run`.

use grounding_tests::TestEnvironment;

use super::{ends, environment, server, setup, succeeds};

/// Puts a script on PATH that records its arguments, and then does as the body says.
fn stand_in(environment: &mut TestEnvironment, name: &str, body: &str) {
    let record = environment.path("calls");
    let body = format!("echo \"{name} $*\" >>'{}'\n{body}", record.display());
    let script = environment.script(&format!("commands/{name}"), &body);
    let directory = script.parent().expect("a directory").to_owned();
    let programs = grounding_tests::binaries::groundingctl();
    let path = [directory.as_path(), programs.parent().expect("a directory")];
    environment.set("PATH", std::env::join_paths(path).expect("a PATH"));
}

fn calls(environment: &TestEnvironment) -> usize {
    let path = environment.path("calls");
    if path.exists() { environment.read("calls").lines().count() } else { 0 }
}

#[test]
fn a_command_that_fails_is_reported_and_the_file_stays() {
    for (name, file, content) in
        [("claude", ".claude.json", "{\"a\": 1}"), ("codex", ".codex/config.toml", "a = 1 # b\n")]
    {
        let mut environment = environment();
        stand_in(&mut environment, name, "echo 'no such luck' >&2; exit 3");
        environment.write(file, content);
        let said = ends(&setup(&environment, &[]), 1);
        assert!(said.contains("no such luck") && said.contains("mcp add"), "{said}");
        assert_eq!(environment.read(file), content);
        assert_eq!(calls(&environment), 1);
        let kept = environment.path(".local/state/agent-grounding/setup/backups");
        assert_eq!(std::fs::read_dir(kept).expect("a directory").count(), 0);
        succeeds(&environment.groundingctl(&["uninstall"]));
        assert_eq!((environment.read(file).as_str(), calls(&environment)), (content, 1));
    }
}

#[test]
fn a_command_that_did_nothing_is_noticed() {
    let mut environment = environment();
    stand_in(&mut environment, "claude", "exit 0");
    let said = ends(&setup(&environment, &[]), 1);
    assert!(said.contains("does not show what it did"), "{said}");
    assert_eq!(environment.read("calls"), format!("claude mcp add -s user grounding -- {}\n", server()));
}

#[test]
fn no_command_is_called_for_what_holds() {
    let mut environment = environment();
    stand_in(&mut environment, "claude", "exit 3");
    stand_in(&mut environment, "codex", "exit 3");
    environment
        .write(".claude.json", format!("{{\"mcpServers\": {{\"grounding\": {{\"command\": \"{}\"}}}}}}", server()));
    // An entry that is there is mended in the file.
    environment.write(".codex/config.toml", "[mcp_servers.grounding]\ncommand = \"grounding-mcp\" # c\n");
    succeeds(&setup(&environment, &[]));
    assert!(succeeds(&setup(&environment, &[])).starts_with("Nothing has to be changed."));
    assert_eq!(calls(&environment), 0);
    let codex = environment.read(".codex/config.toml");
    assert!(codex.contains("# c\nenv_vars = [\"GROUNDING_STATE_DIR\", "), "{codex}");
}

#[test]
fn a_file_whose_line_ends_the_command_would_change_is_edited() {
    let mut environment = environment();
    stand_in(&mut environment, "codex", "exit 3");
    environment.write(".codex/config.toml", "a = 1\r\n");
    succeeds(&setup(&environment, &[]));
    assert_eq!(calls(&environment), 0);
    assert!(environment.read(".codex/config.toml").starts_with("a = 1\r\n\r\n[mcp_servers.grounding]\r\n"));
}

#[test]
fn help_that_can_not_be_written_is_an_error() {
    let environment = environment();
    for arguments in [["--help"].as_slice(), &["setup", "--help"], &["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let mut command = environment.command(grounding_tests::binaries::groundingctl());
        let output = command.args(arguments).stdout(full).output().expect("it runs");
        assert!(ends(&output, 4).contains("error:"), "{arguments:?}");
    }
}
