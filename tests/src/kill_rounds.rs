//! Rounds of load with a kill -9 of the daemon in each, and the count of what was promised and what is there afterwards.
//!
//! Writers speak through shims of their own, with several calls in flight, and start the daemon again by calling on. A
//! write is acknowledged, refused, or of unknown outcome; one of unknown outcome is sent once more, as a client might do. So
//! a content that was acknowledged a times, of unknown outcome u times, is to be there at least a and at most a + u
//! times. The moment of the kill is a number of answers, drawn anew each round: nothing here waits for time to go by.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use crate::http::block_on;
use crate::{Shim, TestEnvironment, process, wait_for};

/// Writers at once.
const WRITERS: usize = 4;
/// Calls that each writer has in flight.
const WINDOW: usize = 4;
/// New writes of each writer in one round.
const WRITES: usize = 40;

/// The ledger session of all writers.
const SESSION: &str = "kill";

/// What a write adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Store {
    Ledger,
    Sessions,
    Hypotheses,
}

/// How often a content was promised.
#[derive(Debug, Clone, Copy, Default)]
struct Promised {
    acknowledged: usize,
    unknown: usize,
}

/// What was written and promised so far, and what was found of it.
#[derive(Debug, Default)]
pub struct KillRounds {
    promised: BTreeMap<(Store, String), Promised>,
    figures: Figures,
    seed: u64,
}

/// The figures of all rounds so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Rounds, with one kill each.
    pub rounds: usize,
    /// Writes that were acknowledged.
    pub acknowledged: usize,
    /// Writes of unknown outcome.
    pub unknown: usize,
    /// Those of them that turned out to have been carried out.
    pub unknown_carried_out: usize,
    /// Acknowledged writes that are not there.
    pub lost: usize,
    /// Writes that are there more often than they were sent with an outcome that allows it.
    pub duplicates: usize,
}

impl KillRounds {
    /// Returns rounds whose kills come at moments that follow from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Writes under load, kills the daemon in the midst of it, goes on writing, and counts.
    ///
    /// # Panics
    /// When a call fails otherwise than with an unknown outcome, or the ledger's file is not sound.
    pub fn round(&mut self, environment: &TestEnvironment) {
        let round = self.figures.rounds;
        let mut shims: Vec<_> = (0..WRITERS).map(|_| environment.shim()).collect();
        for shim in &mut shims {
            shim.answer("ledger_status", json!({}));
        }
        let daemon = environment.daemon();
        let all = WRITERS * WRITES;
        // Neither before the first answer nor after the last: the daemon dies amid calls.
        let moment = 1 + usize::try_from(self.random()).unwrap_or_default() % (all * 3 / 4);
        let answers = AtomicUsize::new(0);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let answers = &answers;
            let writers = shims.into_iter().enumerate().map(|(writer, shim)| {
                let after_answer = move || {
                    if answers.fetch_add(1, Ordering::Relaxed) + 1 == moment {
                        process::kill(daemon);
                    }
                };
                scope.spawn(move || Writer { shim, round, writer }.write(after_answer))
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().flat_map(|writer| writer.join().expect("a writer ends")).collect()
        });
        for (store, content, outcome) in outcomes {
            let promised = self.promised.entry((store, content)).or_default();
            match outcome {
                Outcome::Acknowledged => promised.acknowledged += 1,
                Outcome::Unknown => promised.unknown += 1,
            }
        }
        assert_ne!(environment.daemon(), daemon, "the daemon that was killed serves on");
        self.figures.rounds += 1;
        self.count(environment);
    }

    /// Compares everything that was ever promised with everything that is there.
    fn count(&mut self, environment: &TestEnvironment) {
        let found = found(environment);
        let mut figures = Figures { rounds: self.figures.rounds, ..Figures::default() };
        for (key, promised) in &self.promised {
            let there = found.get(key).copied().unwrap_or_default();
            figures.acknowledged += promised.acknowledged;
            figures.unknown += promised.unknown;
            figures.lost += promised.acknowledged.saturating_sub(there);
            figures.unknown_carried_out += there.saturating_sub(promised.acknowledged).min(promised.unknown);
            figures.duplicates += there.saturating_sub(promised.acknowledged + promised.unknown);
        }
        // What nobody sent can't be there.
        figures.duplicates += found.keys().filter(|key| !self.promised.contains_key(*key)).count();
        self.figures = figures;
    }

    /// Returns the next number of the sequence (SplitMix64).
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> 1
    }
}

