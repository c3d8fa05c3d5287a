//! Section N, and what the Node.js original got wrong at first: storage, sessions, ledger, and what documents promise.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use grounding_tests::http::{Connection, block_on, context};
use grounding_tests::{Shim, TestEnvironment, binaries};
use hyper::Method;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::stub::files_below;

/// U3 of the original (0.3.3, #102): the verbs that read took a session id for a path.
#[test]
fn a_session_id_reads_and_writes_no_file_outside() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let started = shim.answer("grounding_start", json!({ "keyword": "k", "problem": "precious" }));
    let id = started["sessionId"].as_str().expect("a session");
    let session = environment.read(&format!(".grounding-mcp/sessions/{id}.json"));
    let victims = ["secret.json", ".grounding-mcp/secret.json", ".grounding-mcp/hypotheses/../secret.json"];
    for victim in victims {
        environment.write(victim, &session);
    }
    let absolute = environment.path("secret");
    let absolute = absolute.to_str().expect("UTF-8");
    for path in
        ["../secret", "../../secret", absolute, "..", ".", "./../secret", "x/../../secret", "..\\secret", "../secret\0"]
    {
        for tool in ["grounding_advance", "grounding_guardrail_check", "claim_evaluate_from_session"] {
            let arguments = json!({ "sessionId": path, "guardrail": "no-step-skipping", "claim": "It is so" });
            let refusal = shim.refusal(tool, arguments);
            assert!(!refusal.contains("precious"), "{tool} {path}: {refusal}");
        }
        for (tool, more) in [
            ("hypothesis_record", json!({ "text": "t" })),
            ("hypothesis_list", json!({})),
            ("hypothesis_reset", json!({})),
            ("hypothesis_reject", json!({ "hypothesisId": "h" })),
        ] {
            let mut arguments = more;
            arguments["sessionId"] = json!(path);
            assert!(shim.refusal(tool, arguments).contains("sessionId"), "{tool} {path}");
        }
        let uri = format!("grounding://session/{}", path.replace('/', "%2F").replace('\0', "%00"));
        let read = shim.request("resources/read", json!({ "uri": uri }));
        assert!(read.get("error").is_some() && !read.to_string().contains("precious"), "{uri}: {read}");
    }
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        let body = json!({ "context": context(&environment) }).to_string();
        for path in ["..%2Fsecret", "..%2f..%2fsecret", "%2e%2e%2fsecret", "%2Fetc%2Fpasswd", ".."] {
            let path = format!("/v1/sessions/{path}");
            let (status, answer) = connection.send(Method::POST, &path, body.clone().into_bytes()).await;
            assert!(status.is_client_error() && !answer.to_string().contains("precious"), "{path}: {answer}");
        }
    });
    for victim in victims {
        assert_eq!(environment.read(victim), session, "{victim}");
    }
}

/// U5 of the original (0.6.x, #139): hypotheses were lost with the host while sessions and ledger stayed.
#[test]
fn hypotheses_outlive_host_and_daemon() {
    let environment = TestEnvironment::new();
    let session = json!({ "sessionId": "A.session-1_x" });
    let mut shim = environment.shim();
    let mut recorded = session.clone();
    recorded["text"] = json!("It is the cache");
    let recorded = shim.answer("hypothesis_record", recorded);
    let mut rejected = session.clone();
    rejected["hypothesisId"] = recorded["hypothesis"]["id"].clone();
    let rejected = shim.answer("hypothesis_reject", rejected);
    drop(shim);
    environment.kill_daemon();
    let listed = environment.shim().answer("hypothesis_list", session);
    assert_eq!(listed["hypotheses"], json!([rejected["hypothesis"]]), "{listed}");
}

/// U32 of the original (#149): one open database was given for every path, a relative one moved with the working
/// directory, and `:memory:` became a file of that name.
#[test]
fn each_ledger_path_is_a_ledger_of_its_own_and_a_relative_one_is_none() {
    let environment = TestEnvironment::new();
    let add = json!({ "sessionId": "s", "type": "fact", "content": "c" });
    for count in 1..=2 {
        for name in ["one", "two"] {
            let path = environment.path(&format!("{name}/ledger.db"));
            let mut shim = environment.shim_with(&[("EVIDENCE_LEDGER_DB", path.as_os_str())]);
            assert_eq!(shim.answer("ledger_add", add.clone())["id"], count, "{name}");
            assert_eq!(shim.answer("ledger_status", json!({}))["dbPath"], json!(path));
        }
    }
    for relative in ["ledger.db", ":memory:", "./ledger.db", "~/ledger.db", "file:x?mode=memory"] {
        let mut shim = environment.shim_with(&[("EVIDENCE_LEDGER_DB", relative.as_ref())]);
        assert!(shim.refusal("ledger_add", add.clone()).contains("EVIDENCE_LEDGER_DB"), "{relative}");
        let status = shim.answer("ledger_status", json!({}));
        assert!(status["message"].as_str().is_some_and(|it| it.contains("EVIDENCE_LEDGER_DB")), "{relative}: {status}");
    }
    // One working directory or another: the daemon has neither.
    std::fs::create_dir(environment.path("elsewhere")).expect("a directory");
    let mut command = environment.command(binaries::grounding_mcp());
    command.current_dir(environment.path("elsewhere"));
    let mut shim = Shim::spawn(command);
    shim.initialize();
    assert_eq!(shim.answer("ledger_add", add)["id"], 1);
    assert!(environment.path(".evidence-ledger/ledger.db").is_file());
    let strays = ["ledger.db", ":memory:", "elsewhere/ledger.db"].map(|name| environment.path(name).exists());
    assert_eq!(strays, [false; 3]);
}

