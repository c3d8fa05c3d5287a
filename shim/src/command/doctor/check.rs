//! What one look of `doctor` found, and how looks are kept from holding it up.

use std::time::Duration;

use serde::Serialize;

/// How long a look at files may take; a file system whose server is gone never answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// It works, and may not always.
    Warning,
    /// It does not work.
    Failure,
}

/// One look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was looked at; a name for programs.
    pub(super) check: String,
    /// How it is.
    pub(super) status: Status,
    /// A sentence of what was found.
    pub(super) message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Check {
    pub(super) fn ok(check: &str, message: impl Into<String>) -> Self {
        Self { check: check.to_owned(), status: Status::Ok, message: message.into(), remedy: None }
    }

    pub(super) fn warning(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), Some(remedy.into()));
        Self { check: check.to_owned(), status: Status::Warning, message, remedy }
    }

    pub(super) fn failure(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), Some(remedy.into()));
        Self { check: check.to_owned(), status: Status::Failure, message, remedy }
    }
}

/// Looks at files where that may block, and says so when it does not come to an end.
pub(super) async fn bounded(check: &str, look: impl FnOnce() -> Check + Send + 'static) -> Check {
    bounded_by(PATIENCE, check, look).await
}

async fn bounded_by(limit: Duration, check: &str, look: impl FnOnce() -> Check + Send + 'static) -> Check {
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(look)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => Check::failure(check, format!("the look at it broke off: {error}"), "run doctor again"),
        Err(_) => {
            let message = format!("the file system did not answer within {} s", limit.as_secs());
            Check::failure(check, message, "look whether the server of a network file system is reachable")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_that_blocks_is_a_failure() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let found = bounded_by(Duration::from_millis(50), "socket", move || {
            // Ends with the test.
            let _ = held.recv();
            Check::ok("socket", "")
        });
        let found = found.await;
        assert_eq!((found.status, found.check.as_str()), (Status::Failure, "socket"));
        drop(release);
    }
}
