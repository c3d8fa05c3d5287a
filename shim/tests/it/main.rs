//! The clients against a daemon of the tests' own: a real socket, a real HTTP server, real processes.

#![expect(clippy::unwrap_used, reason = "a helper that can't go on must fail its test")]

mod client;
mod daemon;
mod mcp;
