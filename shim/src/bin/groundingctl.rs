//! The command line of grounding.

use std::process::ExitCode;

fn main() -> ExitCode {
    grounding_shim::command::cli::main(std::env::args_os())
}
