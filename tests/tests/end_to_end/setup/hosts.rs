//! The files of hosts, as people have them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::{Value, json};

use super::{ends, environment, server, setup, succeeds, tree};

#[test]
fn every_host_that_is_found_gets_the_entry_it_reads() {
    let environment = environment();
    for directory in [".codex", ".cursor", ".config/opencode", ".gemini", ".config/Code/User"] {
        fs::create_dir_all(environment.path(directory)).expect("a directory");
    }
    environment.write(".claude.json", "{}");
    environment.write("project/README.md", "");
    let before = tree(environment.home());
    let project = environment.path("project");
    let said = succeeds(&setup(&environment, &["--project", project.to_str().expect("UTF-8")]));
    assert!(said.contains("Done."), "{said}");

    let stdio = json!({ "type": "stdio", "command": server() });
    let command = json!({ "command": server() });
    for (file, servers, entry) in [
        (".claude.json", "mcpServers", &stdio),
        ("project/.mcp.json", "mcpServers", &stdio),
        (".cursor/mcp.json", "mcpServers", &command),
        (".gemini/settings.json", "mcpServers", &command),
        (".config/Code/User/mcp.json", "servers", &stdio),
        (".config/opencode/opencode.json", "mcp", &json!({ "type": "local", "command": [server()], "enabled": true })),
    ] {
        let content: Value = serde_json::from_str(&environment.read(file)).expect("JSON");
        assert_eq!(content, json!({ servers: { "grounding": entry } }), "{file}");
        let mode = environment.path(file).metadata().expect("a file").mode() & 0o777;
        assert_eq!(mode, before.get(&environment.path(file)).map_or(0o600, |(mode, _)| mode & 0o777), "{file}");
    }
    let codex = environment.read(".codex/config.toml");
    assert!(
        codex.starts_with(&format!("[mcp_servers.grounding]\ncommand = \"{}\"\nenv_vars = [", server())),
        "{codex}"
    );
    for variable in ["GROUNDING_STATE_DIR", "SOLUTION_PREFLIGHT_BIN", "HARNESS_HOME", "GROUNDING_ATTEMPT_WAIT_MS"] {
        assert!(codex.contains(&format!("\"{variable}\"")), "{codex}");
    }

    assert!(succeeds(&setup(&environment, &[])).starts_with("Nothing has to be changed."));
    succeeds(&environment.groundingctl(&["uninstall"]));
    let mut after = tree(environment.home());
    after.retain(|path, _| !path.starts_with(environment.path(".evidence-ledger")));
    after.retain(|path, _| !path.starts_with(environment.path(".local")) || before.contains_key(path));
    assert!(after == before, "{:?}", after.keys());
}

#[test]
fn a_host_that_is_named_needs_not_be_there() {
    let environment = environment();
    succeeds(&setup(&environment, &["--host", "gemini", "--host", "codex", "--host", "gemini"]));
    assert!(environment.read(".gemini/settings.json").contains(&server()));
    assert!(environment.read(".codex/config.toml").contains(&server()));
    assert!(!environment.path(".cursor").exists());
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(!environment.path(".gemini").exists() && !environment.path(".codex").exists());
}

/// Files as people have them: what stands before our entry's place and after it, which must stay byte for byte.
const SHAPES: &[(&str, &str)] = &[
    (".cursor/mcp.json", "{\n  // mine\n  \"mcpServers\": {\n    \"x\": { \"command\": \"y\" }, // z\n  },\n}\n"),
    (".cursor/mcp.json", "\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": {}\r\n\t}\r\n}\r\n"),
    (".gemini/settings.json", "{\"security\":{\"folderTrust\":{\"enabled\":false}},\"n\":1e2}"),
    (".gemini/settings.json", ""),
    (".config/opencode/opencode.jsonc", "{\n  /* a */ \"mcp\": {}, \"theme\": \"é\"\n}"),
    (".config/Code/User/mcp.json", "{\n    \"inputs\": [\n    ],\n    \"servers\": {\n    }\n}\n"),
    (".codex/config.toml", "# mine\r\nmodel = \"m\" # which\r\n\r\n[mcp_servers.x]\r\ncommand = 'y'\r\n"),
    (".claude.json", "{\n  \"numStartups\": 3,\n  \"projects\": {\"/p\": {\"mcpServers\": {\"grounding\": {}}}}\n}"),
];

#[test]
fn everything_but_the_entry_stays_and_the_way_back_is_exact() {
    for (file, content) in SHAPES {
        let environment = environment();
        environment.write(file, content);
        fs::set_permissions(environment.path(file), fs::Permissions::from_mode(0o644)).expect("a mode");
        let said = succeeds(&setup(&environment, &[]));
        let kept = said.lines().find_map(|line| line.split_once(" as it was is kept in ")).expect("told where");
        let kept = kept.1.trim_end_matches('.');
        assert_eq!(fs::read_to_string(kept).expect("kept"), *content, "{file}");
        assert_eq!(fs::metadata(kept).expect("kept").mode() & 0o777, 0o600);

        let edited = environment.read(file);
        assert!(edited.contains(&server()), "{file}: {edited}");
        let mut rest = edited.as_str();
        for character in content.chars() {
            // Each character of the original follows the one before, with insertions between.
            rest = rest.split_once(character).unwrap_or_else(|| panic!("{file}: {character:?} is lost: {edited}")).1;
        }
        assert_eq!(content.contains("\r\n"), edited.contains("\r\n"), "{edited:?}");
        assert_eq!(
            edited.matches("\r\n").count(),
            if content.contains('\r') { edited.matches('\n').count() } else { 0 }
        );
        assert_eq!(environment.path(file).metadata().expect("a file").mode() & 0o777, 0o644);

        assert!(succeeds(&setup(&environment, &[])).starts_with("Nothing has to be changed."), "{file}");
        succeeds(&environment.groundingctl(&["uninstall"]));
        assert_eq!(environment.read(file), *content, "{file}");
    }
}

