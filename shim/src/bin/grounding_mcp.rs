//! The MCP server on stdio.

use std::process::ExitCode;

fn main() -> ExitCode {
    grounding_shim::mcp::run::main(std::env::args_os().skip(1))
}
