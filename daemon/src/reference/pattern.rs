//! What a scan looks for: a literal with whole-word edges, or the pieces in which argument parsers define a flag.
//!
//! Identifier characters are Unicode letters, digits, marks and `_` (SPEC 7). A pattern never matches the empty string
//! and never spans lines. `-` is an identifier character only beside a value that holds one: `color` is in
//! `main-color`, but `main-color` is not in `--main-color`, which is another name.

use std::sync::OnceLock;

use grep_matcher::{LineMatchKind, LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::memmem;
use unicode_general_category::{GeneralCategory, get_general_category};

/// A literal and what may not stand beside it.
#[derive(Debug, Clone)]
pub struct Pattern {
    finder: memmem::Finder<'static>,
    before: Edge,
    after: Edge,
}

/// An expression that is only tried on lines that hold one of its needles, and only built for the first such line:
/// building takes longer than looking through a small repository.
#[derive(Debug)]
pub(super) struct Pieces {
    needles: Vec<memmem::Finder<'static>>,
    expression: String,
    builder: RegexMatcherBuilder,
    built: OnceLock<Option<RegexMatcher>>,
}

/// Which characters beside a match forbid it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Anything,
    Identifier,
    IdentifierOrDash,
}

/// A value that no line can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing is left to look for.
    #[error("the value is blank; name what to look for")]
    Blank,
    /// Symbols and flags stand on one line.
    #[error("the value holds a line break; name one symbol or flag")]
    LineBreak,
}

impl Pattern {
    /// Returns the pattern of a symbol: a trailing `()` is dropped, and an edge is demanded where the value's own edge
    /// is an identifier character. When the value holds a `-`, a `-` beside it belongs to the name (CSS, shell).
    ///
    /// # Errors
    /// When the value is blank or holds a line break.
    pub fn symbol(value: &str) -> Result<Self, PatternError> {
        let value = value.trim();
        let name = value.strip_suffix("()").filter(|name| !name.is_empty()).unwrap_or(value);
        let inner = if name.contains('-') && !name.contains("->") { Edge::IdentifierOrDash } else { Edge::Identifier };
        let edge = |character: Option<char>| if character.is_some_and(is_identifier) { inner } else { Edge::Anything };
        Self::literal(name, edge(name.chars().next()), edge(name.chars().next_back()))
    }

    /// Returns the pattern of a flag: neither an identifier character nor `-` may stand beside it.
    ///
    /// # Errors
    /// When the value is blank or holds a line break.
    pub fn flag(value: &str) -> Result<Self, PatternError> {
        Self::literal(value.trim(), Edge::IdentifierOrDash, Edge::IdentifierOrDash)
    }

    fn literal(name: &str, before: Edge, after: Edge) -> Result<Self, PatternError> {
        if name.is_empty() {
            return Err(PatternError::Blank);
        }
        if name.contains(['\n', '\r']) {
            return Err(PatternError::LineBreak);
        }
        Ok(Self { finder: memmem::Finder::new(name).into_owned(), before, after })
    }
}

impl Matcher for Pattern {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        let length = self.finder.needle().len();
        let mut from = at;
        while let Some(offset) = haystack.get(from..).and_then(|rest| self.finder.find(rest)) {
            let (start, end) = (from + offset, from + offset + length);
            let before = bstr::decode_last_utf8(&haystack[..start]).0;
            let after = bstr::decode_utf8(&haystack[end..]).0;
            if self.before.allows(before) && self.after.allows(after) {
                return Ok(Some(Match::new(start, end)));
            }
            from = start + 1;
        }
        Ok(None)
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        Some(LineTerminator::byte(b'\n'))
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, NoError> {
        Ok(self.finder.find(haystack).map(LineMatchKind::Candidate))
    }
}

impl Pieces {
    pub(super) fn new(needles: &[&str], mut builder: RegexMatcherBuilder, expression: String) -> Self {
        builder.line_terminator(Some(b'\n'));
        let needles = needles.iter().map(|needle| memmem::Finder::new(needle).into_owned()).collect();
        Self { needles, expression, builder, built: OnceLock::new() }
    }
}

impl Matcher for Pieces {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        // What the expressions are made of can't make them invalid; if it did, they would match nothing.
        let built = self.built.get_or_init(|| self.builder.build(&self.expression).ok());
        built.as_ref().map_or(Ok(None), |built| built.find_at(haystack, at))
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        Some(LineTerminator::byte(b'\n'))
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, NoError> {
        let first = self.needles.iter().filter_map(|needle| needle.find(haystack)).min();
        Ok(first.map(LineMatchKind::Candidate))
    }
}

