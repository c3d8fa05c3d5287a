//! The one way to wait: for a condition, bounded, with the last state in the failure.

use std::time::{Duration, Instant};

/// How long anything is waited for before the test fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

const BETWEEN_PROBES: Duration = Duration::from_millis(5);

/// Probes until the answer is `Ok` and returns what it holds; an `Err` says what was seen instead.
///
/// # Panics
/// After [`DEADLINE`], with the last state seen.
pub fn wait_for<T>(condition: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match probe() {
            Ok(value) => return value,
            Err(state) if started.elapsed() > DEADLINE => {
                panic!("waited {DEADLINE:?} for {condition}; last seen: {state}")
            }
            Err(_) => std::thread::sleep(BETWEEN_PROBES),
        }
    }
}
