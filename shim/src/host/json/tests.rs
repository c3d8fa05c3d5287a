use proptest::prelude::*;

use super::*;

const PLACE: Place = Place { servers: "mcpServers", shape: Shape::Command };
const PROGRAM: &str = "/home/me/.local/bin/grounding-mcp";

fn add(text: &str) -> String {
    edit(text, PLACE, Edit::Register { command: PROGRAM }).unwrap()
}

fn remove(text: &str, emptied: Emptied) -> String {
    edit(text, PLACE, Edit::Unregister { emptied }).unwrap()
}

#[test]
fn an_entry_takes_the_layout_that_is_there() {
    let entry = format!("\"grounding\": {{\n      \"command\": \"{PROGRAM}\"\n    }}");
    for (before, after) in [
        ("{}", format!("{{\n  \"mcpServers\": {{\n    {entry}\n  }}\n}}")),
        ("", format!("{{\n  \"mcpServers\": {{\n    {entry}\n  }}\n}}\n")),
        ("// mine\n", format!("// mine\n{{\n  \"mcpServers\": {{\n    {entry}\n  }}\n}}\n")),
        ("{\"a\":1}", format!("{{\"a\":1,\"mcpServers\":{{\"grounding\":{{\"command\":\"{PROGRAM}\"}}}}}}")),
        (
            "{ \"mcpServers\": { \"x\": {} } }\n",
            format!("{{ \"mcpServers\": {{ \"x\": {{}}, \"grounding\": {{\"command\": \"{PROGRAM}\"}} }} }}\n"),
        ),
        (
            "{\n  \"mcpServers\": {\n    \"x\": {} // y\n  }\n}\n",
            format!("{{\n  \"mcpServers\": {{\n    \"x\": {{}}, // y\n    {entry}\n  }}\n}}\n"),
        ),
        (
            "{\n  \"mcpServers\": {\n    // none yet\n  }, // z\n}\n",
            format!("{{\n  \"mcpServers\": {{\n    // none yet\n    {entry}\n  }}, // z\n}}\n"),
        ),
        (
            "\u{feff}{\r\n\t\"a\": 1,\r\n\t/* b */\r\n}\r\n",
            format!(
                "\u{feff}{{\r\n\t\"a\": 1,\r\n\t/* b */\r\n\t\"mcpServers\": {{\r\n\t\t\"grounding\": {{\r\n\t\t\t\
                 \"command\": \"{PROGRAM}\"\r\n\t\t}}\r\n\t}},\r\n}}\r\n"
            ),
        ),
    ] {
        assert_eq!(add(before), after, "{before:?}");
    }
}

#[test]
fn each_shape_is_what_its_host_reads() {
    for (shape, entry) in [
        (Shape::Command, json!({ "command": "/b/grounding-mcp" })),
        (Shape::Stdio, json!({ "type": "stdio", "command": "/b/grounding-mcp" })),
        (Shape::Local, json!({ "type": "local", "command": ["/b/grounding-mcp"], "enabled": true })),
    ] {
        let place = Place { servers: "s", shape };
        let added = edit("{}", place, Edit::Register { command: "/b/grounding-mcp" }).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&added).unwrap(), json!({ "s": { "grounding": entry } }));
        assert_eq!(read(&added, place).unwrap(), Registration::Present { command: "/b/grounding-mcp".to_owned() });
        let moved = edit(&added, place, Edit::Register { command: "/c/grounding-mcp" }).unwrap();
        assert_eq!(moved, added.replace("/b/", "/c/"));
    }
}

#[test]
fn an_entry_of_ours_keeps_what_the_user_added_to_it() {
    let before = "{\"mcpServers\": {\"grounding\": {\"env\": {\"A\": \"1\"}, \"command\" : \"grounding-mcp\", /* */}}}";
    assert_eq!(add(before), before.replace("\"grounding-mcp\"", &format!("\"{PROGRAM}\"")));
    assert_eq!(add(&add(before)), add(before));
}

