//! The command line of `groundingd`. People use `groundingctl`; this is what it, clients and the daemon itself start.
//!
//! It owns the verbs, what they print and their exit codes, and the one runtime of a process with its number of threads.
//! It never judges anything itself: each verb is a function of another module. `exec` alone runs without a runtime.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use grounding_proto::environment::Environment;
use grounding_proto::exit;
use grounding_proto::solution::SolutionGateAnswer;
use grounding_proto::text::{printable, printable_json, printable_lines};
use grounding_proto::wire::{OsText, Root};

use crate::attempt::{guard, supervisor};
use crate::battery;
use crate::battery::run::Progress;
use crate::battery::screen::{self, Screen};
use crate::clock::SystemClock;
use crate::error::describe;
use crate::json;
use crate::process::ClientEnvironment;
use crate::serve;
use crate::solution::gate::{self, GateRequest};
use crate::solution::verify::{self, Signature};

#[derive(Debug, Parser)]
#[command(name = "groundingd", version, about = "The per-user daemon of grounding")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve clients on the user's socket.
    Serve,
    /// Run one attempt; the daemon starts it.
    #[command(hide = true)]
    Supervise,
    /// Stand between a supervisor and its preflight; the supervisor starts it.
    #[command(hide = true)]
    Exec {
        /// The program and its arguments.
        #[arg(last = true, required = true, num_args = 1..)]
        command: Vec<OsString>,
    },
    /// Tell whether a solution may be called done, without a daemon.
    Gate(Gate),
    /// Check a repository with the built-in preflight.
    Preflight {
        #[command(subcommand)]
        verb: PreflightVerb,
    },
    /// Tell what stands of a verdict: signature, id, HEAD and working tree, without a daemon.
    ///
    /// Exit code 0: the marker was signed for this id with this key; 1: it was not, or there is none. A verdict that is
    /// not ready or of another commit is told and exits 0 all the same: whether it allows anything is `gate`'s to say.
    Verify(Gate),
}

#[derive(Debug, Subcommand)]
enum PreflightVerb {
    /// Run every check and say whether the repository is ready.
    ///
    /// Exit code 0: ready; 1: not ready; 2: the checks could not be run.
    Run(PreflightRun),
}

#[derive(Debug, clap::Args)]
struct PreflightRun {
    /// The repository; the working directory by default.
    #[arg(default_value = ".")]
    repo: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Gate {
    /// The id that was evaluated.
    id: String,
    /// The repository whose HEAD counts; the working directory by default.
    #[arg(long)]
    repo: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does what the command line asks for.
#[must_use]
pub fn main(environment: Environment) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            complain(error.render().to_string().trim_end());
            return ExitCode::from(exit::USAGE);
        }
        Err(help) => {
            // Help that can't be printed is not worth an exit code: nobody reads.
            let _ = help.print();
            return ExitCode::from(exit::OK);
        }
    };
    match arguments.verb {
        Verb::Exec { command } => match command.split_first() {
            Some((program, arguments)) => guard::exec(program.as_ref(), arguments),
            None => ExitCode::from(exit::USAGE),
        },
        Verb::Serve => with_runtime(Threads::Few, serve::serve(environment)),
        Verb::Supervise => with_runtime(Threads::One, supervisor::supervise(SystemClock::shared())),
        Verb::Gate(arguments) => with_runtime(Threads::One, gate(environment, arguments)),
        Verb::Preflight { verb: PreflightVerb::Run(arguments) } => {
            with_runtime(Threads::Few, preflight(environment, arguments))
        }
        Verb::Verify(arguments) => with_runtime(Threads::One, verify(environment, arguments)),
    }
}

enum Threads {
    One,
    Few,
}

