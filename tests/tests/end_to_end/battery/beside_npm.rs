//! Beside the npm program, on small repositories: the same verdict, the same statuses, about the same confidence. What
//! differs on purpose stands in `tests/fixtures/battery-differences.json`, each with its reason.

use std::collections::BTreeMap;
use std::process::Stdio;

use grounding_tests::environment::shown;
use grounding_tests::{Repository, TestEnvironment, binaries};
use serde::Deserialize;
use serde_json::Value;

use super::{battery, statuses};

/// How far two confidences may be apart.
const TOLERANCE: f64 = 0.1;

/// A line of the table.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Difference {
    case: String,
    what: String,
    npm: String,
    ours: String,
    why: String,
}

type Make = fn(&Repository<'_>);

const CASES: &[(&str, Make)] = &[
    ("clean", |it| configured(it, r#"{"commands": {"lint": ["true"], "test": ["true", "true"]}}"#)),
    ("dirty", |it| {
        configured(it, r#"{"commands": {"lint": ["true"]}}"#);
        it.write("README.md", "Changed.\n");
        it.write("new.txt", "Untracked.\n");
    }),
    ("main branch", |it| {
        it.git(&["switch", "--quiet", "main"]);
        configured(it, r#"{"commands": {"lint": ["true"]}}"#);
    }),
    ("lint failing", |it| configured(it, r#"{"commands": {"lint": ["echo bad; exit 3"], "typecheck": ["true"]}}"#)),
    ("test failing", |it| {
        configured(it, r#"{"commands": {"typecheck": ["true"], "test": ["true", "echo bad >&2; exit 1"]}}"#);
    }),
    ("custom checks", |it| {
        configured(
            it,
            r#"{"customChecks": [
                {"name": "passes", "command": "true", "failOnError": true},
                {"name": "warns", "command": "false", "failOnError": false},
                {"name": "fails", "command": "false"}
            ]}"#,
        );
    }),
    ("acknowledged", |it| {
        configured(
            it,
            r#"{"checks": {"lint": {"acknowledge": "legacy"}, "gitState": {"acknowledge": "notes"}, "secretDetection": {"acknowledge": "x"}},
                "commands": {"lint": ["false"], "test": ["true"]}}"#,
        );
        it.write("notes.txt", "Untracked.\n");
    }),
    ("malformed configuration", |it| configured(it, r#"{"commands": {"lint": ["true"}"#)),
    ("no checks", |it| {
        configured(
            it,
            r#"{"checks": {"gitState": false, "lint": false, "typecheck": false, "test": false, "audit": false,
                "commitConvention": false, "secretDetection": false, "tdd": false}}"#,
        );
    }),
    ("nested workingDir", |it| {
        std::fs::create_dir(it.path().join("sub")).expect("a directory");
        it.write(
            "sub/package.json",
            r#"{"name": "x", "version": "1.0.0", "scripts": {"lint": "true", "test": "false"}}"#,
        );
        configured(it, r#"{"workingDir": "sub", "checks": {"audit": false}}"#);
    }),
    ("secrets", |it| {
        let token = format!("token: \"{}{}\"\n", "ghp_", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        it.write("deploy.yaml", &token);
        configured(it, r#"{"commands": {"lint": ["true"]}}"#);
    }),
    ("non-conventional commits", |it| {
        it.write("notes.txt", "A change.\n");
        it.commit("did some things");
        configured(it, r#"{"commands": {"lint": ["true"]}}"#);
    }),
    ("source without a test", |it| {
        std::fs::create_dir(it.path().join("src")).expect("a directory");
        it.write("src/alone.ts", "export const a = 1;\n");
        it.write("src/pair.ts", "export const b = 2;\n");
        it.write("src/pair.test.ts", "");
        configured(it, r#"{"commands": {"lint": ["true"]}}"#);
    }),
];

fn configured(repository: &Repository<'_>, configuration: &str) {
    repository.write(".preflight.json", configuration);
    repository.commit("feat: check it");
}

#[test]
fn verdicts_are_the_same_or_the_table_says_why() {
    let table: Vec<Difference> =
        serde_json::from_str(&binaries::fixture("battery-differences.json")).expect("the table is JSON");
    assert!(table.iter().all(|line| line.why.len() > 20), "a difference without a reason");
    let next = std::sync::Mutex::new(CASES.iter());
    let found = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let case = next.lock().expect("no case panics with the lock").next();
                    let Some((name, make)) = case else { return };
                    let differences = differences(name, *make);
                    found.lock().expect("as above").extend(differences);
                }
            });
        }
    });
    let found = found.into_inner().expect("as above");
    let listed = |it: &&Difference| {
        !table
            .iter()
            .any(|line| (&line.case, &line.what, &line.npm, &line.ours) == (&it.case, &it.what, &it.npm, &it.ours))
    };
    let unlisted: Vec<_> = found.iter().filter(listed).collect();
    assert!(unlisted.is_empty(), "differences that the table does not list: {unlisted:#?}");
    let stale = |line: &&Difference| !found.iter().any(|it| (&it.case, &it.what) == (&line.case, &line.what));
    let stale: Vec<_> = table.iter().filter(stale).collect();
    assert!(stale.is_empty(), "lines of the table without a difference: {stale:#?}");
}

fn differences(case: &str, make: Make) -> Vec<Difference> {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    make(&repository);
    let (npm, (code, ours)) = (npm(&environment, &repository), battery(&environment, &repository));
    assert_eq!(code, i32::from(ours["ready"] != true), "{case}: {ours:#}");

    let mut differences = Vec::new();
    let mut compare = |what: &str, npm: String, ours: String| {
        if npm != ours {
            let (case, what, why) = (case.to_owned(), what.to_owned(), String::new());
            differences.push(Difference { case, what, npm, ours, why });
        }
    };
    compare("ready", npm["ready"].to_string(), ours["ready"].to_string());
    let (theirs, own) = (statuses(&npm), statuses(&ours));
    let kinds: BTreeMap<_, ()> = theirs.keys().chain(own.keys()).map(|kind| (kind, ())).collect();
    for kind in kinds.into_keys() {
        let of = |statuses: &BTreeMap<String, String>| statuses.get(kind).cloned().unwrap_or_default();
        compare(kind, of(&theirs), of(&own));
    }
    let confidence = |answer: &Value| answer["confidence"].as_f64().expect("a number");
    if (confidence(&npm) - confidence(&ours)).abs() > TOLERANCE {
        compare("confidence", format!("{:.2}", confidence(&npm)), format!("{:.2}", confidence(&ours)));
    }
    differences
}

fn npm(environment: &TestEnvironment, repository: &Repository<'_>) -> Value {
    let mut command = environment.command(binaries::preflight());
    command.args(["run", repository.text(), "--json"]).stdin(Stdio::null());
    let output = command.output().expect("preflight starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)))
}
