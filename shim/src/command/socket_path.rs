//! `groundingctl socket-path`.

use std::os::unix::ffi::OsStrExt;

use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use crate::output;

/// Print the path of the daemon's socket.
#[derive(Debug, clap::Args)]
pub struct SocketPath {}

impl SocketPath {
    /// Runs the command.
    ///
    /// # Errors
    /// When the environment leads to no socket.
    pub fn run(self, environment: &Environment) -> Result<u8, CommandError> {
        let mut line = environment.socket_path()?.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        output::foreign(&line)?;
        Ok(exit::OK)
    }
}
