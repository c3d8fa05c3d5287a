//! Grounding sessions (SPEC 3): a keyword becomes a plan of phases, tools and guardrails, kept in one JSON file per
//! session and walked phase by phase.
//!
//! Nothing is cached between calls, so other programs' writes are seen. A file that is not a session is reported and
//! never overwritten, and keys that other programs put into one survive. An id from outside is never a path.

mod list;
mod plan;
mod records;

pub use list::{details, list};
pub use records::{SessionError, advance, guardrail_check, load, start};