#[test]
fn what_is_not_ours_or_not_clear_is_refused() {
    let kinds = |text: &str| {
        let edits = [Edit::Register { command: PROGRAM }, Edit::Unregister { emptied: Emptied::Stays }];
        edits.map(|change| edit(text, PLACE, change).unwrap_err())
    };
    for (text, words) in [
        ("{\"mcpServers\": {\"grounding\": {\"command\": \"npx\"}}}", "`npx`"),
        ("{\"mcpServers\": {\"grounding\": {\"url\": \"http://x\"}}}", "URL"),
        ("{\"mcpServers\": {\"grounding\": {}}}", "no command"),
        ("{\"mcpServers\": {\"grounding\": 3}}", "a number"),
        ("{\"mcpServers\": []}", "an array"),
        ("{\"mcpServers\": null}", "null"),
        ("[]", "an array"),
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "twice"),
        ("{\"mcpServers\": {\"grounding\": {}, \"\\u0067rounding\": {}}}", "twice"),
        ("{\"a\": 1", "line 1"),
        ("{'a': 1}", "JSON"),
        ("{\"a\": 1 \"b\": 2}", "JSON"),
        ("{} {}", "JSON"),
    ] {
        for error in kinds(text) {
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(edit(&deep, PLACE, Edit::Register { command: PROGRAM }), Err(EditError::Syntax { .. })));
}

#[test]
fn an_entry_goes_and_everything_else_stays() {
    let ours = format!("\"grounding\": {{ \"command\": \"{PROGRAM}\" }}");
    for (before, after) in [
        (format!("{{\"mcpServers\": {{{ours}}}}}"), "{\"mcpServers\": {}}"),
        (format!("{{\"mcpServers\": {{{ours}, \"x\": 1}}}}"), "{\"mcpServers\": {\"x\": 1}}"),
        (format!("{{\"mcpServers\": {{\"x\": 1, {ours}}}}}"), "{\"mcpServers\": {\"x\": 1}}"),
        (format!("{{\"mcpServers\": {{\"x\": 1, // y\n {ours} }}}}"), "{\"mcpServers\": {\"x\": 1 // y\n  }}"),
        (
            format!("{{\"mcpServers\": {{\n  // a\n  {ours}, // b\n  // c\n  \"x\": 1\n}}}}"),
            "{\"mcpServers\": {\n  // a\n  // b\n  // c\n  \"x\": 1\n}}",
        ),
        (format!("{{\"mcpServers\": {{ /* a */ {ours} /* b */ }}}}"), "{\"mcpServers\": { /* a */ /* b */ }}"),
    ] {
        assert_eq!(remove(&before, Emptied::Stays), after, "{before}");
    }
    let other = "{\"mcpServers\": {\"x\": 1}}";
    assert_eq!(remove(other, Emptied::Goes), other);
    assert_eq!(remove("", Emptied::Goes), "");
}

#[test]
fn a_table_of_servers_that_came_with_the_entry_goes_with_it() {
    for before in ["{}", "{\"a\":1}", "{\n  \"a\": 1, // b\n}\n", "{\r\n\"a\": [\r\n]\r\n}", "{ // c\n}"] {
        assert_eq!(remove(&add(before), Emptied::Goes), before);
    }
    let commented = add("{}").replace("    \"grounding\"", "    // mine\n    \"grounding\"");
    assert!(remove(&commented, Emptied::Goes).contains("// mine"));
}

/// Whitespace and comments as people write them; a line comment ends its line.
fn trivia() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            4 => Just(" "), 3 => Just("\n"), 2 => Just("\r\n"), 2 => Just("\t"), 1 => Just("// é, \"}\n"), 1 => Just("/* , } */")
        ],
        0..4,
    )
    .prop_map(|parts| parts.concat())
}

