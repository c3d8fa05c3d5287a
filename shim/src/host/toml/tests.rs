use proptest::prelude::*;

use super::super::entry::Emptied;
use super::*;

const PROGRAM: &str = "/home/me/.local/bin/grounding-mcp";
const NAMES: &[&str] = &["A", "B"];

fn add(text: &str) -> String {
    edit(text, NAMES, Edit::Register { command: PROGRAM }).unwrap()
}

fn remove(text: &str) -> String {
    edit(text, NAMES, Edit::Unregister { emptied: Emptied::Stays }).unwrap()
}

const BLOCK: &str =
    "[mcp_servers.grounding]\ncommand = \"/home/me/.local/bin/grounding-mcp\"\nenv_vars = [\"A\", \"B\"]";

#[test]
fn an_entry_is_added_at_the_end_and_goes_without_a_trace() {
    for (before, after) in [
        ("", format!("{BLOCK}\n")),
        ("a = 1 # b\n", format!("a = 1 # b\n\n{BLOCK}\n")),
        ("a = 1", format!("a = 1\n\n{BLOCK}")),
        ("[mcp_servers]\n# none\n\n", format!("[mcp_servers]\n# none\n\n\n{BLOCK}\n")),
        ("mcp_servers.x.command = 'y'\n", format!("mcp_servers.x.command = 'y'\n\n{BLOCK}\n")),
        ("\u{feff}# c\r\n[z]\r\n", format!("\u{feff}# c\r\n[z]\r\n\r\n{}\r\n", BLOCK.replace('\n', "\r\n"))),
    ] {
        assert_eq!(add(before), after, "{before:?}");
        assert_eq!(remove(&after), before, "{before:?}");
        assert_eq!(add(&after), after, "{before:?}");
        assert_eq!(read(&after, NAMES).unwrap(), Registration::Present { command: PROGRAM.to_owned() });
    }
}

#[test]
fn an_entry_of_ours_keeps_what_the_user_added_to_it() {
    let own = format!("\"{PROGRAM}\"");
    for (before, after) in [
        (
            "[mcp_servers.grounding] # a\r\ncommand = 'grounding-mcp' # b\r\n\r\n# c\r\n[z]\r\n",
            format!(
                "[mcp_servers.grounding] # a\r\ncommand = {own} # b\r\nenv_vars = [\"A\", \"B\"]\r\n\r\n# c\r\n[z]\r\n"
            ),
        ),
        (
            "[mcp_servers.grounding]\nenv_vars = [\n  \"B\", # b\n  { name = 'C' },\n]\ncommand = \"grounding-mcp\"",
            format!(
                "[mcp_servers.grounding]\nenv_vars = [\n  \"B\", # b\n  {{ name = 'C' }}, \"A\",\n]\ncommand = {own}"
            ),
        ),
        (
            "[mcp_servers]\ngrounding = { command = \"grounding-mcp\" }\n",
            format!("[mcp_servers]\ngrounding = {{ command = {own}, env_vars = [\"A\", \"B\"] }}\n"),
        ),
        (
            "[mcp_servers.grounding]\ncommand = \"grounding-mcp\"\nenv_vars = [ ]\n",
            format!("[mcp_servers.grounding]\ncommand = {own}\nenv_vars = [\"A\", \"B\" ]\n"),
        ),
    ] {
        assert!(matches!(read(before, NAMES).unwrap(), Registration::Incomplete { .. }), "{before}");
        assert_eq!(add(before), after, "{before}");
        assert_eq!(add(&after), after, "{before}");
    }
}

#[test]
fn an_entry_goes_with_its_tables_and_everything_else_stays() {
    for (before, after) in [
        (
            "a = 1\n\n[mcp_servers.grounding]\ncommand = 'grounding-mcp'\nenv.X = '1' # x\n# for z\n[z]\nb = 2\n\
             [mcp_servers.grounding.tools.ledger_add]\napproval = 'auto'\n[mcp_servers.y]\n",
            "a = 1\n# for z\n[z]\nb = 2\n[mcp_servers.y]\n",
        ),
        ("[mcp_servers]\n  grounding = { command = 'grounding-mcp' } # x\n[z]\n", "[mcp_servers]\n[z]\n"),
        ("[z]\n", "[z]\n"),
    ] {
        assert_eq!(remove(before), after, "{before}");
    }
}

