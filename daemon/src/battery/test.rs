//! test: the repository's tests, by what it holds. Test commands run alone, one after the other.

use super::lint::locked;
use super::project::{Ecosystem, Node, Project};
use super::report::Kind;
use super::step::{Judge, Planned, Step, pytest, pytest_with_files, unittest, unittest_with_files};

const KIND: Kind = Kind::Test;

/// What `npm init` writes where a test would be, in its words.
const NO_TEST: &[&str] = &["echo", "\"Error:", "no", "test", "specified\"", "&&", "exit", "1"];

/// Most test files that are asked which runner they are for.
const MAX_ASKED_FILES: usize = 500;

/// Keeps Python from writing beside the sources.
const WRITE_NOTHING: &str = "PYTHONDONTWRITEBYTECODE=1";

/// Plans the checks of one ecosystem.
#[must_use]
pub fn plan(project: &Project<'_>, ecosystem: &Ecosystem) -> Vec<Planned> {
    match ecosystem {
        Ecosystem::Cargo => vec![cargo(project)],
        Ecosystem::Node(node) => script(project, node).into_iter().collect(),
        Ecosystem::Python => python(project).into_iter().collect(),
        Ecosystem::Go => vec![project.plan(KIND, "go-test", "go", "go test ./...")],
    }
}

fn cargo(project: &Project<'_>) -> Planned {
    let locked = locked(project);
    if project.has(".config/nextest.toml") && project.finds("cargo-nextest") {
        return project.plan(KIND, "cargo-nextest", "cargo", format!("cargo nextest run --workspace{locked}"));
    }
    project.plan(KIND, "cargo-test", "cargo", format!("cargo test --workspace{locked}"))
}

fn script(project: &Project<'_>, node: &Node) -> Option<Planned> {
    let script = node.script("test").filter(|script| !script.split_whitespace().eq(NO_TEST.iter().copied()));
    let program = node.manager.program();
    script.map(|_| project.plan(KIND, &format!("{program}-test"), program, format!("{program} run test")))
}

fn python(project: &Project<'_>) -> Option<Planned> {
    let named = |text: &str| {
        let manifests = ["pyproject.toml", "setup.cfg", "tox.ini", "Pipfile", "setup.py"];
        let requirements =
            project.files.iter().filter(|file| file.starts_with("requirements") && file.ends_with(".txt"));
        manifests.into_iter().chain(requirements.map(String::as_str)).any(|file| project.mentions(file, text))
    };
    let configured = named("pytest")
        || ["pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py"].iter().any(|file| project.has(file));
    let named_tests = project.files.iter().any(|file| is_named_test(file));
    let judged = |alone: Judge, with_files: Judge| if named_tests { with_files } else { alone };
    if !configured && !project.files.iter().any(|file| is_test(file)) {
        return None;
    }
    if let Some(tool) = project.python_tool("pytest") {
        let command = format!("{WRITE_NOTHING} {tool} -p no:cacheprovider");
        let judge = judged(pytest, pytest_with_files);
        return Some(Planned::Run(Step::new("pytest", KIND, command).judged(judge)));
    }
    if configured || needs_pytest(project) {
        return Some(Planned::Skip(project.missing(KIND, "pytest", "pytest")));
    }
    let python = ["python3", "python"].into_iter().find_map(|program| project.python_tool(program));
    Some(match python {
        Some(python) => {
            let command = format!("{WRITE_NOTHING} {python} -m unittest discover");
            Planned::Run(Step::new("unittest", KIND, command).judged(judged(unittest, unittest_with_files)))
        }
        None => Planned::Skip(project.missing(KIND, "unittest", "python3")),
    })
}

/// unittest passes over functions outside of a class, and what is pytest's own it can't import.
fn needs_pytest(project: &Project<'_>) -> bool {
    let signs = ["import pytest", "from pytest", "def test_", "async def test_"];
    let tests = project.files.iter().filter(|file| is_test(file)).take(MAX_ASKED_FILES);
    tests
        .filter_map(|file| project.read(file))
        .any(|text| text.lines().any(|line| signs.iter().any(|sign| line.starts_with(sign))))
}

