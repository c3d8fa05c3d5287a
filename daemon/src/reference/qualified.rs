//! Qualified symbols that are nowhere written as such: `Store::open` may be declared as `fn open` inside `impl Store`.
//!
//! Present is only said when the member is declared in a file that declares the type too. Both names in one file make
//! "absent" too bold, and no more.

use std::collections::BTreeSet;
use std::path::Path;

use super::file::{Content, FileSearch, Judging, Outcome};
use super::hits::{Hits, MAX_FILES, Standing};
use super::pattern::{Pattern, is_identifier};
use super::scan::Scan;

const SEPARATORS: &[&str] = &["::", "->", ".", "#"];

/// What is known of a member whose qualified form is nowhere written.
#[derive(Debug)]
pub(super) enum Member {
    /// Its declarations, in files that declare the type.
    Declared(Hits),
    /// The first file that holds both names.
    Mentioned(String),
    /// The type is named in more files than were compared.
    TooMany,
    /// No file holds both names.
    Nowhere,
}

/// Splits a qualified symbol into the innermost type and the member; nothing when it is not one.
pub(super) fn split(value: &str) -> Option<(&str, &str)> {
    let value = value.trim();
    let value = value.strip_suffix("()").unwrap_or(value);
    let last =
        |text: &str| SEPARATORS.iter().filter_map(|separator| Some((text.rfind(separator)?, separator.len()))).max();
    let (at, length) = last(value)?;
    let (outer, member) = (&value[..at], &value[at + length..]);
    let outer = last(outer).map_or(outer, |(at, length)| &outer[at + length..]);
    let is_name = |name: &str| !name.is_empty() && name.trim_end_matches(['?', '!']).chars().all(is_identifier);
    let starts = |name: &str| name.chars().next().is_some_and(|first| !first.is_numeric());
    (is_name(outer) && is_name(member) && starts(outer) && starts(member)).then_some((outer, member))
}

/// Looks for a member's declaration in the files that git would not ignore and that name its type.
pub(super) fn find(scan: &Scan, outer: &str, member: &str) -> Member {
    let (Ok(outer), Ok(member)) = (Pattern::symbol(outer), Pattern::symbol(member)) else { return Member::Nowhere };
    let types = scan.another();
    types.look(&outer, Judging::Keywords);
    let named = types.hits();
    let declaring: BTreeSet<&str> = named.definitions().collect();
    let mut search = FileSearch::new(&member, Judging::Keywords, Content::Text);
    let (mut declared, mut mentioned) = (Hits::default(), None);
    let others = named.files().filter(|file| !declaring.contains(file));
    for file in declaring.iter().copied().chain(others) {
        let (Outcome::Searched(Some(found)), _) = search.search(Path::new(file), &|| scan.stopped()) else { continue };
        mentioned = mentioned.or_else(|| Some(file.to_owned()));
        if declaring.contains(file)
            && let Some(found) = found.into_definitions()
        {
            declared.add(Path::new(file), found, Standing::NotIgnored);
        }
    }
    match mentioned {
        Some(_) if declared.count > 0 => Member::Declared(declared),
        Some(file) => Member::Mentioned(file),
        None if named.num_files > MAX_FILES as u64 => Member::TooMany,
        None => Member::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting() {
        for (value, expected) in [
            ("Store::open", Some(("Store", "open"))),
            ("crate::ledger::Store::open()", Some(("Store", "open"))),
            ("Store.open", Some(("Store", "open"))),
            ("this.store.open", Some(("store", "open"))),
            ("obj->m", Some(("obj", "m"))),
            ("User#valid?", Some(("User", "valid?"))),
            ("open", None),
            (".open", None),
            ("Store::", None),
            ("1.5", None),
            ("a b.c", None),
            ("größe::名前", Some(("größe", "名前"))),
        ] {
            assert_eq!(split(value), expected, "{value}");
        }
    }
}
