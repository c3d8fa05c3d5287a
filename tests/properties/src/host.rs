//! The configuration files of MCP hosts: our entry put into any text and taken out again.
//!
//! Each text is edited as the file of every host. Other readers than the editor's judge the result: the `toml` crate, and
//! for JSON a plain removal of comments and trailing commas before `serde_json`.

use grounding_shim::host::entry::{Edit, Emptied, NAME, Registration};
use grounding_shim::host::format::Format;
use grounding_shim::host::known::Host;
use serde_json::Value;

const PROGRAM: &str = "/home/me/.local/bin/grounding-mcp";
const ELSEWHERE: &str = "/opt/a \"b\"\\é/grounding-mcp";

/// Checks that an edit gives a text that says what was asked for and else what it said before, and that an entry that was
/// added goes without a trace.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for host in Host::ALL {
        check_format(text, host.format());
    }
}

fn check_format(text: &str, format: Format) {
    let Ok(before) = format.read(text) else {
        assert!(register(text, format, PROGRAM).is_none() && unregister(text, format, Emptied::Stays).is_none());
        return;
    };
    if let Registration::Foreign { .. } = before {
        assert!(register(text, format, PROGRAM).is_none() && unregister(text, format, Emptied::Stays).is_none());
        return;
    }
    let had_servers = format.has_servers(text).expect("a text that was read");
    if let Some(added) = register(text, format, PROGRAM) {
        let found = format.read(&added).expect("an edited text");
        assert_eq!(found, Registration::Present { command: PROGRAM.to_owned() });
        assert_eq!(register(&added, format, PROGRAM).as_deref(), Some(added.as_str()), "a second time changes nothing");
        assert_same_besides_entry(text, &added, format);
        let moved = register(&added, format, ELSEWHERE).expect("another command");
        assert_eq!(register(&moved, format, PROGRAM).as_deref(), Some(added.as_str()), "there and back");
        if before == Registration::Absent {
            let emptied = if had_servers { Emptied::Stays } else { Emptied::Goes };
            let back = unregister(&added, format, emptied).expect("what was added can be removed");
            assert_no_trace(text, &back, format);
        }
    }
    for emptied in [Emptied::Stays, Emptied::Goes] {
        if let Some(removed) = unregister(text, format, emptied) {
            assert_eq!(format.read(&removed).expect("an edited text"), Registration::Absent);
            assert_same_besides_entry(text, &removed, format);
            if before == Registration::Absent {
                assert_eq!(removed, text);
            }
        }
    }
}

fn register(text: &str, format: Format, command: &str) -> Option<String> {
    format.edit(text, Edit::Register { command }).ok()
}

fn unregister(text: &str, format: Format, emptied: Emptied) -> Option<String> {
    format.edit(text, Edit::Unregister { emptied }).ok()
}

/// Both texts are read by another reader, and say the same when our entry is taken out of what they say.
fn assert_same_besides_entry(before: &str, after: &str, format: Format) {
    let said = |text: &str| match format {
        Format::Json(place) => {
            let mut value = serde_json::from_str(&plain(text)).unwrap_or_else(|_| serde_json::json!({}));
            without_entry(&mut value, place.servers);
            value
        }
        Format::Codex => {
            let table = toml::from_str::<toml::Table>(text.trim_start_matches('\u{feff}')).expect("valid TOML");
            // Floats that are no numbers equal nothing, and as text they do.
            let mut value = as_text(&toml::Value::Table(table));
            without_entry(&mut value, "mcp_servers");
            value
        }
    };
    assert_eq!(said(before), said(after), "{before:?} became {after:?}");
}

fn as_text(value: &toml::Value) -> Value {
    match value {
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), as_text(value))).collect(),
        toml::Value::Array(items) => items.iter().map(as_text).collect(),
        single => Value::from(format!("{single:?}")),
    }
}

fn without_entry(value: &mut Value, servers: &str) {
    let Some(root) = value.as_object_mut() else { return };
    let is_empty = root.get_mut(servers).and_then(Value::as_object_mut).is_some_and(|servers| {
        servers.shift_remove(NAME);
        servers.is_empty()
    });
    if is_empty {
        root.shift_remove(servers);
    }
}

fn assert_no_trace(before: &str, after: &str, format: Format) {
    match format {
        Format::Codex => assert_eq!(after, before),
        // A file without a value became one with an object.
        Format::Json(_) if plain(before).trim().is_empty() => {
            assert_eq!(serde_json::from_str::<Value>(&plain(after)).ok(), Some(serde_json::json!({})), "{after:?}");
        }
        // Of an object without members, the space in it may have gone.
        Format::Json(_) => assert_eq!(closed(after), closed(before)),
    }
}

/// A piece of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Comment(&'a str),
    Space(&'a str),
    Other(&'a str),
}

fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let Some(first) = text.chars().next() {
        let length = match first {
            '"' => {
                let mut escaped = false;
                let end = text.char_indices().skip(1).find(|(_, character)| {
                    let ends = *character == '"' && !escaped;
                    escaped = *character == '\\' && !escaped;
                    ends
                });
                end.map_or(text.len(), |(at, _)| at + 1)
            }
            '/' if text.starts_with("//") => text.find(['\n', '\r']).unwrap_or(text.len()),
            '/' if text.starts_with("/*") => {
                text.get(2..).and_then(|rest| rest.find("*/")).map_or(text.len(), |at| at + 4)
            }
            ' ' | '\t' | '\r' | '\n' => {
                text.find(|other| !matches!(other, ' ' | '\t' | '\r' | '\n')).unwrap_or(text.len())
            }
            other => other.len_utf8(),
        };
        let (piece, rest) = text.split_at(length);
        pieces.push(match first {
            '"' => Piece::Text(piece),
            '/' if length > 1 => Piece::Comment(piece),
            ' ' | '\t' | '\r' | '\n' => Piece::Space(piece),
            _ => Piece::Other(piece),
        });
        text = rest;
    }
    pieces
}

/// Returns the text as strict JSON: without comments, trailing commas and a byte order mark.
fn plain(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let kept: Vec<_> =
        pieces(text).into_iter().filter(|piece| matches!(piece, Piece::Text(_) | Piece::Other(_))).collect();
    let mut plain = String::new();
    for (index, piece) in kept.iter().enumerate() {
        let ends = matches!(kept.get(index + 1), Some(Piece::Other("}" | "]")));
        match piece {
            Piece::Other(",") if ends => {}
            Piece::Text(text) | Piece::Other(text) | Piece::Comment(text) | Piece::Space(text) => plain.push_str(text),
        }
    }
    plain
}

/// Returns the text without the space between an opening brace or a comment and a closing brace.
fn closed(text: &str) -> String {
    let pieces = pieces(text);
    let mut closed = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| pieces.get(index));
        let opens = matches!(before, Some(Piece::Other("{") | Piece::Comment(_)));
        let closes = matches!(pieces.get(index + 1), Some(Piece::Other("}")));
        match piece {
            Piece::Space(_) if opens && closes => {}
            Piece::Text(text) | Piece::Other(text) | Piece::Comment(text) | Piece::Space(text) => closed.push_str(text),
        }
    }
    closed
}
