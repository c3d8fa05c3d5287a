//! `groundingctl demo`: the whole system at work, on a stage of its own.
//!
//! `stage` makes and clears the temporary home and repository, `host` speaks MCP to the real server, `script` is what
//! happens. Nothing outside the temporary directory is touched.

mod failure;
mod host;
mod script;
mod stage;

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use tokio::signal::unix::{SignalKind, signal};

pub use self::failure::DemoError;
use self::host::Host;
use self::stage::Stage;
use super::failure::CommandError;
use super::wait;
use crate::{output, process};

/// Show the whole system at work: a debug session, a checked solution, and a gate that notices a further commit.
///
/// Needs git and a shell; without a `preflight` on PATH the built-in checks run, and the demonstration says which did.
/// Runs in a temporary home and repository with a daemon of its own, and removes all of it at the end. Ends with an
/// error at the first surprise.
#[derive(Debug, clap::Args)]
pub struct Demo {}

impl Demo {
    /// Runs the command.
    ///
    /// # Errors
    /// At the first step that goes otherwise than it should.
    pub async fn run(self, environment: Environment) -> Result<u8, CommandError> {
        let server = process::sibling(&environment, "grounding-mcp")?;
        let stage = Stage::build(&environment)?;
        let played = tokio::select! {
            played = play(&stage, &server) => played,
            () = interrupted() => Err(DemoError::Interrupted),
        };
        let cleared = wait::shown("clearing the stage", stage.clear()).await;
        played?;
        cleared?;
        output::line("\nAll of it went as it should. The daemon and the temporary directory are gone.")?;
        Ok(exit::OK)
    }
}

async fn play(stage: &Stage, server: &std::path::Path) -> Result<(), DemoError> {
    stage.prepare_repository().await?;
    let mut host = Host::start(server, stage)?;
    script::play(stage, &mut host).await?;
    host.end().await
}

/// Waits for Ctrl-C or a request to end.
async fn interrupted() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => {
            // Where Ctrl-C can't be heard either, the demonstration is as good as interrupted.
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
