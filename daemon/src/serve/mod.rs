//! The daemon's life: one instance, its socket, its log, readiness, and an end that is bounded (DESIGN 2, 3, 5, 9).
//!
//! Only the holder of the instance lock touches the socket file, and it removes only its own: one that a service manager made
//! is the manager's. An end loses no request: what was sent before it is answered, and what is sent after it fails before
//! anything of it was read, or waits for the next daemon.

mod activation;
mod error;
mod instance;
mod listener;
mod readiness;
mod run;
mod watchdog;

pub use error::ServeError;
pub use run::serve;

use listener::Listener;
