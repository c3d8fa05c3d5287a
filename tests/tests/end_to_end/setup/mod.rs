//! `groundingctl setup` and `uninstall` in fresh homes: what they change, what they leave, and that the way back is exact.
//!
//! The real hosts are driven by `tests/hosts/run`; here a script stands in for a host's command only to record whether it
//! was called and to fail.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, binaries};

mod commands;
mod hosts;
mod service;
mod ways_back;
mod whole;

/// Returns a home in which the programs stand on PATH, so that nothing has to be copied, and no host is found.
fn environment() -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let binaries = binaries::groundingctl();
    environment.set("PATH", binaries.parent().expect("a directory"));
    environment
}

/// The path that hosts are told of in `environment`.
fn server() -> String {
    binaries::grounding_mcp().to_str().expect("UTF-8").to_owned()
}

fn setup(environment: &TestEnvironment, arguments: &[&str]) -> Output {
    environment.groundingctl(&[&["setup"], arguments].concat())
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", shown(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Runs a command that must end with this code, and returns what it said on stderr.
fn ends(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", shown(output));
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Returns everything below a directory, with mode and content.
fn tree(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let metadata = path.symlink_metadata().expect("metadata");
            let content = if metadata.is_symlink() {
                std::fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            } else if metadata.is_file() {
                std::fs::read(&path).expect("a file")
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                left.push(path.clone());
            }
            found.insert(path, (metadata.mode(), content));
        }
    }
    found
}

/// Returns the paths of a tree, relative to its directory.
fn names(directory: &Path) -> Vec<String> {
    let relative = |path: &PathBuf| path.strip_prefix(directory).expect("below").display().to_string();
    tree(directory).keys().map(relative).collect()
}
