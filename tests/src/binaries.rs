//! Where the binaries under test are: in the target directory that this test was built into.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().expect("a test knows its own path");
    let directory = test.ancestors().nth(2).expect("a test runs from <target>/<profile>/deps");
    let profile = if directory.ends_with("release") { " --release" } else { "" };
    for name in ["groundingd", "grounding-mcp", "groundingctl"] {
        let path = directory.join(name);
        assert!(path.is_file(), "{} is missing: run `cargo build --workspace{profile}` first", path.display());
    }
    directory.to_path_buf()
});

/// Returns the daemon's path.
#[must_use]
pub fn groundingd() -> PathBuf {
    DIRECTORY.join("groundingd")
}

/// Returns the shim's path.
#[must_use]
pub fn grounding_mcp() -> PathBuf {
    DIRECTORY.join("grounding-mcp")
}

/// Returns the path of the command line.
#[must_use]
pub fn groundingctl() -> PathBuf {
    DIRECTORY.join("groundingctl")
}

/// Returns the path of the real preflight from npm.
#[must_use]
pub fn preflight() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/node_modules/.bin/preflight");
    assert!(path.exists(), "{} is missing: run `tests/run`, which installs it", path.display());
    path
}

/// Returns the text of a file of `tests/fixtures`.
#[must_use]
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
