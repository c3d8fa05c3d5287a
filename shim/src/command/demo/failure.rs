//! What can go wrong in a demonstration.

use std::io;

use super::super::failure::CommandError;

/// A demonstration that did not go as it should.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A step went otherwise.
    #[error("{step}: expected {expected}, but got {came}")]
    Surprise {
        /// The step.
        step: String,
        /// What should have come.
        expected: String,
        /// What came.
        came: String,
    },
    /// The server ended or fell silent.
    #[error("grounding-mcp gave no answer to {method}: {reason}")]
    NoAnswer {
        /// The request.
        method: String,
        /// What happened instead.
        reason: String,
    },
    /// A file, directory or program can't be used.
    #[error("can't {action}")]
    Io {
        /// What was tried, with its path.
        action: String,
        /// Why not.
        source: io::Error,
    },
    /// A program of the preparation failed.
    #[error(transparent)]
    Program(#[from] crate::process::RunError),
    /// The daemon can't be ended.
    #[error("can't end the daemon of the demonstration")]
    Daemon(#[source] Box<CommandError>),
    /// Stdout can't be written.
    #[error("can't write to stdout")]
    Output(#[source] io::Error),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    /// Returns a function that puts what was tried around an I/O error.
    pub(super) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
