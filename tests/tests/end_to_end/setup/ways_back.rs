//! Removal when the world went on since set-up.

use std::fs;

use grounding_tests::TestEnvironment;
use serde_json::{Value, json};

use super::{ends, environment, names, server, setup, succeeds, tree};

const RECORD: &str = ".local/state/agent-grounding/setup.json";

fn cursor(environment: &TestEnvironment) -> Value {
    serde_json::from_str(&environment.read(".cursor/mcp.json")).expect("JSON")
}

#[test]
fn what_others_wrote_meanwhile_stays() {
    let environment = environment();
    environment.write(".cursor/mcp.json", "{}");
    environment.write(".codex/config.toml", "a = 1\n");
    succeeds(&setup(&environment, &["--host", "cursor", "--host", "codex", "--host", "gemini"]));
    let mut content = cursor(&environment);
    content["mcpServers"]["other"] = json!({ "command": "z" });
    environment.write(".cursor/mcp.json", content.to_string());
    let codex = environment.read(".codex/config.toml");
    environment.write(".codex/config.toml", format!("{codex}\n[mcp_servers.grounding.env]\nX = \"1\"\n\n[z]\n"));
    let gemini = environment.read(".gemini/settings.json");
    environment.write(".gemini/settings.json", gemini.replacen('{', "{\n  \"theme\": \"x\",", 1));

    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(cursor(&environment), json!({ "mcpServers": { "other": { "command": "z" } } }));
    assert_eq!(environment.read(".codex/config.toml"), "a = 1\n\n[z]\n");
    // The table of servers came with our entry, so it goes with it.
    assert_eq!(environment.read(".gemini/settings.json"), "{\n  \"theme\": \"x\"\n}\n");
}

#[test]
fn without_a_record_entries_are_found_by_name() {
    let environment = environment();
    environment.write(".cursor/mcp.json", "{\n  \"a\": 1\n}");
    succeeds(&setup(&environment, &[]));
    fs::remove_file(environment.path(RECORD)).expect("a record");
    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(said.contains("take `grounding` out of"), "{said}");
    assert_eq!(cursor(&environment), json!({ "a": 1, "mcpServers": {} }));
    assert!(names(environment.home()).iter().all(|name| !name.contains("agent-grounding")));
}

#[test]
fn without_a_record_programs_go_where_they_are_copies_and_are_named_elsewhere() {
    let mut environment = environment();
    environment.set("PATH", "/nowhere");
    succeeds(&setup(&environment, &[]));
    fs::remove_file(environment.path(RECORD)).expect("a record");
    let server = environment.path(".local/bin/grounding-mcp");
    fs::remove_file(&server).expect("removed");
    let _script = environment.script(".local/bin/grounding-mcp", "exit 0");
    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(said.contains(&format!("{} is in no record, so it stays", server.display())), "{said}");
    assert_eq!(fs::read_dir(environment.path(".local/bin")).expect("a directory").count(), 1);
}

#[test]
fn a_record_that_is_not_understood_stops_both_ways() {
    for (content, words) in [("{", "damaged"), ("{\"version\": 99}", "newer build")] {
        let environment = environment();
        environment.write(RECORD, content);
        environment.write(".cursor/mcp.json", "{}");
        let before = tree(environment.home());
        for command in ["setup", "uninstall"] {
            let said = ends(&environment.groundingctl(&[command]), 4);
            assert!(said.contains(RECORD) && said.contains(words), "{said}");
        }
        assert!(before == tree(environment.home()));
    }
}

#[test]
fn a_file_that_can_not_be_edited_any_more_keeps_the_record() {
    let environment = environment();
    environment.write(".cursor/mcp.json", "{}");
    fs::create_dir(environment.path(".gemini")).expect("a directory");
    succeeds(&setup(&environment, &[]));
    let good = environment.read(".cursor/mcp.json");
    environment.write(".cursor/mcp.json", "{\"broken\"");
    let said = ends(&environment.groundingctl(&["uninstall"]), 1);
    assert!(said.contains("mcp.json") && said.contains("not valid JSON"), "{said}");
    assert!(!environment.path(".gemini/settings.json").exists());
    environment.write(".cursor/mcp.json", good);
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(environment.read(".cursor/mcp.json"), "{}");
    assert!(!environment.path(RECORD).exists());
}

