//! How errors are told: the one way a chain of causes becomes a sentence.

use std::error::Error;

/// Joins an error and its causes, outermost first.
#[must_use]
pub fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
