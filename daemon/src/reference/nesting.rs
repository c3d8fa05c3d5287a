//! Whether a declaration stands inside a type's own block: by braces, by indentation, or by a Go receiver.
//!
//! A judgment by the text of one file, with comments and strings blanked out first. It is only made for languages whose
//! layout is known here, and whenever anything is odd (braces that don't match, a string without an end) it says no:
//! "present" is built on a yes.

use std::io::Read;
use std::path::Path;

use grep_matcher::Matcher;

use super::code::{Language, MAX_BEFORE, blanked, language, line_start};
use super::definition::{VISIBILITIES, declares};
use super::file;
use super::hits::{FileHits, Role};
use super::pattern::{Pattern, is_identifier};

/// Largest file that is read for its layout, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Keywords of blocks that have members.
const TYPES: &[&str] = &[
    "actor",
    "class",
    "defmodule",
    "enum",
    "extension",
    "interface",
    "mod",
    "module",
    "namespace",
    "object",
    "protocol",
    "record",
    "struct",
    "trait",
    "union",
];

/// Words that may stand before them, besides visibilities.
const MODIFIERS: &[&str] = &["annotation", "data", "fun", "indirect", "ref", "static", "value"];

/// Words that may follow a type's name before its block opens.
const FOLLOWING: &[&str] = &["derives", "do", "extends", "final", "implements", "permits", "where", "with"];

/// What a block is to the type that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    OfType,
    Other,
}

/// Returns the lines of a file that declare the member directly inside the type; nothing when there is none, or no
/// telling.
pub(super) fn find(path: &Path, outer: &str, member: &Pattern) -> Option<FileHits> {
    let language = language(path)?;
    let (file, size) = file::open(path).ok().filter(|(_, size)| *size <= MAX_BYTES)?;
    let mut text = Vec::new();
    file.take(size).read_to_end(&mut text).ok()?;
    if !member.is_match(&text).is_ok_and(|holds| holds) {
        return None;
    }
    let code = blanked(std::str::from_utf8(&text).ok()?, language)?;
    let mut found = FileHits::default();
    let mut line_at = (0, 1);
    for at in inside(&code, language, outer, &declarations(&code, member))? {
        let start = line_start(&code, at);
        let near = &text[at..text.len().min(at + MAX_BEFORE)];
        let end = at + memchr::memchr(b'\n', near).unwrap_or(near.len());
        line_at = (start, line_at.1 + memchr::memchr_iter(b'\n', &text[line_at.0..start]).count() as u64);
        found.add_line(line_at.1, &text[start..end], at - start, 1, Role::Definition);
    }
    (found.count > 0).then_some(found)
}

/// Returns where the member is declared.
fn declarations(code: &str, member: &Pattern) -> Vec<usize> {
    let mut declared = Vec::new();
    let found = member.find_iter(code.as_bytes(), |matched| {
        let start = line_start(code, matched.start());
        // The line's beginning is all that the judgment looks at.
        if declares(&code.as_bytes()[start..matched.end()], matched.start() - start) {
            declared.push(matched.start());
        }
        true
    });
    found.map(|()| declared).unwrap_or_default()
}

/// Returns those of the declarations that stand directly in a block of the type.
fn inside(code: &str, language: Language, outer: &str, declared: &[usize]) -> Option<Vec<usize>> {
    match language {
        Language::Python | Language::Ruby => in_indentation(code, outer, declared),
        Language::Go => Some(
            declared
                .iter()
                .copied()
                .filter(|at| go_receiver(&code[line_start(code, *at)..*at]).is_some_and(|name| name == outer))
                .collect(),
        ),
        Language::Rust | Language::Braces | Language::Php => in_braces(code, outer, declared),
    }
}

