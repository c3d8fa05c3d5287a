//! Quotations: the lines of a Markdown text that are fenced code wherever it is shown.
//!
//! A fence ends with the list item or quote it stands in, and starts none inside HTML, so those are followed line by
//! line. Where readings of Markdown differ, or a construct is too rare to follow, nothing further is a quotation: what
//! stands there then counts. It must never call a line quoted that may be shown as a table.

use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

use super::cursor::{Cursor, is_blank};
use super::text::{Line, lines};

/// Most quotes and list items within each other that are followed.
const MAX_DEPTH: usize = 16;

/// Most bytes that are followed, far more than a review has; nothing behind them is a quotation.
const MAX_BYTES: usize = 256 * 1024;

/// Returns the numbers of the lines of each quotation, in order, opener and closer included.
///
/// A fence that is still open at the end of the text quotes nothing, so that a stray one never hides what follows it.
pub(super) fn quotations(text: &str) -> Vec<Range<u64>> {
    let bytes = text.as_bytes();
    let last_fence = memmem::rfind(bytes, b"```").max(memmem::rfind(bytes, b"~~~"));
    let Some(last_fence) = last_fence else { return Vec::new() };
    // White space to some readers, a character to others.
    let mut blocks = Blocks { in_doubt: memchr3(b'\x0b', b'\x0c', 0, bytes).is_some(), ..Blocks::default() };
    for line in lines(text) {
        let is_past = line.start > last_fence && !matches!(blocks.leaf, Leaf::Fence(_));
        if blocks.in_doubt || is_past || line.start + line.text.len() > MAX_BYTES {
            break;
        }
        blocks.read(&line);
    }
    blocks.quotations
}

/// What is open after a line.
#[derive(Default)]
struct Blocks {
    containers: Vec<Container>,
    leaf: Leaf,
    /// Whether a different reading may have other blocks open.
    in_doubt: bool,
    quotations: Vec<Range<u64>>,
}

