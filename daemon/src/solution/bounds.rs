//! How much of long texts an agent is shown (SPEC 9.8): the first of them, each cut, and how many were left out.
//!
//! It only shortens what is answered. Markers, results and logs keep everything.

/// Largest answer, in bytes of JSON.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Most texts of a list that are shown.
pub const MAX_TEXTS: usize = 50;

const MAX_CHARACTERS: usize = 500;

/// Keeps the first texts, each cut; returns how many were left out, if any.
pub fn shorten(texts: &mut Vec<String>) -> Option<u64> {
    let more = texts.len().saturating_sub(MAX_TEXTS);
    texts.truncate(MAX_TEXTS);
    texts.iter_mut().for_each(cut);
    (more > 0).then_some(more as u64)
}

/// Cuts a text that is too long to be shown, and says so.
pub fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS) {
        text.truncate(end);
        text.push_str("...");
    }
}
