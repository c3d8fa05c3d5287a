//! The run-base markers of `00-goal.md`: which base of the change a run claims (SPEC-workflow 14 to 20).
//!
//! A line that tries to be a marker and is none blocks; it never silently counts as no marker.

use std::collections::HashSet;

use grounding_proto::solution::RunBaseKind;
use memchr::memmem;

use super::fence::Fences;
use super::field::{PREFIX, assigned, assignments};
use super::text::{Line, excerpt, is_blank, line_at, lines, trim, trim_start};

const SUBJECT: &str = "solution-acceptance";
const FIELD: &str = "run-base";
const KEY: usize = 64;
const KEYS: usize = 10;
const EXCERPT: usize = 80;
const EXCERPTS: usize = 5;

/// What a goal says of its base.
#[derive(Debug, Default)]
pub struct Goal<'a> {
    keyed: Vec<Keyed<'a>>,
    unkeyed: Option<(u64, &'a str)>,
    /// Lines that try to be a keyed marker.
    pub keyed_attempts: Malformed,
    /// Other lines that name the marker.
    pub phrases: Malformed,
}

#[derive(Debug)]
struct Keyed<'a> {
    line: u64,
    key: &'a str,
    value: &'a str,
}

/// Lines that are no marker though they look like one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Malformed {
    /// How many there are.
    pub count: u64,
    /// The first 5: line, counted from 1, and at most 80 characters of it.
    pub shown: Vec<(u64, String)>,
}

/// The marker that counts for a worktree.
#[derive(Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// What the markers amount to.
    pub kind: RunBaseKind,
    /// The value of kind sha.
    pub value: Option<&'a str>,
    /// Line of the marker, counted from 1.
    pub line: Option<u64>,
}

/// Reads the run-base markers of a goal's text.
#[must_use]
pub fn read(text: &str) -> Goal<'_> {
    let mut goal = Goal { unkeyed: first_unkeyed(text), ..Goal::default() };
    let words = Words::new();
    let mut mention = words.subject.find(text.as_bytes());
    let mut fences = Fences::of(text);
    let (mut paragraph, mut attempt_end) = (Paragraph::default(), 0);
    for line in lines(text) {
        if line.text.is_empty() {
            paragraph.end(&mut goal.phrases);
            continue;
        }
        let is_fenced = fences.cover(&line);
        let mut is_read = line.start < attempt_end;
        let content = trim(line.text);
        if content.starts_with("<!--") {
            if let Some((key, value)) = keyed_marker(content) {
                is_read = true;
                if !(key.starts_with('<') && key.ends_with('>')) {
                    goal.keyed.push(Keyed { line: line.number, key, value });
                }
            } else if let Some(rest) = after_keyed_attempt(trim_start(&text[line.start..])) {
                is_read = true;
                attempt_end = text.len() - rest.len();
                goal.keyed_attempts.add(&line);
            }
        }
        if is_fenced || content.is_empty() {
            paragraph.end(&mut goal.phrases);
            continue;
        }
        if mention.is_some_and(|start| start < line.start) {
            // The next mention may lie many lines ahead and is kept until then, so every byte is looked at once.
            mention = words.subject.find(&text.as_bytes()[line.start..]).map(|at| line.start + at);
        }
        let names_subject = mention.is_some_and(|start| start < line.start + line.text.len());
        if names_subject && !is_read && !is_unkeyed_marker(text, &line, &words) {
            paragraph.note(&line, &words);
        }
        paragraph.backticks += backticks(line.text.as_bytes());
    }
    paragraph.end(&mut goal.phrases);
    goal
}

impl<'a> Goal<'a> {
    /// Selects the marker for a worktree of these names, tried in order.
    #[must_use]
    pub fn select(&self, names: &[String]) -> Selection<'a> {
        let keyed = names.iter().find_map(|name| {
            let name = name.to_lowercase();
            let marker = self.keyed.iter().find(|marker| marker.key.to_lowercase() == name)?;
            Some((marker.line, marker.value))
        });
        let none = |kind| Selection { kind, value: None, line: None };
        match keyed.or(self.unkeyed) {
            Some((line, "TODO")) => Selection { line: Some(line), ..none(RunBaseKind::Todo) },
            Some((line, value)) => Selection { kind: RunBaseKind::Sha, value: Some(value), line: Some(line) },
            None if self.keyed_attempts.count + self.phrases.count > 0 => none(RunBaseKind::Malformed),
            None => match self.keyed.first() {
                Some(marker) => Selection { line: Some(marker.line), ..none(RunBaseKind::UnmatchedKeyed) },
                None => none(RunBaseKind::Absent),
            },
        }
    }

    /// Returns the distinct keys, as a list for a message: at most 10, each cut after 64 characters.
    #[must_use]
    pub fn shown_keys(&self) -> String {
        let mut seen = HashSet::new();
        let distinct: Vec<_> = self.keyed.iter().filter(|marker| seen.insert(marker.key.to_lowercase())).collect();
        shown_list(distinct.iter().map(|marker| marker.key))
    }
}

