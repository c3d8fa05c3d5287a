//! What the parts cost, measured on the release binaries in one run: medians, 95th percentiles, ratios, and the targets.
//!
//! `cargo build --release --workspace && cargo bench -p grounding-tests`. It reports and never fails: a number that
//! misses its target is printed as short.
#![expect(clippy::expect_used, reason = "a benchmark that can't run has nothing to report")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::time::{Duration, Instant};

use grounding_tests::http::{Connection, context};
use grounding_tests::process::proportional_memory;
use grounding_tests::{Pipes, TestEnvironment};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::runtime::Runtime;

const SPAWNS: usize = 60;
const ADDS: usize = 500;
const CLIENTS: usize = 16;
const ADDS_PER_CLIENT: usize = 50;
const ROUNDS: usize = 7;
const SUMMARIES: usize = 100;
const CLAIMS: usize = 2000;

const INSERT: &str = "INSERT INTO entries (type, content, source, confidence, session) VALUES ('fact', ?, NULL, 'medium', 's') RETURNING id";
const TABLE: &str = "CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, content TEXT NOT NULL, \
     source TEXT, confidence TEXT NOT NULL DEFAULT 'medium', session TEXT NOT NULL DEFAULT 'default', \
     created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')))";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let environment = TestEnvironment::new();
    let table = [
        spawn(&environment),
        ledger_add(&environment, &runtime),
        clients_at_once(&environment, &runtime),
        ledger_summary(&environment),
        claim_evaluate(&environment),
        memory(&environment),
    ];
    println!("{:<46} {:>12} {:>12} {:>8} {:>14}  ", "", "median", "p95", "ratio", "target");
    for row in table.iter().flatten() {
        println!("{row}");
    }
}

/// One line of the table.
struct Row {
    name: &'static str,
    median: String,
    p95: String,
    ratio: Option<f64>,
    target: Option<(String, bool)>,
}

impl Row {
    fn of_times(name: &'static str, times: &Times) -> Self {
        Self { name, median: millis(times.at(0.5)), p95: millis(times.at(0.95)), ratio: None, target: None }
    }

    fn at_most(self, limit: Duration, actual: Duration) -> Self {
        Self { target: Some((format!("<= {}", millis(limit)), actual <= limit)), ..self }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let (target, met) =
            self.target.as_ref().map_or(("", ""), |(target, met)| (target.as_str(), if *met { "ok" } else { "short" }));
        let Self { name, median, p95, .. } = self;
        write!(formatter, "{name:<46} {median:>12} {p95:>12} {ratio:>8} {target:>14}  {met}")
    }
}

/// Measured times, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time below which that part of all times lies.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of a short list"
    )]
    fn at(&self, part: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * part).round() as usize]
    }
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let value = work();
    (started.elapsed(), value)
}

fn opened(environment: &TestEnvironment) -> Pipes {
    let mut shim = Pipes::open(environment);
    shim.call("ledger_status", &json!({}));
    shim
}

fn spawn(environment: &TestEnvironment) -> Vec<Row> {
    let runs = (0..SPAWNS).map(|_| {
        let started = Instant::now();
        let mut shim = Pipes::spawn(environment);
        shim.initialize();
        let initialized = started.elapsed();
        shim.request("tools/list", &json!({}));
        (initialized, started.elapsed())
    });
    let (initialized, listed): (Vec<_>, Vec<_>) = runs.unzip();
    let (initialized, listed) = (Times::new(initialized), Times::new(listed));
    vec![
        Row::of_times("spawn to initialize answer", &initialized)
            .at_most(Duration::from_millis(10), initialized.at(0.5)),
        Row::of_times("spawn to tools/list answer", &listed).at_most(Duration::from_millis(12), listed.at(0.5)),
    ]
}

