//! Named points where tests hold a process or make a file operation fail. A release has none of it.
//!
//! With the cargo feature `test-points`, the file `rules` in the directory that GROUNDING_POINTS names is read at each
//! point. A line `<errno> <point> [<part of a path>]` has the operation fail with that error; a line `<fifo> <point>
//! [<part of a path>]` keeps the process in that FIFO of the directory until its other end was opened and closed. Without
//! the feature the functions are empty, and an optimized build with it does not compile. Must never decide anything.

use std::io;
use std::path::Path;

#[cfg(all(feature = "test-points", not(debug_assertions)))]
compile_error!("the feature test-points is for unoptimized builds under test alone: build without it");

/// Says that a process is at a point; it may be held there.
#[inline]
pub fn reach(point: &str) {
    // A point that is only reached has nothing that could fail.
    let _ = apply(point, None);
}

/// Says that a step of a file operation is about to be done.
///
/// # Errors
/// The error the step is to fail with instead.
#[inline]
pub fn touch(step: &str, path: &Path) -> io::Result<()> {
    apply(step, Some(path))
}

/// Writes bytes to the file at a path; a write that is to fail stops halfway, as on a full disk.
///
/// # Errors
/// That of `write`, or the one the step is to fail with.
#[inline]
pub fn write(path: &Path, bytes: &[u8], mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    if let Err(fault) = touch("write", path) {
        write(&bytes[..bytes.len() / 2])?;
        return Err(fault);
    }
    write(bytes)
}

#[cfg(not(feature = "test-points"))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "what tests make of it can fail")]
fn apply(_point: &str, _path: Option<&Path>) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "test-points")]
fn apply(point: &str, path: Option<&Path>) -> io::Result<()> {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::io::Read;
    use std::path::PathBuf;
    use std::sync::LazyLock;

    use grounding_proto::environment::{Environment, GROUNDING_POINTS};

    static DIRECTORY: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| Environment::of_process().get(GROUNDING_POINTS).map(OsStr::to_owned).map(PathBuf::from));

    let Some(directory) = DIRECTORY.as_deref() else { return Ok(()) };
    let rules = fs::read_to_string(directory.join("rules")).unwrap_or_default();
    for rule in rules.lines() {
        let mut words = rule.split(' ');
        let (Some(action), Some(named), part) = (words.next(), words.next(), words.next()) else { continue };
        let here = |part| path.is_some_and(|path: &Path| path.to_string_lossy().contains(part));
        if named != point || !part.is_none_or(here) {
            continue;
        }
        if let Ok(errno) = action.parse() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        // Opening waits for the other end, reading for its closing. A FIFO that is gone holds nobody.
        let _ = File::open(directory.join(action)).and_then(|mut fifo| fifo.read_to_end(&mut Vec::new()));
    }
    Ok(())
}