/// Returns names as a list for a message: at most 10, each cut after 64 characters.
pub(super) fn shown_list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(KEYS);
    let shown: Vec<_> = names.take(KEYS).map(|name| excerpt(name, KEY)).collect();
    shown.join(", ") + &more_than(more as u64)
}

impl Malformed {
    /// Returns the lines as a list for a message.
    #[must_use]
    pub fn shown_lines(&self) -> String {
        let shown: Vec<_> = self.shown.iter().map(|(line, text)| format!("line {line} \"{text}\"")).collect();
        shown.join(", ") + &more_than(self.count - self.shown.len() as u64)
    }

    fn add(&mut self, line: &Line<'_>) {
        self.count += 1;
        if self.shown.len() < EXCERPTS {
            self.shown.push((line.number, excerpt(line.text, EXCERPT)));
        }
    }
}

fn more_than(count: u64) -> String {
    if count == 0 { String::new() } else { format!(" (+{count} more)") }
}

fn first_unkeyed(text: &str) -> Option<(u64, &str)> {
    let (offset, rest) = assignments(text, FIELD).find(|(_, rest)| !rest.is_empty())?;
    Some((line_at(text, offset), &rest[..rest.find(is_blank).unwrap_or(rest.len())]))
}

/// Returns the key and value when the line, trimmed, is a well-formed keyed marker.
fn keyed_marker(content: &str) -> Option<(&str, &str)> {
    let inside = trim_start(content.strip_prefix("<!--")?.strip_suffix("-->")?);
    let (key, rest) = trim_start(inside.strip_prefix(PREFIX)?).strip_prefix("run-base[")?.split_once(']')?;
    let (key, value) = (trim(key), trim(trim_start(rest).strip_prefix('=')?));
    let is_one_word = !value.is_empty() && !value.contains(is_blank);
    (!key.is_empty() && is_one_word && !value.starts_with("-->")).then_some((key, value))
}

/// Returns what follows the bracket when `text` starts as a keyed marker does, in any spelling, line ends included.
fn after_keyed_attempt(text: &str) -> Option<&str> {
    let subject = text.strip_prefix("<!--")?.trim_start_matches('-');
    let colon = strip_word(trim_start(subject), SUBJECT)?;
    let field = strip_word(trim_start(trim_start(colon).strip_prefix(':')?), FIELD)?;
    trim_start(field).strip_prefix('[')
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

/// Returns whether a marker on the line directly follows a comment opener of two dashes and has a value.
fn is_unkeyed_marker(text: &str, line: &Line<'_>, words: &Words) -> bool {
    let mut starts = words.subject.find_iter(line.text.as_bytes()).map(|at| line.start + at);
    starts.any(|start| {
        assigned(&text[start..], FIELD).is_some_and(|rest| !rest.is_empty())
            && text[..start].trim_end_matches(is_blank).ends_with("<!--")
    })
}

fn backticks(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'`').count() as u64
}

/// The words that make a line a mention, ready to be sought.
struct Words {
    subject: memmem::Finder<'static>,
    field: memmem::Finder<'static>,
}

impl Words {
    fn new() -> Self {
        Self { subject: memmem::Finder::new(SUBJECT), field: memmem::Finder::new(FIELD) }
    }
}

/// The lines since the last blank one, whose backticks pair up among themselves.
#[derive(Default)]
struct Paragraph<'a> {
    backticks: u64,
    mentions: Vec<Mention<'a>>,
}

struct Mention<'a> {
    line: Line<'a>,
    subject: Place,
    field: Place,
}

/// Where a word stands between backticks. Behind an even number of them it is unquoted; behind an odd one only if no
/// further one follows in the paragraph, so the largest odd number is all that matters.
#[derive(Default)]
struct Place {
    is_behind_even: bool,
    largest_odd: Option<u64>,
}

