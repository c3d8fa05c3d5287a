//! Reading one file of a scan, whatever it turns out to be, and finding the occurrences in it.
//!
//! Only regular files are read, and only as far as they reached when they were opened: a pipe, a device or a growing
//! log never holds a scan up. A file is streamed in bounded memory, never mapped. A UTF-16 file with a byte order mark
//! is searched as the text it holds.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use encoding_rs_io::DecodeReaderBytesBuilder;
use grep_matcher::Matcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use rustix::fs::{FileType, Mode, OFlags};

use super::definition::declares;
use super::hits::{FileHits, Role};

/// Largest file that is searched, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// Longest line that is searched as one, in bytes; a longer one is searched in overlapping windows.
const MAX_LINE: usize = 1 << 20;

/// What became of a file.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was searched to its end; nothing when it holds no occurrence.
    Searched(Option<FileHits>),
    /// It holds a NUL byte and was not searched.
    Binary,
    /// It could not be opened or read.
    Unreadable,
    /// It is over the size limit.
    TooLarge,
    /// It is a pipe, socket or device, or a file of the kernel's without a size.
    Special,
    /// It is a directory or a symlink, or gone.
    Nothing,
    /// The scan was stopped.
    Stopped,
}

/// How files that hold a NUL byte are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// As binary: they are not searched.
    Text,
    /// As bytes: they are searched like any other.
    Bytes,
}

/// Whether matches are told apart into definitions and uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judging {
    /// By the declaration keywords before the name.
    Keywords,
    /// Every match is a definition.
    AllDefine,
    /// No match is one.
    None,
}

/// The buffers of one thread, and what it looks for.
pub(super) struct FileSearch<'a, M> {
    matcher: &'a M,
    judging: Judging,
    content: Content,
    /// Ends at the first match and counts no lines: most files hold none.
    probe: Searcher,
    full: Searcher,
}

impl<'a, M: Matcher> FileSearch<'a, M> {
    pub(super) fn new(matcher: &'a M, judging: Judging, content: Content) -> Self {
        let detection = match content {
            Content::Text => BinaryDetection::quit(0),
            // NUL ends lines too, so that a binary file is no single line of many megabytes.
            Content::Bytes => BinaryDetection::convert(0),
        };
        let mut builder = SearcherBuilder::new();
        builder.binary_detection(detection).heap_limit(Some(MAX_LINE)).line_number(false);
        let probe = builder.build();
        Self { matcher, judging, content, probe, full: builder.line_number(true).build() }
    }

    /// Searches one file; returns what became of it and how many bytes were read of it once.
    pub(super) fn search(&mut self, path: &Path, stopped: &dyn Fn() -> bool) -> (Outcome, u64) {
        let (file, size) = match open(path) {
            Ok(opened) => opened,
            Err(outcome) => return (outcome, 0),
        };
        if size == 0 {
            // Files of /proc say that they are empty; what they hold, or whether they end, is not known.
            return match (&file).read(&mut [0]) {
                Ok(0) => (Outcome::Searched(None), 0),
                Ok(_) => (Outcome::Special, 0),
                Err(_) => (Outcome::Unreadable, 0),
            };
        }
        let outcome = self.search_open(&file, size, stopped);
        (outcome, size)
    }

    fn search_open(&mut self, file: &File, size: u64, stopped: &dyn Fn() -> bool) -> Outcome {
        let reader = || Bounded { file: file.take(size), stopped };
        let mut probe = Probe::default();
        let result = self.probe.search_reader(self.matcher, reader(), &mut probe);
        let found = match result {
            Ok(()) if probe.binary && self.content == Content::Text => return Outcome::Binary,
            Ok(()) if !probe.found => return Outcome::Searched(None),
            Ok(()) => rewound(file).and_then(|()| {
                let mut sink =
                    Collect { matcher: self.matcher, judging: self.judging, found: FileHits::default(), binary: false };
                self.full.search_reader(self.matcher, reader(), &mut sink)?;
                Ok((sink.found, sink.binary))
            }),
            Err(error) => Err(error),
        };
        let found = match found {
            // The searcher takes NUL for the end of a line, which is right for its text and not for its number.
            Ok((_, true)) if self.content == Content::Bytes => {
                rewound(file).and_then(|()| self.search_windows(reader()))
            }
            // The searcher's own complaint: a line does not fit its buffer.
            Err(error) if error.raw_os_error().is_none() && !stopped() => {
                rewound(file).and_then(|()| self.search_windows(reader()))
            }
            other => other,
        };
        match found {
            Err(_) if stopped() => Outcome::Stopped,
            Err(_) => Outcome::Unreadable,
            Ok((_, true)) if self.content == Content::Text => Outcome::Binary,
            Ok((found, _)) => Outcome::Searched((found.count > 0).then_some(found)),
        }
    }

