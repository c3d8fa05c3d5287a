//! The watchdog of a service manager: it hears from the daemon as long as clients are answered.
//!
//! A ping follows an answer that came over the real socket path from this very process. It looks at nothing else: a ledger in
//! trouble shows in `status`, and a restart would not mend it.

use std::path::Path;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use grounding_proto::environment::Environment;
use grounding_proto::wire::VersionAnswer;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::readiness;
use crate::api::Daemon;

/// Longest answer that is read, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Pings twice within the time after which the manager would take the daemon for dead; ends at once without one that asks.
pub(super) async fn run(daemon: Daemon) {
    let Some(limit) = limit(daemon.environment()) else { return };
    let mut ticks = interval(limit / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(limit / 2, ask(daemon.socket())).await {
            Ok(Ok(())) => readiness::alive(),
            Ok(Err(why)) => tracing::warn!(why, "clients can't be answered: no word to the watchdog"),
            Err(_) => tracing::warn!("clients are not answered in time: no word to the watchdog"),
        }
    }
}

/// Returns after how long without a ping the manager acts; nothing when it asked no ping of this process.
fn limit(environment: &Environment) -> Option<Duration> {
    let number = |name| environment.get(name)?.to_str()?.parse::<u64>().ok();
    let is_ours = match environment.get("WATCHDOG_PID") {
        Some(_) => number("WATCHDOG_PID") == Some(u64::from(std::process::id())),
        None => true,
    };
    number("WATCHDOG_USEC").filter(|limit| is_ours && *limit > 1).map(Duration::from_micros)
}

/// Asks for the version as a client does, and makes sure who answered.
async fn ask(socket: &Path) -> Result<(), String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| format!("can't connect: {error}"))?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| format!("can't speak: {error}"))?;
    let exchange = async {
        let request = hyper::Request::get("/v1/version").header("host", "groundingd").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let body = to_bytes(Body::new(answer.into_body()), MAX_BYTES).await.map_err(|error| error.to_string())?;
        let version: VersionAnswer = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        match version.pid == std::process::id() {
            true => Ok(()),
            false => Err(format!("process {} answers in this one's place", version.pid)),
        }
    };
    // The connection does not outlive the question, whichever ends first.
    tokio::select! {
        answer = exchange => answer,
        _ = connection => Err("the connection ended without an answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_manager_that_asked_this_process_is_pinged() {
        let limit = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            limit(&Environment::of_variables(pairs.collect()))
        };
        let own = std::process::id().to_string();
        let minute = Some(Duration::from_secs(60));
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("WATCHDOG_USEC", "60000000")]), minute);
        assert_eq!(limit(&[("WATCHDOG_USEC", "60000000"), ("WATCHDOG_PID", &own)]), minute);
        assert_eq!(limit(&[("WATCHDOG_USEC", "60000000"), ("WATCHDOG_PID", "1")]), None);
        assert_eq!(limit(&[("WATCHDOG_USEC", "soon")]), None);
        assert_eq!(limit(&[("WATCHDOG_USEC", "0")]), None);
    }
}