enum Outcome {
    Acknowledged,
    Unknown,
}

struct Writer {
    shim: Shim,
    round: usize,
    writer: usize,
}

impl Writer {
    /// Sends all writes, `WINDOW` at once, and each of unknown outcome once more.
    fn write(mut self, after_answer: impl Fn()) -> Vec<(Store, String, Outcome)> {
        let mut waiting: Vec<_> = (0..WRITES).rev().map(|number| self.new_write(number)).collect();
        let mut in_flight = BTreeMap::new();
        let mut outcomes = Vec::new();
        loop {
            while in_flight.len() < WINDOW
                && let Some((store, content)) = waiting.pop()
            {
                let request = self.send(store, &content);
                in_flight.insert(request, (store, content));
            }
            if in_flight.is_empty() {
                return outcomes;
            }
            let response = self.shim.any_response();
            let id = response["id"].as_i64().expect("an id");
            let (store, content) = in_flight.remove(&id).expect("a request of this writer");
            if response["result"]["isError"] == true {
                let text = response["result"]["content"][0]["text"].as_str().unwrap_or_default();
                assert!(text.contains("whether it was carried out is not known"), "{content}: {text}");
                waiting.push((store, content.clone()));
                outcomes.push((store, content, Outcome::Unknown));
            } else {
                assert!(response["result"]["structuredContent"].is_object(), "{content}: {response}");
                outcomes.push((store, content, Outcome::Acknowledged));
            }
            after_answer();
        }
    }

    fn new_write(&self, number: usize) -> (Store, String) {
        let store = match number % 4 {
            0 | 1 => Store::Ledger,
            2 => Store::Hypotheses,
            _ => Store::Sessions,
        };
        (store, format!("write {number} of writer {} in round {}", self.writer, self.round))
    }

    fn send(&mut self, store: Store, content: &str) -> i64 {
        let (tool, arguments) = match store {
            Store::Ledger => ("ledger_add", json!({ "sessionId": SESSION, "type": "fact", "content": content })),
            Store::Sessions => ("grounding_start", json!({ "keyword": "kill", "problem": content })),
            // A file of each round, which all of its writers add to.
            Store::Hypotheses => {
                ("hypothesis_record", json!({ "sessionId": format!("round-{}", self.round), "text": content }))
            }
        };
        self.shim.send_request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }
}

/// Returns how often each content is there, read from the files alone, and checks that they are sound.
fn found(environment: &TestEnvironment) -> BTreeMap<(Store, String), usize> {
    let mut found = BTreeMap::new();
    for content in ledger_contents(environment) {
        *found.entry((Store::Ledger, content)).or_default() += 1;
    }
    for session in json_files(environment, ".grounding-mcp/sessions") {
        let problem = session["problem"].as_str().expect("a problem").to_owned();
        *found.entry((Store::Sessions, problem)).or_default() += 1;
    }
    for file in json_files(environment, ".grounding-mcp/hypotheses") {
        for row in file["hypotheses"].as_array().expect("a list") {
            let text = row["text"].as_str().expect("a text").to_owned();
            *found.entry((Store::Hypotheses, text)).or_default() += 1;
        }
    }
    found
}

fn ledger_contents(environment: &TestEnvironment) -> Vec<String> {
    let path = environment.path(".evidence-ledger/ledger.db");
    block_on(async {
        let url = format!("sqlite://{}?mode=rw", path.display());
        let mut connection = SqliteConnection::connect(&url).await.expect("the ledger opens");
        let check = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await;
        let sound: String = check.expect("the ledger is checked");
        assert_eq!(sound, "ok");
        let contents = sqlx::query_scalar("SELECT content FROM entries").fetch_all(&mut connection).await;
        connection.close().await.expect("the ledger closes");
        contents.expect("the ledger is read")
    })
}

fn json_files(environment: &TestEnvironment, directory: &str) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(environment.path(directory)) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let parsed = files.map(|path| {
        let text = std::fs::read_to_string(&path).expect("a file");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    parsed.collect()
}

/// Runs that many rounds in an environment of their own and returns the figures.
#[must_use]
pub fn run(rounds: usize, seed: u64) -> Figures {
    let environment = TestEnvironment::new();
    let mut kills = KillRounds::new(seed);
    for _ in 0..rounds {
        kills.round(&environment);
        wait_for("one daemon", || match environment.daemons() {
            running if running.len() == 1 => Ok(()),
            running => Err(format!("{running:?}")),
        });
    }
    kills.figures()
}
