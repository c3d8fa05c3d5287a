//! Memory references (SPEC 7): is the path, symbol or flag that a memory names really there?
//!
//! Reading order: `verify` bounds and answers one question; `path` resolves a path inside a root; `scan` makes the two
//! passes over a tree, on top of `walk`, `file`, `pattern` and `tracked`; `qualified`, with `nesting`, and `flag` look for
//! what is not written out. A positive answer is something that was read; a negative one is only given when everything
//! was. Nothing here follows a symlink out of the root, blocks on a file that is none, or writes.

mod candidates;
mod code;
mod definition;
mod file;
mod flag;
mod hits;
mod nesting;
mod pass;
mod path;
mod pattern;
mod qualified;
pub mod scan;
mod summary;
#[cfg(test)]
mod tests;
mod tracked;
mod verify;
mod walk;

pub use pattern::Pattern;
pub use verify::verify;
