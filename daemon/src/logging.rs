//! The daemon's log, `<state dir>/log/groundingd.log`: private, bounded, and free of control characters.
//!
//! Past its size the file becomes `groundingd.log.1` and a new one begins. Nothing that a client sends is logged but
//! ids and paths, and an event is one line whatever they hold.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use grounding_proto::environment::{Environment, GROUNDING_LOG};
use grounding_proto::text::printable;
use tracing_subscriber::EnvFilter;

use crate::store;

const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Sends everything that is logged to a file, filtered by `GROUNDING_LOG`. The caller is the one instance.
///
/// # Errors
/// When the file can't be made.
pub fn start(path: &Path, environment: &Environment) -> io::Result<()> {
    store::ensure_own_dir(path.parent().unwrap_or(path)).map_err(io::Error::other)?;
    let (file, written) = open(path)?;
    let log = Mutex::new(LogFile { path: path.to_owned(), file, written });
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
    written: u64,
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written >= MAX_BYTES {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
            (self.file, self.written) = open(&self.path)?;
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
