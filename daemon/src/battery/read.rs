//! Reads files of a repository, which may hold anything: pipes, devices, symlinks, and files without end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// What a path turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A regular file; the buffer holds all of it.
    Whole,
    /// A regular file of more bytes than asked for.
    TooLarge,
    /// A symlink, a directory, a pipe, or anything else that is no regular file.
    NoFile,
}

/// Reads a regular file of at most `most` bytes into the buffer; never waits for one that is none.
///
/// # Errors
/// As opening and reading give them.
pub fn read(path: &Path, most: u64, buffer: &mut Vec<u8>) -> io::Result<Content> {
    buffer.clear();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        // A symlink, a pipe's other end, a socket.
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Ok(Content::NoFile),
        Err(error) => return Err(error.into()),
    };
    if !opened.metadata()?.is_file() {
        return Ok(Content::NoFile);
    }
    opened.take(most.saturating_add(1)).read_to_end(buffer)?;
    Ok(if buffer.len() as u64 > most { Content::TooLarge } else { Content::Whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_only_so_far() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let mut buffer = b"old".to_vec();
        assert_eq!(read(&path("file"), 5, &mut buffer).unwrap(), Content::Whole);
        assert_eq!(buffer, b"12345");
        assert_eq!(read(&path("file"), 4, &mut buffer).unwrap(), Content::TooLarge);
        for name in ["link", "pipe", "."] {
            assert_eq!(read(&path(name), 5, &mut buffer).unwrap(), Content::NoFile, "{name}");
        }
        assert_eq!(read(&path("gone"), 5, &mut buffer).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
