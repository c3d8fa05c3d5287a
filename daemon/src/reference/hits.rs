//! What a scan found, in bounded memory: all occurrences counted, the first files and the best lines kept.
//!
//! The result does not depend on the order in which files were searched.

use std::collections::BTreeSet;
use std::path::Path;

use grounding_proto::reference::ReferenceMatch;

/// Most paths in `foundIn` (SPEC 7).
pub(super) const MAX_FILES: usize = 200;

/// Most entries of `matches` (SPEC 7).
pub(super) const MAX_MATCHES: usize = 20;

/// Longest text of a match, in characters.
const MAX_TEXT: usize = 200;

/// What an occurrence is to the name; definitions come first in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// It declares the name.
    Definition,
    /// It does not.
    Use,
}

/// What a file is to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// git tracks it, or would.
    NotIgnored,
    /// git would ignore it.
    Ignored,
}

/// Whether matches are shown with their roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Roles {
    /// Definitions were told from uses.
    Told,
    /// They were not.
    NotTold,
}

/// What was found in all files.
#[derive(Debug, Default, Clone)]
pub struct Hits {
    /// All occurrences.
    pub count: u64,
    /// All files that hold one.
    pub num_files: u64,
    /// Whether a file that git does not ignore holds one.
    pub outside_ignored: bool,
    files: BTreeSet<String>,
    best: BTreeSet<Line>,
}

/// A matching line; the order is that of the answer: definitions first, then by file and line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    role: Role,
    file: String,
    number: u64,
    text: String,
}

/// What was found in one file.
#[derive(Debug, Default)]
pub(super) struct FileHits {
    /// All occurrences.
    pub(super) count: u64,
    definitions: Vec<(u64, String)>,
    uses: Vec<(u64, String)>,
}

impl Hits {
    /// Takes in what one file holds.
    pub(super) fn add(&mut self, path: &Path, found: FileHits, standing: Standing) {
        let file = path.to_string_lossy().into_owned();
        self.count += found.count;
        self.num_files += 1;
        self.outside_ignored |= standing == Standing::NotIgnored;
        for (role, lines) in [(Role::Definition, found.definitions), (Role::Use, found.uses)] {
            for (number, text) in lines {
                self.best.insert(Line { role, file: file.clone(), number, text });
                if self.best.len() > MAX_MATCHES {
                    self.best.pop_last();
                }
            }
        }
        self.files.insert(file);
        if self.files.len() > MAX_FILES {
            self.files.pop_last();
        }
    }

    /// Returns the first files, sorted.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Returns the best lines as the answer shows them.
    pub(super) fn matches(&self, roles: Roles) -> Vec<ReferenceMatch> {
        let shown = |line: &Line| ReferenceMatch {
            file: line.file.clone(),
            line: line.number,
            text: line.text.clone(),
            definition: (roles == Roles::Told).then_some(line.role == Role::Definition),
        };
        self.best.iter().map(shown).collect()
    }
}

impl FileHits {
    /// Takes in a line that holds `count` occurrences, the telling one at byte `start`.
    pub(super) fn add_line(&mut self, number: u64, line: &[u8], start: usize, count: u64, role: Role) {
        self.count += count;
        let kept = match role {
            Role::Definition => &mut self.definitions,
            Role::Use => &mut self.uses,
        };
        if kept.len() < MAX_MATCHES {
            kept.push((number, excerpt(line, start)));
        }
    }
}

/// Returns the line's text, trimmed and cut to 200 characters that show the match.
fn excerpt(line: &[u8], start: usize) -> String {
    // A character has at most 4 bytes, so this much holds what is shown whatever the line's length.
    let from = if start > MAX_TEXT { start - MAX_TEXT / 4 } else { 0 };
    let until = line.len().min(from + 8 * MAX_TEXT);
    let text = String::from_utf8_lossy(&line[from..until]);
    text.trim_matches(|character: char| character.is_whitespace() || character == '\0').chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_does_not_depend_on_the_order() {
        let file = |index: usize| {
            let mut found = FileHits::default();
            found.add_line(2, b"use x", 4, 1, Role::Use);
            if index == 250 {
                found.add_line(9, b"fn x", 3, 1, Role::Definition);
            }
            (format!("/r/{index:03}"), found)
        };
        let (mut forth, mut back) = (Hits::default(), Hits::default());
        for index in 0..300 {
            let (path, found) = file(index);
            forth.add(Path::new(&path), found, Standing::NotIgnored);
            let (path, found) = file(299 - index);
            back.add(Path::new(&path), found, Standing::NotIgnored);
        }
        assert_eq!(forth.matches(Roles::Told), back.matches(Roles::Told));
        assert_eq!(forth.files().collect::<Vec<_>>(), back.files().collect::<Vec<_>>());
        assert_eq!((forth.count, forth.num_files, forth.files().count()), (301, 300, MAX_FILES));
        let matches = forth.matches(Roles::Told);
        assert_eq!((matches.len(), matches[0].file.as_str(), matches[0].definition), (20, "/r/250", Some(true)));
        assert_eq!(matches[1].file, "/r/000");
    }

    #[test]
    fn long_lines_show_the_match() {
        let line = [vec![b' '; 5], vec![b'a'; 100_000], b" NAME ".to_vec(), vec![b'b'; 100_000]].concat();
        let text = excerpt(&line, 100_006);
        assert!(text.contains("NAME") && text.chars().count() == MAX_TEXT, "{text}");
        assert_eq!(excerpt(b"  let x = 1;\r\n", 6), "let x = 1;");
    }
}
