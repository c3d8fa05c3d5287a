//! One call to the daemon: connect, start it when it is absent, shake hands, and decide about retries (DESIGN 1, 4, 5).
//!
//! A request is sent again when nothing of it was written, when the daemon answered that it drains, and once more when
//! it only reads. In every other case the error says that the outcome is unknown. A client never replaces a daemon.

use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use grounding_proto::catalogue;
use grounding_proto::environment::{Environment, EnvironmentError};
use grounding_proto::wire::{
    ContextRequest, ErrorBody, ErrorCode, HealthAnswer, PROTOCOL, Question, ToolRequest, VersionAnswer,
};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::connection::{Answer, Call, Connection, ExchangeError};
use crate::context;
use crate::error::{ClientError, PATIENCE, chain, look};
use crate::launch;
use crate::service;
use crate::state::{State, failure_memory};

/// How long the daemon may take to answer what it answers at once unless it hangs.
const PROMPT: Duration = Duration::from_secs(10);
/// How long a daemon that was started is waited for before it is started again.
const SETTLING: Duration = Duration::from_secs(1);
/// Time between two looks while it waits.
const PAUSE: Duration = Duration::from_millis(15);
/// Idle connections that are kept, and for how long: a daemon that closes one just when a request is written on it would
/// leave the outcome unknown.
const MAX_IDLE: usize = 4;
const MAX_IDLE_TIME: Duration = Duration::from_secs(5);

/// Whether a client may start the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPolicy {
    /// When it is absent, unless `groundingctl stop` forbids it.
    WhenAbsent,
    /// Never.
    Never,
}

/// Whether a request may be carried out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Harmless,
    Harmful,
}

/// Reaches the daemon of one environment; keeps a few idle connections.
#[derive(Debug)]
pub struct Client {
    environment: Environment,
    start: StartPolicy,
    /// Idle connections, and when they were last used.
    idle: Mutex<Vec<(Instant, Connection)>>,
    /// The last failed start, and until when it is remembered, for when the note on disk can't be written.
    failure: Mutex<Option<(Instant, String)>>,
}

/// What an attempt to connect found.
enum Reached {
    Ready(Connection),
    Draining,
    Absent,
}

impl Client {
    /// Returns a client; nothing is connected or checked yet.
    #[must_use]
    pub fn new(environment: Environment, start: StartPolicy) -> Self {
        Self { environment, start, idle: Mutex::default(), failure: Mutex::default() }
    }

    /// Returns the environment that the client speaks for.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the paths below the state directory.
    ///
    /// # Errors
    /// When there is no state directory.
    pub fn state(&self) -> Result<State, EnvironmentError> {
        State::new(&self.environment)
    }

    /// Calls a tool and returns its answer. A cancelled call ends the waiting, not what the daemon does.
    ///
    /// # Errors
    /// When the daemon can't be reached or answers with an error.
    pub async fn tool(&self, tool: &str, arguments: Value) -> Result<Map<String, Value>, ClientError> {
        let context = context::of_tool(&self.environment, tool)?;
        let read_only = catalogue::tool(tool).is_some_and(|tool| tool.read_only);
        let call = Call {
            method: Method::POST,
            path: format!("/v1/tools/{tool}"),
            body: json(&ToolRequest { arguments, context }),
        };
        self.request(call, if read_only { Repeat::Harmless } else { Repeat::Harmful }, tool).await
    }

    /// Asks the daemon how it is and how this client's ledger is. Speaks to a daemon of any build, and starts none.
    ///
    /// # Errors
    /// When none runs or it can't be asked.
    pub async fn health(&self) -> Result<HealthAnswer, ClientError> {
        let body = ContextRequest { context: context::of_tool(&self.environment, "ledger_status")? };
        self.control(Call { method: Method::POST, path: "/v1/health".into(), body: json(&body) }).await
    }

    /// Asks the daemon for its build. Speaks to a daemon of any build, and starts none.
    ///
    /// # Errors
    /// When none runs or it can't be asked.
    pub async fn version(&self) -> Result<VersionAnswer, ClientError> {
        self.control(get("/v1/version")).await
    }

    /// Asks the daemon to finish what it has and exit. Speaks to a daemon of any build, and starts none.
    ///
    /// # Errors
    /// When none runs or it can't be asked.
    pub async fn drain(&self) -> Result<(), ClientError> {
        let path = "/v1/drain".to_owned();
        let answer = self.control_answer(Call { method: Method::POST, path: path.clone(), body: Bytes::new() }).await?;
        if answer.status.is_success() { Ok(()) } else { Err(refused(&path, &answer)) }
    }

