//! The code of a file without its comments and strings, for languages whose lexical rules are known here.
//!
//! It changes no position, and gives up on text whose strings can't be told from code without a parser.

use std::path::Path;

use super::pattern::is_identifier;

/// How much of the text before a name or a brace is looked at, in bytes: a file may be a single line.
pub(super) const MAX_BEFORE: usize = 4096;

/// A language, or several that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Go,
    /// C++, Java, Kotlin, Swift, Scala and C#.
    Braces,
    Php,
    /// Python, and Elixir, which quotes likewise.
    Python,
    Ruby,
}

/// Returns the language of a file by its name.
pub(super) fn language(path: &Path) -> Option<Language> {
    Some(match path.extension()?.to_str()? {
        "rs" => Language::Rust,
        "go" => Language::Go,
        "php" => Language::Php,
        "ex" | "exs" | "py" | "pyi" => Language::Python,
        "rb" => Language::Ruby,
        "cc" | "cpp" | "cxx" | "h" | "hh" | "hpp" | "hxx" | "java" | "kt" | "kts" | "swift" | "scala" | "cs" => {
            Language::Braces
        }
        _ => return None,
    })
}

/// Returns the text with comments and strings as spaces, byte for byte; nothing when one has no end.
pub(super) fn blanked(text: &str, language: Language) -> Option<String> {
    // What these hold can't be told from code without a parser.
    let odd: &[&str] = match language {
        Language::Ruby => &["<<~", "<<-", "<<'", "<<\"", "=begin", "__END__", "%q", "%Q", "%("],
        Language::Braces => &["R\"", "@\"", "#\""],
        Language::Php => &["<<<", "?>", "`"],
        Language::Rust | Language::Go | Language::Python => &[],
    };
    let is_heredoc = |text: &[u8]| text.starts_with(b"<<") && text[2].is_ascii_uppercase();
    let has_heredoc = language == Language::Ruby && text.as_bytes().windows(3).any(is_heredoc);
    if has_heredoc || text.contains('\0') || odd.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let (bytes, mut code, mut at) = (text.as_bytes(), text.as_bytes().to_vec(), 0);
    while at < bytes.len() {
        let end = blank_end(text, at, language)?;
        for byte in code[at..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        at = if end > at { end } else { at + 1 };
    }
    String::from_utf8(code).ok()
}

/// Returns where the comment or string ends that begins at this byte; the byte itself when none does, and nothing when
/// it has no end.
fn blank_end(text: &str, at: usize, language: Language) -> Option<usize> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let is_script = matches!(language, Language::Python | Language::Ruby);
    let line_end = || at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    match rest[0] {
        b'#' if is_script || language == Language::Php && !rest.starts_with(b"#[") => Some(line_end()),
        b'#' if language == Language::Braces && text[line_start(text, at)..at].trim().is_empty() => Some(line_end()),
        b'/' if !is_script && rest.starts_with(b"//") => Some(line_end()),
        b'/' if !is_script && rest.starts_with(b"/*") => {
            let length = text[at + 2..].find("*/")?;
            // Some languages nest comments and some do not.
            (!text[at + 2..at + 2 + length].contains("/*")).then_some(at + 2 + length + 2)
        }
        b'r' if language == Language::Rust => {
            let before = text[..at].chars().next_back();
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            let is_raw = rest.get(1 + hashes) == Some(&b'"')
                && before.is_none_or(|before| !is_identifier(before) || "bc".contains(before));
            if !is_raw {
                return Some(at);
            }
            let (open, close) = (at + hashes + 2, format!("\"{}", "#".repeat(hashes)));
            Some(open + text[open..].find(&close)? + close.len())
        }
        quote @ (b'"' | b'\'')
            if matches!(language, Language::Braces | Language::Python)
                && (quote == b'"' || language == Language::Python)
                && rest.starts_with(&[quote; 3]) =>
        {
            let close = if quote == b'"' { "\"\"\"" } else { "'''" };
            let length = text[at + 3..].find(close)?;
            // A quote that is escaped may or may not be part of the end.
            (!text[at + 3..at + 3 + length].ends_with('\\')).then_some(at + 3 + length + 3)
        }
        b'`' if language == Language::Go => Some(at + 2 + memchr::memchr(b'`', &rest[1..])?),
        b'\'' if !is_script && language != Language::Php => Some(at + character_length(&text[at..])),
        quote @ (b'"' | b'\'') => {
            let mut end = 1;
            loop {
                match *rest.get(end)? {
                    b'\\' => end += 2,
                    b'\n' if !matches!(language, Language::Rust | Language::Php) => return None,
                    byte if byte == quote => return Some(at + end + 1),
                    _ => end += 1,
                }
            }
        }
        _ => Some(at),
    }
}

/// Returns the length of a character literal such as `'{'`; 0 for a lifetime.
fn character_length(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            characters.next();
            let close = characters.take(10).find(|(_, character)| *character == '\'');
            close.map_or(0, |(at, _)| at + 1)
        }
        Some(_) => characters.next().filter(|(_, character)| *character == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// Returns where the line of this byte starts, as far back as is looked.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    let from = text.floor_char_boundary(at.saturating_sub(MAX_BEFORE));
    memchr::memrchr(b'\n', &text.as_bytes()[from..at]).map_or(from, |before| from + before + 1)
}
