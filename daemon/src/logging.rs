//! The daemon's log, `<state dir>/log/groundingd.log`: private, bounded, and free of control characters.
//!
//! Past its size the file becomes `groundingd.log.1` and a new one begins. Each start and each new file begins with a line
//! that says which build writes and which protocol it speaks. Nothing that a client sends is logged but ids and paths,
//! and an event is one line whatever they hold.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use grounding_proto::environment::{Environment, GROUNDING_LOG};
use grounding_proto::text::printable;
use grounding_proto::wire::PROTOCOL;
use jiff::Timestamp;
use tracing_subscriber::EnvFilter;

use crate::api::health::VERSION;
use crate::store;

const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Sends everything that is logged to a file, filtered by `GROUNDING_LOG`. The caller is the one instance.
///
/// # Errors
/// When the file can't be made.
pub fn start(path: &Path, environment: &Environment) -> io::Result<()> {
    store::ensure_own_dir(path.parent().unwrap_or(path)).map_err(io::Error::other)?;
    let log = Mutex::new(LogFile::begin(path, MAX_BYTES)?);
    let filter = environment.get(GROUNDING_LOG).and_then(|filter| filter.to_str()).unwrap_or("info");
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info")))
        .with_ansi(false)
        .with_target(false)
        .with_writer(log)
        .finish();
    // Set once per process; a second daemon in one process (tests) shares the first one's log.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes since the file began or could last not be set aside.
    written: u64,
    most: u64,
}

impl LogFile {
    /// Opens the log of a process that begins.
    fn begin(path: &Path, most: u64) -> io::Result<Self> {
        let (file, written) = open(path)?;
        let mut log = Self { path: path.to_owned(), file, written, most };
        if log.written >= log.most {
            log.set_aside()
        } else {
            log.write_heading()?
        }
        Ok(log)
    }

    /// Begins a new file. Where that can't be done the old one goes on: a long log is better than none.
    fn set_aside(&mut self) {
        self.written = 0;
        let renewed = fs::rename(&self.path, self.path.with_extension("log.1")).and_then(|()| open(&self.path));
        if let Ok((file, written)) = renewed {
            (self.file, self.written) = (file, written);
        }
        // What can't be written is not told of either: this is where it would be.
        let _ = self.write_heading();
    }

    fn write_heading(&mut self) -> io::Result<()> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let (pid, oldest, newest) = (std::process::id(), PROTOCOL.oldest, PROTOCOL.newest);
        let line =
            format!("{now}  INFO groundingd {VERSION} (protocol {oldest} to {newest}, pid {pid}) writes from here\n");
        self.file.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written >= self.most {
            self.set_aside();
        }
        // The formatter writes an event at once, its newline last. Paths and causes are written as they are displayed.
        let line = format!("{}\n", printable(String::from_utf8_lossy(bytes).trim_end_matches('\n')));
        self.file.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file =
        store::open_own(OpenOptions::new().append(true).create(true).mode(0o600), path).map_err(io::Error::other)?;
    let written = file.metadata()?.len();
    Ok((file, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_file_begins_with_the_build_and_one_is_set_aside_at_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let (path, aside) = (directory.path().join("groundingd.log"), directory.path().join("groundingd.log.1"));
        let mut log = LogFile::begin(&path, 400).unwrap();
        for number in 0..40 {
            log.write_all(format!("line {number} {}\n", "x".repeat(40)).as_bytes()).unwrap();
        }
        let (now, before) = (lines(&path), lines(&aside));
        for first in [&now[0], &before[0]] {
            assert!(first.contains(VERSION) && first.contains("protocol 1 to 1"), "{first}");
        }
        assert!(now.last().unwrap().starts_with("line 39 "));
        assert_eq!(before.len() + now.len() - 2, 40 - lines_before(&before), "no line between the two is lost");
        assert!(aside.metadata().unwrap().len() < 500, "a file is set aside once it has its size");

        drop(LogFile::begin(&path, 400).unwrap());
        assert!(lines(&path).last().unwrap().contains("writes from here"), "a new process says so");
    }

    /// Returns the number of the first line of a file.
    fn lines_before(file: &[String]) -> usize {
        file[1].split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn a_log_that_cannot_be_set_aside_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("groundingd.log");
        fs::create_dir(directory.path().join("groundingd.log.1")).unwrap();
        let mut log = LogFile::begin(&path, 100).unwrap();
        for number in 0..20 {
            log.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        let kept: Vec<_> = lines(&path).into_iter().filter(|line| line.starts_with("line ")).collect();
        assert_eq!(kept.len(), 20);
    }
}
