//! All of it at once for a long time, and then the accounts: what was answered is there once, and nothing is left over.
//!
//! In the first half the daemon is restarted and killed by turns; in the second it lives, so that its memory and its
//! descriptors can be watched. Another program (Python's SQLite) writes the same ledger all the time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use grounding_tests::environment::shown;
use grounding_tests::process::{kill, processes_of};
use grounding_tests::{Pipes, TestEnvironment, http, wait_for};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use crate::agent::{Agent, Outcome, STEADY, pace, repository};
use crate::observe::{Sample, descriptors, growth, sample, zombies_of};

/// Calls of each client in a second.
const RATE: u32 = 20;
/// Time between two ends of the daemon in the first half.
const BETWEEN_ENDS: Duration = Duration::from_secs(3);
/// Every how many turns an agent has its solution evaluated and its memory verified.
const TURNS_BETWEEN_EVALUATIONS: usize = 8;
/// A soak this long has a second half in which memory must be flat.
const LONG: Duration = Duration::from_secs(600);
/// By how many percent memory may grow in the second half.
const GROWTH: f64 = 10.0;
/// Descriptors a daemon may have more after the soak than before it: the readers of the ledger, opened on demand.
const MORE_DESCRIPTORS: usize = 3 * 4;

/// Adds an entry to the ledger every 50 ms until its stdin ends, then says how many there are.
const WRITER: &str = r#"
import select, sqlite3, sys
ledger = sqlite3.connect(sys.argv[1], timeout=60)
written = 0
while not select.select([sys.stdin], [], [], 0.05)[0]:
    with ledger:
        ledger.execute("INSERT INTO entries (type, content, session) VALUES ('fact', ?, 'elsewhere')", (f"elsewhere {written}",))
    written += 1
print(written)
"#;

/// What all agents count together.
#[derive(Default)]
struct Tally {
    calls: AtomicU64,
    unknown: AtomicU64,
    refusals: Mutex<Vec<String>>,
    done: AtomicBool,
}

/// Soaks for that long; returns the promises that were broken.
pub(crate) fn run(clients: u32, length: Duration) -> Vec<String> {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", "builtin");
    environment.set("GROUNDING_ATTEMPT_WAIT_MS", "100");
    let repositories: Vec<_> = (0..clients).map(|number| repository(&environment, number)).collect();
    let mut agents: Vec<_> = (0..clients)
        .zip(&repositories)
        .map(|(number, repository)| Agent::new(format!("agent-{number}"), repository.text().to_owned()))
        .collect();
    let before = descriptors_of_a_quiet_daemon(&environment);
    let writer = spawn_writer(&environment);
    let tally = Tally::default();
    let mut observed = Observed::default();
    std::thread::scope(|scope| {
        let mut shims = Vec::new();
        for (agent, number) in agents.iter_mut().zip(0..) {
            let mut shim = Pipes::open(&environment);
            shims.push(shim.pid());
            let tally = &tally;
            scope.spawn(move || act(agent, &mut shim, number, tally));
        }
        observed = Observed::over(&environment, &shims, length);
        tally.done.store(true, Ordering::Relaxed);
    });
    let elsewhere = finish_writer(writer);
    settle(&environment, &agents);
    let after = descriptors_of_a_quiet_daemon(&environment);

    let mut broken = tally.refusals.into_inner().expect("no agent panicked");
    broken.extend(observed.broken(length));
    broken.extend(ledger_differences(&environment, &agents, elsewhere));
    broken.extend(session_differences(&environment, &agents));
    if after > before + MORE_DESCRIPTORS {
        broken.push(format!("a quiet daemon has {after} descriptors after the soak, {before} before"));
    }
    broken.extend(left_processes(&environment));

    let calls = tally.calls.into_inner();
    let added: usize = agents.iter().map(|agent| agent.added.len()).sum();
    println!(
        "{clients} clients, {} s: {calls} calls ({} a second), {} ends of the daemon ({} by SIGKILL)",
        length.as_secs(),
        calls / length.as_secs(),
        observed.restarts + observed.kills,
        observed.kills
    );
    println!(
        "{added} ledger entries answered and {elsewhere} of another program: all there once; {} outcomes not known",
        tally.unknown.into_inner()
    );
    println!("descriptors of a quiet daemon: {before} before, {after} after");
    print!("{}", observed.memory());
    broken
}

