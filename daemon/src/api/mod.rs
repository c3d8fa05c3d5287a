//! The HTTP API on the Unix socket (DESIGN, HTTP API).
//!
//! A handler extracts, calls one function of a domain module, and maps the result; nothing here knows a rule of a
//! domain, and no domain knows HTTP. Every error becomes a code, a sentence and a request id in `refusal`; its causes go
//! to the log under that id.

pub mod attempts;
pub mod daemon;
pub mod health;
pub mod ledger;
pub mod refusal;
pub mod router;
pub mod sessions;
pub mod tools;

pub use daemon::Daemon;
pub use router::router;
