//! Lists of paths and globs, as the configuration names files.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Files that a list names.
#[derive(Debug)]
pub struct PathList {
    globs: GlobSet,
    places: Vec<(String, u64)>,
}

impl PathList {
    /// Reads a list of paths, globs and `path:line`; the second part names what could not be read.
    #[must_use]
    pub fn parse(entries: &[String]) -> (Self, Vec<String>) {
        let (mut globs, mut places, mut unread) = (GlobSetBuilder::new(), Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.strip_prefix("./").unwrap_or(entry);
            if let Some((path, line)) = entry.rsplit_once(':')
                && let Ok(line) = line.parse()
            {
                places.push((path.to_owned(), line));
                continue;
            }
            match glob(entry) {
                Ok(glob) => drop(globs.add(glob)),
                Err(error) => unread.push(format!("`{entry}` ({})", error.kind())),
            }
        }
        (Self { globs: globs.build().unwrap_or_default(), places }, unread)
    }

    /// Returns whether the list names the whole file.
    #[must_use]
    pub fn holds(&self, path: &(impl AsRef<Path> + ?Sized)) -> bool {
        self.globs.is_match(path)
    }

    /// Returns whether the list names the file or that line of it.
    #[must_use]
    pub fn holds_line(&self, path: &(impl AsRef<Path> + ?Sized), line: u64) -> bool {
        let path = path.as_ref();
        self.holds(path) || self.places.iter().any(|(it, at)| Path::new(it) == path && *at == line)
    }
}

/// Returns whether a name, as of a branch, is the pattern or matches it; nothing when the pattern can't be read.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> Option<bool> {
    let matcher = glob(pattern).ok()?.compile_matcher();
    Some(pattern == name || matcher.is_match(name))
}

/// A star stays within one directory, so that a list names no more than it seems to.
fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lines_and_globs_are_told_apart() {
        let entries = ["a.py", "src/b.ts:42", "fixtures/*", "gen/**", "./c", "[x"].map(str::to_owned);
        let (list, unread) = PathList::parse(&entries);
        assert_eq!(unread.len(), 1, "{unread:?}");
        for (path, expected) in [
            ("a.py", true),
            ("x/a.py", false),
            ("fixtures/a", true),
            ("fixtures/a/b", false),
            ("gen/a/b", true),
            ("c", true),
        ] {
            assert_eq!(list.holds(path), expected, "{path}");
        }
        assert!(list.holds_line("src/b.ts", 42) && !list.holds_line("src/b.ts", 4) && list.holds_line("a.py", 9));
    }
}
