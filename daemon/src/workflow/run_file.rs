//! Reading the files of a run: regular files only, never more than 4 MiB, never waiting for a writer.
//!
//! A file that is absent, unreadable or too large is told apart and never taken for an empty one: what follows from that
//! is the caller's to say. Symlinks are followed. It never parses what it read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Most bytes that are read of one file.
pub(super) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What there was to read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunFile {
    /// There is no such file.
    Missing,
    /// Its text; bytes that are no UTF-8 are replaced.
    Text(String),
    /// It is there and can't be read, for this reason.
    Unreadable(String),
    /// It holds more than `MAX_BYTES`.
    TooLarge,
}

/// Reads a file; a dangling symlink counts as missing.
pub(super) fn read(path: &Path) -> RunFile {
    // Without O_NONBLOCK opening a named pipe would wait for its writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return RunFile::Missing,
        Err(error) => return RunFile::Unreadable(error.to_string()),
    };
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return RunFile::Unreadable("it is no regular file".to_owned()),
        Err(error) => return RunFile::Unreadable(error.to_string()),
    }
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Err(error) => RunFile::Unreadable(error.to_string()),
        Ok(count) if count as u64 > MAX_BYTES => RunFile::TooLarge,
        Ok(_) => RunFile::Text(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_bound_and_nothing_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(read(&path), RunFile::Missing);
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &path).unwrap();
        assert_eq!(read(&path), RunFile::Missing);
        std::fs::remove_file(&path).unwrap();

        std::fs::write(&path, vec![b'a'; 4 * 1024 * 1024]).unwrap();
        assert!(matches!(read(&path), RunFile::Text(text) if text.len() == 4 * 1024 * 1024));
        std::fs::write(&path, vec![b'a'; 4 * 1024 * 1024 + 1]).unwrap();
        assert_eq!(read(&path), RunFile::TooLarge);
        std::fs::write(&path, b"a\xffb").unwrap();
        assert_eq!(read(&path), RunFile::Text("a\u{fffd}b".to_owned()));

        assert!(matches!(read(folder.path()), RunFile::Unreadable(_)));
        assert!(matches!(read(&path.join("below")), RunFile::Unreadable(_)));
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(read(&pipe), RunFile::Unreadable(_)));
    }
}