#[derive(Clone, Copy)]
enum Container {
    Quote,
    /// A list item whose content is indented by so many columns, and whether it has none yet.
    Item {
        width: usize,
        is_empty: bool,
    },
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Leaf {
    /// Nothing that goes on in the next line.
    #[default]
    None,
    Paragraph,
    /// A paragraph, or what follows a heading or a table.
    PerhapsParagraph,
    /// As `PerhapsParagraph`, or HTML that ends at a blank line.
    PerhapsHtml,
    Html(HtmlEnd),
    Fence(Fence),
    /// The settings between two rules at the start of a file, which some readers set apart.
    FrontMatter,
}

/// What ends a block of HTML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HtmlEnd {
    Mark(&'static str),
    /// The closing tag of an element that holds raw text.
    RawElement(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Fence {
    character: u8,
    length: usize,
    /// Line of its opener.
    line: u64,
}

impl Blocks {
    fn read(&mut self, line: &Line<'_>) {
        let text = if line.number == 1 { line.text.strip_prefix('\u{feff}').unwrap_or(line.text) } else { line.text };
        if line.number == 1 && text.strip_prefix("---").is_some_and(is_blank) {
            self.leaf = Leaf::FrontMatter;
            return;
        }
        if self.leaf == Leaf::FrontMatter {
            if text.strip_prefix("---").is_some_and(is_blank) {
                self.leaf = Leaf::PerhapsParagraph;
            }
            self.in_doubt = text.contains("```") || text.contains("~~~") || text.contains('<');
            return;
        }
        let mut cursor = Cursor::at(text);
        let matched = self.matched(&mut cursor);
        let is_matched = matched == self.containers.len();
        match self.leaf {
            Leaf::Fence(fence) if is_matched => {
                if cursor.indentation() <= 3 && closes(cursor.word(), fence) {
                    self.end_fence(line.number + 1);
                }
                return;
            }
            Leaf::Html(end) if is_matched => return self.read_html(cursor.rest, end),
            Leaf::Fence(_) => self.end_fence(line.number),
            Leaf::Html(_) => self.leaf = Leaf::None,
            _ => {}
        }
        if is_blank(cursor.rest) {
            self.containers.truncate(matched);
            self.leaf = Leaf::None;
            return;
        }
        if let (true, Some(Container::Item { is_empty, .. })) = (is_matched, self.containers.last_mut()) {
            *is_empty = false;
        }
        self.read_start(cursor, matched, line.number);
    }

    /// Moves past the marks of the containers that go on in this line; returns how many do.
    fn matched(&mut self, cursor: &mut Cursor<'_>) -> usize {
        for (at, container) in self.containers.iter().enumerate() {
            let indentation = cursor.indentation();
            let goes_on = match *container {
                Container::Quote if indentation > 3 => {
                    self.in_doubt |= cursor.word().starts_with('>');
                    false
                }
                Container::Quote => cursor.quote(),
                Container::Item { width, is_empty: true } if is_blank(cursor.rest) => {
                    self.in_doubt |= indentation >= width;
                    false
                }
                Container::Item { .. } if is_blank(cursor.rest) => true,
                Container::Item { width, .. } if indentation >= width => {
                    cursor.advance(width);
                    true
                }
                Container::Item { .. } => false,
            };
            if !goes_on {
                return at;
            }
        }
        self.containers.len()
    }

    /// Reads what starts in a line, behind the containers that go on.
    fn read_start(&mut self, mut cursor: Cursor<'_>, matched: usize, line: u64) {
        let is_matched = matched == self.containers.len();
        // What the line may go on with: nothing when a container ended, unless the line turns out to be mere text.
        let mut before = if is_matched { self.leaf } else { Leaf::None };
        let mut is_mere_text = !is_matched;
        loop {
            let (indentation, word) = (cursor.indentation(), cursor.word());
            if indentation > 3 {
                break;
            }
            match start(word, before) {
                Start::Text => break,
                Start::Doubt => {
                    self.in_doubt = true;
                    return;
                }
                Start::Tag if is_mere_text && self.leaf != Leaf::None => {
                    self.in_doubt = true;
                    return;
                }
                Start::Tag => return self.start_leaf(matched, is_mere_text, Leaf::PerhapsHtml),
                Start::Leaf(Leaf::Fence(fence)) => {
                    return self.start_leaf(matched, is_mere_text, Leaf::Fence(Fence { line, ..fence }));
                }
                Start::Leaf(leaf) => return self.start_leaf(matched, is_mere_text, leaf),
                Start::Quote => {
                    self.start_container(matched, is_mere_text, Container::Quote);
                    cursor.quote();
                }
                Start::Item(marker) => {
                    cursor.advance(indentation);
                    cursor.pass(marker);
                    let (space, is_empty) = (cursor.indentation(), is_blank(cursor.rest));
                    let space = if is_empty || space > 4 { 1 } else { space };
                    cursor.advance(space);
                    let item = Container::Item { width: indentation + marker + space, is_empty };
                    self.start_container(matched, is_mere_text, item);
                }
            }
            (is_mere_text, before) = (false, Leaf::None);
            if self.in_doubt || is_blank(cursor.rest) {
                self.leaf = Leaf::None;
                return;
            }
        }
        if is_mere_text {
            match self.leaf {
                // The paragraph goes on, and what it stands in with it.
                Leaf::Paragraph => return,
                Leaf::PerhapsParagraph | Leaf::PerhapsHtml => self.in_doubt = true,
                _ => self.containers.truncate(matched),
            }
        }
        self.leaf = match before {
            Leaf::None if cursor.indentation() > 3 => Leaf::None,
            Leaf::None => Leaf::Paragraph,
            Leaf::Paragraph if is_delimiter_row(cursor.word()) => Leaf::PerhapsParagraph,
            before => before,
        };
    }

    fn start_leaf(&mut self, matched: usize, ends_containers: bool, leaf: Leaf) {
        if ends_containers {
            self.containers.truncate(matched);
        }
        self.leaf = leaf;
    }

    fn start_container(&mut self, matched: usize, ends_containers: bool, container: Container) {
        self.start_leaf(matched, ends_containers, Leaf::None);
        self.in_doubt |= self.containers.len() == MAX_DEPTH;
        self.containers.push(container);
    }

    fn end_fence(&mut self, after: u64) {
        if let Leaf::Fence(fence) = self.leaf {
            self.quotations.push(fence.line..after);
        }
        self.leaf = Leaf::None;
    }

    fn read_html(&mut self, text: &str, end: HtmlEnd) {
        match html_ends(text, end) {
            Some(true) => self.leaf = Leaf::None,
            Some(false) => {}
            None => self.in_doubt = true,
        }
    }
}

/// What starts at a place of a line.
enum Start {
    /// Nothing but text.
    Text,
    /// A leaf, or the end of one.
    Leaf(Leaf),
    /// A tag, which may start HTML or stand in a paragraph.
    Tag,
    Quote,
    /// A list item, with the length of its bullet or number.
    Item(usize),
    /// This can't be told.
    Doubt,
}

fn start(word: &str, before: Leaf) -> Start {
    let is_in_html = before == Leaf::PerhapsHtml;
    // Inside HTML nothing starts; where that can't be told, what would start something is in doubt.
    let unless_html = |start| if is_in_html { Start::Doubt } else { start };
    let ended = Start::Leaf(if is_in_html { Leaf::PerhapsHtml } else { Leaf::None });
    match word.as_bytes().first() {
        Some(b'>') => unless_html(Start::Quote),
        Some(b'#') if is_heading(word) => ended,
        Some(b'`' | b'~') => opener(word).map_or(Start::Text, |fence| unless_html(Start::Leaf(Leaf::Fence(fence)))),
        Some(b'<') => match start_html(word) {
            Start::Leaf(Leaf::None) => ended,
            Start::Leaf(leaf) => unless_html(Start::Leaf(leaf)),
            other => other,
        },
        Some(b'-' | b'=') if before != Leaf::None && is_underline(word) => match (before, trim_end(word)) {
            (Leaf::PerhapsParagraph | Leaf::PerhapsHtml, "-") => Start::Doubt,
            (Leaf::Paragraph, _) => Start::Leaf(Leaf::PerhapsParagraph),
            _ => Start::Leaf(before),
        },
        Some(b'-' | b'*' | b'_') if is_rule(word) => ended,
        _ => {
            let Some((marker, starts_any)) = bullet(word) else { return Start::Text };
            match before {
                Leaf::PerhapsHtml => Start::Doubt,
                Leaf::Paragraph if !starts_any => Start::Text,
                Leaf::PerhapsParagraph if !starts_any => Start::Doubt,
                _ => Start::Item(marker),
            }
        }
    }
}

/// Reads a bullet or number: its length, and whether it may also interrupt a paragraph.
fn bullet(word: &str) -> Option<(usize, bool)> {
    let digits = word.bytes().take(10).take_while(u8::is_ascii_digit).count();
    let (marks, is_first) = match digits {
        0 => (['-', '*', '+'].as_slice(), true),
        1..=9 => (['.', ')'].as_slice(), word[..digits].parse() == Ok(1)),
        _ => return None,
    };
    let rest = word[digits..].strip_prefix(marks)?;
    let is_spaced = rest.is_empty() || rest.starts_with([' ', '\t']);
    is_spaced.then(|| (digits + 1, is_first && !is_blank(rest)))
}

fn run(word: &str) -> Option<(Fence, &str)> {
    let character = *word.as_bytes().first().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = word.bytes().take_while(|byte| *byte == character).count();
    (length >= 3).then(|| (Fence { character, length, line: 0 }, &word[length..]))
}

fn opener(word: &str) -> Option<Fence> {
    let (fence, info) = run(word)?;
    (fence.character == b'~' || memchr(b'`', info.as_bytes()).is_none()).then_some(fence)
}

fn closes(word: &str, open: Fence) -> bool {
    let fits = |(fence, rest): (Fence, &str)| {
        fence.character == open.character && fence.length >= open.length && is_blank(rest)
    };
    run(word).is_some_and(fits)
}

fn start_html(word: &str) -> Start {
    let is_letter = |rest: &str| rest.starts_with(|first: char| first.is_ascii_alphabetic());
    let end = if word.starts_with("<!-->") || word.starts_with("<!--->") {
        return Start::Doubt;
    } else if word.starts_with("<!--") {
        HtmlEnd::Mark("-->")
    } else if word.starts_with("<?") {
        HtmlEnd::Mark("?>")
    } else if word.starts_with("<![CDATA[") {
        HtmlEnd::Mark("]]>")
    } else if let Some(declaration) = word.strip_prefix("<!") {
        match declaration.bytes().next() {
            Some(b'A'..=b'Z') => HtmlEnd::Mark(">"),
            Some(b'a'..=b'z') => return Start::Doubt,
            _ => return Start::Text,
        }
    } else if let Some(name) = raw_element(&word[1..]) {
        if name == "textarea" {
            return Start::Doubt;
        }
        HtmlEnd::RawElement(name)
    } else if is_letter(word[1..].strip_prefix('/').unwrap_or(&word[1..])) {
        return Start::Tag;
    } else {
        return Start::Text;
    };
    match html_ends(word, end) {
        Some(true) => Start::Leaf(Leaf::None),
        Some(false) => Start::Leaf(Leaf::Html(end)),
        None => Start::Doubt,
    }
}

/// Returns whether HTML ends in this line; nothing when readers differ on that.
fn html_ends(text: &str, end: HtmlEnd) -> Option<bool> {
    match end {
        HtmlEnd::Mark(mark) => Some(memmem::find(text.as_bytes(), mark.as_bytes()).is_some()),
        HtmlEnd::RawElement(name) => {
            let is_bare = |tag: &str, name: &str| tag[name.len()..].starts_with('>');
            let closing = |tag| raw_element(tag).map(|name| (name, is_bare(tag, name)));
            let mut closed = text.split("</").skip(1).filter_map(closing);
            match (closed.next(), closed.next()) {
                (None, _) => Some(false),
                (Some((one, true)), None) if one == name => Some(true),
                _ => None,
            }
        }
    }
}

/// Returns the name that a tag starts with, when it is that of an element that holds raw text.
fn raw_element(tag: &str) -> Option<&'static str> {
    ["script", "pre", "style", "textarea"].into_iter().find(|name| starts_with_name(tag, name))
}

fn starts_with_name(text: &str, name: &str) -> bool {
    let Some((start, rest)) = text.split_at_checked(name.len()) else { return false };
    start.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.starts_with([' ', '\t', '>']))
}

fn is_heading(word: &str) -> bool {
    let level = word.bytes().take(7).take_while(|byte| *byte == b'#').count();
    level <= 6 && (word.len() == level || word[level..].starts_with([' ', '\t']))
}

/// Returns whether the line underlines a heading, if it follows one.
fn is_underline(word: &str) -> bool {
    let line = trim_end(word);
    ["-", "="].iter().any(|mark| line.starts_with(mark) && line.trim_start_matches(mark).is_empty())
}

/// Returns whether the line, which starts with the mark of one, is a rule.
fn is_rule(word: &str) -> bool {
    let mark = word.as_bytes()[0];
    word.bytes().all(|byte| byte == mark || matches!(byte, b' ' | b'\t'))
        && word.bytes().filter(|byte| *byte == mark).count() >= 3
}

fn is_delimiter_row(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t')) && word.contains('-')
}

fn trim_end(text: &str) -> &str {
    text.trim_end_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

    use super::super::text::line_at;
    use super::*;

    fn quoted(text: &str) -> Vec<u64> {
        quotations(text).into_iter().flatten().collect()
    }

    /// Returns the lines of fenced code as a parser of Markdown has them.
    fn fenced(text: &str, options: Options) -> Vec<u64> {
        let mut found = Vec::new();
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) = event {
                found.extend(line_at(text, range.start)..=line_at(text, range.end.max(1) - 1));
            }
        }
        found
    }

    #[test]
    fn fenced_lines_are_quoted() {
        for (text, expected) in [
            ("```\na\n``` text\nb\n```", vec![1, 2, 3, 4, 5]),
            ("````md\n```\n````\nb", vec![1, 2, 3]),
            ("```a```\nb\n```", vec![]),
            ("~~~a`\nb\n~~~", vec![1, 2, 3]),
            ("- ```\n  a\n  ```\nb\n```\nc\n```", vec![1, 2, 3, 5, 6, 7]),
            ("10. ```\n    a\n    ```\nb", vec![1, 2, 3]),
            ("1. x\n\n   - y\n\n     ```\n     a\n     ```\n", vec![5, 6, 7]),
            ("- ```\n  a\nb", vec![1, 2]),
            ("- x:\n  ```\n  a\n\nb\n\n```\nc\n```", vec![2, 3, 4, 7, 8, 9]),
            ("-\tx\n\n\t```\n\ta\n\t```", vec![3, 4, 5]),
            ("> ```\n> a\n> ```\nb", vec![1, 2, 3]),
            ("> x\n> - ```\n>   a\n\nb\n```\nc\n```", vec![2, 3, 6, 7, 8]),
            ("<!--\n```\n-->\na\n```\nb\n```", vec![5, 6, 7]),
            ("```\n<!--\n```\na", vec![1, 2, 3]),
            ("<div>\n```\n</div>\n\na\n```\nb\n```", vec![]),
            ("<PRE>\n```\n\n</pre>\na\n```\nb\n```", vec![6, 7, 8]),
            ("<details>\n<summary>x</summary>\n\n```\na\n```\n\n</details>", vec![4, 5, 6]),
            ("---\na: b\n---\n```\na\n```", vec![4, 5, 6]),
            ("---\n```\n---\na\n```\nb\n```", vec![]),
            ("```\n```\u{a0}\n```\na\n```", vec![1, 2, 3]),
            ("<pre>\n</pre >\n```\n</pre>\na\n```\nb\n```", vec![]),
            ("<textarea>\n\n```\na\n```", vec![]),
            ("\u{feff}```\na\n```", vec![1, 2, 3]),
            ("\u{c}\n```\na\n```", vec![]),
            ("-\n\n  ```\n  a\nb\n  ```", vec![3, 4, 5, 6]),
        ] {
            assert_eq!(quoted(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_too_far_or_too_deep_is_quoted() {
        let fence = "```\na\n```\n";
        let lines = "\n".repeat(MAX_BYTES - "```\na\n```".len());
        assert_eq!(quoted(&format!("{lines}{fence}")).len(), 3);
        assert_eq!(quoted(&format!("{lines}\n{fence}")).len(), 0);
        assert_eq!(quoted(&format!("{}a\n\n{fence}", "> ".repeat(MAX_DEPTH))).len(), 3);
        assert_eq!(quoted(&format!("{}a\n\n{fence}", "> ".repeat(MAX_DEPTH + 1))).len(), 0);
    }

    #[test]
    fn a_fence_that_does_not_end_quotes_nothing() {
        for text in ["```\na\nb", "````\na\n```\nb", "~~~\n```\na", "- ```\n  a", "> ```\n> a"] {
            assert_eq!(quoted(text), [0; 0], "{text}");
        }
    }

    fn pieces() -> impl Strategy<Value = String> {
        let marks = prop::sample::select(vec![
            "", "", "", " ", "  ", "   ", "    ", "\t", "> ", ">", "- ", "-\t", "* ", "1. ", "2) ", "-     ", "+",
        ]);
        let words = prop::sample::select(vec![
            "",
            "",
            "```",
            "```",
            "```",
            "````",
            "~~~",
            "``` a",
            "```\u{a0}",
            "a",
            "a",
            "a b",
            "| a | b |",
            "|---|---|",
            "---",
            "-",
            "--",
            "===",
            "# a",
            "#a",
            "***",
            "- - -",
            "<div>",
            "</div>",
            "<b>",
            "<b>a</b>",
            "<pre>",
            "</pre>",
            "<pre></pre>",
            "<!--",
            "-->",
            "<!-- a -->",
            "<?",
            "?>",
            "<!A",
            ">",
            "<![CDATA[",
            "]]>",
            "<",
            "<a href='",
            "[a]: b",
            "[a]:",
            "2. a",
            "<script>",
            "</script>",
            "<http://a>",
            "`",
            "\\```",
            "\u{a0}",
            "&",
            "1.",
            "    a",
        ]);
        let line = (prop::collection::vec(marks, 0..4), words).prop_map(|(marks, word)| marks.concat() + word);
        prop::collection::vec(line, 1..14).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_quoted_is_fenced_code(text in pieces()) {
            let extended = Options::ENABLE_TABLES | Options::ENABLE_GFM | Options::ENABLE_FOOTNOTES;
            for options in [Options::empty(), Options::ENABLE_TABLES, extended] {
                let fenced = fenced(&text, options);
                for line in quoted(&text) {
                    prop_assert!(fenced.contains(&line), "line {} of {:?}: {:?}", line, text, fenced);
                }
            }
        }
    }
}