    /// Gets what a path answers as JSON.
    ///
    /// # Errors
    /// When the daemon can't be reached or answers with an error.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(get(path), Repeat::Harmless, path).await
    }

    /// Gets what a path answers as bytes.
    ///
    /// # Errors
    /// When the daemon can't be reached or answers with an error.
    pub async fn get_bytes(&self, path: &str) -> Result<Bytes, ClientError> {
        let answer = self.answer(get(path), Repeat::Harmless, path).await?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(refused(path, &answer)) }
    }

    /// Posts a read-only question with this client's context; a repeated one does no harm.
    ///
    /// # Errors
    /// When the daemon can't be reached or answers with an error.
    pub async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let body = ContextRequest { context: context::of_tool(&self.environment, "")? };
        let call = Call { method: Method::POST, path: path.to_owned(), body: json(&body) };
        self.request(call, Repeat::Harmless, path).await
    }

    /// As `ask`, for a question that asks for something in particular.
    ///
    /// # Errors
    /// As `ask`.
    pub async fn ask_for<Q: Serialize, T: DeserializeOwned>(&self, path: &str, question: Q) -> Result<T, ClientError> {
        let body = Question { context: context::of_tool(&self.environment, "")?, question };
        let call = Call { method: Method::POST, path: path.to_owned(), body: json(&body) };
        self.request(call, Repeat::Harmless, path).await
    }

    /// Posts a request that may be carried out twice without harm, and returns the JSON it answers.
    ///
    /// # Errors
    /// When the daemon can't be reached or answers with an error.
    pub async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let call = Call { method: Method::POST, path: path.to_owned(), body: Bytes::new() };
        self.request(call, Repeat::Harmless, path).await
    }

    /// Connects, starting the daemon if need be; used by `groundingctl start`.
    ///
    /// # Errors
    /// When it does not become available.
    pub async fn connect(&self) -> Result<(), ClientError> {
        let connection = self.connection().await?;
        self.keep(connection);
        Ok(())
    }

    async fn request<T: DeserializeOwned>(&self, call: Call, repeat: Repeat, what: &str) -> Result<T, ClientError> {
        let path = call.path.clone();
        parse(&path, &self.answer(call, repeat, what).await?)
    }

    async fn answer(&self, call: Call, repeat: Repeat, what: &str) -> Result<Answer, ClientError> {
        let deadline = Instant::now() + PATIENCE;
        let mut lost = 0;
        loop {
            let mut connection = match self.take_idle() {
                Some(connection) => connection,
                None => self.connection().await?,
            };
            match connection.exchange(call.clone()).await {
                Ok(answer) if !is_draining(&answer) => {
                    self.keep(connection);
                    return Ok(answer);
                }
                // Nothing was carried out.
                Ok(_) | Err(ExchangeError::NotWritten(_)) => {}
                Err(ExchangeError::Broken(_)) if repeat == Repeat::Harmless && lost == 0 => lost += 1,
                Err(source) => {
                    return Err(ClientError::OutcomeUnknown { what: what.to_owned(), look: look(what), source });
                }
            }
            if Instant::now() >= deadline {
                return Err(ClientError::Unavailable { log: self.state()?.log_file() });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One exchange on a connection of its own, without a handshake and without starting anything.
    async fn control<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let path = call.path.clone();
        parse(&path, &self.control_answer(call).await?)
    }

    async fn control_answer(&self, call: Call) -> Result<Answer, ClientError> {
        let state = self.state()?;
        state.check_run_directory()?;
        let Some(mut connection) = open(&state).await? else {
            return Err(ClientError::NotRunning { socket: state.socket().to_owned() });
        };
        let what = call.path.clone();
        let outcome = promptly(&state, connection.exchange(call)).await?;
        outcome.map_err(|source| ClientError::OutcomeUnknown { look: look(&what), what, source })
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, connection)| connection.is_open() && since.elapsed() < MAX_IDLE_TIME);
        idle.pop().map(|(_, connection)| connection)
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.is_open() && idle.len() < MAX_IDLE {
            idle.push((Instant::now(), connection));
        }
    }

    /// Returns a fresh connection to a daemon that serves, starting one when it is absent.
    async fn connection(&self) -> Result<Connection, ClientError> {
        let state = self.state()?;
        state.check_run_directory()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reached = match reach(&state).await {
                // A manager holds the socket while the daemon that will answer gets ready, or the one before it ends.
                Err(ClientError::Silent { .. }) if service::is_changing(&self.environment).await => Reached::Draining,
                reached => reached?,
            };
            match reached {
                Reached::Ready(connection) => return Ok(connection),
                Reached::Absent if self.start == StartPolicy::Never => {
                    return Err(ClientError::NotRunning { socket: state.socket().to_owned() });
                }
                Reached::Absent => {
                    if let Some(connection) = self.start(&state).await? {
                        return Ok(connection);
                    }
                }
                Reached::Draining => {}
            }
            if Instant::now() >= deadline {
                return Err(ClientError::Unavailable { log: state.log_file() });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Starts the daemon unless another process is at it, and returns a connection when it serves.
    async fn start(&self, state: &State) -> Result<Option<Connection>, ClientError> {
        if state.is_stopped() {
            return Err(ClientError::Stopped);
        }
        if let Some(text) = self.recent_failure(state) {
            return Err(ClientError::StartFailedBefore { text });
        }
        state.create_directories()?;
        let Some(lock) = state.try_start_lock()? else { return Ok(None) };
        // Whoever had the lock before may have started it, or learned that it does not start.
        if let Reached::Ready(connection) = reach(state).await? {
            return Ok(Some(connection));
        }
        if let Some(text) = self.recent_failure(state) {
            return Err(ClientError::StartFailedBefore { text });
        }
        let begun = Instant::now();
        if let Err(error) = launch::start(&self.environment, state).await {
            self.remember_failure(state, &chain(&error), failure_memory(begun.elapsed()));
            return Err(error.into());
        }
        state.forget_failure();
        // Not every manager waits for readiness, and one that saw nothing of a crash yet takes the daemon for alive.
        let deadline = Instant::now() + SETTLING;
        let ready = loop {
            match reach(state).await? {
                Reached::Ready(connection) => break Some(connection),
                _ if Instant::now() >= deadline => break None,
                _ => tokio::time::sleep(PAUSE).await,
            }
        };
        drop(lock);
        Ok(ready)
    }

    fn recent_failure(&self, state: &State) -> Option<String> {
        let own = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = own.filter(|(until, _)| Instant::now() < *until).map(|(_, text)| text);
        state.recent_failure().or(own)
    }

    fn remember_failure(&self, state: &State, text: &str, memory: Duration) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now() + memory, text.to_owned()));
        state.remember_failure(text, memory);
    }
}

