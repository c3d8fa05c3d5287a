//! The program `groundingctl`: its command line, and what becomes of a command's outcome.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use grounding_proto::environment::Environment;
use grounding_proto::exit;

use super::failure::CommandError;
use super::{
    attempt, attempts, call, completions, demo, doctor, gate, ledger, logs, man, preflight, restart, session, setup,
    socket_path, start, status, stop, uninstall, verify,
};
use crate::error::chain_of;
use crate::output;

/// This program's name.
pub const NAME: &str = "groundingctl";

/// What the codes of `grounding_proto::exit` mean, for people.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 the answer is no, 2 the command line is wrong, 3 the daemon is not \
running, 4 it could not be done.";

/// Looks after the grounding daemon and asks it.
#[derive(Debug, Parser)]
#[command(name = NAME, version, disable_help_subcommand = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Status),
    Doctor(doctor::Doctor),
    Start(start::Start),
    Stop(stop::Stop),
    Restart(restart::Restart),
    Logs(logs::Logs),
    Call(call::Call),
    Gate(gate::Gate),
    Verify(verify::Verify),
    Preflight(preflight::Preflight),
    Attempts(attempts::Attempts),
    Attempt(attempt::Attempt),
    Session(session::Session),
    Ledger(ledger::Ledger),
    SocketPath(socket_path::SocketPath),
    Completions(completions::Completions),
    Man(man::Man),
    Demo(demo::Demo),
    Setup(setup::Setup),
    Uninstall(uninstall::Uninstall),
}

/// Returns the command line, for what describes it.
pub(super) fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with its arguments, its own name first.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                output::talk(error.render().to_string().trim_end());
                return ExitCode::from(exit::USAGE);
            }
            // Help that can't be printed is not worth an exit code: nobody reads.
            let _ = error.print();
            return ExitCode::from(exit::OK);
        }
    };
    let environment = Environment::of_process();
    environment.settings().1.iter().for_each(|complaint| output::talk(complaint));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::talk(&format!("error: can't set up asynchronous input and output: {error}"));
            return ExitCode::from(exit::FAILED);
        }
    };
    let outcome = runtime.block_on(run(cli.command, environment));
    runtime.shutdown_background();
    ExitCode::from(outcome.unwrap_or_else(|error| report(&error)))
}

async fn run(command: Command, environment: Environment) -> Result<u8, CommandError> {
    match command {
        Command::Status(command) => command.run(environment).await,
        Command::Start(command) => command.run(environment).await,
        Command::Stop(command) => command.run(environment).await,
        Command::Restart(command) => command.run(environment).await,
        Command::Logs(command) => command.run(environment).await,
        Command::Call(command) => command.run(environment).await,
        Command::Gate(command) => command.run(&environment),
        Command::Verify(command) => command.run(&environment),
        Command::Preflight(command) => command.run(&environment),
        Command::Attempts(command) => command.run(environment).await,
        Command::Attempt(command) => command.run(environment).await,
        Command::Session(command) => command.run(environment).await,
        Command::Ledger(command) => command.run(environment).await,
        Command::SocketPath(command) => command.run(&environment),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::Demo(command) => Box::pin(command.run(environment)).await,
        Command::Doctor(command) => Box::pin(command.run(environment)).await,
        Command::Setup(command) => Box::pin(command.run(environment)).await,
        Command::Uninstall(command) => Box::pin(command.run(environment)).await,
    }
}

/// Prints the error, its causes and what to do, and returns the exit code.
fn report(error: &CommandError) -> u8 {
    if matches!(error, CommandError::Output(error) if error.kind() == ErrorKind::BrokenPipe) {
        // The reader, `head` for instance, has seen enough.
        return exit::OK;
    }
    output::talk(&format!("error: {error}"));
    for cause in chain_of(error).skip(1) {
        output::talk(&format!("caused by: {cause}"));
    }
    if let Some(hint) = error.hint() {
        output::talk(&format!("hint: {hint}"));
    }
    error.exit_code()
}
