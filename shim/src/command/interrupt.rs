//! How a command that goes on and on learns that it is to end: Ctrl-C, a request to terminate, a terminal that closes.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from when it is made.
#[derive(Debug)]
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupt {
    /// Begins to listen.
    ///
    /// # Errors
    /// When signals can't be heard.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns once the command is to end.
    pub async fn heard(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
