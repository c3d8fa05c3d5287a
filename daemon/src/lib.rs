//! The per-user grounding daemon as a library; the binary `groundingd` is a few lines over it.
//!
//! Reading order: `serve` boots the daemon, `api` maps requests to one function of a domain module each, the domain
//! modules below know no HTTP. `store`, `clock` and `process` are what they share; `points` is for tests.

pub mod clock;
pub mod error;
pub mod json;
pub mod points;
pub mod process;
pub mod store;

pub mod attempt;
pub mod battery;
pub mod claim;
pub mod hypothesis;
pub mod ledger;
pub mod reference;
pub mod session;
pub mod solution;
pub mod workflow;

pub mod api;
pub mod cli;
pub mod logging;
pub mod serve;