#[test]
fn a_file_of_dotfiles_is_written_where_its_link_leads() {
    let environment = environment();
    environment.write("dotfiles/cursor.json", "{\n}\n");
    fs::create_dir(environment.path(".cursor")).expect("a directory");
    let link = environment.path(".cursor/mcp.json");
    symlink("../dotfiles/cursor.json", &link).expect("a link");
    succeeds(&setup(&environment, &[]));
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    assert!(environment.read("dotfiles/cursor.json").contains(&server()));
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    assert_eq!(environment.read("dotfiles/cursor.json"), "{\n}\n");
}

#[test]
fn a_file_that_can_not_be_edited_is_named_and_the_others_are_done() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("mcp.json"), "{}").expect("written");
    for (content, words) in [
        ("{\"mcpServers\": [", "not valid JSON"),
        ("{\"mcpServers\": []}", "an array"),
        ("[1]", "an array"),
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "twice"),
        ("{\"mcpServers\": {\"grounding\": {\"command\": \"npx\", \"args\": [\"other\"]}}}", "`npx`"),
        ("\u{0}", "JSON"),
    ] {
        let environment = environment();
        environment.write(".cursor/mcp.json", content);
        environment.write(".codex/config.toml", "a = ");
        fs::create_dir(environment.path(".gemini")).expect("a directory");
        fs::create_dir_all(environment.path(".config/Code/User")).expect("a directory");
        symlink(outside.path().join("mcp.json"), environment.path(".config/Code/User/mcp.json")).expect("a link");
        let said = ends(&setup(&environment, &[]), 1);
        let cursor = environment.path(".cursor/mcp.json");
        assert!(said.contains(cursor.to_str().expect("UTF-8")) && said.contains(words), "{words}: {said}");
        assert!(said.contains("config.toml") && said.contains("not valid TOML"), "{said}");
        assert!(said.contains("out of the home directory"), "{said}");
        assert_eq!(environment.read(".cursor/mcp.json"), content);
        assert_eq!(fs::read_to_string(outside.path().join("mcp.json")).expect("a file"), "{}");
        assert!(environment.read(".gemini/settings.json").contains(&server()));
    }
}

#[test]
fn bytes_that_are_no_text_are_left() {
    let environment = environment();
    environment.write(".cursor/mcp.json", b"{\"a\": \"\xff\"}");
    let said = ends(&setup(&environment, &[]), 1);
    assert!(said.contains("mcp.json: is not UTF-8 text"), "{said}");
    assert_eq!(fs::read(environment.path(".cursor/mcp.json")).expect("a file"), b"{\"a\": \"\xff\"}");
}

#[test]
fn an_entry_of_ours_is_mended_and_keeps_what_was_added() {
    let environment = environment();
    let before = r#"{"mcpServers": {"grounding": {"command": "/gone/grounding-mcp", "env": {"A": "1"}}}}"#;
    environment.write(".cursor/mcp.json", before);
    let said = succeeds(&setup(&environment, &[]));
    assert!(said.contains("Mend `grounding` in Cursor"), "{said}");
    assert_eq!(environment.read(".cursor/mcp.json"), before.replace("/gone/grounding-mcp", &server()));
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(environment.read(".cursor/mcp.json"), before);
}

#[test]
fn an_earlier_entry_of_the_users_own_comes_back_or_stays_in_the_kept_file() {
    let entry = r#"{"command": "/opt/x/grounding-mcp", "env": {"A": "1"}}"#;
    let local = r#"{"type": "local", "command": ["/opt/x/grounding-mcp"], "environment": {"A": "1"}}"#;
    for (file, servers, entry) in [
        (".claude.json", "mcpServers", entry),
        (".cursor/mcp.json", "mcpServers", entry),
        (".gemini/settings.json", "mcpServers", entry),
        (".config/Code/User/mcp.json", "servers", entry),
        (".config/opencode/opencode.json", "mcp", local),
    ] {
        let before = format!("{{\"{servers}\": {{\"grounding\": {entry}}}}}");
        let environment = environment();
        environment.write(file, &before);
        succeeds(&setup(&environment, &[]));
        assert!(environment.read(file).contains(&server()), "{file}");
        succeeds(&environment.groundingctl(&["uninstall"]));
        assert_eq!(environment.read(file), before);

        succeeds(&setup(&environment, &[]));
        environment.write(file, environment.read(file).replacen('{', "{\"theme\": 1, ", 1));
        let said = succeeds(&environment.groundingctl(&["uninstall"]));
        let kept = said.lines().find_map(|line| line.split_once("as it was it stays in ")).expect("told where").1;
        assert_eq!(fs::read_to_string(kept.trim_end_matches('.')).expect("kept"), before);
        assert!(environment.read(file).contains("theme"));
    }
}

#[test]
fn a_script_of_our_name_is_another_program() {
    let environment = environment();
    let script = environment.script("npm/grounding-mcp", "exit 0");
    let content = json!({ "mcpServers": { "grounding": { "command": script } } }).to_string();
    environment.write(".cursor/mcp.json", &content);
    let said = ends(&setup(&environment, &[]), 1);
    assert!(said.contains("another program") && said.contains("rename or remove"), "{said}");
    succeeds(&environment.groundingctl(&["uninstall"]));
    assert_eq!(environment.read(".cursor/mcp.json"), content);
}
