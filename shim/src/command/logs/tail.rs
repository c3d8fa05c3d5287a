//! A log file that is read forwards, and where its last lines begin.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// How much is looked at at once.
const PIECE: u64 = 64 * 1024;

/// An open log file, read up to some place.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
}

impl LogFile {
    /// Opens a log; nothing when there is none.
    ///
    /// # Errors
    /// When it can't be opened or is no regular file.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        // A pipe in its place must hold nobody up.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Some(Self { file }))
    }

    /// Returns whether a path names this very file.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(identity).ok();
        own.is_some() && own == path.metadata().map(identity).ok()
    }

    /// Goes to where the last so many lines begin, and returns how many there are. A last line without an end counts.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(super) fn seek_last(&mut self, lines: u64) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        let (begin, found) = self.begin_of_last(lines, length)?;
        self.file.seek(SeekFrom::Start(begin))?;
        Ok(found)
    }

    fn begin_of_last(&self, lines: u64, length: u64) -> io::Result<(u64, u64)> {
        if lines == 0 || length == 0 {
            return Ok((length, 0));
        }
        let mut piece = vec![0; PIECE as usize];
        let mut found = 0;
        let mut end = length;
        while end > 0 {
            let begin = end.saturating_sub(PIECE);
            // As long as what is left at most, which is no longer than a piece.
            let piece = &mut piece[..(end - begin) as usize];
            self.file.read_exact_at(piece, begin)?;
            for (position, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let line_begin = begin + position as u64 + 1;
                // The end of the last line begins none.
                if line_begin == length {
                    continue;
                }
                found += 1;
                if found == lines {
                    return Ok((line_begin, found));
                }
            }
            end = begin;
        }
        Ok((0, found + 1))
    }

    /// Reads on; nothing at the end. A file that became shorter was written anew and is read from its beginning.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(super) fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(piece)?;
        if read == 0 && self.file.metadata()?.len() < self.file.stream_position()? {
            self.file.seek(SeekFrom::Start(0))?;
            return self.file.read(piece);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rest(content: &str, lines: u64) -> (String, u64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, content).unwrap();
        let mut log = LogFile::open(&path).unwrap().unwrap();
        let found = log.seek_last(lines).unwrap();
        let mut rest = String::new();
        log.file.read_to_string(&mut rest).unwrap();
        (rest, found)
    }

    #[test]
    fn the_last_lines_are_found() {
        assert_eq!(rest("a\nb\nc\n", 2), ("b\nc\n".into(), 2));
        assert_eq!(rest("a\nb\nc", 2), ("b\nc".into(), 2));
        assert_eq!(rest("a\nb\n", 2), ("a\nb\n".into(), 2));
        assert_eq!(rest("a\nb\n", 9), ("a\nb\n".into(), 2));
        assert_eq!(rest("a\n", 0), (String::new(), 0));
        assert_eq!(rest("", 3), (String::new(), 0));
        assert_eq!(rest("\n\n", 1), ("\n".into(), 1));
    }

    #[test]
    fn lines_longer_than_a_piece_are_found_whole() {
        let long = "x".repeat(3 * PIECE as usize);
        let content = format!("a\n{long}\nb\n");
        assert_eq!(rest(&content, 2), (format!("{long}\nb\n"), 2));
        assert_eq!(rest(&content, 1), ("b\n".into(), 1));
    }
}
