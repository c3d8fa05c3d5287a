//! Files as the original writes them open and answer, and what we write has the same shape.

use grounding_tests::contract::shape_differences;
use grounding_tests::http::block_on;
use grounding_tests::{TestEnvironment, binaries};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, Row as _, SqliteConnection};

const SESSION: &str = "gs-agent-tasks-mx4czw8j";
const VERDICTS: &str = ".local/state/agent-grounding/solution-verdicts";

fn original(name: &str) -> String {
    binaries::fixture(&format!("original-files/{name}"))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn make_ledger(environment: &TestEnvironment, sql: &str) {
    let path = environment.path(".evidence-ledger/ledger.db");
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("created");
    block_on(async {
        let url = format!("sqlite://{}?mode=rwc", path.display());
        let mut connection = SqliteConnection::connect(&url).await.expect("a new database");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await.expect("the recorded SQL runs");
        connection.close().await.expect("the database closes");
    });
}

fn columns(environment: &TestEnvironment) -> Vec<String> {
    let path = environment.path(".evidence-ledger/ledger.db");
    block_on(async {
        let url = format!("sqlite://{}?mode=ro", path.display());
        let mut connection = SqliteConnection::connect(&url).await.expect("the database");
        let rows = sqlx::query("SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info('entries')");
        let rows = rows.fetch_all(&mut connection).await.expect("the columns");
        let shown = rows.iter().map(|row| {
            let default: Option<String> = row.get(3);
            format!("{} {} {} {default:?}", row.get::<String, _>(0), row.get::<String, _>(1), row.get::<i64, _>(2))
        });
        shown.collect()
    })
}

fn with_original_files() -> TestEnvironment {
    let environment = TestEnvironment::new();
    environment.write(&format!(".grounding-mcp/sessions/{SESSION}.json"), original("session.json"));
    environment.write(".grounding-mcp/hypotheses/h1.json", original("hypotheses.json"));
    environment.write(&format!("{VERDICTS}/t.attempts.jsonl"), original("attempts.jsonl"));
    environment.write(&format!("{VERDICTS}/t.json"), original("marker.json"));
    let key = hex::decode(original("signing-key-hex.txt").trim()).expect("hexadecimal");
    environment.write(".harness/harness.generated/.approval-signing.key", key);
    make_ledger(&environment, &original("ledger.sql"));
    environment
}

#[test]
fn original_files_open_and_answer() {
    let environment = with_original_files();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();

    let arguments = json!({ "sessionId": SESSION, "guardrail": "no-step-skipping" });
    assert_eq!(shim.answer("grounding_guardrail_check", arguments)["active"], true);
    let advanced = shim.answer("grounding_advance", json!({ "sessionId": SESSION }));
    assert_eq!(advanced["currentPhase"], "playbook-loading");
    let claim = json!({ "sessionId": SESSION, "claim": "The root cause is x" });
    assert_eq!(shim.answer("claim_evaluate_from_session", claim)["derivedContext"]["alternatives_considered"], true);

    let listed = shim.answer("hypothesis_list", json!({ "sessionId": "h1" }));
    assert_eq!((&listed["summary"]["rejected"], &listed["summary"]["pending_checks"]), (&json!(1), &json!(1)));

    let status = shim.answer("ledger_status", json!({}));
    assert_eq!((&status["entryCount"], &status["lastWriteAt"]), (&json!(2), &json!("2026-12-01 07:12:02")));
    let summary = shim.answer("ledger_summary", json!({ "sessionId": SESSION }));
    assert_eq!(summary["entries"]["facts"][0]["source"], "src");
    let added = shim.answer("ledger_add", json!({ "sessionId": SESSION, "type": "unknown", "content": "c" }));
    assert_eq!(added["id"], 3);

    let attempt = shim.answer("solution_evaluate_status", json!({ "id": "t" }));
    assert_eq!(attempt["attemptId"], "a11d3f63-5e4f-4d00-805a-d886dfdbf205");
    assert_eq!(attempt["status"], "completed");
    let earlier = json!({ "id": "t", "attemptId": "b2f5385a-b484-4360-8d9a-e5189fb70371" });
    let result = shim.answer("solution_evaluate_result", earlier);
    assert_eq!((&result["outcomeClass"], &result["isLatestForId"]), (&json!("not-ready"), &json!(false)), "{result}");

    // The signature verifies with the original's key; the commit is not this repository's.
    let gate = shim.answer("solution_gate", json!({ "id": "t", "repoPath": repository.text() }));
    assert_eq!((&gate["code"], &gate["verdict"]["confidence"]), (&json!("stale_head"), &json!(0.9)), "{gate}");
    let marker = environment.read(&format!("{VERDICTS}/t.json"));
    assert_eq!(marker, original("marker.json"), "the gate never writes");
}

#[test]
fn a_ledger_older_than_policy_decision_is_rebuilt_with_its_rows() {
    let environment = TestEnvironment::new();
    make_ledger(&environment, &original("ledger-before-policy-decision.sql"));
    let mut shim = environment.shim();
    let arguments = json!({ "sessionId": "s", "type": "policy_decision", "content": "c" });
    assert_eq!(shim.answer("ledger_add", arguments)["id"], 4);
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s" }));
    let old = &summary["entries"]["facts"][0];
    assert_eq!((&old["id"], &old["createdAt"]), (&json!(3), &json!("2025-01-02 03:04:05")), "{summary}");
}

#[test]
fn what_is_written_has_the_shape_of_the_original() {
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", binaries::preflight());
    let repository = environment.repository("repo");
    let mut shim = environment.shim();

    let session = shim.answer("grounding_start", json!({ "keyword": "agent-tasks", "problem": "p" }));
    let id = session["sessionId"].as_str().expect("a session");
    let written = parsed(&environment.read(&format!(".grounding-mcp/sessions/{id}.json")));
    assert_eq!(shape_differences(&parsed(&original("session.json")), &written), Vec::<String>::new());

    let recorded =
        shim.answer("hypothesis_record", json!({ "sessionId": "h1", "text": "t", "requiredChecks": ["a", "b"] }));
    let arguments = json!({
        "sessionId": "h1", "hypothesisId": recorded["hypothesis"]["id"], "evidence": "e", "source": "s"
    });
    shim.answer("hypothesis_evidence", arguments);
    let written = parsed(&environment.read(".grounding-mcp/hypotheses/h1.json"));
    assert_eq!(shape_differences(&parsed(&original("hypotheses.json")), &written), Vec::<String>::new());

    let evaluated = shim.answer("solution_evaluate", json!({ "id": "t", "repoPath": repository.text() }));
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    let marker = environment.read(&format!("{VERDICTS}/t.json"));
    let example = parsed(&original("marker.json"));
    assert_eq!(keys(&parsed(&marker)), keys(&example));
    assert_eq!(shape_differences(&example, &parsed(&marker)), Vec::<String>::new());
    assert!(marker.starts_with("{\n  \"id\": \"t\",\n  \"head\": ") && marker.ends_with("\n}\n"), "{marker}");

    let log = environment.read(&format!("{VERDICTS}/t.attempts.jsonl"));
    let example = original("attempts.jsonl");
    for (written, example) in log.lines().zip(example.lines()) {
        assert_eq!(keys(&parsed(written)), keys(&parsed(example)));
        assert_eq!(shape_differences(&parsed(example), &parsed(written)), Vec::<String>::new());
    }
    assert_eq!(log.lines().count(), 2, "{log}");

    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    let ours = columns(&environment);
    let theirs = TestEnvironment::new();
    make_ledger(&theirs, &original("ledger.sql"));
    assert_eq!(ours, columns(&theirs));
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().expect("an object").keys().collect()
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut environment = TestEnvironment::new();
    environment.set("SOLUTION_PREFLIGHT_BIN", binaries::preflight());
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let session = shim.answer("grounding_start", json!({ "keyword": "k", "problem": "p" }));
    shim.answer("hypothesis_record", json!({ "sessionId": "h1", "text": "t" }));
    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    shim.answer("solution_evaluate", json!({ "id": "t", "repoPath": repository.text() }));
    let session = format!(".grounding-mcp/sessions/{}.json", session["sessionId"].as_str().expect("a session"));
    let files = [
        session,
        ".grounding-mcp/hypotheses/h1.json".into(),
        ".evidence-ledger/ledger.db".into(),
        ".harness/harness.generated/.approval-signing.key".into(),
        format!("{VERDICTS}/t.json"),
        format!("{VERDICTS}/t.attempts.jsonl"),
        format!("{VERDICTS}/t.attempt-lock"),
    ];
    for file in files {
        let path = environment.path(&file);
        let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600, "{file}");
        assert_eq!(mode(path.parent().expect("a directory")), 0o700, "{file}'s directory");
    }
}
