//! `groundingctl completions`.

use clap_complete::Shell;
use grounding_proto::exit;

use super::cli;
use super::failure::CommandError;
use crate::output;

/// Print what makes a shell complete this command line.
///
/// For bash, for instance: groundingctl completions bash >
/// ~/.local/share/bash-completion/completions/groundingctl
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn run(self) -> Result<u8, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::command(), cli::NAME, &mut script);
        output::bytes(&script)?;
        Ok(exit::OK)
    }
}
