//! Latencies under a steady load beside those of one client alone, tool by tool.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use grounding_tests::{Pipes, TestEnvironment};

use crate::agent::{Agent, Outcome, STEADY, pace, repository};

/// How many times its median alone a tool may take in 99 of 100 calls under load.
const FACTOR: f64 = 10.0;

/// The times of each tool, sorted.
type Times = BTreeMap<&'static str, Vec<Duration>>;

/// Measures one client alone and then all of them; returns the promises that were broken.
pub(crate) fn run(clients: u32, rate: u32, length: Duration) -> Vec<String> {
    let (alone, _) = measure(1, rate, length);
    let (loaded, held) = measure(clients, rate, length);
    println!("{clients} clients, {rate} calls a second each, {} s: {held:.0} calls a second held", length.as_secs());
    println!("{:<30} {:>12} {:>12} {:>12} {:>8}", "", "alone p50", "load p50", "load p99", "ratio");
    let mut broken = Vec::new();
    let mut worst: f64 = 0.0;
    for tool in STEADY {
        let (alone, loaded) = (&alone[tool], &loaded[tool]);
        let (idle, median, late) = (at(alone, 0.5), at(loaded, 0.5), at(loaded, 0.99));
        let ratio = late.as_secs_f64() / idle.as_secs_f64();
        worst = worst.max(ratio);
        println!("{tool:<30} {:>12} {:>12} {:>12} {ratio:>8.1}", millis(idle), millis(median), millis(late));
        if ratio > FACTOR {
            broken.push(format!("{tool}: p99 under load is {ratio:.1} times its median alone; at most {FACTOR}"));
        }
    }
    println!("worst ratio {worst:.1} (at most {FACTOR})");
    let wanted = f64::from(clients * rate);
    if held < wanted * 0.98 {
        broken.push(format!("{held:.0} calls a second were held, not {wanted:.0}"));
    }
    broken
}

/// Runs the clients for that long; returns the times of each tool and the calls in a second.
fn measure(clients: u32, rate: u32, length: Duration) -> (Times, f64) {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    let period = Duration::from_secs(1) / rate;
    // Before the clock runs, every client has its connection and every file its first version.
    let mut agents: Vec<_> = (0..clients)
        .map(|number| {
            let repository = repository(&environment, number);
            let mut agent = Agent::new(format!("agent-{number}"), repository.text().to_owned());
            let mut shim = Pipes::open(&environment);
            for tool in STEADY.into_iter().chain(["solution_evaluate"]) {
                timed(&mut agent, &mut shim, tool);
            }
            (agent, shim)
        })
        .collect();
    let begin = Instant::now() + Duration::from_millis(50);
    let calls = |agent: &mut Agent, shim: &mut Pipes, number: u32| {
        let mut times = Vec::new();
        // Spread over the period, and each at another tool.
        let mut due = begin + period * number / clients;
        for tool in STEADY.iter().cycle().skip(number as usize % STEADY.len()) {
            due = pace(due, period);
            if begin.elapsed() >= length {
                return times;
            }
            times.push((*tool, timed(agent, shim, tool)));
        }
        times
    };
    let calls = &calls;
    let times: Vec<(&str, Duration)> = std::thread::scope(|scope| {
        let threads: Vec<_> = agents
            .iter_mut()
            .zip(0..)
            .map(|((agent, shim), number)| scope.spawn(move || calls(agent, shim, number)))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a client's calls are answered")).collect()
    });
    #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
    let held = times.len() as f64 / begin.elapsed().as_secs_f64().min(length.as_secs_f64());
    let mut sorted = Times::new();
    for (tool, time) in times {
        sorted.entry(tool).or_default().push(time);
    }
    sorted.values_mut().for_each(|times| times.sort_unstable());
    (sorted, held)
}

fn timed(agent: &mut Agent, shim: &mut Pipes, tool: &str) -> Duration {
    let arguments = agent.arguments(tool);
    let started = Instant::now();
    let line = shim.tool(tool, &arguments);
    let time = started.elapsed();
    assert_eq!(agent.take(tool, &arguments, &line), Outcome::Answered, "{tool}: {line}");
    time
}

/// Returns the time below which that part of all times lies.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index of a list"
)]
fn at(times: &[Duration], part: f64) -> Duration {
    times[((times.len() - 1) as f64 * part).round() as usize]
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}
