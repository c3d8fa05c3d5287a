//! Replacements in a text by position: what no replacement covers stays byte for byte.
//!
//! It knows lines and indentation and no format. Replacements that don't fit give nothing instead of a spoiled text.

use std::ops::Range;

/// Replacements of ranges of one text. They don't overlap; at the same place, the order of `replace` decides.
#[derive(Debug, Default)]
pub(super) struct Splices {
    replacements: Vec<(Range<usize>, String)>,
}

impl Splices {
    /// Puts a text in the place of a range, which may be empty.
    pub(super) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.replacements.push((range, text.into()));
    }

    /// Returns the text with the replacements; nothing when they don't fit it, which no edit of ours brings about.
    pub(super) fn apply(mut self, text: &str) -> Option<String> {
        self.replacements.sort_by_key(|(range, _)| range.start);
        let mut result = String::with_capacity(text.len());
        let mut at = 0;
        for (range, replacement) in self.replacements {
            result.push_str(text.get(at..range.start)?);
            result.push_str(&replacement);
            at = range.end;
        }
        result.push_str(text.get(at..)?);
        Some(result)
    }
}

/// Returns the white space between the start of the line of a position and the first other character.
pub(super) fn indent_at(text: &str, position: usize) -> &str {
    let start = text.get(..position).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let line = text.get(start..).unwrap_or_default();
    let end = line.find(|character| character != ' ' && character != '\t').unwrap_or(line.len());
    line.get(..end).unwrap_or_default()
}

/// Returns the line end that a text uses.
pub(super) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|before| before.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_covered_stays() {
        let mut splices = Splices::default();
        splices.replace(4..5, "");
        splices.replace(1..1, "x");
        splices.replace(1..1, "y");
        assert_eq!(splices.apply("abcde").unwrap(), "axybcd");
        let mut overlapping = Splices::default();
        overlapping.replace(0..3, "");
        overlapping.replace(2..4, "");
        assert_eq!(overlapping.apply("abcde"), None);
    }
}
