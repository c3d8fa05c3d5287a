//! typecheck: types, or whether it compiles, by what the repository holds.

use super::lint::locked;
use super::project::{Ecosystem, Node, Project};
use super::report::Kind;
use super::step::{Planned, Step};

const KIND: Kind = Kind::Typecheck;

/// Plans the checks of one ecosystem.
#[must_use]
pub fn plan(project: &Project<'_>, ecosystem: &Ecosystem) -> Vec<Planned> {
    match ecosystem {
        Ecosystem::Cargo => {
            let command = format!("cargo check --workspace --all-targets{}", locked(project));
            vec![project.plan(KIND, "cargo-check", "cargo", command)]
        }
        Ecosystem::Node(node) => script(project, node).into_iter().collect(),
        Ecosystem::Python => python(project),
        // The null device keeps the program of a single package from being written into the repository.
        Ecosystem::Go => vec![project.plan(KIND, "go-build", "go", "go build -o /dev/null ./...")],
    }
}

fn script(project: &Project<'_>, node: &Node) -> Option<Planned> {
    let program = node.manager.program();
    if node.script("typecheck").is_some() {
        return Some(project.plan(KIND, &format!("{program}-typecheck"), program, format!("{program} run typecheck")));
    }
    project.has("tsconfig.json").then(|| match project.node_tool("tsc") {
        Some(tsc) => Planned::Run(Step::new("tsc", KIND, format!("{tsc} --noEmit"))),
        None => Planned::Skip(project.missing(KIND, "tsc", "tsc")),
    })
}

fn python(project: &Project<'_>) -> Vec<Planned> {
    let tool = |name: &str, command: &dyn Fn(String) -> String| match project.python_tool(name) {
        Some(tool) => Planned::Run(Step::new(name, KIND, command(tool))),
        None => Planned::Skip(project.missing(KIND, name, name)),
    };
    let mypy_files = ["mypy.ini", ".mypy.ini", "setup.cfg", "pyproject.toml"];
    let sections = ["[mypy]", "[tool.mypy]"];
    let configured = |file: &&str| sections.iter().any(|section| project.mentions(file, section));
    let mut planned = Vec::new();
    if let Some(file) = mypy_files.iter().find(|file| configured(file)) {
        // Its configuration may say what to check; arguments would replace that.
        let named = project.read(file).is_some_and(|text| {
            text.lines()
                .any(|line| ["files", "packages", "modules"].iter().any(|key| line.trim_start().starts_with(key)))
        });
        let what = if named { "" } else { " ." };
        planned.push(tool("mypy", &|mypy| format!("{mypy} --cache-dir=/dev/null{what}")));
    }
    if project.has("pyrightconfig.json") || project.mentions("pyproject.toml", "[tool.pyright]") {
        planned.push(tool("pyright", &|pyright| pyright));
    }
    planned
}

#[cfg(test)]
mod tests {
    use super::super::project::tests::planned_by;
    use super::*;

    fn planned(files: &[(&str, &str)], programs: &[&str]) -> Vec<String> {
        planned_by(plan, files, programs)
    }

    #[test]
    fn type_checkers_follow_what_the_repository_holds() {
        assert_eq!(planned(&[("Cargo.toml", "")], &["cargo"]), ["cargo check --workspace --all-targets"]);
        assert_eq!(planned(&[("go.mod", "")], &[]), ["-go-build"]);
        let script = ("package.json", r#"{"scripts":{"typecheck":"x"}}"#);
        assert_eq!(planned(&[script, ("yarn.lock", "")], &["yarn"]), ["yarn run typecheck"]);
        let config = ("tsconfig.json", "{}");
        assert_eq!(planned(&[("package.json", "{}"), config], &["npm"]), ["-tsc"]);
        assert_eq!(planned(&[("package.json", "{}"), config], &["tsc"]), ["tsc --noEmit"]);
        assert_eq!(planned(&[("package.json", "{}")], &["tsc"]), [""; 0]);
        let blank = ("package.json", r#"{"scripts":{"typecheck":""}}"#);
        assert_eq!(planned(&[blank, config], &["tsc"]), ["tsc --noEmit"]);
    }

    #[test]
    fn python_types_are_checked_where_that_is_configured() {
        assert_eq!(planned(&[("setup.py", "")], &["mypy", "pyright"]), [""; 0]);
        let mypy = ("pyproject.toml", "[tool.mypy]\nstrict = true\n");
        assert_eq!(planned(&[mypy], &["mypy"]), ["mypy --cache-dir=/dev/null ."]);
        let named = ("pyproject.toml", "[tool.mypy]\nfiles = [\"src\"]\n");
        assert_eq!(planned(&[named], &["mypy"]), ["mypy --cache-dir=/dev/null"]);
        assert_eq!(planned(&[mypy, ("pyrightconfig.json", "{}")], &["pyright"]), ["-mypy", "pyright"]);
    }
}
