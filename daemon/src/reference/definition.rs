//! Whether a line declares a name rather than using it: a declaration keyword stands right before it.
//!
//! A judgment by the line alone, over all languages at once: it ranks matches and never decides whether there is one.

use super::pattern::is_identifier;

const KEYWORDS: &[&str] = &[
    "alias",
    "associatedtype",
    "class",
    "const",
    "constexpr",
    "data",
    "def",
    "define",
    "defmacro",
    "defmodule",
    "defn",
    "defp",
    "defun",
    "enum",
    "event",
    "extension",
    "fn",
    "fun",
    "func",
    "function",
    "impl",
    "interface",
    "let",
    "macro",
    "macro_rules",
    "message",
    "mod",
    "module",
    "namespace",
    "newtype",
    "object",
    "package",
    "proc",
    "protocol",
    "record",
    "rpc",
    "service",
    "static",
    "struct",
    "sub",
    "table",
    "trait",
    "type",
    "typealias",
    "typedef",
    "union",
    "val",
    "var",
    "view",
];

/// How much of a line before the name is looked at, in bytes.
const MAX_BEFORE: usize = 400;

/// Words that may stand between the keyword and the name.
const MODIFIERS: &[&str] = &["mut"];

/// Words that may stand before a keyword.
pub(super) const VISIBILITIES: &[&str] = &[
    "abstract",
    "actual",
    "async",
    "auto",
    "case",
    "companion",
    "declare",
    "default",
    "expect",
    "export",
    "extern",
    "final",
    "fileprivate",
    "friend",
    "global",
    "infix",
    "inline",
    "inner",
    "internal",
    "lateinit",
    "local",
    "open",
    "operator",
    "override",
    "partial",
    "private",
    "protected",
    "pub",
    "public",
    "readonly",
    "sealed",
    "suspend",
    "tailrec",
    "unsafe",
    "virtual",
];

/// What opens a line of comment.
const COMMENTS: &[&str] = &["//", "/*", "* ", "# ", "## ", "-- ", "<!--", ";;", "% "];

/// Returns whether the line declares the name that starts at this byte of it.
pub(super) fn declares(line: &[u8], start: usize) -> bool {
    // Most uses end here, without a look at any word.
    let last = line[..start].last();
    if !last.is_some_and(|byte| byte.is_ascii_whitespace() || b"*&!#$(.".contains(byte)) {
        return false;
    }
    // Bounded: a line of megabytes may hold the name many thousand times.
    let mut from = start.saturating_sub(MAX_BEFORE);
    while from < start && from > 0 && line[from] & 0xc0 == 0x80 {
        from += 1;
    }
    let Ok(before) = std::str::from_utf8(&line[from..start]) else { return false };
    if from == 0 && COMMENTS.iter().any(|opening| before.trim_start().starts_with(opening)) {
        return false;
    }
    // Ruby: `def self.open`.
    let before = before.strip_suffix("self.").unwrap_or(before);
    if go_receiver(before.trim()) {
        return true;
    }
    let mut rest = before;
    loop {
        // Pointers, references, generators, `macro_rules!` and private names stand between keyword and name.
        rest = rest.trim_end_matches(|character: char| character.is_whitespace() || "*&!#$".contains(character));
        if rest.len() == before.len() {
            return false;
        }
        let word = rest.rsplit(|character: char| !is_identifier(character)).next().unwrap_or_default();
        if word == "impl" && !["", "default", "unsafe"].contains(&rest[..rest.len() - word.len()].trim()) {
            // The type of a value.
            return false;
        }
        if KEYWORDS.contains(&word) {
            return opens_declaration(&rest[..rest.len() - word.len()]);
        }
        if MODIFIERS.contains(&word) {
            rest = &rest[..rest.len() - word.len()];
            continue;
        }
        return generic_impl(rest, before);
    }
}

/// Returns whether a keyword after this text declares something: prose has other words before it (`of the class Store`),
/// and a member merely may be called so (`self.type x`).
fn opens_declaration(before: &str) -> bool {
    let gap = before.len() > before.trim_end().len();
    let before = before.trim_end();
    let word = before.rsplit(|character: char| !is_identifier(character)).next().unwrap_or_default();
    if word.is_empty() {
        return !before.ends_with(['.', '-', '\'', '*']);
    }
    gap && (VISIBILITIES.contains(&word) || KEYWORDS.contains(&word))
}

/// Go: `func (s *Store) Open` declares the method, and as good as declares the type.
fn go_receiver(before: &str) -> bool {
    let parentheses = |kind: char| before.matches(kind).count();
    let is_method = before.ends_with(')') && parentheses(')') == 1;
    let is_type = parentheses(')') == 0 && before.split_whitespace().count() <= 3;
    before.starts_with("func (") && parentheses('(') == 1 && (is_method || is_type)
}

/// Rust: `impl<T> Store`, `impl Read for Store`.
fn generic_impl(rest: &str, before: &str) -> bool {
    let line = before.trim_start().trim_start_matches("unsafe ");
    let opens = line.starts_with("impl<") || line.starts_with("impl ");
    opens && (rest.ends_with('>') && !rest.contains(" for ") || rest.ends_with(" for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_and_uses() {
        for (line, declared) in [
            ("pub fn NAME() {", true),
            ("    async def NAME(self):", true),
            ("class NAME extends Base {", true),
            ("export default function NAME() {", true),
            ("function* NAME() {", true),
            ("let mut NAME = 1;", true),
            ("static mut NAME: u8 = 0;", true),
            ("enum class NAME { A }", true),
            ("macro_rules! NAME {", true),
            ("#define NAME 1", true),
            ("func (s *Store) NAME() error {", true),
            ("func (s *NAME) Open() error {", true),
            ("func (NAME) Open() error {", true),
            ("func (s *Store) Open(x NAME) error {", false),
            ("func NAME() error {", true),
            ("impl<T> NAME<T> {", true),
            ("impl Read for NAME {", true),
            ("impl<T> Read for NAME<T> {", true),
            ("pub(crate) const unsafe fn NAME() {", true),
            ("extern \"C\" fn NAME() {", true),
            ("template <class T> class NAME {", true),
            ("const f = function NAME() {", true),
            ("The class NAME opens files.", false),
            ("sub-class NAME", false),
            ("def self.NAME", true),
            ("self.NAME", false),
            ("// the class NAME", false),
            ("fn open(source: impl NAME) {", false),
            ("    raw: *const NAME,", false),
            ("    unsafe impl NAME {", true),
            (" * the class NAME", false),
            ("NAME();", false),
            ("return NAME;", false),
            ("x.type NAME", false),
            ("classNAME", false),
            ("call(func (x) NAME)", false),
            ("impl Read for Other { NAME }", false),
            ("// type of the NAME", false),
        ] {
            let start = line.find("NAME").unwrap();
            assert_eq!(declares(line.as_bytes(), start), declared, "{line}");
        }
        assert!(!declares(b"\xff fn NAME", 5));
    }
}