fn node(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("1e3".to_owned()),
        Just("null".to_owned()),
        Just("\"a\\u00e9 \\\" , }\"".to_owned()),
        Just("[]".to_owned()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    prop_oneof![2 => leaf, 3 => object("[a-e]", depth - 1)].boxed()
}

/// An object; keys differ, so that nothing in it stands twice.
fn object(key: &'static str, depth: u32) -> BoxedStrategy<String> {
    let member = (trivia(), node(depth), trivia(), trivia());
    (prop::collection::btree_map(key, member, 0..4), trivia(), any::<bool>())
        .prop_map(|(members, end, trailing)| {
            let written = members.iter().map(|(key, (a, value, b, c))| format!("{a}\"{key}\"{b}:{value}{c}"));
            let written = written.collect::<Vec<_>>();
            let comma = if trailing && !written.is_empty() { "," } else { "" };
            format!("{{{}{comma}{end}}}", written.join(","))
        })
        .boxed()
}

fn file() -> impl Strategy<Value = String> {
    let servers = prop_oneof![object("[f-h]", 1), object("[f-h]", 0)];
    (trivia(), trivia(), object("[a-e]", 2), prop::option::of((trivia(), servers)), any::<bool>()).prop_map(
        |(before, after, root, servers, first)| {
            let Some((space, servers)) = servers else { return format!("{before}{root}{after}") };
            let member = format!("{space}\"mcpServers\":{servers}");
            let is_empty = grammar::value(&root).unwrap().as_object().unwrap().is_empty();
            let comma = if is_empty { "" } else { "," };
            if first || is_empty {
                format!("{before}{{{member}{comma}{}{after}", root.strip_prefix('{').unwrap())
            } else {
                // After the last member: a trailing comma takes the place of the one between.
                let end = root.rfind('}').unwrap();
                let body = Document::parse(&root).unwrap();
                let last = body.root().unwrap().unwrap().properties.last().unwrap().end();
                let comma = if body.comma_in(last..end).is_some() { "" } else { "," };
                format!("{before}{}{comma}{}{member}}}{after}", &root[..last], &root[last..end])
            }
        },
    )
}

proptest! {
    #[test]
    fn an_added_entry_is_read_back_and_goes_without_a_trace(text in file()) {
        let added = add(&text);
        prop_assert_eq!(read(&added, PLACE).unwrap(), Registration::Present { command: PROGRAM.to_owned() });
        prop_assert_eq!(add(&added), added.clone());
        let had_servers = grammar::value(&text).unwrap().get("mcpServers").is_some();
        let back = remove(&added, if had_servers { Emptied::Stays } else { Emptied::Goes });
        prop_assert_eq!(grammar::value(&back).unwrap(), grammar::value(&text).unwrap());
        // Nothing but white space at the end of an object without members may differ.
        let hollow = |text: &str| {
            let document = Document::parse(text).unwrap();
            let mut splices = Splices::default();
            for pair in document.tokens_in(0..text.len()).windows(2) {
                let pair = (pair[0], pair[1]);
                let is_hollow = pair.0.kind.is_comment() || &text[pair.0.start..pair.0.end] == "{";
                if is_hollow && &text[pair.1.start..pair.1.end] == "}" {
                    splices.replace(pair.0.end..pair.1.start, "");
                }
            }
            splices.apply(text).unwrap()
        };
        prop_assert_eq!(hollow(&back), hollow(&text));
    }

    #[test]
    fn no_text_brings_it_down(text in any::<String>(), cut in any::<prop::sample::Index>(), file in file()) {
        let cut = cut.index(file.len() + 1);
        let cut = (0..=cut).rev().find(|at| file.is_char_boundary(*at)).unwrap();
        for text in [text.as_str(), &file[..cut]] {
            for emptied in [Emptied::Stays, Emptied::Goes] {
                if let Ok(edited) = edit(text, PLACE, Edit::Unregister { emptied }) {
                    prop_assert_eq!(read(&edited, PLACE).unwrap(), Registration::Absent);
                }
            }
            if let Ok(edited) = edit(text, PLACE, Edit::Register { command: PROGRAM }) {
                let found = read(&edited, PLACE).unwrap();
                prop_assert_eq!(found, Registration::Present { command: PROGRAM.to_owned() });
            }
        }
    }
}
