//! The orchestrator-workflow arm: whether a repository's active run is complete, accepted, and claims the change at
//! hand (SPEC-workflow).
//!
//! `evaluate` joins the concerns below. Each reader takes text and passes over it a fixed number of times, so that no
//! file makes it slower than linear. Nothing here writes, follows a broken pointer to some other run, or lets a file
//! that it can't read pass.

mod active_run;
mod binding;
mod blocker;
mod cursor;
mod evaluate;
mod fence;
mod knob;
mod quotation;
mod run_file;
mod text;
mod worktree;

#[doc(hidden)]
pub mod field;
#[doc(hidden)]
pub mod findings;
#[doc(hidden)]
pub mod run_base;

pub use evaluate::evaluate;

#[cfg(test)]
mod tests;
