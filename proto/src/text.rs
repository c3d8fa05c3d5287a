//! What of a foreign text may reach a terminal: ids, contents and outputs come from anybody.
//!
//! Control characters move cursors and set titles; bidirectional marks make one id look like another. Neither is ever
//! written raw by a program of ours, except where bytes are asked for and go to no terminal.

/// Returns the text with a `?` for each character that does something to a terminal; line breaks and tabs become spaces.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' | '\r' => ' ',
        character if is_active(character) => '?',
        character => character,
    };
    text.chars().map(shown).collect()
}

/// Returns the text with a `?` for each such character, lines and tabs kept.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    text.chars().map(|it| if !matches!(it, '\n' | '\t') && is_active(it) { '?' } else { it }).collect()
}

/// Returns JSON text with such characters escaped inside its strings, so that it means the same; it has none outside.
#[must_use]
pub fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_active(character) {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Control characters, and the marks that reorder what stands beside them or begin a line of their own.
fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_active_is_left() {
        let hostile = "a\u{1b}[31m\u{9b}\u{7f}\u{202e}b\n\tc é 😀";
        assert_eq!(printable(hostile), "a?[31m???b  c é 😀");
        assert_eq!(printable_lines(hostile), "a?[31m???b\n\tc é 😀");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"id": "x\u{1b}\u{9b}\u{202e}\u{7f}é"});
        let shown = printable_json(&format!("{value:#}"));
        assert!(!shown.chars().any(|it| it != '\n' && is_active(it)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("still JSON"), value);
    }
}