fn in_braces(code: &str, outer: &str, declared: &[usize]) -> Option<Vec<usize>> {
    let (mut blocks, mut head, mut found) = (Vec::<Block>::new(), 0, Vec::new());
    let mut next = declared.iter().copied().peekable();
    for (at, byte) in code.bytes().enumerate() {
        let is_declared = next.next_if_eq(&at).is_some();
        if is_declared && blocks.last() == Some(&Block::OfType) && is_own_statement(&code[head..at]) {
            found.push(at);
        }
        match byte {
            b'{' => {
                let parent = blocks.last().copied().unwrap_or(Block::Other);
                blocks.push(block(&code[head..at], outer, parent));
            }
            b'}' => {
                blocks.pop()?;
            }
            b';' => {}
            _ => continue,
        }
        head = at + 1;
    }
    blocks.is_empty().then_some(found)
}

/// Judges a block by what stands before its brace. Where statements need no `;`, that may be several: the last line
/// that opens a type counts.
fn block(head: &str, outer: &str, parent: Block) -> Block {
    let head = &head[head.ceil_char_boundary(head.len().saturating_sub(MAX_BEFORE))..];
    let starts = std::iter::once(0).chain(head.match_indices('\n').map(|(at, _)| at + 1));
    let name = starts.filter_map(|start| type_name(&head[start..])).next_back();
    match name {
        Some("") => parent,
        Some(name) if name == outer => Block::OfType,
        _ => Block::Other,
    }
}

/// Returns whether a declaration after this text is a statement of its block, and no parameter or argument of one.
fn is_own_statement(before: &str) -> bool {
    let before = &before[before.ceil_char_boundary(before.len().saturating_sub(MAX_BEFORE))..];
    let number = |bracket: char| before.matches(bracket).count();
    let before_keyword = before.trim_end().trim_end_matches(is_identifier).trim_end();
    let is_label = ["public:", "protected:", "private:"].iter().any(|label| before_keyword.ends_with(label));
    number('(') == number(')')
        && number('[') == number(']')
        && (is_label || !before_keyword.ends_with(['<', '>', ',', '*', '&', ':', '=', '|', '+']))
}

fn in_indentation(code: &str, outer: &str, declared: &[usize]) -> Option<Vec<usize>> {
    let (mut lines, mut found): (Vec<(usize, Block)>, _) = (Vec::new(), Vec::new());
    let mut next = declared.iter().copied().peekable();
    let (mut at, mut brackets) = (0, 0_usize);
    for line in code.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let is_continued = brackets > 0;
        for byte in line.bytes() {
            match byte {
                b'(' | b'[' | b'{' => brackets += 1,
                b')' | b']' | b'}' => brackets = brackets.checked_sub(1)?,
                _ => {}
            }
        }
        let text = line.trim_start();
        if text.is_empty() || is_continued {
            while next.next_if(|declared| *declared < end).is_some() {}
            continue;
        }
        let indent = line.len() - text.len();
        // Tabs beside spaces are as wide as the reader makes them.
        if line[..indent].contains(' ') && line[..indent].contains('\t') {
            return None;
        }
        while lines.pop_if(|(above, _)| *above >= indent).is_some() {}
        let parent = lines.last().map_or(Block::Other, |(_, block)| *block);
        while let Some(declared) = next.next_if(|declared| *declared < end) {
            // Only what begins the line, not what stands in a statement after another one.
            let is_first = |character: char| is_identifier(character) || character.is_whitespace() || character == '.';
            if parent == Block::OfType && code[start..declared].chars().all(is_first) {
                found.push(declared);
            }
        }
        let own = match type_name(text) {
            Some("") => parent,
            Some(name) if name == outer => Block::OfType,
            _ => Block::Other,
        };
        lines.push((indent, own));
    }
    (brackets == 0).then_some(found)
}

