//! The clients of the grounding daemon: a library that reaches the daemon, and the two programs over it.
//!
//! Reading order: `client` makes one call and decides about retries, `error` says how it fails, `connection` speaks HTTP
//! over the socket, `launch` starts the daemon and `stop` ends it, `service` asks the user's service manager, `state`
//! knows the files beside the socket. `mcp` is the stdio server `grounding-mcp`, `command` is `groundingctl`; `setup`
//! does what two of its commands need, `host` edits the files of hosts for it, and `preflight` knows which checks run.
//! `process`, `store` and `output` are the ways to programs, files and the terminal. Nothing here knows what a tool does.

pub mod client;
pub mod command;
pub mod connection;
pub mod context;
pub mod error;
pub mod host;
pub mod launch;
pub mod mcp;
pub mod output;
pub mod preflight;
pub mod process;
pub mod service;
pub mod setup;
pub mod state;
pub mod stop;
pub mod store;
