//! Standard input and output as asynchronous streams, without threads where the system allows it.
//!
//! Pipes are opened again, so that the non-blocking flag stays ours; sockets (which Node hosts use) are driven
//! directly; anything else goes through the runtime's blocking threads.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// A stream to read from.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// A stream to write to.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Returns standard input.
#[must_use]
pub fn input() -> Input {
    let stdin = io::stdin();
    if let Some(stream) = socket(stdin.as_fd()) {
        return Box::new(stream);
    }
    match reopened_pipe(stdin.as_fd(), OpenOptions::new().read(true)).map(pipe::Receiver::from_file) {
        Some(Ok(receiver)) => Box::new(receiver),
        _ => Box::new(tokio::io::stdin()),
    }
}

/// Returns standard output.
#[must_use]
pub fn output() -> Output {
    let stdout = io::stdout();
    if let Some(stream) = socket(stdout.as_fd()) {
        return Box::new(stream);
    }
    match reopened_pipe(stdout.as_fd(), OpenOptions::new().write(true)).map(pipe::Sender::from_file) {
        Some(Ok(sender)) => Box::new(sender),
        _ => Box::new(tokio::io::stdout()),
    }
}

fn socket(descriptor: BorrowedFd<'_>) -> Option<UnixStream> {
    let owned = descriptor.try_clone_to_owned().ok()?;
    let file = File::from(owned);
    if !file.metadata().ok()?.file_type().is_socket() {
        return None;
    }
    let stream = StdUnixStream::from(std::os::fd::OwnedFd::from(file));
    stream.set_nonblocking(true).ok()?;
    UnixStream::from_std(stream).ok()
}

/// Opens a pipe once more through /proc; nothing where that does not exist or the descriptor is no pipe.
fn reopened_pipe(descriptor: BorrowedFd<'_>, options: &mut OpenOptions) -> Option<File> {
    let file = File::from(descriptor.try_clone_to_owned().ok()?);
    if !file.metadata().ok()?.file_type().is_fifo() {
        return None;
    }
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    options.custom_flags(nonblocking).open(path).ok()
}
