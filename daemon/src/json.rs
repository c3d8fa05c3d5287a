//! JSON text of our own values, where serializing can't fail.

use serde::Serialize;

/// Returns compact JSON of a value made of strings, numbers, booleans, lists and structs: nothing that can fail.
///
/// Strings are escaped exactly as ECMAScript's `JSON.stringify` escapes them.
#[expect(clippy::expect_used, reason = "only a map with keys that are no strings, or a failing Serialize, can fail")]
pub fn compact(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("plain values always serialize")
}

/// As `compact`, with two-space indentation.
#[expect(clippy::expect_used, reason = "as for `compact`")]
pub fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain values always serialize")
}
