//! The clients of the grounding daemon: a library that reaches the daemon, and the two programs over it.
//!
//! Reading order: `client` makes one call and decides about retries, `error` says how it fails, `connection` speaks HTTP
//! over the socket, `launch` starts the daemon, `service` asks the user's service manager, `state` knows the files beside the socket. `mcp` is the stdio server
//! `grounding-mcp`, `command` is `groundingctl`. Nothing here stores anything of its own or knows what a tool does.

pub mod client;
pub mod command;
pub mod connection;
pub mod context;
pub mod error;
pub mod launch;
pub mod mcp;
pub mod output;
pub mod process;
pub mod service;
pub mod state;
