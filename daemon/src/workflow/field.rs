//! The two enumerated markers, `final-status` and `acceptance-recommendation`, and the prose they fall back to
//! (SPEC-workflow 5 to 8).
//!
//! A marker that is there and can't be read is never overruled by prose.

use memchr::memmem;

use super::text::{is_blank, line_at, lines, trim, trim_start};

/// What every marker starts with.
pub(super) const PREFIX: &str = "solution-acceptance:";

/// A marker's field and what it must say.
#[derive(Debug)]
pub struct Field {
    /// Its name in the marker.
    pub name: &'static str,
    /// The heading of the prose that stands in for an absent marker.
    pub heading: &'static str,
    /// Values that accept, in lower case.
    pub accepted: [&'static str; 2],
}

/// The marker of `06-handoff.md`.
pub const FINAL_STATUS: Field =
    Field { name: "final-status", heading: "## Final Status", accepted: ["accepted", "accepted_with_notes"] };

/// The marker of `05-review-findings.md`.
pub const RECOMMENDATION: Field = Field {
    name: "acceptance-recommendation",
    heading: "## Acceptance Recommendation",
    accepted: ["accept", "accept_with_notes"],
};

/// What a file says for a field; lines are counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub enum Reading<'a> {
    /// A value that accepts.
    Accepted,
    /// The placeholder is still there.
    Todo(u64),
    /// The marker has no value that could be one.
    Malformed(u64),
    /// Another value.
    NotAccepted(u64, &'a str),
    /// Neither a marker nor filled prose.
    Missing,
}

/// Reads a field of a file's text.
#[must_use]
pub fn read<'a>(field: &Field, text: &'a str) -> Reading<'a> {
    let mut first = None;
    for (offset, rest) in assignments(text, field.name) {
        first.get_or_insert(offset);
        match word(rest) {
            Some("TODO") => return Reading::Todo(line_at(text, offset)),
            Some(value) => return judge(field, value, || line_at(text, offset)),
            None => {}
        }
    }
    match (first, prose(text, field.heading)) {
        (Some(offset), _) => Reading::Malformed(line_at(text, offset)),
        (None, Some((offset, value))) => judge(field, value, || line_at(text, offset)),
        (None, None) => Reading::Missing,
    }
}

/// Returns each marker of that field: where it starts, and the text from its value on.
pub(super) fn assignments<'a>(text: &'a str, field: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let starts = memmem::find_iter(text.as_bytes(), PREFIX);
    starts.filter_map(move |start| Some((start, assigned(&text[start..], field)?)))
}

/// Returns the text from the value on, when `text` starts with a marker of that field.
pub(super) fn assigned<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let name = trim_start(text.strip_prefix(PREFIX)?).strip_prefix(field)?;
    Some(trim_start(trim_start(name).strip_prefix('=')?))
}

fn judge<'a>(field: &Field, value: &'a str, line: impl Fn() -> u64) -> Reading<'a> {
    if field.accepted.iter().any(|accepted| value.eq_ignore_ascii_case(accepted)) {
        Reading::Accepted
    } else {
        Reading::NotAccepted(line(), value)
    }
}

fn word(text: &str) -> Option<&str> {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let word = &text[..end.unwrap_or(text.len())];
    word.starts_with(|character: char| character.is_ascii_alphabetic()).then_some(word)
}

/// Returns the first filled line under the first such heading, and where it starts.
fn prose<'a>(text: &'a str, heading: &str) -> Option<(usize, &'a str)> {
    // Only the marks of headings are looked at, not every line.
    let mut marks = memmem::find_iter(text.as_bytes(), "##");
    let start = marks.find(|mark| starts_line(text, *mark) && is_line(&text[*mark..], heading))?;
    let mut below = lines(&text[start..]).skip(1).map(|line| (start + line.start, trim(line.text)));
    let filled = below.find(|(_, line)| !line.is_empty() && !line.starts_with("<!--"))?;
    let ends = filled.1.starts_with("##") || filled.1.contains('|') || filled.1 == "TODO";
    (!ends).then_some(filled)
}

fn starts_line(text: &str, offset: usize) -> bool {
    let is_end = |character| matches!(character, '\n' | '\r');
    let before = text[..offset].trim_end_matches(|character| is_blank(character) && !is_end(character));
    before.is_empty() || before.ends_with(is_end)
}

fn is_line(text: &str, expected: &str) -> bool {
    lines(text).next().is_some_and(|line| trim(line.text).eq_ignore_ascii_case(expected))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn a_value_is_read_in_every_shape() {
        let marker = |value: &str| format!("x\n<!-- solution-acceptance: final-status {value} -->\n");
        for (text, expected) in [
            (marker("= accepted"), Reading::Accepted),
            (marker("=Accepted_With_Notes"), Reading::Accepted),
            (marker("= accepted | rejected"), Reading::Accepted),
            ("solution-acceptance:\n\u{feff}final-status\u{a0}=\r\n accepted-->".to_owned(), Reading::Accepted),
            (marker("= TODO"), Reading::Todo(2)),
            (marker("= todo"), Reading::NotAccepted(2, "todo")),
            (marker("= TODOs"), Reading::NotAccepted(2, "TODOs")),
            (marker("= accepted_"), Reading::NotAccepted(2, "accepted_")),
            (marker("= accepted-ish"), Reading::Accepted),
            (marker("= 1accepted"), Reading::Malformed(2)),
            (marker("="), Reading::Malformed(2)),
            (marker("= -->") + &marker("= accepted"), Reading::Accepted),
            (marker("= TODO") + &marker("= accepted"), Reading::Todo(2)),
            ("<!-- solution-acceptance : final-status = accepted -->".to_owned(), Reading::Missing),
            ("<!-- solution-acceptance: final-statuses = accepted -->".to_owned(), Reading::Missing),
            (String::new(), Reading::Missing),
        ] {
            assert_eq!(read(&FINAL_STATUS, &text), expected, "{text}");
        }
    }

    #[test]
    fn prose_counts_only_without_a_marker() {
        for (text, expected) in [
            ("##  Final Status\naccepted", Reading::Missing),
            ("  ## FINAL status \r\n\r\n<!-- a | b -->\r\n accepted ", Reading::Accepted),
            ("## Final Status\naccepted.", Reading::NotAccepted(2, "accepted.")),
            ("## Final Status\n## Other\naccepted", Reading::Missing),
            ("## Final Status\nTODO\naccepted", Reading::Missing),
            ("## Final Status\na | b\naccepted", Reading::Missing),
            ("## Final Status\n\n## Final Status\naccepted", Reading::Missing),
            (
                "x ## Final Status\nno\n### Final Status\nno\n\u{feff}## Final Status\r\r yes",
                Reading::NotAccepted(7, "yes"),
            ),
            ("## Final Status\naccepted\n<!-- solution-acceptance: final-status = -->", Reading::Malformed(3)),
        ] {
            assert_eq!(read(&FINAL_STATUS, text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_read(text in "(\\PC|[=\\r\\n <!-]|solution-acceptance:|final-status|## Final Status|TODO){0,60}") {
            black_box(read(&FINAL_STATUS, &text));
        }
    }
}
