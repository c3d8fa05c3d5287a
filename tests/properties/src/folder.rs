//! A private temporary directory, in memory where the system has that: the files are real, the disk is spared.

use std::path::Path;

use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

pub(crate) fn private() -> TempDir {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("grounding-");
    let made = if Path::new(IN_MEMORY).is_dir() { builder.tempdir_in(IN_MEMORY) } else { builder.tempdir() };
    made.expect("a temporary directory")
}
