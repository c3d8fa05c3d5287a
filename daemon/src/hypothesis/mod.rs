//! Hypotheses (SPEC 3a): possible causes of a session's problem, kept in one JSON file per session until evidence
//! supports or rejects them.
//!
//! Nothing is cached between calls, so other programs' writes are seen. A file that is no hypothesis store is reported
//! and never overwritten or removed; rows and keys that are not understood stay where they are.

mod store;
mod verbs;

pub use verbs::{HypothesisError, check_done, evidence, list, record, reject, reset, support};
