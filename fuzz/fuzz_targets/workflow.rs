//! The readers of the three files of a run, on any bytes.
//!
//! `cargo +nightly fuzz run workflow fuzz/corpus/workflow tests/fixtures/fuzz/workflow -- -timeout=1 -max_len=4194304`

#![no_main]

use groundingd::workflow::field::{self, FINAL_STATUS, RECOMMENDATION};
use groundingd::workflow::{findings, run_base};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _status = field::read(&FINAL_STATUS, &text);
    let _recommendation = field::read(&RECOMMENDATION, &text);
    assert!(findings::read(&text).problems.len() <= findings::MAX_PROBLEMS);
    let goal = run_base::read(&text);
    let _selection = goal.select(&["alpha".to_owned()]);
    assert!(goal.shown_keys().chars().count() <= 10 * 67 + 32);
    for malformed in [&goal.keyed_attempts, &goal.phrases] {
        assert!(malformed.shown_lines().chars().count() <= 5 * 120 + 32);
    }
});
