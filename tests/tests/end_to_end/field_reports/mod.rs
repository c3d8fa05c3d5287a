//! Faults that users of neighbouring programs reported, and what ours does instead: one test for each, in their words.
//!
//! Each says the report's number and its issue. Reports that another test answers, or that can't happen here, are in the
//! table of ARCHITECTURE.md.

mod children;
mod git;
mod markers;
mod original;
mod scanning;
