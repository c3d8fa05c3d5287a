//! Exit codes of `groundingctl` and `groundingd`, documented here and nowhere else.

/// Everything asked for was done, or the daemon is healthy.
pub const OK: u8 = 0;
/// The answer is "no": the gate denies, the daemon is degraded, a tool answered with an error.
pub const NEGATIVE: u8 = 1;
/// The command line itself is wrong.
pub const USAGE: u8 = 2;
/// The daemon is not running, or could not be reached.
pub const DOWN: u8 = 3;
/// The command could not do its work (I/O, a refused directory, an unexpected answer).
pub const FAILED: u8 = 4;
/// `groundingd serve`: another daemon serves already.
pub const BUSY: u8 = 5;