async fn bare_database(environment: &TestEnvironment) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(environment.path("bare.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let mut connection = options.connect().await.expect("a new database");
    sqlx::query(TABLE).execute(&mut connection).await.expect("a table");
    connection
}

fn ledger_add(environment: &TestEnvironment, runtime: &Runtime) -> Vec<Row> {
    let mut shim = opened(environment);
    let mut database = runtime.block_on(bare_database(environment));
    let mut through_shim = Vec::new();
    let mut bare = Vec::new();
    for number in 0..ADDS {
        let content = format!("An observation of a usual length, number {number}, with what was seen and where.");
        let arguments = json!({ "sessionId": "s", "type": "fact", "content": content });
        through_shim.push(timed(|| shim.call("ledger_add", &arguments)).0);
        let insert = async { sqlx::query(INSERT).bind(&content).fetch_one(&mut database).await.expect("inserted") };
        bare.push(timed(|| runtime.block_on(insert)).0);
    }
    runtime.block_on(database.close()).expect("the database closes");
    let (through_shim, bare) = (Times::new(through_shim), Times::new(bare));
    let ratio = through_shim.at(0.5).as_secs_f64() / bare.at(0.5).as_secs_f64();
    vec![
        Row::of_times("bare durable SQLite insert", &bare),
        Row {
            ratio: Some(ratio),
            target: Some(("<= 1.60".into(), ratio <= 1.6)),
            ..Row::of_times("ledger_add through the shim, to the insert", &through_shim)
        },
    ]
}

/// Returns the time until `clients` connections, all at once, have added their entries.
fn add_at_once(environment: &TestEnvironment, runtime: &Runtime, clients: usize) -> Duration {
    let context = context(environment);
    let socket = environment.socket();
    runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..clients {
            connections.push(Connection::open(&socket).await);
        }
        let started = Instant::now();
        let tasks = connections.into_iter().map(|mut connection| {
            let context = context.clone();
            tokio::spawn(async move {
                for _ in 0..ADDS_PER_CLIENT {
                    let arguments = json!({ "sessionId": "many", "type": "fact", "content": "An observation." });
                    let (status, answer) = connection.call("ledger_add", arguments, &context).await;
                    assert!(status.is_success(), "{answer}");
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("a client's calls");
        }
        started.elapsed()
    })
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn clients_at_once(environment: &TestEnvironment, runtime: &Runtime) -> Vec<Row> {
    let _shim = opened(environment);
    let mut one = Vec::new();
    let mut many = Vec::new();
    for _ in 0..ROUNDS {
        one.push(add_at_once(environment, runtime, 1));
        many.push(add_at_once(environment, runtime, CLIENTS));
    }
    let (one, many) = (Times::new(one), Times::new(many));
    let rate = |clients: usize, time: Duration| (clients * ADDS_PER_CLIENT) as f64 / time.as_secs_f64();
    let row = |name, clients, times: &Times| Row {
        name,
        median: format!("{:.0} /s", rate(clients, times.at(0.5))),
        p95: format!("{:.0} /s", rate(clients, times.at(0.95))),
        ratio: None,
        target: None,
    };
    let ratio = rate(CLIENTS, many.at(0.5)) / rate(1, one.at(0.5));
    vec![
        row("ledger_add on the socket, 1 client", 1, &one),
        Row {
            ratio: Some(ratio),
            target: Some((">= 4.00".into(), ratio >= 4.0)),
            ..row("ledger_add on the socket, 16 clients at once", CLIENTS, &many)
        },
    ]
}

fn ledger_summary(environment: &TestEnvironment) -> Vec<Row> {
    let mut shim = opened(environment);
    for number in 0..1000 {
        let content = format!("An observation of a usual length, number {number}, with what was seen and where.");
        shim.call("ledger_add", &json!({ "sessionId": "summary", "type": "fact", "content": content }));
    }
    let arguments = json!({ "sessionId": "summary", "limit": 1000 });
    let times = Times::new((0..SUMMARIES).map(|_| timed(|| shim.call("ledger_summary", &arguments)).0).collect());
    vec![Row::of_times("ledger_summary of 1,000 entries", &times)]
}

fn claim_evaluate(environment: &TestEnvironment) -> Vec<Row> {
    let mut shim = opened(environment);
    let arguments = json!({ "claim": "The root cause is an expired token" });
    let times = Times::new((0..CLAIMS).map(|_| timed(|| shim.call("claim_evaluate", &arguments)).0).collect());
    let limit = Duration::from_micros(250);
    vec![Row::of_times("claim_evaluate through the shim", &times).at_most(limit, times.at(0.5))]
}

/// Memory after a few calls, in a home of its own: what every session and every user pays.
fn memory(environment: &TestEnvironment) -> Vec<Row> {
    let fresh = TestEnvironment::new();
    let mut shim = opened(&fresh);
    shim.request("tools/list", &json!({}));
    shim.call("ledger_add", &json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    shim.call("claim_evaluate", &json!({ "claim": "Something is so" }));
    let row = |name, pid, limit: u64| {
        let memory = proportional_memory(pid);
        let target = memory.map(|memory| (format!("< {limit} MB"), memory < limit * 1_000_000));
        Row {
            name,
            median: memory.map_or_else(|| "unknown".into(), megabytes),
            p95: String::new(),
            ratio: None,
            target,
        }
    };
    vec![
        row("memory of an idle shim (PSS)", shim.pid(), 6),
        row("memory of an idle daemon (PSS)", fresh.daemon(), 20),
        Row { target: None, ..row("memory of the daemon after all of the above", environment.daemon(), 20) },
    ]
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