impl Edge {
    fn allows(self, neighbor: Option<char>) -> bool {
        match (self, neighbor) {
            (Self::Anything, _) | (_, None) => true,
            (Self::Identifier, Some(character)) => !is_identifier(character),
            (Self::IdentifierOrDash, Some(character)) => character != '-' && !is_identifier(character),
        }
    }
}

/// Returns whether the character may stand in an identifier: a Unicode letter, digit or mark, or `_`.
pub(super) fn is_identifier(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    use GeneralCategory::{
        DecimalNumber, EnclosingMark, LetterNumber, LowercaseLetter, ModifierLetter, NonspacingMark, OtherLetter,
        SpacingMark, TitlecaseLetter, UppercaseLetter,
    };
    matches!(
        get_general_category(character),
        UppercaseLetter
            | LowercaseLetter
            | TitlecaseLetter
            | ModifierLetter
            | OtherLetter
            | DecimalNumber
            | LetterNumber
            | NonspacingMark
            | SpacingMark
            | EnclosingMark
    )
}

/// Returns a matcher of the definition of a Rust macro named with its `!`, or nothing when the value is no such name.
pub(super) fn macro_definition(value: &str) -> Option<Pieces> {
    let value = value.trim();
    let name = value.strip_suffix("()").unwrap_or(value).strip_suffix('!')?;
    let is_name = !name.is_empty() && name.chars().all(is_identifier);
    let expression = format!(r"\bmacro(?:_rules!)?\s+{name}\b");
    is_name.then(|| Pieces::new(&[name], RegexMatcherBuilder::new(), expression))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pattern: &Pattern, text: &str) -> usize {
        let mut count = 0;
        pattern
            .find_iter(text.as_bytes(), |_| {
                count += 1;
                true
            })
            .unwrap();
        count
    }

    #[test]
    fn edges_of_symbols() {
        for (value, text, expected) in [
            ("alpha", "alpha alphabet _alpha alpha1 (alpha)", 2),
            ("alpha()", "alpha(1) alpha", 2),
            ("()", "fn () ()", 2),
            ("println!", "println!(x) eprintln!(y) println(z)", 1),
            ("$el", "a$el $el $els", 2),
            ("#field", "this.#field #fields", 1),
            ("operator==", "bool operator==(x); operator==y operator===", 3),
            ("empty?", "x.empty? nonempty? empty", 1),
            ("save!", "save! unsave! save", 1),
            ("Type::method", "Type::method() MyType::method Type::methods", 1),
            ("Type.method", "Type.method() xType.method", 1),
            ("obj->m", "obj->m obj->max p->obj->m", 2),
            ("btn-primary", ".btn-primary .btn-primary-large x-btn-primary", 1),
            ("main-color", "--main-color main-color", 1),
            ("--main", "--main --main-color var(--main)", 2),
            ("größe", "größe größen übergröße größe", 2),
            ("e", "e e\u{301} \u{e9}", 1),
            ("名前", "名前 名前空間", 1),
            ("x", "x x1 x‿ x٣ xx x", 3),
            ("aa", "aaa aa aaaa", 1),
        ] {
            assert_eq!(count(&Pattern::symbol(value).unwrap(), text), expected, "{value} in {text}");
        }
    }

    #[test]
    fn edges_of_flags() {
        for (value, text, expected) in [
            ("-v", "--verbose -v -vv --v x-v (-v)", 2),
            ("--force", "--force --force-with-lease --forced ---force --force=1 '--force'", 3),
            ("--no-force", "--no-force --no-forces", 1),
        ] {
            assert_eq!(count(&Pattern::flag(value).unwrap(), text), expected, "{value} in {text}");
        }
    }

    #[test]
    fn values_that_no_line_holds_are_refused() {
        for value in ["", "  ", "\t"] {
            assert_eq!(Pattern::symbol(value).unwrap_err(), PatternError::Blank);
            assert_eq!(Pattern::flag(value).unwrap_err(), PatternError::Blank);
        }
        assert_eq!(Pattern::symbol("a\nb").unwrap_err(), PatternError::LineBreak);
    }

    #[test]
    fn invalid_utf8_is_no_identifier() {
        let pattern = Pattern::symbol("alpha").unwrap();
        assert!(pattern.is_match(b"\xff\xfealpha\x80").unwrap());
        assert!(!pattern.is_match(b"\xffxalpha").unwrap());
    }
}
