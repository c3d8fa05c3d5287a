//! `groundingctl`: one file per command. Data on stdout, talk on stderr, exit codes of `grounding_proto::exit`.
//!
//! Reading order: `cli` is the program, `failure` how it fails, `wait` how it waits, `interrupt` how it ends
//! early, `table` and `when` how it says things; then the commands by name. A command that works without a daemon runs the daemon's executable and links none of its code.

pub mod cli;
pub mod failure;
pub mod interrupt;
pub mod table;
pub mod wait;
pub mod when;

pub mod attempt;
pub mod attempts;
pub mod call;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod gate;
pub mod ledger;
pub mod logs;
pub mod man;
pub mod preflight;
pub mod restart;
pub mod session;
pub mod setup;
pub mod socket_path;
pub mod start;
pub mod status;
pub mod stop;
pub mod uninstall;
pub mod verify;