fn get(path: &str) -> Call {
    Call { method: Method::GET, path: path.to_owned(), body: Bytes::new() }
}

fn json(body: &impl Serialize) -> Bytes {
    // Only a map with keys that are no strings fails to serialize, and no wire type has one; the daemon refuses an
    // empty body by name.
    serde_json::to_vec(body).unwrap_or_default().into()
}

/// Opens a connection; nothing when no daemon listens.
async fn open(state: &State) -> Result<Option<Connection>, ClientError> {
    match Connection::open(state.socket()).await {
        Ok(connection) => Ok(Some(connection)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
            ) =>
        {
            Ok(None)
        }
        Err(source) => Err(ClientError::Connect { socket: state.socket().to_owned(), source }),
    }
}

/// Opens a connection and shakes hands: after it, the daemon has accepted the connection and speaks our protocol.
async fn reach(state: &State) -> Result<Reached, ClientError> {
    let Some(mut connection) = open(state).await? else { return Ok(Reached::Absent) };
    let Ok(answer) = promptly(state, connection.exchange(get("/v1/version"))).await? else {
        // It ended between accepting and answering.
        return Ok(Reached::Draining);
    };
    if is_draining(&answer) {
        return Ok(Reached::Draining);
    }
    let daemon: VersionAnswer = parse("/v1/version", &answer)?;
    if daemon.draining {
        return Ok(Reached::Draining);
    }
    if !PROTOCOL.overlaps(daemon.protocol) {
        return Err(ClientError::Incompatible { daemon });
    }
    Ok(Reached::Ready(connection))
}

/// Waits for what a daemon that does not hang answers at once.
async fn promptly<F: Future>(state: &State, exchange: F) -> Result<F::Output, ClientError> {
    let silent = |_| ClientError::Silent { socket: state.socket().to_owned(), seconds: PROMPT.as_secs() };
    tokio::time::timeout(PROMPT, exchange).await.map_err(silent)
}

fn is_draining(answer: &Answer) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE
        && serde_json::from_slice::<ErrorBody>(&answer.body).is_ok_and(|body| body.code == ErrorCode::Draining)
}

fn parse<T: DeserializeOwned>(path: &str, answer: &Answer) -> Result<T, ClientError> {
    if !answer.status.is_success() {
        return Err(refused(path, answer));
    }
    serde_json::from_slice(&answer.body).map_err(|source| unexpected(path, answer, source))
}

fn refused(path: &str, answer: &Answer) -> ClientError {
    match serde_json::from_slice(&answer.body) {
        Ok(body) => ClientError::Refused(body),
        Err(source) => unexpected(path, answer, source),
    }
}

fn unexpected(path: &str, answer: &Answer, source: serde_json::Error) -> ClientError {
    ClientError::Unexpected { path: path.to_owned(), status: answer.status.as_u16(), source }
}