/// Calls tool after tool at a steady rate until the soak is over.
fn act(agent: &mut Agent, shim: &mut Pipes, number: u32, tally: &Tally) {
    let period = Duration::from_secs(1) / RATE;
    let mut due = Instant::now() + period * number / 20;
    let turn = |turn: usize| {
        let evaluate = turn % TURNS_BETWEEN_EVALUATIONS == number as usize % TURNS_BETWEEN_EVALUATIONS;
        let rare: &[&str] = if evaluate { &["solution_evaluate", "verify_memory_reference"] } else { &[] };
        STEADY.iter().chain(rare).copied().collect::<Vec<_>>()
    };
    for tool in (0..).flat_map(turn) {
        due = pace(due, period);
        if tally.done.load(Ordering::Relaxed) {
            return;
        }
        let arguments = agent.arguments(tool);
        let line = shim.tool(tool, &arguments);
        tally.calls.fetch_add(1, Ordering::Relaxed);
        match agent.take(tool, &arguments, &line) {
            Outcome::Answered => {}
            Outcome::Unknown => {
                tally.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Refused => {
                let mut refusals = tally.refusals.lock().expect("no agent panicked");
                if refusals.len() < 10 {
                    refusals.push(format!("{tool} was refused: {}", line.trim()));
                }
            }
        }
    }
}

/// What was seen of the processes while the agents acted.
#[derive(Default)]
struct Observed {
    restarts: u32,
    kills: u32,
    second_half: Vec<Sample>,
    zombies: Vec<u32>,
    failures: Vec<String>,
}

impl Observed {
    fn over(environment: &TestEnvironment, shims: &[u32], length: Duration) -> Self {
        let begin = Instant::now();
        let mut observed = Self::default();
        while begin.elapsed() + BETWEEN_ENDS < length / 2 {
            std::thread::sleep(BETWEEN_ENDS);
            if observed.kills < observed.restarts {
                observed.kills += 1;
                // Between two daemons there is none to kill for a moment.
                environment.daemons().into_iter().for_each(kill);
            } else {
                observed.restarts += 1;
                let output = environment.groundingctl(&["restart"]);
                if !output.status.success() {
                    observed.failures.push(format!("groundingctl restart: {}", shown(&output)));
                }
            }
        }
        // A while of calls, so that what a daemon needs for them is there.
        std::thread::sleep((length / 2).saturating_sub(begin.elapsed()) + length / 20);
        let daemon = environment.daemon();
        while begin.elapsed() < length {
            std::thread::sleep(Duration::from_millis(500));
            observed.second_half.extend(sample(daemon, shims));
            // A child that has just ended is one for a moment: seen twice, it stays.
            let zombies = zombies_of(&[&[daemon], shims].concat());
            let stays: Vec<_> = zombies.iter().filter(|pid| observed.zombies.contains(pid)).collect();
            if !stays.is_empty() {
                observed.failures.push(format!("zombies: {stays:?}"));
            }
            observed.zombies = zombies;
        }
        if environment.daemons() != [daemon] {
            observed.failures.push(format!("daemon {daemon} did not live through the second half"));
        }
        observed
    }

    fn growth(&self) -> [(&'static str, f64); 2] {
        let of = |part: fn(&Sample) -> u64| growth(&self.second_half.iter().map(part).collect::<Vec<_>>());
        [("daemon", of(|sample| sample.daemon)), ("shims", of(|sample| sample.shims))]
    }

    fn broken(&self, length: Duration) -> Vec<String> {
        let grew = self.growth().into_iter().filter(|(_, percent)| length >= LONG && *percent >= GROWTH);
        let grew =
            grew.map(|(who, percent)| format!("the memory of the {who} grew by {percent:.1} % in the second half"));
        self.failures.iter().cloned().chain(grew).collect()
    }

    fn memory(&self) -> String {
        let mut text = String::new();
        for ((who, percent), last) in
            self.growth().iter().zip(self.second_half.last().map_or([0; 2], |it| [it.daemon, it.shims]))
        {
            // A string can always be written to.
            let _ = writeln!(
                text,
                "memory of the {who}: {percent:+.1} % in the second half, {} kB at its end",
                last / 1000
            );
        }
        text
    }
}

/// Ends every client and returns the descriptors of the daemon once it knows of none.
fn descriptors_of_a_quiet_daemon(environment: &TestEnvironment) -> usize {
    Pipes::open(environment).call("ledger_summary", &json!({ "sessionId": "quiet" }));
    let daemon = environment.daemon();
    wait_for("the daemon to have one client, who asks", || match environment.status().clients {
        Some(1) => Ok(()),
        clients => Err(format!("{clients:?} clients")),
    });
    descriptors(daemon)
}

fn spawn_writer(environment: &TestEnvironment) -> Child {
    let mut command = environment.command("python3");
    command.args(["-c", WRITER]).arg(environment.path(".evidence-ledger/ledger.db"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts")
}

/// Ends the writer and returns how many entries it wrote.
fn finish_writer(mut writer: Child) -> usize {
    drop(writer.stdin.take());
    let mut said = String::new();
    writer.stdout.take().expect("stdout is piped").read_to_string(&mut said).expect("the writer's count");
    assert!(writer.wait().expect("the writer is a child").success(), "the writer failed");
    said.trim().parse().expect("a count")
}

/// Waits until no attempt runs any more, and asks for the outcome of each id.
fn settle(environment: &TestEnvironment, agents: &[Agent]) {
    let mut shim = environment.shim();
    for solution in agents.iter().flat_map(|agent| &agent.solutions) {
        wait_for("an attempt to settle", || {
            let status = shim.answer("solution_evaluate_status", json!({ "id": solution }));
            match status["status"].as_str() {
                Some("completed" | "failed" | "unknown") => Ok(()),
                _ => Err(status.to_string()),
            }
        });
    }
}

/// Reads the ledger with nobody's help and compares it with what was answered.
fn ledger_differences(environment: &TestEnvironment, agents: &[Agent], elsewhere: usize) -> Vec<String> {
    let rows: Vec<(String, String)> = http::block_on(async {
        let options =
            SqliteConnectOptions::new().filename(environment.path(".evidence-ledger/ledger.db")).read_only(true);
        let mut ledger = options.connect().await.expect("the ledger");
        let check: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut ledger).await.expect("a check");
        assert_eq!(check, "ok", "the ledger is damaged");
        let rows =
            sqlx::query("SELECT session, content FROM entries").fetch_all(&mut ledger).await.expect("the entries");
        ledger.close().await.expect("the ledger closes");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    });
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, content) in rows.iter().filter(|(session, _)| session != "elsewhere") {
        *counts.entry(content).or_default() += 1;
    }
    let mut broken = Vec::new();
    let others = rows.iter().filter(|(session, _)| session == "elsewhere").count();
    if others != elsewhere {
        broken.push(format!("{elsewhere} entries of the other program, {others} in the ledger"));
    }
    for content in agents.iter().flat_map(|agent| &agent.added) {
        match counts.remove(content.as_str()) {
            Some(1) => {}
            count => broken.push(format!("answered and {} times in the ledger: {content}", count.unwrap_or_default())),
        }
    }
    for content in agents.iter().flat_map(|agent| &agent.unknown) {
        if let Some(count @ 2..) = counts.remove(content.as_str()) {
            broken.push(format!("asked for once and {count} times in the ledger: {content}"));
        }
    }
    broken.extend(counts.keys().map(|content| format!("nobody asked for: {content}")));
    broken
}

/// Compares the files of the sessions with what was answered.
fn session_differences(environment: &TestEnvironment, agents: &[Agent]) -> Vec<String> {
    let mut broken = Vec::new();
    for (id, advances) in agents.iter().flat_map(|agent| &agent.sessions) {
        let path = environment.path(&format!(".grounding-mcp/sessions/{id}.json"));
        let session: Value =
            std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let phases: Vec<_> = session["phases"].as_array().into_iter().flatten().collect();
        let reached = phases.iter().position(|phase| **phase == session["current_phase"]);
        let expected = advances.answered..=advances.answered + advances.unknown;
        if !reached.is_some_and(|reached| expected.contains(&reached)) {
            broken.push(format!("session {id} was advanced {reached:?} times, expected {expected:?}"));
        }
    }
    broken
}

/// Stops the daemon and returns what is left of the run.
fn left_processes(environment: &TestEnvironment) -> Vec<String> {
    let output = environment.groundingctl(&["stop"]);
    let mut broken = Vec::new();
    if !output.status.success() {
        broken.push(format!("groundingctl stop: {}", shown(&output)));
    }
    wait_for("the processes of the run to end", || {
        let left = processes_of(environment.home());
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    broken
}
