//! Tests of the ledger over real database files, with other programs' connections beside it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use grounding_proto::ledger::{EntryType, LedgerAdd, LedgerEntry, LedgerHealth, LedgerSummary, LedgerSummaryAnswer};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection};
use tempfile::TempDir;

use super::{Evidence, LedgerError, Ledgers};

const ORIGINAL: &str = include_str!("../../../tests/fixtures/original-files/ledger.sql");
const OLD: &str = include_str!("../../../tests/fixtures/original-files/ledger-before-policy-decision.sql");

struct Bench {
    dir: TempDir,
    ledgers: Ledgers,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), ledgers: Ledgers::new(None) }
    }

    /// Returns a bench whose ledger another program made.
    async fn with(sql: &str) -> Self {
        let bench = Self::new();
        let mut other = bench.other_program().await;
        run(&mut other, sql).await;
        other.close().await.unwrap();
        bench
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    /// Opens the file as another program does.
    async fn other_program(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(self.path()).create_if_missing(true).connect().await.unwrap()
    }

    async fn add(&self, content: &str) -> Result<LedgerEntry, LedgerError> {
        self.ledgers.add(&self.path(), fact("s", content)).await
    }

    async fn summary(&self, arguments: Value) -> LedgerSummaryAnswer {
        let mut request: LedgerSummary = serde_json::from_value(arguments).unwrap();
        if request.session_id.is_empty() {
            request.session_id = "s".to_owned();
        }
        self.ledgers.summary(&self.path(), &request).await.unwrap()
    }

    /// Returns the contents of the facts that a summary shows.
    async fn facts(&self, arguments: Value) -> Vec<String> {
        self.summary(arguments).await.entries.facts.into_iter().map(|entry| entry.content).collect()
    }
}

async fn run(connection: &mut SqliteConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.unwrap();
}

async fn text(connection: &mut SqliteConnection, sql: &'static str) -> String {
    sqlx::query(sql).fetch_one(connection).await.unwrap().get::<String, _>(0)
}

