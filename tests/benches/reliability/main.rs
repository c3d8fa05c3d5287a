//! Whether the promises hold under load, faults and time, with the figures that the README states.
//!
//! `cargo bench -p grounding-tests --bench reliability -- load`, or `soak --seconds 1800`; `tests/reliability` runs
//! all of it. Unlike the other benchmarks it fails when a promise is broken: it then prints what it saw and ends with 1.
#![expect(clippy::expect_used, reason = "a measurement that can't be made has nothing to report")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod agent;
mod load;
mod observe;
mod soak;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use grounding_tests::kill_rounds;

#[derive(Debug, Parser)]
struct Arguments {
    /// Handed on by cargo.
    #[arg(long, hide = true, global = true)]
    bench: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Every tool that neither scans nor runs checks, by many clients at a steady rate, beside one client alone.
    Load {
        /// How many clients.
        #[arg(long, default_value_t = 20)]
        clients: u32,
        /// How many calls each makes in a second.
        #[arg(long, default_value_t = 20)]
        rate: u32,
        /// How long the load is held; the one client alone takes as long.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Writers under load, and a kill -9 of the daemon in each round; then every write is counted.
    Kill {
        /// How many rounds.
        #[arg(long, default_value_t = 200)]
        rounds: usize,
    },
    /// All tools, attempts, restarts and killed daemons, and another program that writes the ledger; then the accounts.
    Soak {
        /// How many clients.
        #[arg(long, default_value_t = 20)]
        clients: u32,
        /// How long; the daemon is restarted and killed in the first half only.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    let Arguments { what, .. } = Arguments::parse();
    let broken = match what {
        What::Load { clients, rate, seconds } => load::run(clients, rate, Duration::from_secs(seconds)),
        What::Kill { rounds } => kill(rounds),
        What::Soak { clients, seconds } => soak::run(clients, Duration::from_secs(seconds)),
    };
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Kills the daemon once a round; returns the promises that were broken.
fn kill(rounds: usize) -> Vec<String> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let figures = kill_rounds::run(rounds, seed);
    println!(
        "{} rounds of kill -9 under load: {} writes acknowledged, {} lost, {} twice; {} of unknown outcome",
        figures.rounds, figures.acknowledged, figures.lost, figures.duplicates, figures.unknown
    );
    let broken = figures.lost + figures.duplicates > 0;
    broken
        .then(|| format!("{} writes were lost and {} are there twice", figures.lost, figures.duplicates))
        .into_iter()
        .collect()
}