/// U37 and U39 of the original: policy decisions counted as evidence, and one bucket was shown nowhere.
#[test]
fn a_policy_decision_is_shown_and_is_evidence_of_nothing() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let started = shim.answer("grounding_start", json!({ "keyword": "k", "problem": "p" }));
    let session = &started["sessionId"];
    let add = |kind: &str| json!({ "sessionId": session, "type": kind, "content": kind });
    let claim = json!({ "sessionId": session, "claim": "It is so", "type": "generic" });
    for kind in ["policy_decision", "hypothesis", "unknown", "rejected"] {
        let _ = shim.answer("ledger_add", add(kind));
        let evaluated = shim.answer("claim_evaluate_from_session", claim.clone());
        assert_eq!(evaluated["derivedContext"]["has_evidence"], false, "{kind}: {evaluated}");
    }
    let _ = shim.answer("ledger_add", add("fact"));
    assert_eq!(shim.answer("claim_evaluate_from_session", claim)["allowed"], true);
    let summary = shim.answer("ledger_summary", json!({ "sessionId": session }));
    for bucket in ["facts", "hypotheses", "rejected", "unknowns", "policyDecisions"] {
        assert_eq!(summary["counts"][bucket], 1, "{bucket}: {summary}");
        assert_eq!(summary["entries"][bucket].as_array().map(Vec::len), Some(1), "{bucket}: {summary}");
    }
    let uri = format!("grounding://ledger/{}", session.as_str().expect("an id"));
    let resource = shim.request("resources/read", json!({ "uri": uri })).to_string();
    assert!(resource.contains("policyDecisions") && resource.contains("policy_decision"), "{resource}");
}

/// 138, AVIDS2/memorix#291: while maintenance held the database, the server went read-only in silence and stored nothing.
#[test]
fn while_the_ledger_is_busy_a_write_fails_and_says_so() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let add = |content: &str| json!({ "sessionId": "s", "type": "fact", "content": content });
    let _ = shim.answer("ledger_add", add("before"));
    let refusal = block_on(async {
        let url = format!("sqlite://{}?mode=rw", environment.path(".evidence-ledger/ledger.db").display());
        let mut maintenance = SqliteConnection::connect(&url).await.expect("the database");
        maintenance.execute("BEGIN EXCLUSIVE").await.expect("exclusive");
        let refusal = shim.refusal("ledger_add", add("during"));
        maintenance.execute("ROLLBACK").await.expect("given back");
        maintenance.close().await.expect("closed");
        refusal
    });
    assert!(refusal.contains("ledger.db") && refusal.contains("locked"), "{refusal}");
    let _ = shim.answer("ledger_add", add("after"));
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s" }));
    let contents: Vec<_> =
        summary["entries"]["facts"].as_array().expect("a list").iter().map(|it| &it["content"]).collect();
    assert_eq!(contents, ["before", "after"]);
}

/// What users read.
const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "LIFECYCLE.md", "SECURITY.md", "systemd/README.md"];

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns what is written in capitals in a program, a line each: its constants stand side by side.
fn capitals(environment: &TestEnvironment, program: &Path) -> String {
    let mut command = environment.command("grep");
    command.env("LC_ALL", "C").args(["--text", "--only-matching", "--extended-regexp", "[A-Z_]{9,}"]).arg(program);
    String::from_utf8(command.output().expect("grep is installed").stdout).expect("capitals")
}

