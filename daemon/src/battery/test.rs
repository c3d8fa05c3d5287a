//! test: the repository's tests, by what it holds. Test commands run alone, one after the other.

use super::lint::locked;
use super::project::{Ecosystem, Node, Project};
use super::report::Kind;
use super::step::{Planned, Step, tests_by_exit};

const KIND: Kind = Kind::Test;

/// What `npm init` writes where a test would be.
const NO_TEST: &str = "no test specified";

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
    let script = node.scripts.get("test").filter(|script| !script.contains(NO_TEST));
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
    if !configured && !project.files.iter().any(|file| is_test(file)) {
        return None;
    }
    if let Some(pytest) = project.python_tool("pytest") {
        let command = format!("{WRITE_NOTHING} {pytest} -p no:cacheprovider");
        return Some(Planned::Run(Step::new("pytest", KIND, command).judged(tests_by_exit)));
    }
    if configured {
        return Some(Planned::Skip(project.missing(KIND, "pytest", "pytest")));
    }
    let python = ["python3", "python"].into_iter().find_map(|program| project.python_tool(program));
    Some(match python {
        Some(python) => {
            let command = format!("{WRITE_NOTHING} {python} -m unittest discover");
            Planned::Run(Step::new("unittest", KIND, command).judged(tests_by_exit))
        }
        None => Planned::Skip(project.missing(KIND, "unittest", "python3")),
    })
}

fn is_test(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
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
    }
}
