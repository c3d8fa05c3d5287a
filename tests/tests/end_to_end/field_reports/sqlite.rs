//! SQLite.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use grounding_tests::{TestEnvironment, wait_for};
use serde_json::json;

/// Locks the marks of SQLite's readers in the file that its connections share, says so, and holds them until its stdin
/// ends.
const LOCK_READ_MARKS: &str = "
import fcntl, sys
shared = open(sys.argv[1], 'r+b')
fcntl.lockf(shared, fcntl.LOCK_EX, 5, 123)
print('locked', flush=True)
sys.stdin.read()
";

/// charmbracelet/crush#3461. "locking protocol (15)" with the home on a network file system, and no start.
#[test]
fn locks_that_do_not_work_are_told_with_where_to_put_the_ledger() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let add = |content: &str| json!({ "sessionId": "s", "type": "fact", "content": content });
    shim.answer("ledger_add", add("before"));
    let mut command = environment.command("python3");
    command.args(["-c", LOCK_READ_MARKS]).arg(environment.path(".evidence-ledger/ledger.db-shm"));
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
    let mut line = String::new();
    let mut output = BufReader::new(holder.stdout.take().expect("stdout is piped"));
    output.read_line(&mut line).expect("it prints lines");
    assert_eq!(line, "locked\n");

    for (tool, arguments) in [("ledger_add", add("meanwhile")), ("ledger_summary", json!({ "sessionId": "s" }))] {
        let said = shim.refusal(tool, arguments);
        assert!(said.contains("ledger.db") && said.contains("EVIDENCE_LEDGER_DB"), "{tool}: {said}");
        assert!(said.contains("locking protocol"), "{tool}: {said}");
    }
    // The daemon serves on, and so does the ledger once its locks work.
    shim.answer("claim_evaluate", json!({ "claim": "Something is so" }));
    drop(holder.stdin.take());
    assert!(holder.wait().expect("it ends").success());
    shim.answer("ledger_add", add("after"));
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s" }));
    let entries = summary["entries"]["facts"].as_array().expect("a list");
    assert_eq!(entries.iter().map(|entry| &entry["content"]).collect::<Vec<_>>(), ["before", "after"], "{summary}");
}

/// thedotmack/claude-mem#3179. Writes failed all session long, and the only symptom was waiting.
#[test]
fn a_malformed_ledger_fails_every_call_at_once_by_name_and_with_the_remedy() {
    const PAGE: usize = 4096;
    let environment = TestEnvironment::new();
    let ledger = environment.path(".evidence-ledger/ledger.db");
    let add = json!({ "sessionId": "s", "type": "fact", "content": "c".repeat(3000) });
    let mut first = environment.shim();
    for _ in 0..200 {
        first.answer("ledger_add", add.clone());
    }
    assert!(environment.groundingctl(&["stop"]).status.success());
    // One page in the middle, far from the page that the next entry goes to.
    let mut bytes = std::fs::read(&ledger).expect("the ledger");
    let page = bytes.len() / PAGE / 2 * PAGE;
    bytes[page..page + PAGE].fill(0x55);
    std::fs::write(&ledger, &bytes).expect("the ledger");
    assert!(environment.groundingctl(&["start"]).status.success());

    let mut second = environment.shim();
    for shim in [&mut first, &mut second] {
        for (tool, arguments) in [("ledger_add", add.clone()), ("ledger_summary", json!({ "sessionId": "s" }))] {
            let since = Instant::now();
            let said = shim.refusal(tool, arguments);
            assert!(said.contains("ledger.db") && said.contains(".recover"), "{tool}: {said}");
            assert!(since.elapsed() < Duration::from_secs(5), "{tool}: {:?}", since.elapsed());
        }
        let status = shim.answer("ledger_status", json!({}));
        assert_eq!(status["status"], "error", "{status}");
        shim.answer("hypothesis_record", json!({ "sessionId": "s", "text": "Something else still works" }));
    }
    assert_eq!(environment.groundingctl(&["status"]).status.code(), Some(1), "degraded");
    assert!(std::fs::read(&ledger).expect("the ledger") == bytes, "it was left as it is");

    std::fs::rename(&ledger, environment.path("damaged.db")).expect("moved away");
    wait_for("a new ledger", || {
        let result = second.call("ledger_add", add.clone());
        if result.is_error { Err(result.text) } else { Ok(()) }
    });
}
