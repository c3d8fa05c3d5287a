//! The one place where errors become answers.
//!
//! A client sees a stable code, a sentence with its causes that says what to do, and a request id under which the daemon's
//! log has it too. No domain module knows of any of them.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use grounding_proto::schema::InvalidArguments;
use grounding_proto::wire::{ErrorBody, ErrorCode, MAX_BODY_BYTES};

use crate::attempt::cancel::CancelError;
use crate::attempt::lookup::LookupError;
use crate::error::describe;
use crate::hypothesis::HypothesisError;
use crate::ledger::LedgerError;
use crate::session::SessionError;

/// A request that is not answered with what it asked for.
#[derive(Debug)]
pub struct Refusal {
    code: ErrorCode,
    message: String,
}

impl Refusal {
    /// An argument is not as it must be.
    #[must_use]
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::InvalidArgument, message: message.into() }
    }

    /// The request can't be read.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::InvalidRequest, message: message.into() }
    }

    /// There is no such thing.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::NotFound, message: message.into() }
    }

    /// A file or directory can't be used.
    #[must_use]
    pub fn storage(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::Storage, message: message.into() }
    }

    /// The daemon drains; nothing was executed.
    #[must_use]
    pub fn draining() -> Self {
        let message = "the daemon is being replaced or stopped; nothing was executed, try again".to_owned();
        Self { code: ErrorCode::Draining, message }
    }

    /// Something went wrong that the client can't mend.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::Internal, message: message.into() }
    }

    /// Returns the sentence that is told.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Puts the tool's name in front of the message.
    #[must_use]
    pub fn of_tool(self, tool: &str) -> Self {
        let prefixed = self.message.starts_with(tool);
        let message = if prefixed { self.message } else { format!("{tool}: {}", self.message) };
        Self { message, ..self }
    }
}

impl From<InvalidArguments> for Refusal {
    fn from(error: InvalidArguments) -> Self {
        Self::invalid_argument(error.to_string())
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match &error {
            SessionError::Keyword { .. } => Self::invalid_argument(describe(&error)),
            SessionError::Unknown { .. } => Self::not_found(describe(&error)),
            SessionError::Store(_) => Self::storage(describe(&error)),
        }
    }
}

impl From<HypothesisError> for Refusal {
    fn from(error: HypothesisError) -> Self {
        match &error {
            HypothesisError::Store(_) => Self::storage(describe(&error)),
            HypothesisError::Random(_) => Self::internal(describe(&error)),
        }
    }
}

impl From<LedgerError> for Refusal {
    fn from(error: LedgerError) -> Self {
        match &error {
            LedgerError::Since { .. } => Self::invalid_argument(describe(&error)),
            _ => Self::storage(describe(&error)),
        }
    }
}

impl From<LookupError> for Refusal {
    fn from(error: LookupError) -> Self {
        Self::storage(describe(&error))
    }
}

impl From<CancelError> for Refusal {
    fn from(error: CancelError) -> Self {
        match &error {
            CancelError::NotRunning | CancelError::Foreign => Self::invalid_argument(describe(&error)),
            CancelError::Lock(_) | CancelError::Signal(_) => Self::storage(describe(&error)),
        }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid_request(rejection.body_text())
    }
}

impl From<BytesRejection> for Refusal {
    fn from(rejection: BytesRejection) -> Self {
        let message =
            format!("the request's body can't be read ({}); it may have {MAX_BODY_BYTES} bytes", rejection.body_text());
        Self::invalid_request(message)
    }
}

impl From<tokio::task::JoinError> for Refusal {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal(format!("the daemon could not finish the call: {error}"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        static REQUESTS: AtomicU64 = AtomicU64::new(1);
        let request_id = format!("{}-{}", std::process::id(), REQUESTS.fetch_add(1, Ordering::Relaxed));
        let status = match self.code {
            ErrorCode::InvalidArgument | ErrorCode::InvalidRequest => StatusCode::BAD_REQUEST,
            ErrorCode::NotFound => StatusCode::NOT_FOUND,
            ErrorCode::Draining => StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Storage | ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        match self.code {
            ErrorCode::Storage | ErrorCode::Internal => {
                tracing::error!(request_id, code = ?self.code, message = self.message, "request failed");
            }
            _ => tracing::debug!(request_id, code = ?self.code, "request refused"),
        }
        let draining = self.code == ErrorCode::Draining;
        let body = ErrorBody { code: self.code, message: self.message, request_id };
        let mut response = (status, axum::Json(body)).into_response();
        if draining {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
