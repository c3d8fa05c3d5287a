//! Attempts: one run of the checks for one id, in a process of its own, that ends in exactly one explicit outcome
//! (SPEC 6, DESIGN 6 to 8).
//!
//! Reading order: `place` (where an id's files are), `log` (what is remembered), `lock` (who may run), `result` (the full
//! answer), `guard`, `guarded` and `run` (the preflight process), `supervisor` (the process that does it all), `table` and
//! `start` (the daemon's side: joining and waiting, starting and adopting), `lookup` (status and result), `answer` (what is
//! answered). Liveness is judged by the lock, never by a process id.

pub mod answer;
pub mod cancel;
pub mod guard;
pub mod guarded;
pub mod lock;
pub mod log;
pub mod lookup;
pub mod place;
pub mod result;
pub mod run;
mod start;
pub mod supervisor;
pub mod table;
