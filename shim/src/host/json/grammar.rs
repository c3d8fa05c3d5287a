//! A JSON text with the positions of its values and tokens.
//!
//! It owns which liberties beyond JSON are taken for granted, and that a key which stands twice is refused. It knows
//! nothing of servers and changes nothing.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::{Value, json};

use super::super::entry::EditError;

/// Comments and trailing commas, which some hosts allow in their files; nothing else beyond JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A parsed text.
pub(super) struct Document<'a> {
    text: &'a str,
    root: Option<Node<'a>>,
    /// In the order of the text.
    tokens: Vec<Place>,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What matters of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Comma,
    LineComment,
    BlockComment,
    Other,
}

impl TokenKind {
    pub(super) fn is_comment(self) -> bool {
        matches!(self, Self::LineComment | Self::BlockComment)
    }
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, EditError> {
        let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &OPTIONS).map_err(|error| syntax(&error))?;
        let tokens = parsed.tokens.unwrap_or_default().into_iter().map(|token| Place {
            kind: match token.token {
                Token::Comma => TokenKind::Comma,
                Token::CommentLine(_) => TokenKind::LineComment,
                Token::CommentBlock(_) => TokenKind::BlockComment,
                _ => TokenKind::Other,
            },
            start: token.range.start,
            end: token.range.end,
        });
        Ok(Self { text, root: parsed.value, tokens: tokens.collect() })
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the root object; nothing in a text without a value.
    pub(super) fn root(&self) -> Result<Option<&Object<'a>>, EditError> {
        self.root.as_ref().map(|root| object(root, || "it".to_owned())).transpose()
    }

    /// Returns the tokens that begin in a range.
    pub(super) fn tokens_in(&self, range: Range<usize>) -> &[Place] {
        let from = self.tokens.partition_point(|token| token.start < range.start);
        let to = self.tokens.partition_point(|token| token.start < range.end);
        self.tokens.get(from..to).unwrap_or_default()
    }

    /// Returns the last token that ends at or before a position; the text's start where there is none.
    pub(super) fn token_before(&self, position: usize) -> Place {
        let after = self.tokens.partition_point(|token| token.end <= position);
        let last = after.checked_sub(1).and_then(|index| self.tokens.get(index));
        last.copied().unwrap_or(Place { kind: TokenKind::Other, start: 0, end: 0 })
    }

    /// Returns where the first token that begins at or after a position begins.
    pub(super) fn token_from(&self, position: usize) -> Option<usize> {
        let index = self.tokens.partition_point(|token| token.start < position);
        self.tokens.get(index).map(|token| token.start)
    }

    /// Returns the comma in a range between two members.
    pub(super) fn comma_in(&self, range: Range<usize>) -> Option<Range<usize>> {
        let comma = self.tokens_in(range).iter().find(|token| token.kind == TokenKind::Comma)?;
        Some(comma.start..comma.end)
    }

    /// Returns what one level is indented by.
    pub(super) fn indent_unit(&self) -> &'a str {
        let first = self.root.as_ref().and_then(Node::as_object).and_then(|root| root.properties.first());
        let indent = first.map_or("", |first| {
            let before = self.text.get(..first.start()).unwrap_or_default();
            let line = before.rfind('\n').map_or("", |newline| before.get(newline + 1..).unwrap_or_default());
            if line.trim().is_empty() { line } else { "" }
        });
        if indent.is_empty() { "  " } else { indent }
    }
}

/// Returns the member of that name.
pub(super) fn member<'d, 'a>(object: &'d Object<'a>, key: &str) -> Result<Option<&'d ObjectProp<'a>>, EditError> {
    let mut named = object.properties.iter().filter(|member| member.name.as_str() == key);
    match (named.next(), named.next()) {
        (_, Some(_)) => Err(EditError::Twice { key: key.to_owned() }),
        (member, None) => Ok(member),
    }
}

/// Returns the object that a value must be.
pub(super) fn object<'d, 'a>(value: &'d Node<'a>, place: impl FnOnce() -> String) -> Result<&'d Object<'a>, EditError> {
    let found = match value {
        Node::Object(object) => return Ok(object),
        Node::Array(_) => "an array",
        Node::StringLit(_) => "a string",
        Node::NumberLit(_) => "a number",
        Node::BooleanLit(_) => "a boolean",
        Node::NullKeyword(_) => "null",
    };
    Err(EditError::WrongType { place: place(), found, expected: "an object" })
}

/// Returns what a text says; an empty one says `{}`.
pub(super) fn value(text: &str) -> Result<Value, EditError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS).map_err(|error| syntax(&error))?;
    Ok(parsed.value.map_or_else(|| json!({}), Value::from))
}

fn syntax(error: &jsonc_parser::errors::ParseError) -> EditError {
    EditError::Syntax { format: "JSON", why: error.to_string() }
}
