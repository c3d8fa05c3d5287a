//! The daemon is killed again and again under load: every acknowledged write is there exactly once.

use std::time::{SystemTime, UNIX_EPOCH};

use grounding_proto::environment::Environment;
use grounding_tests::kill_rounds;

/// Rounds without a wish; `GROUNDING_KILL_ROUNDS` wishes for more.
const ROUNDS: usize = 20;

fn number(variable: &str) -> Option<u64> {
    let environment = Environment::of_process();
    let text = environment.get(variable)?.to_str().expect("UTF-8").to_owned();
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

#[test]
fn no_acknowledged_write_is_lost_in_rounds_of_kill_9_under_load() {
    let rounds = number("GROUNDING_KILL_ROUNDS").map_or(ROUNDS, |rounds| usize::try_from(rounds).expect("a count"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    let seed = number("GROUNDING_KILL_SEED").unwrap_or(now.as_secs());
    println!("GROUNDING_KILL_SEED={seed} repeats these moments");
    let figures = kill_rounds::run(rounds, seed);
    println!("{figures:?}");
    assert_eq!((figures.rounds, figures.lost, figures.duplicates), (rounds, 0, 0), "{figures:?}");
    assert!(figures.unknown > 0 || rounds < ROUNDS, "no kill came amid a call: {figures:?}");
}
