//! Faults that users of neighbouring software reported: one test each, named after the report in its own words.
//!
//! Each says the repository and the issue where it was told. Reports that another test answers, or that can't happen here,
//! are in the table of ARCHITECTURE.md.

mod children;
mod daemon;
mod git;
mod locks;
mod markers;
mod mcp;
mod original;
mod scanning;
mod sqlite;