    /// Searches a file with very long lines window by window; also returns whether it holds a NUL byte.
    fn search_windows(&self, reader: impl Read) -> io::Result<(FileHits, bool)> {
        // A value has at most 4096 characters; this much on both sides shows every match whole, with its neighbors.
        const OVERLAP: usize = 32 * 1024;
        const SHOWN: usize = 1024;
        let mut reader = decoded(reader);
        let (mut found, mut binary) = (FileHits::default(), false);
        let (mut window, mut chunk) = (Vec::with_capacity(MAX_LINE), vec![0; 64 * 1024]);
        // Matches that start before `from` were counted in an earlier window; `line` is the number of the first line.
        let (mut from, mut line, mut ended) = (0, 1, false);
        while !ended {
            while window.len() < MAX_LINE && !ended {
                let count = reader.read(&mut chunk)?;
                ended = count == 0;
                binary |= memchr::memchr(0, &chunk[..count]).is_some();
                window.extend_from_slice(&chunk[..count]);
            }
            if binary && self.content == Content::Text {
                break;
            }
            let until = if ended { window.len() } else { window.len() - OVERLAP };
            let mut counted = (0, line);
            let searched = self.matcher.find_iter_at(&window, from, |matched| {
                if matched.start() >= until {
                    return false;
                }
                counted.1 += memchr::memchr_iter(b'\n', &window[counted.0..matched.start()]).count() as u64;
                counted.0 = matched.start();
                // As much of the line as is shown: the line itself may be megabytes.
                let near = matched.start().saturating_sub(SHOWN)..window.len().min(matched.end() + SHOWN);
                let before = memchr::memrchr2(b'\n', 0, &window[near.start..matched.start()]).map_or(0, |at| at + 1);
                let line_end = memchr::memchr2(b'\n', 0, &window[matched.end()..near.end]);
                let line_end = line_end.map_or(near.end, |at| matched.end() + at);
                let text = &window[near.start + before..line_end];
                let start = matched.start() - near.start - before;
                found.add_line(counted.1, text, start, 1, self.judging.role(text, start));
                true
            });
            searched.map_err(|error| io::Error::other(error.to_string()))?;
            let dropped = until.saturating_sub(OVERLAP);
            line += memchr::memchr_iter(b'\n', &window[..dropped]).count() as u64;
            window.drain(..dropped);
            from = until - dropped;
        }
        Ok((found, binary))
    }
}

impl Judging {
    fn role(self, line: &[u8], start: usize) -> Role {
        let defines = match self {
            Self::Keywords => declares(line, start),
            Self::AllDefine => true,
            Self::None => false,
        };
        if defines { Role::Definition } else { Role::Use }
    }
}

/// Opens a regular file, and nothing else, without waiting and without following a link; also returns its size.
pub(super) fn open(path: &Path) -> Result<(File, u64), Outcome> {
    use rustix::io::Errno;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(Outcome::Nothing),
        // A socket, or a device without a driver.
        Err(Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP) => return Err(Outcome::Special),
        Err(_) => return Err(Outcome::Unreadable),
    };
    let Ok(status) = rustix::fs::fstat(&file) else { return Err(Outcome::Unreadable) };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory | FileType::Symlink => return Err(Outcome::Nothing),
        _ => return Err(Outcome::Special),
    }
    let size = u64::try_from(status.st_size).unwrap_or(0);
    if size > MAX_BYTES { Err(Outcome::TooLarge) } else { Ok((File::from(file), size)) }
}

/// Returns the bytes of a text in UTF-8, also when a byte order mark says that it is in UTF-16.
pub(super) fn decoded<R: Read>(reader: R) -> impl Read {
    DecodeReaderBytesBuilder::new().bom_override(true).utf8_passthru(true).build(reader)
}

fn rewound(mut file: &File) -> io::Result<()> {
    file.rewind()
}

/// A file up to the size it had when it was opened, for as long as the scan goes on.
struct Bounded<'a> {
    file: io::Take<&'a File>,
    stopped: &'a dyn Fn() -> bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stopped)() {
            return Err(io::Error::other("the scan was stopped"));
        }
        self.file.read(buffer)
    }
}

#[derive(Default)]
struct Probe {
    found: bool,
    binary: bool,
}

impl Sink for &mut Probe {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
        self.found = true;
        Ok(false)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

struct Collect<'a, M> {
    matcher: &'a M,
    judging: Judging,
    found: FileHits,
    binary: bool,
}

impl<M: Matcher> Sink for &mut Collect<'_, M> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        let first = matched.line_number().unwrap_or(0);
        for (number, line) in (first..).zip(matched.lines()) {
            let (mut count, mut telling) = (0, None::<(usize, Role)>);
            let searched = self.matcher.find_iter(line, |found| {
                let role = self.judging.role(line, found.start());
                // The first one, or the first that defines.
                if telling.is_none_or(|(_, before)| role < before) {
                    telling = Some((found.start(), role));
                }
                count += 1;
                true
            });
            searched.map_err(|error| io::Error::other(error.to_string()))?;
            if let Some((start, role)) = telling {
                self.found.add_line(number, line, start, count, role);
            }
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}
