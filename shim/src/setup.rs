//! Setting a user up, and undoing it: the programs, the service, the hosts, and a record of what was done to them.
//!
//! Reading order: `plan` finds out what is to be done and says it, `carry_out` does it; `removal` and `remove` do the
//! same for the way back. `programs`, `registration`, `service` and `data` (with `ownership`) know one subject each; `record` is what the
//! way back goes by, `files` changes files. What holds already is no change, so a second set-up writes nothing. A host's
//! file that can't be edited is refused by name, and the rest goes on.

pub mod carry_out;
pub mod data;
pub mod error;
pub mod files;
mod ownership;
pub mod plan;
pub mod programs;
pub mod record;
pub mod registration;
pub mod removal;
pub mod remove;
pub mod service;
