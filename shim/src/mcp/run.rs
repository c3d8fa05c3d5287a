//! The program `grounding-mcp`: its command line, its runtime, and its end.
//!
//! It ends with its input, at once when nothing is under way; calls in flight get a moment to be answered, and whatever
//! they started goes on in the daemon.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use grounding_proto::environment::Environment;
use grounding_proto::exit;
use rmcp::service::serve_directly;
use tokio_util::sync::CancellationToken;

use super::server::Server;
use super::stdio;
use super::transport::LineTransport;
use crate::client::{Client, StartPolicy};
use crate::context::VERSION;
use crate::output;

/// How long calls in flight may still be answered after the input ended.
const GRACE: Duration = Duration::from_millis(250);

const USAGE: &str = "\
usage: grounding-mcp [--version]

An MCP server on stdin and stdout; a host starts it without arguments. It forwards tool calls to the daemon groundingd
and starts that when needed.";

/// Runs the program with its arguments (without its own name).
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.collect();
    let words: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    // What can't be printed is not worth an exit code: nobody reads.
    match words.as_slice() {
        [] if arguments.is_empty() => match serve(Environment::of_process()) {
            Ok(()) => ExitCode::from(exit::OK),
            Err(error) => {
                output::talk(&format!("error: can't set up asynchronous input and output: {error}"));
                ExitCode::from(exit::FAILED)
            }
        },
        ["--version" | "-v" | "-V"] => {
            // A reader that is gone has what it wanted.
            let _ = output::line(&format!("grounding-mcp {VERSION}"));
            ExitCode::from(exit::OK)
        }
        ["--help" | "-h"] => {
            // As above.
            let _ = output::line(USAGE);
            ExitCode::from(exit::OK)
        }
        _ => {
            let given: Vec<_> = arguments.iter().map(|argument| argument.display().to_string()).collect();
            output::talk(&format!("error: unexpected arguments: {}\n\n{USAGE}", given.join(" ")));
            ExitCode::from(exit::USAGE)
        }
    }
}

fn serve(environment: Environment) -> io::Result<()> {
    let (settings, complaints) = environment.settings();
    complaints.iter().for_each(|complaint| output::talk(complaint));
    let server = Server::new(Client::new(environment, StartPolicy::WhenAbsent), settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ended = CancellationToken::new();
        let transport = LineTransport::new(stdio::input(), stdio::output(), ended.clone());
        // No opening is demanded: each request of either protocol era stands for itself.
        let running = serve_directly(server, transport, None);
        let grace = async {
            ended.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            _ = running.waiting() => {}
            () = grace => {}
        }
    });
    // A blocking read of stdin can't be cancelled and must not be waited for.
    runtime.shutdown_background();
    Ok(())
}
