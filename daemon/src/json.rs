//! JSON text of our own values, where serializing can't fail.

use std::io;

use serde::Serialize;

/// Returns compact JSON of a value made of strings, numbers, booleans, lists and structs: nothing that can fail.
///
/// Strings are escaped exactly as ECMAScript's `JSON.stringify` escapes them.
#[expect(clippy::expect_used, reason = "only a map with keys that are no strings, or a failing Serialize, can fail")]
pub fn compact(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("plain values always serialize")
}

/// Returns the length of a value's compact JSON, in bytes, without making it.
#[expect(clippy::expect_used, reason = "as for `compact`, and counting takes whatever is written")]
pub fn length(value: &(impl Serialize + ?Sized)) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("plain values always serialize");
    count.0
}

/// As `compact`, with two-space indentation.
#[expect(clippy::expect_used, reason = "as for `compact`")]
pub fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain values always serialize")
}
