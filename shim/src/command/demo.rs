//! `groundingctl demo`.
use grounding_proto::environment::Environment;

use super::failure::CommandError;

/// Show the whole system at work, in a temporary directory.
#[derive(Debug, clap::Args)]
pub struct Demo {}

/// stub
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub struct DemoError;

impl Demo {
    /// stub
    pub async fn run(self, _: Environment) -> Result<u8, CommandError> {
        Err(DemoError.into())
    }
}
