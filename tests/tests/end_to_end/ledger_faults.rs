//! What befalls the ledger's file: a full or read-only disk, damage, locks, replacement, other kinds of files. The answer is
//! an error, never an id; what was acknowledged stands; no other tool is harmed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grounding_proto::environment::Environment;
use grounding_tests::http::{Connection, block_on, context};
use grounding_tests::process::{command, processes_of};
use grounding_tests::{Shim, TestEnvironment, binaries};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

#[cfg(feature = "test-points")]
use super::points::Points;
use super::stub;

const LEDGER: &str = ".evidence-ledger/ledger.db";
/// What a test prints that needs a mount and gets none.
const NO_MOUNTS: &str = "not run: this system lets no test mount a file system";
/// How long a locked ledger is waited for.
const BUSY: Duration = Duration::from_secs(5);

fn fact(content: &str) -> Value {
    json!({ "sessionId": "s", "type": "fact", "content": content })
}

fn add(shim: &mut Shim, content: &str) -> i64 {
    shim.answer("ledger_add", fact(content))["id"].as_i64().expect("an id")
}

/// Has an add be refused, and checks that status says the same, that the file is named, and that another tool works.
fn refused(environment: &TestEnvironment, shim: &mut Shim, path: &Path) -> String {
    let said = shim.refusal("ledger_add", fact("refused"));
    assert!(said.contains(path.to_str().expect("UTF-8")), "{said}");
    assert_harmless(environment, shim);
    said
}