/// Returns the name of the type whose block this text opens; an empty one for a block without a name that belongs to
/// the type around it (`companion object`, `class << self`).
fn type_name(text: &str) -> Option<&str> {
    let (mut rest, mut keyword, mut companion) = (text.trim_start(), false, false);
    loop {
        rest = without_attribute(rest)?;
        let (word, after) = split_word(rest);
        if word == "impl" && !keyword {
            return impl_target(after);
        }
        if TYPES.contains(&word) {
            keyword = true;
        } else if keyword {
            break;
        } else if !VISIBILITIES.contains(&word) && !MODIFIERS.contains(&word) {
            return None;
        }
        companion |= word == "companion";
        rest = after.trim_start();
        if word == "pub" && rest.starts_with('(') {
            rest = after_balanced(rest, '(', ')')?.trim_start();
        }
    }
    if rest.starts_with("<< self") || companion && rest.is_empty() {
        return Some("");
    }
    let (mut name, mut after) = split_word(rest);
    while let Some(inner) = after.strip_prefix("::").or_else(|| after.strip_prefix('.')) {
        (name, after) = split_word(inner);
    }
    let after = match after.chars().next() {
        Some('<') => after_balanced(after, '<', '>')?,
        Some('[') => after_balanced(after, '[', ']')?,
        _ => after,
    };
    (!name.is_empty() && may_follow(after)).then_some(name)
}

/// Returns whether this may stand between a type's name and its block, and is no statement of its own.
fn may_follow(text: &str) -> bool {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for character in text.chars() {
        depth += usize::from("([".contains(character));
        if depth == 0 {
            plain.push(character);
        }
        depth = depth.saturating_sub(usize::from(")]".contains(character)));
    }
    let first = text.trim_start();
    let follows = |line: &str| line.starts_with([':', ',']) || FOLLOWING.contains(&split_word(line).0);
    // ` < Base`: Ruby.
    if !(first.is_empty() || first.starts_with('(') || follows(first) || text.starts_with(" < ")) {
        return false;
    }
    let lines: Vec<_> = plain.lines().map(str::trim).collect();
    let goes_on = |line: &str| [",", ":", "+", "where"].iter().any(|end| line.ends_with(end));
    lines.windows(2).all(|pair| pair[1].is_empty() || follows(pair[1]) || goes_on(pair[0]))
}

/// Rust: returns the type of `impl<T> Trait for Type<T> where ...`, given what follows the `impl`.
fn impl_target(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    if rest.starts_with('<') {
        rest = after_balanced(rest, '<', '>')?.trim_start();
    }
    // `for<'a>` is no `for` of an impl.
    let target = rest.match_indices("for").filter(|(at, word)| {
        let after = rest[at + word.len()..].chars().next();
        let before = rest[..*at].chars().next_back();
        after.is_some_and(char::is_whitespace) && before.is_some_and(char::is_whitespace)
    });
    if let Some((at, word)) = target.last() {
        rest = rest[at + word.len()..].trim_start();
    }
    let (mut name, mut after) = split_word(rest);
    while let Some(inner) = after.strip_prefix("::") {
        (name, after) = split_word(inner);
    }
    let after = if after.starts_with('<') { after_balanced(after, '<', '>')? } else { after };
    let ends = after.trim_start().is_empty() || split_word(after.trim_start()).0 == "where";
    (!name.is_empty() && ends).then_some(name)
}

/// Returns the type of a Go method's receiver, given the line before the method's name.
fn go_receiver(before: &str) -> Option<&str> {
    let inner = before.strip_prefix("func")?.trim().strip_prefix('(')?.strip_suffix(')')?;
    let name = inner.split_once('[').map_or(inner, |(name, _)| name).trim();
    let name = name.rsplit([' ', '\t', '*']).next()?;
    (!name.is_empty() && name.chars().all(is_identifier)).then_some(name)
}

fn split_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character| !is_identifier(character)).unwrap_or(text.len()))
}

