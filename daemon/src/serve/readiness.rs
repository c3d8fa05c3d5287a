//! What a launcher reads from the daemon's stdout: progress words, then `ready`, `busy` or `error <text>`.

use std::fs::OpenOptions;
use std::io::{self, Write};

/// The daemon's side of the pipe.
pub(super) struct Readiness;

impl Readiness {
    /// Says a word; a launcher that is gone does not need it.
    pub(super) fn say(&self, word: &str) {
        let _ = writeln!(io::stdout(), "{word}").and_then(|()| io::stdout().flush());
    }

    /// Says the last word and lets go of the pipe, so that a reader of it sees its end.
    pub(super) fn last(&self, word: &str) {
        self.say(word);
        if let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") {
            // The pipe stays open otherwise, which costs its reader the end and nothing else.
            let _ = rustix::stdio::dup2_stdout(&nowhere);
        }
    }
}