fn assert_harmless(environment: &TestEnvironment, shim: &mut Shim) {
    let started = Instant::now();
    let session = shim.answer("grounding_start", json!({ "keyword": "monitor", "problem": "p" }));
    assert!(
        environment
            .path(&format!(".grounding-mcp/sessions/{}.json", session["sessionId"].as_str().expect("an id")))
            .is_file()
    );
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

fn contents(shim: &mut Shim) -> BTreeSet<String> {
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s", "limit": 10_000, "afterId": 0 }));
    let facts = summary["entries"]["facts"].as_array().expect("a list");
    facts.iter().map(|entry| entry["content"].as_str().expect("text").to_owned()).collect()
}

/// A connection of another program.
async fn other_program(path: &Path) -> SqliteConnection {
    let url = format!("sqlite://{}?mode=rw", path.display());
    SqliteConnection::connect(&url).await.expect("the database opens")
}

/// Returns what another program finds, in a sound file.
fn found_by_others(path: &Path) -> BTreeSet<String> {
    block_on(async {
        let mut connection = other_program(path).await;
        let check = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await;
        let sound: String = check.expect("the ledger is checked");
        assert_eq!(sound, "ok");
        let found = sqlx::query_scalar("SELECT content FROM entries").fetch_all(&mut connection).await;
        connection.close().await.expect("the ledger closes");
        let found: Vec<String> = found.expect("the ledger is read");
        found.into_iter().collect()
    })
}

fn set(contents: &[&str]) -> BTreeSet<String> {
    contents.iter().map(|content| (*content).to_owned()).collect()
}

/// Makes a ledger with entries and ends the daemon that made it.
fn make_ledger(environment: &TestEnvironment, entries: usize) -> PathBuf {
    let mut shim = environment.shim();
    for number in 0..entries {
        shim.answer("ledger_add", fact(&format!("entry {number} {}", "x".repeat(400))));
    }
    stop(environment);
    environment.path(LEDGER)
}

fn stop(environment: &TestEnvironment) {
    let daemon = environment.daemon();
    assert!(environment.groundingctl(&["stop"]).status.success());
    stub::wait_until_gone(daemon);
    assert!(environment.groundingctl(&["start"]).status.success());
    let daemon = environment.daemon();
    grounding_tests::process::kill(daemon);
}

/// Returns a shim whose daemon sees mounts of its own, made by a script over the directory `$1`; nothing where the system
/// lets nobody but root make any.
fn shim_with_mounts(environment: &TestEnvironment, script: &str, directory: &Path) -> Option<Shim> {
    let kinds: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let works = |kind: &&&[&str]| {
        let mut probe = command("unshare");
        probe.envs(environment.environment().variables().iter().cloned()).args(**kind);
        probe.args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        probe.output().is_ok_and(|output| output.status.success())
    };
    let kind = kinds.iter().find(works)?;
    let mut shim = environment.command("unshare");
    let script = format!("{script} && exec \"$2\"");
    shim.args(*kind).args(["sh", "-c", &script, "sh"]).arg(directory).arg(binaries::grounding_mcp());
    let mut shim = Shim::spawn(shim);
    shim.initialize();
    Some(shim)
}

#[test]
fn a_full_disk_is_said_and_costs_no_acknowledged_entry() {
    let environment = TestEnvironment::new();
    let directory = environment.path(".evidence-ledger");
    fs::create_dir(&directory).expect("created");
    let script = r#"mount -t tmpfs -o size=1m none "$1" && head -c 300000 /dev/zero > "$1/filler""#;
    let Some(mut shim) = shim_with_mounts(&environment, script, &directory) else { return println!("{NO_MOUNTS}") };
    let content = |number: usize| format!("entry {number} {}", "x".repeat(10_000));
    let mut acknowledged = BTreeSet::new();
    let said = loop {
        assert!(acknowledged.len() < 200, "the disk never gets full");
        let result = shim.call("ledger_add", fact(&content(acknowledged.len())));
        if result.is_error {
            break result.text;
        }
        acknowledged.insert(content(acknowledged.len()));
    };
    assert!(acknowledged.len() > 5, "{said}");
    assert!(said.contains("disk is full") && said.contains("ledger.db"), "{said}");
    for _ in 0..5 {
        assert!(shim.refusal("ledger_add", fact(&content(999))).contains("disk is full"));
    }
    assert_harmless(&environment, &mut shim);
    assert_eq!(contents(&mut shim), acknowledged);
    let daemon = environment.daemon();
    let inside =
        Path::new("/proc").join(daemon.to_string()).join("root").join(directory.strip_prefix("/").expect("absolute"));
    fs::remove_file(inside.join("filler")).expect("there is room again");
    acknowledged.insert(content(1000));
    shim.answer("ledger_add", fact(&content(1000)));
    assert_eq!(contents(&mut shim), acknowledged);
    assert_eq!(environment.daemon(), daemon);
    for name in ["ledger.db", "ledger.db-wal"] {
        fs::copy(inside.join(name), environment.path(name)).expect("copied");
    }
    assert_eq!(found_by_others(&environment.path("ledger.db")), acknowledged);
}

#[test]
fn a_read_only_disk_is_said_and_the_ledger_left() {
    let environment = TestEnvironment::new();
    let path = make_ledger(&environment, 3);
    let before = fs::read(&path).expect("the ledger");
    let script = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1""#;
    let directory = path.parent().expect("a directory").to_owned();
    let Some(mut shim) = shim_with_mounts(&environment, script, &directory) else { return println!("{NO_MOUNTS}") };
    let said = refused(&environment, &mut shim, &path);
    assert!(said.contains("can be read and written"), "{said}");
    assert_eq!(fs::read(&path).expect("the ledger"), before);
    stop(&environment);
    let mut shim = environment.shim();
    add(&mut shim, "after");
    assert_eq!(contents(&mut shim).len(), 4);
}

#[test]
fn a_file_size_limit_is_an_error_and_not_the_end_of_the_daemon() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    add(&mut shim, "before");
    let daemon = environment.daemon();
    let pid = i32::try_from(daemon).ok().and_then(Pid::from_raw).expect("a process id");
    let unlimited = Rlimit { current: None, maximum: None };
    for limit in [0, 10, 40_000] {
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: Some(limit), maximum: None }).expect("limited");
        let said = shim.refusal("ledger_add", fact(&"x".repeat(100_000)));
        assert!(said.contains(environment.path(LEDGER).to_str().expect("UTF-8")), "{said}");
        if limit < 100 {
            let said = shim.refusal("grounding_start", json!({ "keyword": "monitor", "problem": "p" }));
            assert!(said.contains("File too large"), "{said}");
        }
        prlimit(Some(pid), Resource::Fsize, unlimited).expect("unlimited");
        add(&mut shim, &format!("after {limit}"));
        assert_harmless(&environment, &mut shim);
    }
    assert_eq!(environment.daemon(), daemon, "the same daemon serves on");
    assert_eq!(contents(&mut shim), set(&["before", "after 0", "after 10", "after 40000"]));
    let left = stub::files_below(&environment.path(".grounding-mcp"));
    assert!(left.iter().all(|path| path.extension().is_some_and(|it| it == "json")), "{left:?}");
}