fn is_test(file: &str) -> bool {
    stem(file).is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
}

/// The names under which the runners themselves would find a test.
fn is_named_test(file: &str) -> bool {
    stem(file).is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
}

fn stem(file: &str) -> Option<&str> {
    file.rsplit('/').next().unwrap_or(file).strip_suffix(".py")
}

#[cfg(test)]
mod tests {
    use super::super::project::tests::planned_by;
    use super::*;

    fn planned(files: &[(&str, &str)], programs: &[&str]) -> Vec<String> {
        planned_by(plan, files, programs)
    }

    #[test]
    fn test_runners_follow_what_the_repository_holds() {
        let cargo = ("Cargo.toml", "");
        assert_eq!(planned(&[cargo, ("Cargo.lock", "")], &["cargo"]), ["cargo test --workspace --locked"]);
        let nextest = (".config/nextest.toml", "");
        assert_eq!(planned(&[cargo, nextest], &["cargo", "cargo-nextest"]), ["cargo nextest run --workspace"]);
        assert_eq!(planned(&[cargo, nextest], &["cargo"]), ["cargo test --workspace"]);
        assert_eq!(planned(&[("go.mod", "")], &["go"]), ["go test ./..."]);
        let script = ("package.json", r#"{"scripts":{"test":"x"}}"#);
        assert_eq!(planned(&[script, ("bun.lock", "")], &["bun"]), ["bun run test"]);
        let none = ("package.json", r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#);
        assert_eq!(planned(&[none], &["npm"]), [""; 0]);
        let blank = ("package.json", r#"{"scripts":{"test":" "}}"#);
        assert_eq!(planned(&[blank], &["npm"]), [""; 0]);
        let spaced = ("package.json", r#"{"scripts":{"test":" echo  \"Error: no test specified\"  &&  exit 1 "}}"#);
        assert_eq!(planned(&[spaced], &["npm"]), [""; 0]);
        let other = ("package.json", r#"{"scripts":{"test":"jest || echo \"no test specified\""}}"#);
        assert_eq!(planned(&[other], &["npm"]), ["npm run test"]);
    }

    #[test]
    fn python_tests_run_with_pytest_or_unittest() {
        let (setup, a_test) = (("setup.py", ""), ("tests/test_a.py", ""));
        let pytest = "PYTHONDONTWRITEBYTECODE=1 pytest -p no:cacheprovider";
        assert_eq!(planned(&[setup], &["pytest"]), [""; 0]);
        assert_eq!(planned(&[setup, a_test], &["pytest", "python3"]), [pytest]);
        assert_eq!(planned(&[setup, a_test], &["python3"]), ["PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover"]);
        assert_eq!(planned(&[("requirements-dev.txt", "pytest==8\n"), setup, a_test], &["python3"]), ["-pytest"]);
        assert_eq!(planned(&[setup, a_test], &[]), ["-unittest"]);
        for pytests in
            ["import pytest\n", "from pytest import x\n", "x = 1\n\ndef test_x():\n", "async def test_x():\n"]
        {
            assert_eq!(planned(&[setup, ("tests/test_a.py", pytests)], &["python3"]), ["-pytest"], "{pytests}");
        }
        let class = ("test_a.py", "class T(unittest.TestCase):\n    def test_x(self):\n        pass\n");
        assert_eq!(planned(&[setup, class], &["python3"]), ["PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover"]);
    }

    #[test]
    fn only_names_that_runners_look_for_promise_tests() {
        assert!(["test_a.py", "a/b_test.py"].into_iter().all(is_named_test));
        assert!(!["tests.py", "test_a.txt", "a/contest.py"].into_iter().any(is_named_test));
        assert!(is_test("tests.py"));
    }
}
