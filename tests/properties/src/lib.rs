//! What must hold whatever bytes arrive: one module per boundary, each with one `check` that panics when it does not.
//!
//! The programs in `fuzz/` feed these with inputs that a fuzzer invents, the tests of this crate with the committed ones
//! in `tests/fixtures/fuzz`. Where it can, a check asks a second, straightforward judgement written here alone. Nothing
//! here starts a program, and files are touched only below a private temporary directory.
#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a failed check is what a panic means here")]

pub mod api;
pub mod attempt_log;
pub mod host;
pub mod marker;
pub mod mcp;
pub mod preflight;
pub mod workflow;

mod folder;
