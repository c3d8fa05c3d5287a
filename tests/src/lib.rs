//! The test environment: a private home, the real binaries, a raw MCP client, the daemon's socket, real repositories.
//!
//! Everything here runs real programs and leaves no process behind. It panics with a sentence instead of returning an
//! error, because a failure here is the failure of the test that asked. It must never use the user's own home, and
//! never the code of the daemon or the shim: they are spoken to from outside alone.
#![expect(clippy::expect_used, reason = "a failure of test support is the failure of the test")]

pub mod binaries;
pub mod contract;
pub mod environment;
pub mod http;
pub mod kill_rounds;
pub mod pipes;
pub mod process;
pub mod repository;
pub mod shim;
pub mod terminal;
pub mod user_manager;
pub mod wait;

pub use environment::TestEnvironment;
pub use pipes::Pipes;
pub use repository::Repository;
pub use shim::{Shim, ToolResult};
pub use terminal::Terminal;
pub use user_manager::UserManager;
pub use wait::wait_for;
