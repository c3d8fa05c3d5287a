//! The evidence ledger (SPEC 4): one SQLite file, shared with other programs that open it.
//!
//! The only place that knows SQL. An answered add is on disk; concurrent adds share one commit. The file is never
//! deleted and never made anew over another one; what can't be opened is reported by name and left as it is.
//!
//! Reading order: `ledgers` hands out open ledgers, `open` makes one usable, `writer` adds, `reader` answers, `check`
//! reads the whole file.

mod check;
mod entry;
mod error;
mod ledgers;
mod open;
mod reader;
mod schema;
mod since;
#[cfg(test)]
mod tests;
mod writer;

pub use error::LedgerError;
pub use ledgers::Ledgers;
pub use reader::Evidence;
