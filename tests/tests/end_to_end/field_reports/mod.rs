//! Faults that users of neighbouring software reported: one test each, named after the report in its own words.
//!
//! The number is the report's in our list; the name behind it is the repository and issue where it was told. Reports that
//! an older test answers, or that can't happen here, stand in ARCHITECTURE.md.

mod daemon;
mod locks;
mod mcp;
mod sqlite;
