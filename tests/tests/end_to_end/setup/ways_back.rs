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