fn fact(session: &str, content: &str) -> LedgerAdd {
    LedgerAdd {
        session_id: session.to_owned(),
        entry_type: EntryType::Fact,
        content: content.to_owned(),
        source: None,
        confidence: None,
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

#[tokio::test]
async fn recorded_answers_are_given_as_recorded() {
    let fixture: Value = serde_json::from_str(include_str!("../../../tests/fixtures/answers.json")).unwrap();
    let bench = Bench::new();
    let mut ran = 0;
    for case in fixture["cases"].as_array().unwrap() {
        let arguments = case["arguments"].clone();
        let answer = match case["tool"].as_str().unwrap() {
            _ if case["isError"] == true => continue,
            "ledger_add" => {
                json!(bench.ledgers.add(&bench.path(), serde_json::from_value(arguments).unwrap()).await.unwrap())
            }
            "ledger_summary" => json!(bench.summary(arguments).await),
            "ledger_status" => json!(bench.ledgers.status(&bench.path()).await),
            _ => continue,
        };
        let dir = bench.dir.path().to_str().unwrap();
        assert_recorded(&answer, &case["answer"], dir, case["name"].as_str().unwrap());
        ran += 1;
    }
    assert_eq!(ran, 6);
}

/// Compares an answer with a recorded one, which has fewer keys and placeholders for times.
fn assert_recorded(answer: &Value, recorded: &Value, dir: &str, at: &str) {
    match recorded {
        Value::Object(keys) => {
            for (key, recorded) in keys {
                assert_recorded(answer.get(key).unwrap_or(&json!("absent")), recorded, dir, &format!("{at}.{key}"));
            }
        }
        Value::Array(items) => {
            assert_eq!(answer.as_array().map(Vec::len), Some(items.len()), "{at}");
            for (index, recorded) in items.iter().enumerate() {
                assert_recorded(&answer[index], recorded, dir, &format!("{at}[{index}]"));
            }
        }
        Value::String(text) if text == "<ledger-time>" => {
            let time = answer.as_str().unwrap_or_else(|| panic!("{at} is no time: {answer}"));
            assert!(jiff::fmt::strtime::parse("%Y-%m-%d %H:%M:%S", time).is_ok() && time.len() == 19, "{at}: {time}");
        }
        Value::String(text) => assert_eq!(answer, &text.replace("<dir>", dir), "{at}"),
        other => assert_eq!(answer, other, "{at}"),
    }
}

#[tokio::test]
async fn a_ledger_is_private_and_complete() {
    let bench = Bench::new();
    let path = bench.dir.path().join("new/deep/ledger.db");
    bench.ledgers.add(&path, fact("s", "c")).await.unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    for suffix in ["-wal", "-shm"] {
        assert_eq!(mode(Path::new(&format!("{}{suffix}", path.display()))), 0o600);
    }
    bench.ledgers.close().await;
    let mut other = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    assert_eq!(text(&mut other, "PRAGMA journal_mode").await, "wal");
    let names = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)";
    assert_eq!(
        text(&mut other, names).await,
        "entries,idx_session,idx_type,sqlite_sequence",
        "nothing of ours besides"
    );
}

#[tokio::test]
async fn only_the_default_directory_is_tightened() {
    for (is_default, expected) in [(true, 0o700), (false, 0o755)] {
        let bench = Bench::new();
        fs::set_permissions(bench.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(bench.path(), "").unwrap();
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let ledgers = Ledgers::new(is_default.then(|| bench.path()));
        assert_eq!(ledgers.status(&bench.path()).await.status, LedgerHealth::Ok);
        assert_eq!((mode(bench.dir.path()), mode(&bench.path())), (expected, 0o600));
    }
}

#[tokio::test]
async fn a_ledger_of_the_original_is_read_and_continued() {
    let bench = Bench::with(ORIGINAL).await;
    let session = "gs-agent-tasks-mx4czw8j";
    let answer = bench.summary(json!({"sessionId": session})).await;
    let fact_entry = &answer.entries.facts[0];
    assert_eq!((fact_entry.id, fact_entry.created_at.as_str()), (1, "2026-12-01 07:12:02"));
    assert_eq!((answer.counts.facts, answer.counts.rejected), (1, 1));
    assert_eq!(bench.ledgers.add(&bench.path(), fact(session, "new")).await.unwrap().id, 3);
    let evidence = bench.ledgers.evidence(&bench.path(), session).await.unwrap();
    assert_eq!(evidence, Evidence { facts: true, rejected: true });
    let evidence = bench.ledgers.evidence(&bench.path(), "another").await.unwrap();
    assert_eq!(evidence, Evidence { facts: false, rejected: false });
}

#[tokio::test]
async fn an_old_ledger_is_widened_and_keeps_everything() {
    let hung_on = "
        ALTER TABLE entries ADD COLUMN theirs TEXT DEFAULT 'x';
        CREATE TABLE log (content TEXT);
        CREATE TRIGGER theirs AFTER INSERT ON entries BEGIN INSERT INTO log VALUES (NEW.content); END;
        CREATE INDEX idx_theirs ON entries(theirs);
        INSERT INTO entries (id, type, content) VALUES (41, 'fact', 'deleted');
        DELETE FROM entries WHERE id = 41;
    ";
    for (more, next) in [("", 4), (hung_on, 42)] {
        let bench = Bench::with(&format!("{OLD}{more}")).await;
        let decision = LedgerAdd { entry_type: EntryType::PolicyDecision, ..fact("s", "allow") };
        let added = bench.ledgers.add(&bench.path(), decision).await.unwrap();
        assert_eq!((added.id, added.entry_type), (next, EntryType::PolicyDecision));
        let kept = &bench.summary(json!({"sessionId": "s"})).await.entries.facts[0];
        assert_eq!((kept.id, kept.content.as_str()), (3, "old"));
        assert_eq!(
            (kept.created_at.as_str(), kept.updated_at.as_str()),
            ("2025-01-02 03:04:05", "2025-01-02 03:04:05")
        );

        let mut other = bench.other_program().await;
        assert_eq!(text(&mut other, "PRAGMA integrity_check").await, "ok");
        let wrong = "INSERT INTO entries (type, content) VALUES ('opinion', 'c')";
        assert!(sqlx::raw_sql(wrong).execute(&mut other).await.is_err(), "the CHECK still stands");
        if !more.is_empty() {
            assert_eq!(text(&mut other, "SELECT content FROM log ORDER BY rowid DESC LIMIT 1").await, "allow");
            assert_eq!(text(&mut other, "SELECT theirs FROM entries WHERE id = 42").await, "x");
        }
    }
}

#[tokio::test]
async fn two_programs_widen_an_old_ledger_once() {
    let bench = Bench::with(OLD).await;
    let programs: Vec<_> = (0..4).map(|_| Ledgers::new(None)).collect();
    let adds: Vec<_> = programs
        .into_iter()
        .map(|ledgers| {
            let path = bench.path();
            let decision = LedgerAdd { entry_type: EntryType::PolicyDecision, ..fact("s", "allow") };
            tokio::spawn(async move { ledgers.add(&path, decision).await.unwrap().id })
        })
        .collect();
    let mut ids = Vec::new();
    for add in adds {
        ids.push(add.await.unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [4, 5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn adds_of_two_programs_at_once_are_all_kept() {
    let bench = Bench::new();
    let programs = [Ledgers::new(None), Ledgers::new(None)];
    let adds: Vec<_> = (0..1000)
        .map(|number| {
            let (ledgers, path) = (programs[number % 2].clone(), bench.path());
            tokio::spawn(async move {
                let content = format!("entry {number}");
                let entry = ledgers.add(&path, fact("s", &content)).await.unwrap();
                assert_eq!(entry.content, content, "each caller gets its own entry");
                entry.id
            })
        })
        .collect();
    let mut ids = HashSet::new();
    for add in adds {
        ids.insert(add.await.unwrap());
    }
    assert_eq!(ids.len(), 1000);
    let answer = bench.summary(json!({"sessionId": "s", "limit": 1000})).await;
    let stored: HashSet<_> = answer.entries.facts.iter().map(|entry| entry.id).collect();
    assert_eq!((stored, answer.truncated), (ids, false));
}

#[tokio::test]
async fn adds_that_queue_up_share_a_commit() {
    const PAGE: u64 = 4096 + 24;
    let bench = Bench::new();
    bench.add("first").await.unwrap();
    let log = bench.dir.path().join("ledger.db-wal");
    let before = log.metadata().unwrap().len();
    let adds: Vec<_> = (0..50)
        .map(|number| {
            let (ledgers, path) = (bench.ledgers.clone(), bench.path());
            tokio::spawn(async move { ledgers.add(&path, fact("s", &number.to_string())).await.unwrap() })
        })
        .collect();
    for add in adds {
        add.await.unwrap();
    }
    let pages = (log.metadata().unwrap().len() - before) / PAGE;
    assert!((1..50).contains(&pages), "each commit writes several pages, and 50 adds wrote {pages}");
}

#[tokio::test]
async fn a_refused_entry_harms_no_other_of_its_commit() {
    let bench = Bench::new();
    bench.add("first").await.unwrap();
    let mut other = bench.other_program().await;
    let refuse = "CREATE TRIGGER no BEFORE INSERT ON entries WHEN NEW.content = 'bad'
        BEGIN SELECT RAISE(ABORT, 'not this'); END";
    run(&mut other, refuse).await;
    // While another program writes, entries queue up behind the first and share a commit.
    run(&mut other, "BEGIN IMMEDIATE").await;
    let adds = ["a", "b", "bad", "c"].map(|content| {
        let (ledgers, path) = (bench.ledgers.clone(), bench.path());
        tokio::spawn(async move { ledgers.add(&path, fact("s", content)).await })
    });
    bench.ledgers.evidence(&bench.path(), "s").await.unwrap();
    assert!(!adds.iter().any(|add| add.is_finished()), "nothing is answered while the database is locked");
    run(&mut other, "COMMIT").await;
    for (add, content) in adds.into_iter().zip(["a", "b", "bad", "c"]) {
        match add.await.unwrap() {
            Ok(entry) => assert_eq!(entry.content, content),
            Err(error) => {
                assert_eq!(content, "bad");
                assert!(matches!(&error, LedgerError::Refused { .. }), "{error:?}");
            }
        }
    }
    assert_eq!(bench.facts(json!({"sessionId": "s"})).await, ["first", "a", "b", "c"]);
}

#[tokio::test]
async fn a_database_that_stays_locked_is_said_to() {
    let bench = Bench::new();
    bench.add("first").await.unwrap();
    let mut other = bench.other_program().await;
    run(&mut other, "BEGIN IMMEDIATE").await;
    let error = bench.add("second").await.unwrap_err();
    assert!(matches!(error, LedgerError::Busy { .. }), "{error:?}");
    assert!(error.to_string().contains("ledger.db"), "{error}");
    assert_eq!(bench.facts(json!({"sessionId": "s"})).await, ["first"], "reading goes on");
    run(&mut other, "ROLLBACK").await;
    assert_eq!(bench.add("third").await.unwrap().id, 2);
}

#[tokio::test]
async fn what_is_no_ledger_is_named_and_left() {
    let missing = "CREATE TABLE entries (id INTEGER PRIMARY KEY, type TEXT, content TEXT)";
    let unlike = Bench::with(missing).await;
    let view = Bench::with("CREATE VIEW entries AS SELECT 1 AS id").await;
    let garbage = Bench::new();
    fs::write(garbage.path(), "this is no database at all, ".repeat(100)).unwrap();
    let damaged = Bench::with(ORIGINAL).await;
    let mut bytes = fs::read(damaged.path()).unwrap();
    bytes[4096..].fill(0x55);
    fs::write(damaged.path(), bytes).unwrap();
    let cut = Bench::with(ORIGINAL).await;
    let bytes = fs::read(cut.path()).unwrap();
    fs::write(cut.path(), &bytes[..5000]).unwrap();
    for (bench, expected) in [
        (&unlike, "no column source, confidence, session, created_at, updated_at"),
        (&view, "no column type"),
        (&garbage, "no SQLite database"),
        (&damaged, "damaged"),
        (&cut, "damaged"),
    ] {
        let before = fs::read(bench.path()).unwrap();
        let error = bench.add("c").await.unwrap_err().to_string();
        assert!(error.contains("ledger.db") && error.contains(expected) && error.contains("left as it is"), "{error}");
        assert!(bench.ledgers.evidence(&bench.path(), "s").await.is_err());
        let status = bench.ledgers.status(&bench.path()).await;
        assert_eq!(status.status, LedgerHealth::Error);
        assert!(status.message.unwrap().contains("ledger.db"));
        bench.ledgers.close().await;
        assert!(fs::read(bench.path()).unwrap() == before, "{expected}: the file is left as it is");
    }
    // Once it is moved away, a new one is started without a restart.
    fs::rename(garbage.path(), garbage.dir.path().join("away")).unwrap();
    assert_eq!(garbage.add("c").await.unwrap().id, 1);
}

#[tokio::test]
async fn a_path_that_can_be_no_file_is_named() {
    let bench = Bench::new();
    let ledgers = &bench.ledgers;
    for path in
        [bench.dir.path(), Path::new("/dev/null"), Path::new("/dev/null/ledger.db"), Path::new("/proc/ledger.db")]
    {
        let error = ledgers.add(path, fact("s", "c")).await.unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap().trim_end_matches("/ledger.db")), "{error}");
        assert_eq!(ledgers.status(path).await.status, LedgerHealth::Error);
    }
    let path = bench.dir.path().join(OsStr::from_bytes(b"\xff.db"));
    assert!(ledgers.add(&path, fact("s", "c")).await.is_err());
    assert_eq!(fs::read_dir(bench.dir.path()).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn a_replaced_file_is_the_ledger_from_then_on() {
    let bench = Bench::new();
    for number in 0..5 {
        bench.add(&format!("before {number}")).await.unwrap();
    }
    bench.summary(json!({"sessionId": "s"})).await;
    let (moved, backup) = (bench.dir.path().join("moved.db"), Bench::with(ORIGINAL).await);
    fs::rename(bench.path(), &moved).unwrap();
    fs::copy(backup.path(), bench.path()).unwrap();

    assert_eq!(bench.add("after").await.unwrap().id, 3);
    assert_eq!(bench.facts(json!({"sessionId": "s"})).await, ["after"]);
    let mut other = bench.other_program().await;
    assert_eq!(text(&mut other, "PRAGMA integrity_check").await, "ok");
    let mut old = SqliteConnectOptions::new().filename(&moved).connect().await.unwrap();
    assert_eq!(text(&mut old, "SELECT group_concat(content) FROM entries").await.matches("before").count(), 5);

    bench.ledgers.close().await;
    fs::remove_file(bench.path()).unwrap();
    assert_eq!(bench.add("anew").await.unwrap().id, 1);
}

#[tokio::test]
async fn prefixes_are_literal() {
    let bench = Bench::new();
    let contents = [
        "50% of",
        "50x of",
        "a_b",
        "acb",
        "Case",
        "case",
        "nul\0one",
        "nul\0two",
        "ä",
        "\u{d7ff}x",
        "\u{10ffff}\u{10ffff}",
    ];
    for content in contents {
        bench.add(content).await.unwrap();
    }
    for (prefix, expected) in [
        ("50%", &contents[..1]),
        ("a_", &contents[2..3]),
        ("Ca", &contents[4..5]),
        ("nul\0t", &contents[7..8]),
        ("\u{d7ff}", &contents[9..10]),
        ("\u{10ffff}", &contents[10..]),
        ("zz", &[]),
        ("", &contents[..]),
    ] {
        let answer = bench.summary(json!({"sessionId": "s", "contentPrefix": prefix})).await;
        assert_eq!(answer.counts.facts, expected.len() as u64, "{prefix:?}");
        let shown: Vec<_> = answer.entries.facts.into_iter().map(|entry| entry.content).collect();
        assert_eq!(shown, expected, "{prefix:?}");
    }
}

#[tokio::test]
async fn entries_are_ordered_and_cut_by_time() {
    let bench = Bench::with(ORIGINAL).await;
    let mut other = bench.other_program().await;
    run(
        &mut other,
        "INSERT INTO entries (type, content, session, created_at) VALUES
            ('fact', 'late', 's', '2026-03-01 10:00:00'),
            ('fact', 'early', 's', '2026-01-01 10:00:00'),
            ('fact', 'middle', 's', '2026-02-01 10:00:00'),
            ('unknown', 'also', 's', '2026-02-01 10:00:00')",
    )
    .await;
    assert_eq!(bench.facts(json!({"sessionId": "s"})).await, ["early", "middle", "late"]);
    assert_eq!(bench.facts(json!({"sessionId": "s", "afterId": 0})).await, ["late", "early", "middle"], "by id");
    for (since, expected) in [
        ("2026-02-01T10:00:00.999Z", &["middle", "late"] as &[_]),
        ("2026-02-01T12:00:01+02:00", &["late"]),
        ("2026-02-01", &["middle", "late"]),
        ("2027-01-01", &[]),
    ] {
        assert_eq!(bench.facts(json!({"sessionId": "s", "sinceIso": since})).await, expected, "{since}");
    }
    let answer = bench.summary(json!({"sessionId": "s", "types": ["unknown"], "limit": 1})).await;
    assert_eq!((answer.counts.facts, answer.entries.facts.len(), answer.entries.unknowns.len()), (3, 0, 1));
    assert!(!answer.truncated);
    let request = LedgerSummary { session_id: "s".into(), since_iso: Some("soon".into()), ..LedgerSummary::default() };
    let error = bench.ledgers.summary(&bench.path(), &request).await.unwrap_err();
    assert!(error.to_string().contains("\"soon\""), "{error}");
    assert_eq!(bench.ledgers.status(&bench.path()).await.last_write_at, Some(Some("2026-12-01 07:12:02".to_owned())));
}

#[tokio::test]
async fn answers_are_bounded_and_can_be_read_on() {
    let bench = Bench::new();
    bench.add("0").await.unwrap();
    let mut other = bench.other_program().await;
    run(
        &mut other,
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 449)
            INSERT INTO entries (type, content, session) SELECT 'fact', n, 's' FROM n",
    )
    .await;
    let newest = bench.summary(json!({"sessionId": "s"})).await;
    assert_eq!((newest.counts.facts, newest.truncated, newest.next_after_id), (450, true, None));
    let shown: Vec<_> = newest.entries.facts.iter().map(|entry| entry.id).collect();
    assert_eq!(shown, (251..=450).collect::<Vec<_>>());
    assert_eq!(bench.facts(json!({"sessionId": "s", "limit": 2})).await, ["448", "449"]);

    let mut after = 0;
    let mut read = Vec::new();
    loop {
        let page = bench.summary(json!({"sessionId": "s", "afterId": after, "limit": 200})).await;
        assert_eq!(page.truncated, page.next_after_id.is_some());
        read.extend(page.entries.facts.iter().map(|entry| entry.id));
        match page.next_after_id {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(read, (1..=450).collect::<Vec<_>>());
    let page = bench.summary(json!({"sessionId": "s", "afterId": 250, "limit": 200})).await;
    assert_eq!((page.entries.facts.len(), page.next_after_id), (200, None), "exactly the last page");
}

#[tokio::test]
async fn an_answer_stays_under_four_mebibytes() {
    let bench = Bench::new();
    for letter in ["a", "b", "c", "d", "e", "f"] {
        bench.add(&letter.repeat(1 << 20)).await.unwrap();
    }
    let first = |entries: &[LedgerEntry]| entries.iter().map(|entry| entry.content[..1].to_owned()).collect::<String>();
    for arguments in [json!({"sessionId": "s"}), json!({"sessionId": "s", "contentPrefix": ""})] {
        let answer = bench.summary(arguments).await;
        assert_eq!((first(&answer.entries.facts).as_str(), answer.truncated), ("def", true), "the newest that fit");
        assert!(json!(answer).to_string().len() <= 4 << 20);
    }
    let page = bench.summary(json!({"sessionId": "s", "afterId": 0})).await;
    assert_eq!((first(&page.entries.facts).as_str(), page.next_after_id), ("abc", Some(3)));
    bench.add(&"g".repeat(5 << 20)).await.unwrap();
    let page = bench.summary(json!({"sessionId": "s", "afterId": 6})).await;
    assert_eq!((first(&page.entries.facts).as_str(), page.next_after_id), ("g", None), "one is always shown");
}