/// Returns the text after the attributes, annotations and template parameters that it begins with.
fn without_attribute(mut rest: &str) -> Option<&str> {
    loop {
        if rest.starts_with("#[") || rest.starts_with('[') {
            rest = after_balanced(rest.trim_start_matches('#'), '[', ']')?;
        } else if let Some(after) = rest.strip_prefix('@') {
            rest = after.trim_start_matches(|character| is_identifier(character) || character == '.');
            if rest.starts_with('(') {
                rest = after_balanced(rest, '(', ')')?;
            }
        } else if let Some(after) = rest.strip_prefix("template").filter(|after| after.trim_start().starts_with('<')) {
            rest = after_balanced(after.trim_start(), '<', '>')?;
        } else {
            return Some(rest);
        }
        rest = rest.trim_start();
    }
}

/// Returns what follows the bracket that closes the text's first one.
fn after_balanced(text: &str, open: char, close: char) -> Option<&str> {
    let (mut depth, mut last) = (0_usize, ' ');
    for (at, character) in text.char_indices() {
        if character == open {
            depth += 1;
        } else if character == close && !(close == '>' && matches!(last, '-' | '=')) {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(&text[at + close.len_utf8()..]);
            }
        }
        last = character;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str, outer: &str, member: &str) -> Vec<usize> {
        let language = language(Path::new(name)).unwrap();
        let Some(code) = blanked(text, language) else { return Vec::new() };
        assert_eq!(code.len(), text.len());
        let declared = declarations(&code, &Pattern::symbol(member).unwrap());
        let found = inside(&code, language, outer, &declared).unwrap_or_default();
        found.into_iter().map(|at| text[..at].matches('\n').count() + 1).collect()
    }

    #[test]
    fn members_are_told_from_what_merely_stands_in_the_file() {
        for (name, text, is_member) in [
            ("a.rs", "struct A;\nimpl A {\n    pub fn m() {}\n}\n", true),
            ("a.rs", "struct A;\nstruct B;\nimpl B {\n    fn m() {}\n}\n", false),
            ("a.rs", "struct A;\nfn m() {}\n", false),
            ("a.rs", "struct A;\nimpl A {\n    fn x() {\n        fn m() {}\n    }\n}\n", false),
            ("a.rs", "impl A { // fn m()\n}\n", false),
            ("a.rs", "impl A {\n    const X: &str = \"\n fn m()\";\n}\n", false),
            ("a.rs", "impl A {\n    const X: &str = r#\"} fn m() { \"#; }\nfn m() {}\n", false),
            ("a.rs", "impl A { const X: char = '{'; fn m<'a>() {} }\n", true),
            ("a.rs", "impl<T: Fn() -> u8> Read for x::A<T>\nwhere\n    T: Copy,\n{\n    fn m() {}\n}\n", true),
            ("a.rs", "impl A for B {\n    fn m() {}\n}\n", false),
            ("a.rs", "impl From<A> for B {\n    fn m() {}\n}\n", false),
            ("a.rs", "impl A<B> {\n    fn m() {}\n}\n", true),
            ("a.rs", "#[x]\npub(crate) trait A: B {\n    fn m();\n}\n", true),
            ("a.rs", "impl A {\n    fn m() {}\n", false),
            ("a.rs", "impl A { }\n}\nimpl A { fn m() {} }", false),
            ("a.rs", "impl A {\n    fn x(y: impl m) {}\n    fn y() -> impl m {}\n}\n", false),
            ("a.rs", "struct A {\n    x: *const m,\n    y: &'static m,\n}\n", false),
            ("a.rs", "impl A {\n    #[x(y)]\n    pub(crate) const unsafe fn m() {}\n}\n", true),
            ("a.cpp", "class A {\n    void x(struct m *y, struct m z);\n};\n", false),
            ("a.cpp", "class A {\n    template <class T, class m> void x();\n};\n", false),
            ("a.cpp", "class A {\npublic:\n    struct m {};\n};\n", true),
            ("a.go", "func (a *A) m() error {\n", true),
            ("a.go", "func (a *A[T]) m() error {\n", true),
            ("a.go", "func (b *B) m(a A) error {\n", false),
            ("a.go", "type A struct{}\nfunc m() {}\n", false),
            ("a.go", "var x = `\nfunc (a *A) m() {`\n", false),
            ("a.kt", "package x\nclass A(val b: Int) : B() {\n    fun m() {}\n}\n", true),
            ("a.kt", "class A {\n    companion object {\n        fun m() {}\n    }\n}\n", true),
            ("a.kt", "class A : B()\nfun x() {\n    fun m() {}\n}\n", false),
            ("a.kt", "class A\nfun x() {\n    fun m() {}\n}\n", false),
            ("a.swift", "import B\nextension A: B {\n    func m() {}\n}\n", true),
            ("a.cpp", "template <class T> struct A : B<T> {\n    struct m {};\n};\n", true),
            ("a.cpp", "#include <x>\nclass A;\nstruct B { struct m {}; };\n", false),
            ("a.cpp", "struct A *x(void) {\n    struct m {};\n}\n", false),
            ("A.java", "@X(1)\npublic final class A extends B implements C {\n    enum m { X }\n}\n", true),
            ("a.py", "class A(B):\n    \"\"\"x\n\"\"\"\n    x = 1\n    async def m(self):\n", true),
            ("a.py", "class A(\n    B,\n):\n    def m(self):\n", true),
            ("a.py", "class A:\n    x = 1\n\ndef m():\n", false),
            ("a.py", "class A:\n    def x():\n        def m():\n", false),
            ("a.py", "class A:\n    '''\n    def m():\n    '''\n", false),
            ("a.py", "class A:\n    x = 1  # def m\n", false),
            ("a.py", "class B(A):\n    def m(self):\n", false),
            (
                "a.php",
                "<?php\nnamespace N; # it's\nfinal class A extends B {\n    public static function m() {}\n}\n",
                true,
            ),
            ("a.php", "<?php\nclass A {\n    const X = 'function m';\n}\nfunction m() {}\n", false),
            ("a.ex", "defmodule N.A do\n  def m(x) do\n  end\nend\n", true),
            ("a.ex", "defmodule N.B do\n  def m(x) do\n  end\nend\n", false),
            ("a.rb", "class A < B\n  def self.m\n  end\nend\n", true),
            ("a.rb", "class A\n  class << self\n    def m\n    end\n  end\nend\n", true),
            ("a.rb", "class A\nend\ndef m\nend\n", false),
            ("a.rb", "class A\n  X = <<X\n  def m\nX\nend\n", false),
            ("a.rb", "class A\n  X = <<~X\n    x\n  X\n  def m\n  end\nend\n", false),
        ] {
            assert_eq!(!lines(name, text, "A", "m").is_empty(), is_member, "{name}: {text}");
        }
    }

    #[test]
    fn odd_text_is_no_member() {
        for text in ["'", "\"", "/*", "r#\"", "{", "}", "'\\", "#[", "impl<", "impl", "@", "template<", "class", "é'é"]
        {
            for name in ["a.rs", "a.go", "a.kt", "a.php", "a.py", "a.rb"] {
                for text in [text.to_owned(), format!("{text} fn m"), format!("class A {{ {text}"), format!("{text}{{")]
                {
                    assert_eq!(lines(name, &text, "A", "m"), [0_usize; 0], "{name}: {text}");
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_judgment(parts in proptest::collection::vec(proptest::sample::select(vec![
            "class ", "A", " m", "fn", "def ", "{", "}", "(", ")", "[", "<", ">", "\"", "'", "r#", "#", "/", "*", "\\",
            "\n", " ", "é", "@x", "impl", " for ", "::", ";", "template", "companion object", "<< self", "`", ":", ",",
        ]), 0..40)) {
            for name in ["a.rs", "a.go", "a.kt", "a.php", "a.py", "a.rb"] {
                lines(name, &parts.concat(), "A", "m");
            }
        }
    }
}