#[test]
fn a_damaged_ledger_is_said_and_left_byte_for_byte() {
    let environment = TestEnvironment::new();
    let path = make_ledger(&environment, 200);
    let sound = fs::read(&path).expect("the ledger");
    assert!(sound.len() > 20 * 4096, "{}", sound.len());
    let mut shim = environment.shim();
    // The header, and the roots of the table and its indexes.
    for (from, to) in [(0, 100), (4096, 5 * 4096)] {
        let mut damaged = sound.clone();
        damaged[from..to].fill(0xa5);
        fs::write(&path, &damaged).expect("written");
        let said = refused(&environment, &mut shim, &path);
        assert!(said.contains("damaged"), "{said}");
        assert_eq!(shim.answer("ledger_status", json!({}))["status"], "error");
        assert_eq!(fs::read(&path).expect("the ledger"), damaged);
        stop(&environment);
        remove_beside(&path);
    }
    // A page in the middle: whoever reads over it is told, and never gets a part for the whole.
    let mut damaged = sound.clone();
    let middle = sound.len() / 4096 / 2 * 4096;
    damaged[middle..middle + 4096].fill(0xa5);
    fs::write(&path, &damaged).expect("written");
    let said = shim.refusal("ledger_summary", json!({ "sessionId": "s", "limit": 10_000, "afterId": 0 }));
    assert!(said.contains("damaged") && said.contains(path.to_str().expect("UTF-8")), "{said}");
    assert_harmless(&environment, &mut shim);
    // Repaired under its name, it is the ledger again.
    fs::write(environment.path("repaired"), &sound).expect("written");
    fs::rename(environment.path("repaired"), &path).expect("renamed");
    remove_beside(&path);
    add(&mut shim, "after");
    assert_eq!(contents(&mut shim).len(), 201);
}

fn remove_beside(path: &Path) {
    for suffix in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // It is there when somebody died with the database open.
        let _: std::io::Result<()> = fs::remove_file(name);
    }
}

/// Returns the processor time a process has used.
fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let fields: Vec<_> = stat.rsplit_once(") ").expect("a command name").1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks");
    Duration::from_millis(ticks * 10)
}