impl<'a> Paragraph<'a> {
    fn note(&mut self, line: &Line<'a>, words: &Words) {
        let place = |word: &memmem::Finder<'_>| {
            let (mut place, mut count, mut counted) = (Place::default(), self.backticks, 0);
            for at in word.find_iter(line.text.as_bytes()) {
                count += backticks(&line.text.as_bytes()[counted..at]);
                counted = at;
                if count % 2 == 0 {
                    place.is_behind_even = true;
                } else {
                    place.largest_odd = Some(count);
                }
            }
            place
        };
        let (subject, field) = (place(&words.subject), place(&words.field));
        if field.is_behind_even || field.largest_odd.is_some() {
            self.mentions.push(Mention { line: *line, subject, field });
        }
    }

    fn end(&mut self, phrases: &mut Malformed) {
        let total = std::mem::take(&mut self.backticks);
        let is_unquoted = |place: &Place| place.is_behind_even || place.largest_odd == Some(total);
        for mention in self.mentions.drain(..) {
            if is_unquoted(&mention.subject) && is_unquoted(&mention.field) {
                phrases.add(&mention.line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    fn kinds(text: &str) -> (u64, u64) {
        let goal = read(text);
        (goal.keyed_attempts.count, goal.phrases.count)
    }

    fn selected(text: &str, names: &[&str]) -> (RunBaseKind, Option<String>) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let selection = read(text).select(&names);
        (selection.kind, selection.value.map(str::to_owned))
    }

    #[test]
    fn a_keyed_marker_is_a_whole_line() {
        for (text, expected) in [
            ("<!-- solution-acceptance: run-base[alpha] = aaaaaaa -->", Some("aaaaaaa")),
            (" \u{feff}<!--solution-acceptance:run-base[ Alpha ]=aaaaaaa-->\t", Some("aaaaaaa")),
            ("<!-- solution-acceptance: run-base[alpha] = aa--> -->", Some("aa-->")),
            ("<!-- solution-acceptance: run-base[alpha] = aa-->bb -->", Some("aa-->bb")),
            ("<!-- solution-acceptance: run-base[alpha] = -->", None),
            ("<!-- solution-acceptance: run-base[alpha] = -->--> -->", None),
            ("<!-- solution-acceptance: run-base[alpha] = aa bb -->", None),
            ("<!-- solution-acceptance: run-base [alpha] = aa -->", None),
            ("<!-- solution-acceptance : run-base[alpha] = aa -->", None),
            ("<!-- Solution-acceptance: run-base[alpha] = aa -->", None),
            ("<!--- solution-acceptance: run-base[alpha] = aa -->", None),
            ("<!-- solution-acceptance: run-base[] = aa -->", None),
            ("<!--\nsolution-acceptance: run-base[alpha] = aa -->", None),
            ("<!-- solution-acceptance: run-base[alpha] = aa", None),
        ] {
            let expected = match expected {
                Some(value) => (RunBaseKind::Sha, Some(value.to_owned())),
                None => (RunBaseKind::Malformed, None),
            };
            assert_eq!(selected(text, &["alpha"]), expected, "{text}");
            assert_eq!(kinds(text), (u64::from(expected.1.is_none()), 0), "{text}");
        }
    }

    #[test]
    fn the_first_name_that_has_a_marker_decides() {
        let text = "<!-- solution-acceptance: run-base[main] = aaaaaaa -->\n\
                    <!-- solution-acceptance: run-base[tree] = TODO -->\n\
                    <!-- solution-acceptance: run-base[MAIN] = bbbbbbb -->\n\
                    <!-- solution-acceptance: run-base = ccccccc -->";
        let sha = |value: &str| (RunBaseKind::Sha, Some(value.to_owned()));
        assert_eq!(selected(text, &["main", "tree"]), sha("aaaaaaa"));
        assert_eq!(selected(text, &["tree", "main"]), (RunBaseKind::Todo, None));
        assert_eq!(selected(text, &["other"]), sha("ccccccc"));
        assert_eq!(selected(text, &[]), sha("ccccccc"));
        let keyed = text.rsplit_once('\n').unwrap().0;
        assert_eq!(selected(keyed, &["other"]), (RunBaseKind::UnmatchedKeyed, None));
        assert_eq!(selected(&format!("{keyed}\nsolution-acceptance run-base"), &["x"]), (RunBaseKind::Malformed, None));
    }

    #[test]
    fn an_unkeyed_marker_is_found_anywhere() {
        for (text, value, phrases) in [
            ("<!-- solution-acceptance: run-base = aaaaaaa --> note", "aaaaaaa", 0),
            ("<!--\nsolution-acceptance: run-base = aaaaaaa\n-->", "aaaaaaa", 0),
            ("<!-- solution-acceptance: run-base =\naaaaaaa -->", "aaaaaaa", 0),
            ("solution-acceptance: run-base = aaaaaaa", "aaaaaaa", 1),
            ("<!--- solution-acceptance: run-base = aaaaaaa -->", "aaaaaaa", 1),
            ("<!-- solution-acceptance: run-base = aaaaaaa-->", "aaaaaaa-->", 0),
            ("`<!-- solution-acceptance: run-base = aaaaaaa -->`", "aaaaaaa", 0),
        ] {
            assert_eq!(selected(text, &[]), (RunBaseKind::Sha, Some(value.to_owned())), "{text}");
            assert_eq!(kinds(text), (0, phrases), "{text}");
        }
    }

    #[test]
    fn attempts_and_phrases_are_told_apart() {
        for (text, expected) in [
            ("<!-------- SOLUTION-acceptance\t:\u{a0}run-BASE [x", (1, 0)),
            ("<!-\u{a0}solution-acceptance: run-base[x] = y -->", (0, 1)),
            ("```\n<!-- solution-acceptance: run-base [x] -->\n```", (1, 0)),
            ("```\nsolution-acceptance run-base\n```", (0, 0)),
            ("```\nsolution-acceptance run-base", (0, 1)),
            ("`solution-acceptance` run-base", (0, 0)),
            ("` solution-acceptance run-base", (0, 1)),
            ("` solution-acceptance run-base\n`", (0, 0)),
            ("` solution-acceptance run-base\n \t\n`", (0, 1)),
            ("` solution-acceptance run-base\n~~~\n~~~\n`", (0, 1)),
            ("`` solution-acceptance run-base ``", (0, 1)),
            ("Solution-acceptance run-base", (0, 0)),
            ("solution-acceptance\nrun-base", (0, 0)),
        ] {
            assert_eq!(kinds(text), expected, "{text}");
        }
    }

    /// What the README says of writing about markers.
    #[test]
    fn only_mentions_can_be_quoted() {
        for (open, close) in [("```\n", "\n```"), ("", "")] {
            let shown = |marker: &str| format!("{open}{marker}{close}");
            let example = shown("<!-- solution-acceptance: run-base[<name>] = <commit> -->");
            assert_eq!((kinds(&example), selected(&example, &["<name>"])), ((0, 0), (RunBaseKind::Absent, None)));
            let keyed = shown("<!-- solution-acceptance: run-base[alpha] = aaaaaaa -->");
            assert_eq!(selected(&keyed, &["alpha"]).0, RunBaseKind::Sha);
            assert_eq!(kinds(&shown("<!-- solution-acceptance: run-base[<name>] -->")), (1, 0));
            let unkeyed = shown("`<!-- solution-acceptance: run-base = aaaaaaa -->`");
            assert_eq!(selected(&unkeyed, &[]).0, RunBaseKind::Sha);
        }
        assert_eq!(kinds("The marker `solution-acceptance: run-base[<name>]` is keyed."), (0, 0));
        assert_eq!(kinds("The marker solution-acceptance: run-base[<name>] is keyed."), (0, 1));
    }

    #[test]
    fn messages_stay_short_with_many_keys_and_lines() {
        let long = "k".repeat(200);
        let keys: String =
            (0..10_000).map(|n| format!("<!-- solution-acceptance: run-base[{n}{long}] = aaaaaaa -->\n")).collect();
        let shown = read(&keys).shown_keys();
        assert!(shown.ends_with(" (+9990 more)"), "{shown}");
        assert_eq!(shown.matches(", ").count(), 9);
        assert!(shown.chars().count() < 10 * 68 + 20, "{shown}");
        let lines = format!("- solution-acceptance run-base {long}\n").repeat(10_000);
        let phrases = read(&lines).phrases;
        assert_eq!((phrases.count, phrases.shown.len()), (10_000, 5));
        assert!(phrases.shown_lines().ends_with(" (+9995 more)"));
        assert!(phrases.shown.iter().all(|(_, line)| line.chars().count() == 81));
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_read(
            text in "(\\PC|[-`~<>!:=\\[\\]\\r\\n \u{feff}]|<!--|-->|solution-acceptance|:|run-base|TODO){0,80}"
        ) {
            let goal = read(&text);
            black_box((goal.select(&["alpha".to_owned()]), goal.shown_keys(), goal.phrases.shown_lines()));
        }

        #[test]
        fn a_mention_is_a_phrase_exactly_when_backticks_do_not_enclose_it(before in "[`a ]{0,8}", after in "[`a ]{0,8}") {
            let count = |text: &str| text.matches('`').count();
            let is_quoted = count(&before) % 2 == 1 && count(&after) > 0;
            let text = format!("x{before}solution-acceptance run-base{after}");
            proptest::prop_assert_eq!(kinds(&text), (0, u64::from(!is_quoted)));
        }
    }
}
