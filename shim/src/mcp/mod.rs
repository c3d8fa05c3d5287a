//! `grounding-mcp`: the MCP server on stdio (SPEC 9). It answers what is compiled in and forwards tool calls.
//!
//! Reading order: `run` is the program, `server` the handler, `tools`, `prompts` and `resources` what it lists,
//! `transport` frames messages over the streams of `stdio`, `envelope` finds the id in what can't be parsed. Stdout
//! carries protocol messages alone, and nothing learned from `initialize` is kept.

pub mod envelope;
pub mod prompts;
pub mod resources;
pub mod run;
pub mod server;
pub mod stdio;
pub mod tools;
pub mod transport;
