//! Time as an argument: what a component reads instead of the system's clocks, so that tests need no sleeping.
//!
//! Owns the two clocks and the one way a time is written. Never waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The clocks a component may read.
pub trait Clock: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the wall clock's time; it may jump.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed moment; it never jumps.
    fn monotonic(&self) -> Duration;
}

/// A clock shared by components.
pub type SharedClock = Arc<dyn Clock>;

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    birth: Instant,
}

impl SystemClock {
    /// Returns the system's clocks, ready to share.
    #[must_use]
    pub fn shared() -> SharedClock {
        Arc::new(Self { birth: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.birth.elapsed()
    }
}

/// Writes a time as every file and answer does: UTC, milliseconds, `Z`.
#[must_use]
pub fn iso(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A clock that moves when it is told to.
#[cfg(test)]
pub(crate) mod manual {
    use std::sync::Mutex;

    use super::{Arc, Clock, Duration, Timestamp};

    /// A clock that moves when it is told to.
    #[derive(Debug)]
    pub(crate) struct ManualClock {
        state: Mutex<(Timestamp, Duration)>,
    }

    impl ManualClock {
        pub(crate) fn at(time: &str) -> Arc<Self> {
            let time = time.parse().expect("a test's time parses");
            Arc::new(Self { state: Mutex::new((time, Duration::ZERO)) })
        }

        pub(crate) fn advance(&self, by: Duration) {
            let mut state = self.state.lock().expect("never poisoned");
            state.0 = state.0.checked_add(by).expect("in range");
            state.1 += by;
        }

        /// Moves the wall clock alone, as a user or a network time service does.
        pub(crate) fn set_wall(&self, time: Timestamp) {
            self.state.lock().expect("never poisoned").0 = time;
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            self.state.lock().expect("never poisoned").0
        }

        fn monotonic(&self) -> Duration {
            self.state.lock().expect("never poisoned").1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_decimals_and_a_z() {
        assert_eq!(iso("2026-09-06T10:00:00Z".parse().unwrap()), "2026-09-06T10:00:00.000Z");
        assert_eq!(iso("2026-09-06T12:00:00.1239+02:00".parse().unwrap()), "2026-09-06T10:00:00.123Z");
    }
}
