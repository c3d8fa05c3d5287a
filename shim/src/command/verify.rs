//! `groundingctl verify`.

use grounding_proto::environment::Environment;

use super::failure::CommandError;
use super::gate::VerdictQuestion;

/// Check the signature of an id's verdict and tell how it relates to HEAD now; works without a running daemon.
///
/// Exit code 0: the verdict was signed for this id with this key; 1: it was not, or there is none. A verdict that is not
/// ready or of another commit is told and exits 0 all the same: whether it allows anything is `gate`'s to say.
#[derive(Debug, clap::Args)]
pub struct Verify {
    #[command(flatten)]
    question: VerdictQuestion,
}

impl Verify {
    /// Becomes `groundingd verify`.
    ///
    /// # Errors
    /// When that can't be run.
    pub fn run(self, environment: &Environment) -> Result<u8, CommandError> {
        self.question.ask(environment, "verify")
    }
}
