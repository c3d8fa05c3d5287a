//! Fenced code: which lines of a text are quoted.
//!
//! An opener without a closer fences nothing, so that a stray fence never hides what follows it. Closers are looked up
//! in a table made beforehand, so that many openers without one cost no more than few.

use memchr::{memchr, memmem};

use super::text::{Line, is_blank, trim_start};

/// Whose rules say what a fence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// SPEC-workflow 18: text may follow a closer, and nothing but indentation stands before a fence.
    Marker,
    /// As Markdown has it, in list items too, for tables; a fence in a comment is none.
    Markdown,
}

/// Tells the fenced lines of one text apart; the lines must be asked about in order.
pub(super) struct Fences {
    dialect: Dialect,
    /// Closers of backticks and of tildes that are longer than any later one: where they are, and how long.
    closers: [Vec<(usize, usize)>; 2],
    passed: [usize; 2],
    open: Option<Fence>,
    comment_end: memmem::Finder<'static>,
    last_comment_end: Option<usize>,
    in_comment: bool,
}

#[derive(Debug, Clone, Copy)]
struct Fence {
    character: u8,
    length: usize,
    /// Where the content of the list item starts that the fence stands in; 0 outside lists.
    column: usize,
}

impl Fences {
    /// Prepares for the lines of this text.
    pub(super) fn of(text: &str, dialect: Dialect) -> Self {
        let closers = ["```", "~~~"].map(|run| closers(text, dialect, run));
        let last_comment_end = memmem::rfind(text.as_bytes(), b"-->");
        let comment_end = memmem::Finder::new(b"-->");
        Self { dialect, closers, passed: [0, 0], open: None, comment_end, last_comment_end, in_comment: false }
    }

    /// Returns whether the line belongs to a fenced block, its opener and closer included.
    pub(super) fn cover(&mut self, line: &Line<'_>) -> bool {
        if line.text.is_empty() {
            return self.open.is_some();
        }
        let (indent, rest) = indentation(line.text);
        if let Some(open) = self.open {
            let left = open.column > 0 && indent < open.column && !trim_start(rest).is_empty();
            if !left {
                let closes = |closer: Fence| closer.character == open.character && closer.length >= open.length;
                if indent <= open.column + 3 && closer(rest, self.dialect).is_some_and(closes) {
                    self.open = None;
                }
                return true;
            }
            self.open = None;
        }
        if self.dialect == Dialect::Markdown && self.is_in_comment(line, indent, rest) {
            return false;
        }
        let opener = if indent <= 3 { opener(line.text, rest, self.dialect) } else { None };
        self.open = opener.filter(|fence| fence.column > 0 || self.is_closed(fence, line));
        self.open.is_some()
    }

    fn is_closed(&mut self, fence: &Fence, line: &Line<'_>) -> bool {
        let end = line.start + line.text.len();
        let kind = kind(fence.character);
        let (closers, passed) = (&self.closers[kind], &mut self.passed[kind]);
        while closers.get(*passed).is_some_and(|(closer, _)| *closer < end) {
            *passed += 1;
        }
        closers.get(*passed).is_some_and(|(_, longest)| *longest >= fence.length)
    }

    /// Returns whether the line starts, continues or ends a comment that spans lines.
    fn is_in_comment(&mut self, line: &Line<'_>, indent: usize, rest: &str) -> bool {
        let content = if self.in_comment { Some(line.text) } else { rest.strip_prefix("<!--").filter(|_| indent <= 3) };
        let Some(content) = content else { return false };
        let ends_here = self.comment_end.find(content.as_bytes()).is_some();
        self.in_comment = !ends_here && self.last_comment_end.is_some_and(|end| end > line.start);
        true
    }
}

/// Returns where the closers outside lists are and how long, in order, but only those longer than any later one:
/// the first that is left behind a place tells whether a fence there is closed. Few are, however many closers there are.
fn closers(text: &str, dialect: Dialect, run: &str) -> Vec<(usize, usize)> {
    let (bytes, finder, mut found, mut position) = (text.as_bytes(), memmem::Finder::new(run), Vec::new(), 0);
    while let Some(start) = finder.find(&bytes[position..]).map(|at| position + at) {
        let length = bytes[start..].iter().take_while(|byte| **byte == bytes[start]).count();
        position = start + length;
        let indent = bytes[..start].iter().rev().take(4).take_while(|byte| **byte == b' ').count();
        let before = start.checked_sub(indent + 1).map(|at| bytes[at]);
        let starts_line = indent <= 3 && matches!(before, None | Some(b'\n' | b'\r'));
        if starts_line && (dialect == Dialect::Marker || is_rest_blank(&text[position..])) {
            while found.pop_if(|(_, earlier)| *earlier <= length).is_some() {}
            found.push((start, length));
        }
    }
    found
}

