//! What the grounding daemon and its clients agree on: the tool catalogue, the arguments and answers of the
//! tools, the HTTP bodies around them, storage roots, the socket path, versions and exit codes.
//!
//! This crate owns every type that is serialized onto the wire. It knows no runtime and does no I/O beyond reading
//! the environment and finding the user's directories (`environment`).

pub mod catalogue;
pub mod claim;
pub mod environment;
pub mod exit;
pub mod hypothesis;
pub mod ledger;
pub mod reference;
pub mod schema;
pub mod session;
pub mod solution;
pub mod text;
pub mod wire;
