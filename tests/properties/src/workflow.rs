//! The readers of the three files of a run: each file is read as each of the three.

use groundingd::workflow::field::{self, FINAL_STATUS, RECOMMENDATION};
use groundingd::workflow::{findings, run_base};

/// Checks the bounds of what the readers say of a file.
pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _status = field::read(&FINAL_STATUS, &text);
    let _recommendation = field::read(&RECOMMENDATION, &text);
    assert!(findings::read(&text).problems.len() <= findings::MAX_PROBLEMS);
    let goal = run_base::read(&text);
    let _selection = goal.select(&["alpha".to_owned()]);
    assert!(goal.shown_keys().chars().count() <= 10 * 67 + 32);
    for malformed in [&goal.keyed_attempts, &goal.phrases] {
        assert!(malformed.shown_lines().chars().count() <= 5 * 120 + 32);
    }
}