/// Adds as many clients at once do, and returns how long the slowest waited; each must be told that the ledger is locked.
fn add_while_locked(environment: &TestEnvironment, clients: usize) -> Duration {
    let (socket, context) = (environment.socket(), context(environment));
    block_on(async {
        let started = Instant::now();
        let calls = (0..clients).map(|client| {
            let (socket, context) = (socket.clone(), context.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(&socket).await;
                connection.call("ledger_add", fact(&format!("locked {client}")), &context).await
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let (status, body) = call.await.expect("it answers");
            assert!(!status.is_success(), "{body}");
            assert!(
                body["message"].as_str().is_some_and(|message| message.contains("locked by another program")),
                "{body}"
            );
        }
        started.elapsed()
    })
}

/// How long the ledger is locked; `GROUNDING_LOCK_SECONDS` wishes for more.
fn lock_time() -> Duration {
    let environment = Environment::of_process();
    let wish =
        environment.get("GROUNDING_LOCK_SECONDS").and_then(OsStr::to_str).map(|text| text.parse().expect("seconds"));
    Duration::from_secs(wish.unwrap_or(1))
}

#[test]
fn a_locked_ledger_keeps_nobody_long_and_no_processor_busy() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    add(&mut shim, "before");
    let daemon = environment.daemon();
    block_on(async {
        let mut holder = other_program(&environment.path(LEDGER)).await;
        holder.execute("BEGIN EXCLUSIVE").await.expect("the lock");
        let (started, used) = (Instant::now(), processor_time(daemon));
        while started.elapsed() < lock_time() {
            // More than two commits' worth: the last are not told after the sum of all waits.
            let slowest = std::thread::scope(|scope| {
                let adds = scope.spawn(|| add_while_locked(&environment, 150));
                while !adds.is_finished() {
                    assert_harmless(&environment, &mut shim);
                    assert_eq!(contents(&mut shim), set(&["before"]), "a lock for writing lets others read");
                    std::thread::park_timeout(BUSY / 2);
                }
                adds.join().expect("they answer")
            });
            assert!(slowest < BUSY * 2 + Duration::from_secs(2), "{slowest:?}");
        }
        let (elapsed, used) = (started.elapsed(), processor_time(daemon).checked_sub(used).expect("time goes on"));
        assert!(used < elapsed / 20, "{used:?} of {elapsed:?}");
        holder.execute("ROLLBACK").await.expect("the lock is given back");
        holder.close().await.expect("closed");
    });
    add(&mut shim, "after");
    assert_eq!(contents(&mut shim), set(&["before", "after"]));
}

#[test]
fn a_ledger_that_is_locked_when_it_is_opened_keeps_nobody_long() {
    let environment = TestEnvironment::new();
    let path = make_ledger(&environment, 1);
    let mut shim = environment.shim();
    shim.answer("grounding_start", json!({ "keyword": "monitor", "problem": "p" }));
    block_on(async {
        let mut holder = other_program(&path).await;
        holder.execute("PRAGMA locking_mode = EXCLUSIVE").await.expect("set");
        holder.execute("BEGIN EXCLUSIVE").await.expect("the lock");
        let slowest = std::thread::scope(|scope| {
            let adds = scope.spawn(|| add_while_locked(&environment, 30));
            assert_harmless(&environment, &mut shim);
            adds.join().expect("they answer")
        });
        assert!(slowest < BUSY * 2 + Duration::from_secs(2), "{slowest:?}");
        holder.execute("COMMIT").await.expect("the lock is given back");
        holder.close().await.expect("closed");
    });
    add(&mut shim, "after");
    assert_eq!(contents(&mut shim).len(), 2);
}

/// Does something to the files while an add is about to be written, and returns what the add is told then.
#[cfg(feature = "test-points")]
fn add_across(points: &Points, shim: &mut Shim, change: impl FnOnce()) -> String {
    points.hold("ledger-writing");
    let request = shim.send_request("tools/call", json!({ "name": "ledger_add", "arguments": fact("across") }));
    let held = points.wait_until_held();
    points.clear();
    change();
    drop(held);
    let result = shim.response(request)["result"].clone();
    assert_eq!(result["isError"], true, "it was acknowledged: {result}");
    result["content"][0]["text"].as_str().expect("text").to_owned()
}

#[cfg(feature = "test-points")]
#[test]
fn nothing_is_acknowledged_that_went_into_a_replaced_file() {
    let mut environment = TestEnvironment::new();
    let points = Points::of(&mut environment);
    let path = environment.path(LEDGER);
    let mut shim = environment.shim();
    add(&mut shim, "old");
    // Between two writes: the next goes into the file that is there now.
    let old = environment.path("old.db");
    fs::rename(&path, &old).expect("moved");
    add(&mut shim, "new");
    assert_eq!(contents(&mut shim), set(&["new"]));
    assert_eq!(found_by_others(&path), set(&["new"]));
    // While a write waits: it can't be told in which file it went.
    let said = add_across(&points, &mut shim, || fs::rename(&path, environment.path("older.db")).expect("moved"));
    assert!(said.contains("replaced") && said.contains("ledger_summary"), "{said}");
    add(&mut shim, "newest");
    assert_eq!(contents(&mut shim), set(&["newest"]));
    assert_eq!(found_by_others(&path), set(&["newest"]));
    assert_eq!(found_by_others(&old), set(&["old"]));
}

#[cfg(feature = "test-points")]
#[test]
fn nothing_that_was_acknowledged_is_lost_with_the_files_beside_the_ledger() {
    for suffix in ["-wal", "-shm"] {
        let mut environment = TestEnvironment::new();
        let points = Points::of(&mut environment);
        let (path, beside) = (environment.path(LEDGER), environment.path(&format!("{LEDGER}{suffix}")));
        let mut shim = environment.shim();
        add(&mut shim, "first");
        fs::remove_file(&beside).expect("removed");
        add(&mut shim, "second");
        fs::write(environment.path("garbage"), [0xa5; 8192]).expect("written");
        fs::rename(environment.path("garbage"), &beside).expect("replaced");
        add(&mut shim, "third");
        assert_eq!(contents(&mut shim), set(&["first", "second", "third"]), "{suffix}");
        assert_eq!(found_by_others(&path), set(&["first", "second", "third"]), "{suffix}");
        let said = add_across(&points, &mut shim, || fs::remove_file(&beside).expect("removed"));
        assert!(said.contains("replaced or removed") && said.contains("ledger_summary"), "{suffix}: {said}");
        add(&mut shim, "fourth");
        let found = found_by_others(&path);
        assert!(found.is_superset(&set(&["first", "second", "third", "fourth"])), "{suffix}: {found:?}");
        assert_eq!(contents(&mut shim), found, "{suffix}");
    }
}

#[test]
fn what_can_be_no_ledger_is_named_and_left() {
    let mut environment = TestEnvironment::new();
    let directory = environment.path("ledgers");
    fs::create_dir(&directory).expect("created");
    fs::create_dir(directory.join("directory.db")).expect("created");
    mknodat(CWD, directory.join("fifo.db"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    symlink(directory.join("nowhere.db"), directory.join("dangling.db")).expect("a symlink");
    symlink(directory.join("fifo.db"), directory.join("to-fifo.db")).expect("a symlink");
    symlink(directory.join("directory.db"), directory.join("to-directory.db")).expect("a symlink");
    symlink(directory.join("loop.db"), directory.join("loop.db")).expect("a symlink");
    fs::write(directory.join("text.db"), "These are notes, not a database, and long enough to be read.\n".repeat(99))
        .expect("written");
    block_on(async {
        let url = format!("sqlite://{}?mode=rwc", directory.join("columns.db").display());
        let mut connection = SqliteConnection::connect(&url).await.expect("a database");
        connection.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, content TEXT)").await.expect("a table");
        connection.close().await.expect("closed");
    });
    let names = ["directory", "fifo", "dangling", "to-fifo", "to-directory", "loop", "text", "columns"];
    let text = fs::read(directory.join("text.db")).expect("the notes");
    for name in names {
        let path = directory.join(format!("{name}.db"));
        environment.set("EVIDENCE_LEDGER_DB", &path);
        let mut shim = environment.shim();
        let started = Instant::now();
        let said = refused(&environment, &mut shim, &path);
        assert!(started.elapsed() < BUSY, "{name}: {:?}", started.elapsed());
        assert_eq!(said.contains("no column type"), name == "columns", "{said}");
        assert_eq!(shim.answer("ledger_status", json!({}))["status"], "error", "{name}");
    }
    assert_eq!(fs::read(directory.join("text.db")).expect("the notes"), text);
    assert!(!directory.join("nowhere.db").exists(), "nothing is made where a symlink leads");
}

#[test]
fn a_symlink_to_a_ledger_and_columns_of_others_are_fine() {
    let mut environment = TestEnvironment::new();
    let path = make_ledger(&environment, 1);
    block_on(async {
        let mut connection = other_program(&path).await;
        connection.execute("ALTER TABLE entries ADD COLUMN rating INTEGER").await.expect("a column");
        connection.execute("CREATE TABLE theirs (x)").await.expect("a table");
        connection.close().await.expect("closed");
    });
    let link = environment.path("link.db");
    symlink(&path, &link).expect("a symlink");
    environment.set("EVIDENCE_LEDGER_DB", &link);
    let mut shim = environment.shim();
    add(&mut shim, "through the link");
    assert_eq!(contents(&mut shim).len(), 2);
    assert!(found_by_others(&path).contains("through the link"));
    // The link leads elsewhere now, and so do the writes.
    fs::remove_file(&link).expect("removed");
    let other = environment.path("other.db");
    fs::copy(&path, &other).expect("copied");
    let header = fs::File::options().write(true).open(&other).expect("the copy");
    header.write_all_at(b"SQLite format 3\0", 0).expect("written");
    symlink(&other, &link).expect("a symlink");
    add(&mut shim, "into the other");
    assert!(found_by_others(&other).contains("into the other"));
    assert!(!found_by_others(&path).contains("into the other"));
    assert!(processes_of(environment.home()).len() < 10);
}
