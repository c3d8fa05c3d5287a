//! The built-in preflight (SPEC-battery): checks a repository and says in one report whether it is ready.
//!
//! Reading order: `run` (one evaluation from configuration to report), `configuration` (`.preflight.json`), `report`
//! (what is answered, and the arithmetic), `project` (what a directory holds), `step` and `command` (a shell command,
//! planned and run), then one file per kind of check; `screen` shows it. Nothing here writes inside the repository.

pub mod report;
pub mod run;
pub mod screen;

pub mod command;
pub mod configuration;
pub mod files;
pub mod glob;
pub mod logs;
pub mod project;
pub mod read;
pub mod step;

pub mod audit;
pub mod commit_convention;
pub mod custom;
pub mod git_state;
pub mod lint;
pub mod secret_detection;
pub mod secret_rules;
pub mod tdd;
pub mod test;
pub mod typecheck;