/// Returns whether nothing but white space stands before the end of the line.
fn is_rest_blank(text: &str) -> bool {
    let first = text.chars().find(|character| !is_blank(*character) || matches!(character, '\n' | '\r'));
    first.is_none_or(|first| matches!(first, '\n' | '\r'))
}

fn kind(character: u8) -> usize {
    usize::from(character == b'~')
}

/// Returns the columns of white space before the text, and the text after it.
fn indentation(line: &str) -> (usize, &str) {
    let mut columns = 0;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += 4 - columns % 4,
            _ => return (columns, &line[at..]),
        }
    }
    (columns, "")
}

fn run(text: &str) -> Option<(Fence, &str)> {
    let character = *text.as_bytes().first().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = text.bytes().take_while(|byte| *byte == character).count();
    (length >= 3).then(|| (Fence { character, length, column: 0 }, &text[length..]))
}

/// Reads an opener from a line; `rest` is its text without indentation.
fn opener(line: &str, rest: &str, dialect: Dialect) -> Option<Fence> {
    let (mut rest, mut column) = (rest, 0);
    if dialect == Dialect::Markdown {
        while let Some(content) = after_bullet(rest) {
            rest = content;
            column = line.len() - rest.len();
        }
    }
    let (fence, info) = run(rest)?;
    let is_inline_code = fence.character == b'`' && memchr(b'`', info.as_bytes()).is_some();
    (dialect == Dialect::Marker || !is_inline_code).then_some(Fence { column, ..fence })
}

/// Reads a closer from a line's text without indentation.
fn closer(rest: &str, dialect: Dialect) -> Option<Fence> {
    let (fence, after) = run(rest)?;
    (dialect == Dialect::Marker || after.chars().all(is_blank)).then_some(fence)
}

/// Returns what follows the bullet or number of a list item.
pub(super) fn after_bullet(text: &str) -> Option<&str> {
    let digits = text.bytes().take(9).take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        _ => text[digits..].strip_prefix(['.', ')'])?,
    };
    rest.starts_with([' ', '\t']).then(|| rest.trim_start_matches([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::super::text::lines;
    use super::*;

    fn covered(text: &str, dialect: Dialect) -> Vec<u64> {
        let mut fences = Fences::of(text, dialect);
        lines(text).filter(|line| fences.cover(line)).map(|line| line.number).collect()
    }

    #[test]
    fn fences_of_markers() {
        for (text, expected) in [
            ("```\na\n```\nb", vec![1, 2, 3]),
            ("```\na\nb", vec![]),
            ("````\n```\n~~~~\n```` text\nb", vec![1, 2, 3, 4]),
            ("   ```\na\n   ```", vec![1, 2, 3]),
            ("    ```\na\n    ```", vec![]),
            ("> ```\na\n> ```", vec![]),
            ("````\n```\na\n```", vec![2, 3, 4]),
            ("~~~\n```\n~~~\n```", vec![1, 2, 3]),
            ("```a```\nb\n```", vec![1, 2, 3]),
            ("- ```\n  a\n  ```", vec![]),
        ] {
            assert_eq!(covered(text, Dialect::Marker), expected, "{text}");
        }
    }

    #[test]
    fn fences_of_markdown() {
        for (text, expected) in [
            ("```\na\n``` text\nb\n```", vec![1, 2, 3, 4, 5]),
            ("```a```\nb\n```", vec![]),
            ("~~~a`\nb\n~~~", vec![1, 2, 3]),
            ("- ```\n  a\n  ```\nb\n```\nc\n```", vec![1, 2, 3, 5, 6, 7]),
            ("10. ```\n    a\n    ```\nb", vec![1, 2, 3]),
            ("- ```\n  a\nb", vec![1, 2]),
            ("<!--\n```\n-->\na\n```\nb\n```", vec![5, 6, 7]),
            ("<!--\n```\na\n```", vec![2, 3, 4]),
            ("```\n<!--\n```\na", vec![1, 2, 3]),
        ] {
            assert_eq!(covered(text, Dialect::Markdown), expected, "{text}");
        }
    }
}
