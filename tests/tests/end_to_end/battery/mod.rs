//! The built-in battery, through the real binaries: beside the npm program, on real repositories, and under attack.

mod beside_npm;
mod configuration;
mod ecosystems;
mod evaluation;
mod hostile;

use std::collections::BTreeMap;
use std::process::Stdio;

use grounding_tests::environment::shown;
use grounding_tests::{Repository, TestEnvironment, binaries};
use serde_json::Value;

/// Runs the battery to its end and returns its exit code and its answer.
fn battery(environment: &TestEnvironment, repository: &Repository<'_>) -> (i32, Value) {
    let mut command = environment.command(binaries::groundingd());
    command.args(["preflight", "run", repository.text(), "--json"]).stdin(Stdio::null());
    let output = command.output().expect("groundingd starts");
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
    (output.status.code().expect("an exit code"), answer)
}

/// Returns the check of that name.
fn check<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let checks = answer["checks"].as_array().expect("a list of checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check {name} in {answer:#}"))
}

/// Returns the statuses of each kind, sorted and joined.
fn statuses(answer: &Value) -> BTreeMap<String, String> {
    let mut by_kind: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for check in answer["checks"].as_array().expect("a list of checks") {
        let text = |field: &str| check[field].as_str().expect("text").to_owned();
        by_kind.entry(text("kind")).or_default().push(text("status"));
    }
    let joined = |mut statuses: Vec<String>| {
        statuses.sort();
        statuses.join(" ")
    };
    by_kind.into_iter().map(|(kind, statuses)| (kind, joined(statuses))).collect()
}

/// Returns the lines of a list of the answer, joined.
fn lines(answer: &Value, list: &str) -> String {
    let lines = answer[list].as_array().expect("a list");
    lines.iter().map(|line| line.as_str().expect("text")).collect::<Vec<_>>().join("\n")
}