#[test]
fn what_is_not_ours_or_not_clear_is_refused() {
    for (text, words) in [
        ("[mcp_servers.grounding]\ncommand = 'npx'\n", "`npx`"),
        ("[mcp_servers.grounding]\nurl = 'http://x'\n", "URL"),
        ("[mcp_servers.grounding]\n", "no command"),
        ("mcp_servers = []", "an array"),
        ("[[mcp_servers]]\n", "an array"),
        ("mcp_servers = 3", "a number"),
        ("mcp_servers.grounding = true", "a boolean"),
        ("[mcp_servers.grounding]\ncommand = 'grounding-mcp'\ncommand = 'x'\n", "line 3"),
        ("a = \n", "TOML"),
    ] {
        for change in [Edit::Register { command: PROGRAM }, Edit::Unregister { emptied: Emptied::Stays }] {
            let error = edit(text, NAMES, change).unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }
    let register = Edit::Register { command: PROGRAM };
    for (text, words) in [
        ("mcp_servers = { x = { command = 'y' } }", "by hand"),
        ("mcp_servers.grounding.command = 'grounding-mcp'", "by hand"),
        ("[mcp_servers.grounding]\ncommand = 'grounding-mcp'\nenv_vars = 'A'\n", "an array"),
    ] {
        assert!(edit(text, NAMES, register).unwrap_err().to_string().contains(words), "{text}");
    }
    assert!(edit(&format!("a = {}", "[".repeat(100_000)), NAMES, register).is_err());
}

#[test]
fn any_path_is_quoted() {
    let odd = "/a b/\"\\\u{7f}\u{1}é/grounding-mcp";
    let added = edit("", NAMES, Edit::Register { command: odd }).unwrap();
    assert_eq!(read(&added, NAMES).unwrap(), Registration::Present { command: odd.to_owned() });
}

/// Lines of a file; headers and keys differ, so that nothing in it stands twice.
fn file() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just(""),
        Just("  # grounding, é"),
        Just("k = [1,\n 2 ]"),
        Just("d.e = '''\n[mcp_servers.grounding]\n'''"),
        Just("[x]"),
        Just("[mcp_servers]"),
        Just("[mcp_servers.other]"),
        Just("[[list]]"),
    ];
    (prop::collection::vec(line, 0..8), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(lines, mark, returns, end)| {
            let lines = lines.iter().enumerate().map(|(index, line)| match line.chars().next() {
                Some('k' | 'd') => format!("n{index}{line}"),
                _ => (*line).to_owned(),
            });
            let text = lines.collect::<Vec<_>>().join("\n") + if end { "\n" } else { "" };
            let text = if returns { text.replace('\n', "\r\n") } else { text };
            if mark { format!("\u{feff}{text}") } else { text }
        },
    )
}

proptest! {
    #[test]
    fn an_added_entry_is_read_back_and_goes_byte_for_byte(text in file()) {
        prop_assume!(parse(&text).is_ok());
        let added = add(&text);
        prop_assert_eq!(read(&added, NAMES).unwrap(), Registration::Present { command: PROGRAM.to_owned() });
        prop_assert!(added.starts_with(&text));
        prop_assert_eq!(remove(&added), text);
    }

    #[test]
    fn no_text_brings_it_down(text in any::<String>(), cut in any::<prop::sample::Index>(), file in file()) {
        let file = format!("{file}\n[mcp_servers.grounding]\ncommand = 'grounding-mcp'\nenv_vars = ['A']\n");
        let cut = cut.index(file.len() + 1);
        let cut = (0..=cut).rev().find(|at| file.is_char_boundary(*at)).unwrap();
        for text in [text.as_str(), &file[..cut]] {
            if let Ok(edited) = edit(text, NAMES, Edit::Unregister { emptied: Emptied::Goes }) {
                prop_assert_eq!(read(&edited, NAMES).unwrap(), Registration::Absent);
            }
            if let Ok(edited) = edit(text, NAMES, Edit::Register { command: PROGRAM }) {
                let found = read(&edited, NAMES).unwrap();
                prop_assert_eq!(found, Registration::Present { command: PROGRAM.to_owned() });
            }
        }
    }
}