#[test]
fn a_file_that_setup_never_touched_holds_nothing_back() {
    let mut environment = environment();
    environment.set("PATH", "/nowhere");
    environment.write(".cursor/mcp.json", "{\"a\":");
    ends(&setup(&environment, &[]), 1);
    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(said.contains("looked at in vain") && said.contains("mcp.json"), "{said}");
    assert_eq!(environment.read(".cursor/mcp.json"), "{\"a\":");
    let left = names(environment.home());
    assert!(left.iter().all(|name| name.starts_with(".cursor") || name.starts_with(".evidence-ledger")), "{left:?}");
}

#[test]
fn the_programs_stay_until_all_is_undone() {
    let mut environment = environment();
    environment.set("PATH", "/nowhere");
    environment.write(".cursor/mcp.json", "{}");
    succeeds(&setup(&environment, &[]));
    let good = environment.read(".cursor/mcp.json");
    environment.write(".cursor/mcp.json", "{\"broken\"");
    let output = environment.groundingctl(&["uninstall"]);
    ends(&output, 1);
    assert!(String::from_utf8_lossy(&output.stdout).contains("run this again then"), "{output:?}");
    let control = environment.path(".local/bin/groundingctl");
    assert!(control.is_file());
    environment.write(".cursor/mcp.json", good);
    let output = environment.command(&control).arg("uninstall").output().expect("it runs");
    succeeds(&output);
    assert!(!control.exists() && !environment.path(".local").exists());
}

#[test]
fn what_a_killed_setup_left_is_swept() {
    let environment = environment();
    environment.write(".cursor/mcp.json", "{}");
    succeeds(&setup(&environment, &[]));
    let state = RECORD.strip_suffix("/setup.json").expect("a directory");
    for directory in [".cursor", state] {
        environment.write(&format!("{directory}/.grounding-x1y2z3.tmp"), "half");
    }
    succeeds(&environment.groundingctl(&["uninstall"]));
    let left = names(environment.home());
    assert!(left.iter().all(|name| !name.contains(".tmp") && !name.starts_with(".local")), "{left:?}");
}

#[test]
fn a_unit_that_listens_on_our_socket_goes_and_another_stays() {
    const UNIT: &str = ".config/systemd/user/groundingd.socket";
    for (path, goes) in [("%h/.local/state/agent-grounding/run/groundingd.sock", true), ("%t/other.sock", false)] {
        let environment = environment();
        environment.write(UNIT, format!("[Socket]\nListenStream={path}\n"));
        let wants = environment.path(".config/systemd/user/sockets.target.wants");
        fs::create_dir(&wants).expect("a directory");
        std::os::unix::fs::symlink("../groundingd.socket", wants.join("groundingd.socket")).expect("a link");
        succeeds(&environment.groundingctl(&["uninstall"]));
        assert_eq!((environment.path(UNIT).exists(), wants.exists()), (!goes, !goes), "{path}");
    }
}

#[test]
fn another_place_moves_the_entries_and_the_first_content_comes_back() {
    let environment = environment();
    environment.write(".cursor/mcp.json", "{ }");
    succeeds(&setup(&environment, &[]));
    let prefix = environment.path("a b");
    succeeds(&setup(&environment, &["--prefix", prefix.to_str().expect("UTF-8")]));
    let moved = prefix.join("bin/grounding-mcp");
    assert_eq!(cursor(&environment)["mcpServers"]["grounding"]["command"], json!(moved));
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(environment.read(".cursor/mcp.json"), "{ }");
    assert!(!prefix.exists());
}

#[test]
fn a_removal_without_a_set_up_has_little_to_do() {
    let environment = environment();
    let said = succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(said.contains("nothing to remove") && said.contains("setup did not put them there"), "{said}");
    assert!(names(environment.home()).is_empty());
    environment
        .write(".cursor/mcp.json", json!({ "mcpServers": { "grounding": { "command": server() } } }).to_string());
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(cursor(&environment), json!({ "mcpServers": {} }));
}
