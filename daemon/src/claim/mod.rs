//! The claim gate (SPEC 5): which kind of statement a claim is, what has to be known before it may be made, and what
//! is still missing.
//!
//! Pure functions over the claim and a context; it must never read a file, a ledger or a clock. What a session and its
//! ledger prove is handed in and turned into a context here.

mod detection;
mod policy;

pub use policy::{evaluate, evaluate_from_session};
