//! The binary `groundingd`: the library does everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundingd::cli::main(grounding_proto::environment::Environment::of_process())
}
