//! lint: style and suspicious code, by what the repository holds.

use super::command::Ended;
use super::project::{Ecosystem, Node, Project};
use super::report::Kind;
use super::step::{Finding, Planned, Step, by_exit};

const KIND: Kind = Kind::Lint;

/// Plans the checks of one ecosystem.
#[must_use]
pub fn plan(project: &Project<'_>, ecosystem: &Ecosystem) -> Vec<Planned> {
    match ecosystem {
        Ecosystem::Cargo => cargo(project),
        Ecosystem::Node(node) => script(project, node).into_iter().collect(),
        Ecosystem::Python => vec![python(project)],
        Ecosystem::Go => vec![
            project.plan_judged(KIND, "gofmt", "gofmt", "gofmt -l .", silent),
            project.plan(KIND, "go-vet", "go", "go vet ./..."),
        ],
    }
}

fn cargo(project: &Project<'_>) -> Vec<Planned> {
    let clippy = format!("cargo clippy --workspace --all-targets{} -- -D warnings", locked(project));
    vec![
        project.plan_judged(KIND, "cargo-fmt", "cargo-fmt", "cargo fmt --all --check", |ended, code| {
            component("cargo-fmt", ended, code)
        }),
        project.plan_judged(KIND, "cargo-clippy", "cargo-clippy", clippy, |ended, code| {
            component("cargo-clippy", ended, code)
        }),
    ]
}

fn script(project: &Project<'_>, node: &Node) -> Option<Planned> {
    node.script("lint")?;
    let program = node.manager.program();
    Some(project.plan(KIND, &format!("{program}-lint"), program, format!("{program} run lint")))
}

fn python(project: &Project<'_>) -> Planned {
    let ruff_configured =
        project.has("ruff.toml") || project.has(".ruff.toml") || project.mentions("pyproject.toml", "[tool.ruff");
    let flake8_configured =
        project.has(".flake8") || project.mentions("setup.cfg", "[flake8]") || project.mentions("tox.ini", "[flake8]");
    let (ruff, flake8) = (project.python_tool("ruff"), project.python_tool("flake8"));
    let with_ruff = |tool: String| Planned::Run(Step::new("ruff", KIND, format!("{tool} check --no-cache .")));
    let with_flake8 = |tool: String| {
        let command = format!("{tool} --extend-exclude .venv,venv,node_modules");
        Planned::Run(Step::new("flake8", KIND, command))
    };
    match (ruff, flake8) {
        (Some(ruff), _) if ruff_configured || !flake8_configured => with_ruff(ruff),
        (_, Some(flake8)) if flake8_configured || !ruff_configured => with_flake8(flake8),
        _ if flake8_configured && !ruff_configured => Planned::Skip(project.missing(KIND, "flake8", "flake8")),
        _ => Planned::Skip(project.missing(KIND, "ruff", "ruff")),
    }
}

/// Returns the flag that keeps Cargo from changing a lock file, when there is one to keep.
#[must_use]
pub fn locked(project: &Project<'_>) -> &'static str {
    // A member's lock file is its workspace's.
    let mut above = project.directory.ancestors().take_while(|directory| directory.starts_with(project.root));
    if above.any(|directory| directory.join("Cargo.lock").is_file()) { " --locked" } else { "" }
}

/// A program of rustup's may stand for a component that is not installed.
fn component(tool: &'static str, ended: &Ended, code: i32) -> Finding {
    let said = String::from_utf8_lossy(&ended.stderr);
    let absent = code != 0 && said.contains("is not installed for the toolchain");
    if absent { Finding::Missing(tool) } else { by_exit(ended, code) }
}

/// Judges a program that names the files it complains about and exits with 0.
fn silent(ended: &Ended, code: i32) -> Finding {
    match by_exit(ended, code) {
        Finding::Pass if !ended.stdout.is_empty() => {
            let count = ended.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            Finding::Fail(format!("names {count} files that are not formatted"))
        }
        finding => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::super::project::tests::planned_by;
    use super::*;

    fn planned(files: &[(&str, &str)], programs: &[&str]) -> Vec<String> {
        planned_by(plan, files, programs)
    }

    #[test]
    fn linters_follow_what_the_repository_holds() {
        let cargo = ["cargo-fmt", "cargo-clippy"];
        assert_eq!(
            planned(&[("Cargo.toml", ""), ("Cargo.lock", "")], &cargo),
            ["cargo fmt --all --check", "cargo clippy --workspace --all-targets --locked -- -D warnings"]
        );
        assert_eq!(planned(&[("Cargo.toml", "")], &[]), ["-cargo-fmt", "-cargo-clippy"]);
        let package = ("package.json", r#"{"scripts":{"lint":"eslint ."}}"#);
        assert_eq!(planned(&[package], &["npm"]), ["npm run lint"]);
        assert_eq!(planned(&[package, ("pnpm-lock.yaml", "")], &["npm"]), ["-pnpm-lint"]);
        assert_eq!(planned(&[("package.json", "{}")], &["npm"]), [""; 0]);
        assert_eq!(planned(&[("package.json", r#"{"scripts":{"lint":""}}"#)], &["npm"]), [""; 0]);
        assert_eq!(planned(&[("go.mod", "")], &["go"]), ["-gofmt", "go vet ./..."]);
    }

    #[test]
    fn python_is_linted_by_what_is_configured_else_by_what_is_there() {
        let ruff = "ruff check --no-cache .";
        let flake8 = "flake8 --extend-exclude .venv,venv,node_modules";
        let plain = ("setup.py", "");
        assert_eq!(planned(&[plain], &["ruff", "flake8"]), [ruff]);
        assert_eq!(planned(&[plain], &["flake8"]), [flake8]);
        assert_eq!(planned(&[plain], &[]), ["-ruff"]);
        assert_eq!(planned(&[plain, (".flake8", "")], &["ruff", "flake8"]), [flake8]);
        assert_eq!(planned(&[plain, (".flake8", "")], &["ruff"]), ["-flake8"]);
        assert_eq!(planned(&[plain, ("ruff.toml", "")], &["flake8"]), ["-ruff"]);
    }

    #[test]
    fn a_component_that_rustup_lacks_is_missing_and_not_failing() {
        let stderr = b"error: 'cargo-clippy' is not installed for the toolchain 'x'".to_vec();
        let ended = Ended { stderr, ..Ended::default() };
        assert_eq!(component("cargo-clippy", &ended, 1), Finding::Missing("cargo-clippy"));
        assert!(matches!(component("cargo-clippy", &Ended::default(), 101), Finding::Fail(_)));
        let named = Ended { stdout: b"a.go\nb.go\n".to_vec(), ..Ended::default() };
        assert_eq!(silent(&named, 0), Finding::Fail("names 2 files that are not formatted".to_owned()));
    }
}