/// U40 of the original: its documents named a variable that no code read.
#[test]
fn every_variable_in_the_documents_is_read_and_every_one_that_is_read_is_documented() {
    let variables = |text: &str| -> BTreeSet<String> {
        let words = text.split(|it: char| !it.is_ascii_uppercase() && it != '_');
        let ours = |word: &&str| {
            ["GROUNDING_", "SOLUTION_", "EVIDENCE_", "HARNESS_"].iter().any(|prefix| word.starts_with(prefix))
        };
        words.filter(ours).map(str::to_owned).collect()
    };
    let documented: BTreeSet<_> = DOCUMENTS.iter().flat_map(|name| variables(&document(name))).collect();
    assert!(documented.len() > 12, "{documented:?}");
    let programs = [binaries::groundingd(), binaries::grounding_mcp(), binaries::groundingctl()];
    let environment = TestEnvironment::new();
    let known: String = programs.iter().map(|path| capitals(&environment, path)).collect();
    // Its own words are that it has no effect.
    for variable in documented.iter().filter(|name| *name != "GROUNDING_HYPOTHESIS_MAX_SESSIONS") {
        assert!(known.contains(variable.as_str()), "{variable} is documented and no program knows it");
    }
    let read = variables(&document("proto/src/environment.rs"));
    let silent: Vec<_> = read.difference(&documented).collect();
    assert_eq!(silent, Vec::<&String>::new(), "read and not documented");
}

/// U41 of the original (#163): its documents named a verb that did not exist.
#[test]
fn every_verb_in_the_documents_exists_and_every_one_that_exists_is_documented() {
    let environment = TestEnvironment::new();
    let mut named = BTreeSet::new();
    for text in DOCUMENTS.map(document) {
        // In a sentence a word follows the program's name as well: code alone counts.
        for rest in text.split("`groundingctl ").skip(1) {
            named.insert(rest.chars().take_while(|it| it.is_ascii_lowercase() || *it == '-').collect::<String>());
        }
    }
    let readme = document("README.md");
    let table =
        readme.split("\n## groundingctl\n").nth(1).expect("the section").split("\n## ").next().expect("a section");
    let mut listed = BTreeSet::new();
    // The first table of the section; what follows tells of answers.
    let rows = table.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with("| `"));
    for row in rows {
        let cell = row.split(" | ").next().expect("a cell");
        for code in cell.split('`').skip(1).step_by(2) {
            listed.insert(code.split(' ').next().expect("a word").to_owned());
        }
    }
    assert!(listed.len() > 8, "{listed:?}");
    let help = environment.groundingctl(&["--help"]);
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let commands = help.split("Commands:\n").nth(1).expect("commands").split("\n\n").next().expect("a list");
    let exist: BTreeSet<_> =
        commands.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let ghosts: Vec<_> = named.union(&listed).filter(|verb| !exist.contains(*verb)).collect();
    assert_eq!(ghosts, Vec::<&String>::new(), "documented and absent");
    let silent: Vec<_> = exist.difference(&listed).collect();
    assert_eq!(silent, Vec::<&String>::new(), "there and not documented");
    for verb in &exist {
        let mut command = environment.command(binaries::groundingctl());
        let output = command.args([verb, "--help"]).stdin(Stdio::null()).output().expect("groundingctl starts");
        assert!(output.status.success() && !output.stdout.is_empty(), "{verb}");
    }
}

/// U47 of the original: its documents promised what no code did. Ours name a test for what they promise.
#[test]
fn every_test_that_the_documents_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["proto/src", "daemon/src", "shim/src", "shim/tests", "tests/tests"];
    let files = folders.iter().flat_map(|folder| files_below(&root.join(folder)));
    let sources: Vec<_> = files.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let architecture = document("ARCHITECTURE.md");
    let reports = architecture.split("\n## Reports from the field\n").nth(1).expect("the section");
    let mut count = 0;
    for code in [document("SECURITY.md").as_str(), reports].iter().flat_map(|text| text.split('`').skip(1).step_by(2)) {
        let Some((_, name)) = code.rsplit_once("::").filter(|(_, name)| name.matches('_').count() > 1) else {
            continue;
        };
        count += 1;
        assert!(sources.iter().any(|source| source.contains(&format!("fn {name}("))), "{code} is named and absent");
    }
    assert!(count > 100, "{count}");
}

/// R15 of the original: a hypothesis file that could not be read counted as empty, and the next save wrote over it.
#[test]
fn a_store_that_can_not_be_read_is_never_written_over() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    for content in ["{\"session\":\"h1\",\"hypotheses\":[{\"id\":\"a\"", "[]", "", "\u{0}", "{\"hypotheses\":{}}"] {
        environment.write(".grounding-mcp/hypotheses/h1.json", content);
        for (tool, more) in [
            ("hypothesis_record", json!({ "sessionId": "h1", "text": "t" })),
            ("hypothesis_reject", json!({ "sessionId": "h1", "hypothesisId": "a" })),
            ("hypothesis_list", json!({ "sessionId": "h1" })),
            ("hypothesis_reset", json!({ "sessionId": "h1" })),
        ] {
            let refusal = shim.refusal(tool, more);
            assert!(refusal.contains("h1.json"), "{tool} {content:?}: {refusal}");
            assert_eq!(environment.read(".grounding-mcp/hypotheses/h1.json"), content, "{tool}");
        }
    }
}
