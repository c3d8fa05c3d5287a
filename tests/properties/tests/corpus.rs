//! Replays the committed corpus of each fuzz target: every file holds what its check demands.
#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::path::PathBuf;

use grounding_properties::{api, attempt_log, host, marker, mcp, preflight, workflow};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fuzz")
}

fn replay(target: &str, check: fn(&[u8])) {
    let mut count = 0;
    for entry in corpus().join(target).read_dir().expect("a folder of this name") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file of the corpus");
        assert!(std::panic::catch_unwind(|| check(&bytes)).is_ok(), "{} breaks what must hold", path.display());
        count += 1;
    }
    assert!(count >= 12, "the corpus of {target} has {count} files");
}

/// As `replay`, and every prefix and suffix, so that each construct is also met cut off.
fn replay_cut(target: &str, check: fn(&[u8])) {
    replay(target, check);
    for entry in corpus().join(target).read_dir().expect("a folder of this name") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file of the corpus");
        for cut in 0..=bytes.len().min(512) {
            check(&bytes[..cut]);
            check(&bytes[cut..]);
        }
    }
}

#[test]
fn requests_into_the_daemon() {
    replay("api", api::check);
}

#[test]
fn attempt_logs() {
    replay("attempt_log", attempt_log::check);
}

#[test]
fn host_configurations() {
    replay_cut("host", host::check);
}

#[test]
fn markers() {
    replay("marker", marker::check);
}

#[test]
fn lines_into_the_mcp_server() {
    replay("mcp", mcp::check);
}

#[test]
fn answers_of_preflight() {
    replay_cut("preflight", preflight::check);
}

#[test]
fn workflow_files() {
    replay_cut("workflow", workflow::check);
}

/// A folder that no test names would never be replayed, and a target without one would start from nothing.
#[test]
fn every_target_has_a_corpus_and_a_test() {
    let names = |path: PathBuf| {
        let entries = path.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
        let stems = entries.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned());
        stems.collect::<std::collections::BTreeSet<_>>()
    };
    let targets = names(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets"));
    assert_eq!(names(corpus()), targets);
    for target in targets {
        assert!(include_str!("corpus.rs").contains(&format!("(\"{target}\", {target}::check)")), "{target}");
    }
}
