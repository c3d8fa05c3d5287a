//! The MCP hosts that the server is registered in: where each keeps its servers, and how an entry gets into a text and
//! out of it again.
//!
//! Reading order: `entry` is what all formats share, `json` and `toml` edit a text, `format` chooses between them,
//! `known` knows the hosts. Everything but `known` is pure, and an edit splices the text that is there: what is not the
//! entry stays byte for byte. Nothing here reads or writes a file; `setup` does.

pub mod entry;
pub mod format;
pub mod json;
pub mod known;
pub mod splice;
pub mod toml;