fn with_runtime(threads: Threads, main: impl Future<Output = ExitCode>) -> ExitCode {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Few => tokio::runtime::Builder::new_multi_thread(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match builder.worker_threads(cores.min(4)).enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(main);
            // Blocking work that is left (a stuck scan) does not keep the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            complain(&format!("error: the runtime can't be started: {error}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

async fn gate(environment: Environment, arguments: Gate) -> ExitCode {
    let subject = match Subject::of(&environment, &arguments) {
        Ok(subject) => subject,
        Err(why) => return refuse(&why),
    };
    let answer = gate::gate(subject.request()).await;
    print(&if arguments.json { printable_json(&json::pretty(&answer)) } else { shown(&answer) });
    ExitCode::from(if answer.allowed { exit::OK } else { exit::NEGATIVE })
}

async fn verify(environment: Environment, arguments: Gate) -> ExitCode {
    let subject = match Subject::of(&environment, &arguments) {
        Ok(subject) => subject,
        Err(why) => return refuse(&why),
    };
    let found = verify::verify(subject.request()).await;
    print(&if arguments.json { printable_json(&json::pretty(&found)) } else { found.to_string() });
    ExitCode::from(if found.signature == Signature::Ok { exit::OK } else { exit::NEGATIVE })
}

/// What a verdict is looked at with: the id, and everything the environment leads to.
struct Subject {
    id: String,
    repo_path: PathBuf,
    verdict_dir: OsText,
    signing_key: OsText,
    environment: ClientEnvironment,
}

impl Subject {
    fn of(environment: &Environment, arguments: &Gate) -> Result<Self, String> {
        let roots = environment.roots();
        let repo_path = match &arguments.repo {
            Some(repo) if repo.is_absolute() => repo.clone(),
            repo => {
                let cwd = std::env::current_dir().map_err(|_| "the working directory is gone; name the repository")?;
                repo.as_ref().map_or_else(|| cwd.clone(), |repo| cwd.join(repo))
            }
        };
        Ok(Self {
            id: arguments.id.clone(),
            repo_path,
            verdict_dir: root(roots.verdicts)?,
            signing_key: root(roots.signing_key)?,
            environment: ClientEnvironment::new(environment.variables().iter().cloned()),
        })
    }

    fn request(&self) -> GateRequest<'_> {
        GateRequest {
            id: &self.id,
            repo_path: &self.repo_path,
            verdict_dir: self.verdict_dir.as_path(),
            signing_key: self.signing_key.as_path(),
            environment: &self.environment,
        }
    }
}

/// Prints lines for people, or JSON, without what would steer a terminal.
fn print(text: &str) {
    // A reader that is gone has what it wanted.
    let _ = writeln!(std::io::stdout(), "{}", printable_lines(text));
}

fn refuse(why: &str) -> ExitCode {
    complain(&format!("error: {why}"));
    ExitCode::from(exit::FAILED)
}

async fn preflight(environment: Environment, arguments: PreflightRun) -> ExitCode {
    let screen = Screen::default();
    let report = async {
        let repo = std::path::absolute(&arguments.repo).map_err(|error| error.to_string())?;
        let heard = |progress: Progress<'_>| screen.hear(&progress);
        let clock = SystemClock::shared();
        let run = battery::run::run(&repo, &environment, clock.as_ref(), &heard);
        tokio::select! {
            report = run => report.map_err(|error| describe(&error)),
            () = screen.spin() => Err("the screen ended".to_owned()),
        }
    };
    let report = report.await;
    screen.clear();
    match report {
        Ok(report) => {
            print(&if arguments.json { printable_json(&json::pretty(&report)) } else { screen::summary(&report) });
            ExitCode::from(if report.ready { exit::OK } else { exit::NEGATIVE })
        }
        Err(why) => {
            complain(&format!("error: {why}"));
            // What a preflight says by 2 is not for `exit` to say otherwise.
            ExitCode::from(exit::USAGE)
        }
    }
}

fn shown(answer: &SolutionGateAnswer) -> String {
    let decision = if answer.allowed { "allowed" } else { "denied" };
    let printable = printable(&answer.reason);
    let code = serde_json::to_value(answer.code).unwrap_or_default();
    format!("{decision} ({}): {printable}", code.as_str().unwrap_or_default())
}

fn root(root: Root) -> Result<OsText, String> {
    match root {
        Root::Path(path) => Ok(path),
        Root::Refused(why) => Err(why),
    }
}

fn complain(text: &str) {
    // Nobody may read stderr any more.
    let _ = writeln!(std::io::stderr(), "{}", printable_lines(text));
}
