//! `groundingctl verify`.

use std::ffi::OsString;
use std::path::PathBuf;

use grounding_proto::environment::Environment;

use super::failure::CommandError;
use super::gate::become_daemon;

/// Check the signature of an id's verdict and tell how it relates to HEAD now; works without a running daemon.
///
/// Exit code 0: the verdict was signed for this id with this key; 1: it was not, or there is none. A verdict that is not
/// ready or of another commit is told and exits 0 all the same: whether it allows anything is `gate`'s to say.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// The id that was evaluated.
    id: OsString,
    /// The repository whose HEAD is told; default: the working directory.
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
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
        if let Some(repo) = self.repo {
            arguments.extend(["--repo".into(), repo.into_os_string()]);
        }
        if self.json {
            arguments.push("--json".into());
        }
        arguments.extend(["--".into(), self.id]);
        become_daemon(environment, &arguments)
    }
}
