//! Qualified symbols that are nowhere written as such: `Store::open` may be declared as `fn open` inside `impl Store`.
//!
//! Present is only said when the member is declared directly inside the type. A member that occurs elsewhere may be
//! inherited, re-exported or called by a module's file name: then nothing is certain but where it is.

use std::borrow::Cow;
use std::path::Path;

use super::file::Judging;
use super::hits::{Hits, Roles, Standing};
use super::nesting;
use super::pattern::{Pattern, is_identifier};
use super::scan::Scan;

const SEPARATORS: &[&str] = &["::", "->", ".", "#"];

/// What is known of a member whose qualified form is nowhere written.
#[derive(Debug)]
pub(super) enum Member {
    /// Its declarations inside the type.
    Declared(Hits),
    /// It occurs, and nothing shows that it is the type's: where it is declared, or else occurs.
    Elsewhere(Place),
    /// No file holds its name.
    Nowhere,
}

/// Where a name was found first.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) is_declaration: bool,
}

/// Splits a qualified symbol without generics into the innermost type, which may be no plain name, and the member;
/// nothing when it is not one.
pub(super) fn split(value: &str) -> Option<(&str, &str)> {
    let value = value.trim();
    let value = value.strip_suffix("()").unwrap_or(value);
    let last =
        |text: &str| SEPARATORS.iter().filter_map(|separator| Some((text.rfind(separator)?, separator.len()))).max();
    let (at, length) = last(value)?;
    let (outer, member) = (&value[..at], &value[at + length..]);
    let outer = last(outer).map_or(outer, |(at, length)| &outer[at + length..]);
    let is_member = member.contains(is_identifier) && !member.contains(char::is_whitespace);
    let starts = |name: &str| name.chars().next().is_some_and(|first| !first.is_numeric());
    (is_member && starts(outer) && starts(member)).then_some((outer, member))
}

/// Returns the symbol without generic arguments after its names: `Holder<T>::get` and `Holder::<T>::get` are both
/// `Holder::get`. As it is when its brackets do not match.
pub(super) fn without_generics(value: &str) -> Cow<'_, str> {
    let (mut plain, mut depth, mut last) = (String::new(), 0_usize, ' ');
    for character in value.chars() {
        let opens = character == '<' && (depth > 0 || is_identifier(last) || plain.ends_with("::"));
        if opens {
            if depth == 0 && plain.ends_with("::") {
                plain.truncate(plain.len() - 2);
            }
            depth += 1;
        } else if depth == 0 {
            plain.push(character);
        } else if character == '>' && !matches!(last, '-' | '=') {
            depth -= 1;
        }
        last = character;
    }
    if depth > 0 || plain == value { Cow::Borrowed(value) } else { Cow::Owned(plain) }
}

/// Looks for a member in the files that git would not ignore, and in the others only when these don't hold its name.
pub(super) fn find(scan: &Scan, outer: &str, member: &str) -> Member {
    // A Rust macro is defined without its mark.
    let unmarked = member.strip_suffix('!').unwrap_or(member);
    let (Ok(name), Ok(unmarked_name)) = (Pattern::symbol(member), Pattern::symbol(unmarked)) else {
        return Member::Nowhere;
    };
    let members = scan.another();
    members.look(&unmarked_name, Judging::Keywords);
    if members.hits().count == 0 {
        members.look_further(&unmarked_name, Judging::Keywords);
    } else if outer.chars().all(is_identifier)
        && let Ok(outer_name) = Pattern::symbol(outer)
    {
        let types = scan.another();
        types.look(&outer_name, Judging::Keywords);
        let mut declared = Hits::default();
        for file in types.hits().files().map(Path::new) {
            if scan.stopped() {
                break;
            }
            if let Some(found) = nesting::find(file, outer, &name) {
                declared.add(file, found, Standing::NotIgnored);
            }
        }
        if declared.count > 0 {
            return Member::Declared(declared);
        }
    }
    match members.hits().matches(Roles::Told).into_iter().next() {
        Some(first) => Member::Elsewhere(Place {
            name: unmarked.to_owned(),
            file: first.file,
            line: first.line,
            is_declaration: first.definition == Some(true),
        }),
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
            ("Store::operator==", Some(("Store", "operator=="))),
            ("open", None),
            (".open", None),
            ("Store::", None),
            ("1.5", None),
            ("a b.c", Some(("a b", "c"))),
            ("größe::名前", Some(("größe", "名前"))),
        ] {
            assert_eq!(split(value), expected, "{value}");
        }
    }
    #[test]
    fn generics_are_no_part_of_a_name() {
        for (value, expected) in [
            ("Holder<T>::get", "Holder::get"),
            ("Holder::<u8>::get", "Holder::get"),
            ("Holder<Vec<T>, fn() -> U>::get::<u8>()", "Holder::get()"),
            ("a->b", "a->b"),
            ("operator<", "operator<"),
            ("a < b", "a < b"),
            ("Map<K, V>.Entry<K, V>", "Map.Entry"),
        ] {
            assert_eq!(without_generics(value), expected, "{value}");
        }
    }
}
