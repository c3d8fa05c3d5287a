//! Text as the readers see it: white space, numbered lines, and excerpts that fit a message.
//!
//! A line ends at a line feed, a carriage return, or both, as in Markdown. Nothing here allocates but an excerpt.

use memchr::memchr2;

/// One line of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: u64,
    /// Offset of its first byte in the text.
    pub(super) start: usize,
    /// Without its line end.
    pub(super) text: &'a str,
}

/// Returns whether the character is white space, a byte order mark included.
pub(super) fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

/// Returns the text without white space around it.
pub(super) fn trim(text: &str) -> &str {
    let is_plain = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_graphic);
    let bytes = text.as_bytes();
    if is_plain(bytes.first()) && is_plain(bytes.last()) { text } else { text.trim_matches(is_blank) }
}

/// Returns the text without white space before it.
pub(super) fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// Returns the lines of a text, in order; a line end at the end of the text begins no further line.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let (bytes, mut start, mut number) = (text.as_bytes(), 0, 0);
    std::iter::from_fn(move || {
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let length = line_length(rest);
        number += 1;
        let line = Line { number, start, text: &text[start..start + length] };
        let is_pair = rest[length..].starts_with(b"\r\n");
        start += length + if is_pair { 2 } else { 1 };
        Some(line)
    })
}

/// Returns the number of bytes before the first line end.
fn line_length(bytes: &[u8]) -> usize {
    // A call for each of millions of lines of a few bytes would cost more than looking at the bytes.
    let near = bytes.len().min(16);
    let is_end = |byte: u8| byte == b'\n' || byte == b'\r';
    let mut length = 0;
    while length < near && !is_end(bytes[length]) {
        length += 1;
    }
    if length < near {
        return length;
    }
    memchr2(b'\n', b'\r', &bytes[near..]).map_or(bytes.len(), |at| near + at)
}

/// Returns the number of the line that holds the byte at `offset`.
pub(super) fn line_at(text: &str, offset: usize) -> u64 {
    lines(text).take_while(|line| line.start <= offset).last().map_or(1, |line| line.number)
}

/// Returns the text on one line, cut after `most` characters.
pub(super) fn excerpt(text: &str, most: usize) -> String {
    let mut characters = trim(text).chars();
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut cut: String = characters.by_ref().take(most).map(plain).collect();
    if characters.next().is_some() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_ends_a_line() {
        let found: Vec<_> = lines("a\nb\r\n\rc\n").map(|line| (line.number, line.start, line.text)).collect();
        assert_eq!(found, [(1, 0, "a"), (2, 2, "b"), (3, 5, ""), (4, 6, "c")]);
        assert_eq!(lines("").count(), 0);
        assert_eq!((line_at("a\nb\n", 0), line_at("a\nb\n", 1), line_at("a\nb\n", 2), line_at("", 0)), (1, 1, 2, 1));
    }

    #[test]
    fn an_excerpt_counts_characters_and_stays_on_one_line() {
        assert_eq!(excerpt(" a\tb\nc ", 80), "a b c");
        assert_eq!(excerpt("äöü", 2), "äö…");
        assert_eq!(excerpt("äöü", 3), "äöü");
    }
}
