//! End-to-end tests through the real binaries: one module per feature, each test in a home of its own.
#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

mod answers;
mod attempts;
mod auto_start;
mod battery;
mod client_storm;
mod completions;
mod crash;
#[cfg(feature = "test-points")]
mod crash_matrix;
mod doctor;
#[cfg(feature = "test-points")]
mod faults;
mod field_reports;
mod kill_rounds;
mod ledger_faults;
mod ledger_verbs;
mod lock_peers;
mod logs;
mod many_clients;
mod markers;
mod odd_homes;
mod original_files;
mod other_user;
#[cfg(feature = "test-points")]
mod points;
mod preflight_runs;
mod progress;
mod raw_lines;
mod recorded_runs;
mod repositories;
mod restart;
mod security;
mod service;
mod session_verbs;
mod setup;
mod socket;
mod socket_activation;
mod solution;
mod state_directory;
mod status;
mod stub;
mod tools;
mod workflow;

/// A test file that is not declared above would never run.
#[test]
fn every_test_file_is_declared() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end");
    for entry in std::fs::read_dir(directory).expect("the directory of this file") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let module = name.trim_end_matches(".rs");
        let declared = include_str!("main.rs").contains(&format!("mod {module};"));
        assert!(declared || module == "main", "{name} is not declared in main.rs");
    }
}
