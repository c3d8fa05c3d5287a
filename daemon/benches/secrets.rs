//! How fast files are searched for secrets: megabytes a second of source-like text, on one core and on all.
//!
//! `cargo bench -p groundingd --bench secrets` prints both and fails below the floor, which holds for all cores.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use groundingd::battery::secret_rules;

/// Least throughput of all cores, in megabytes a second.
const FLOOR: f64 = 30.0;
/// How long each measurement goes on.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let text = text();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (one, all) = (throughput(&text, 1), throughput(&text, cores));
    // Nobody may read stdout any more.
    let _ = writeln!(std::io::stdout(), "secrets: {one:.0} MB/s on one core, {all:.0} MB/s on {cores}");
    if all < FLOOR { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Our own sources, again and again, with a token and a few words of the rules among them: 4 MB.
fn text() -> Vec<u8> {
    let sources = [
        include_str!("../src/battery/secret_rules.rs"),
        include_str!("../src/battery/run.rs"),
        include_str!("../src/battery/configuration.rs"),
        include_str!("../src/process.rs"),
        include_str!("../../Cargo.lock"),
    ];
    let token = format!("token = \"{}{}\"\n", "ghp_", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    let piece = sources.join("\n") + &token;
    piece.repeat(4_000_000 / piece.len() + 1).into_bytes()
}

#[expect(clippy::cast_precision_loss, reason = "a throughput has few digits")]
fn throughput(text: &[u8], threads: usize) -> f64 {
    let started = Instant::now();
    let rounds: usize = std::thread::scope(|scope| {
        let scan = || {
            let mut rounds = 0;
            while started.elapsed() < LONG_ENOUGH {
                assert!(!secret_rules::scan(text).is_empty(), "the token is found");
                rounds += 1;
            }
            rounds
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(scan)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    (rounds * text.len()) as f64 / 1e6 / started.elapsed().as_secs_f64()
}
