//! `groundingctl verify`.

use std::ffi::OsString;

use grounding_proto::environment::Environment;

use super::failure::CommandError;
use super::gate::become_daemon;

/// Check the signature of an id's verdict; works without a running daemon.
///
/// Exit code 0: the signature is right; 1: it is not, or there is no verdict.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// The id that was evaluated.
    id: OsString,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Verify {
    /// Becomes `groundingd verify`.
    ///
    /// # Errors
    /// When that can't be run.
    pub fn run(self, environment: &Environment) -> Result<u8, CommandError> {
        let mut arguments = vec!["verify".into()];
        if self.json {
            arguments.push("--json".into());
        }
        arguments.extend(["--".into(), self.id]);
        become_daemon(environment, &arguments)
    }
}
