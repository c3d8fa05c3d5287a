//! Waiting with something to look at: on a terminal, a line with the time that went by.

use std::time::Duration;

use tokio::time::{Instant, interval};

use crate::output;

const FRAMES: [char; 4] = ['|', '/', '-', '\\'];
const FRAME: Duration = Duration::from_millis(120);
/// Waits shorter than this show nothing.
const UNNOTICED: Duration = Duration::from_millis(400);

/// Waits for the future, showing the text and the elapsed time on a terminal.
pub async fn shown<F: Future>(text: &str, future: F) -> F::Output {
    let started = Instant::now();
    let mut future = std::pin::pin!(future);
    let mut frames = interval(FRAME);
    let mut drawn = FRAMES.iter().cycle();
    loop {
        tokio::select! {
            biased;
            outcome = &mut future => {
                output::progress("");
                return outcome;
            }
            _ = frames.tick() => {}
        }
        if started.elapsed() >= UNNOTICED
            && let Some(frame) = drawn.next()
        {
            output::progress(&format!("{frame} {text} ({} s)", started.elapsed().as_secs()));
        }
    }
}
