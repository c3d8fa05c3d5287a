//! Small real repositories of each ecosystem, checked by its real tools where the machine has them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use grounding_proto::environment::Environment;
use grounding_tests::{Repository, TestEnvironment};
use serde_json::json;

use super::{battery, check, lines, statuses};

/// An environment whose PATH leads to these programs of this machine, and to the directories behind them.
fn with_programs(programs: &[&str], directories: &[PathBuf]) -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let bin = environment.path("bin");
    std::fs::create_dir(&bin).expect("a directory");
    for program in programs {
        symlink(on_path(program), bin.join(program)).expect("a link");
    }
    let path = std::env::join_paths(std::iter::once(&bin).chain(directories)).expect("directories of a PATH");
    environment.set("PATH", path);
    environment
}

fn on_path(program: &str) -> PathBuf {
    let environment = Environment::of_process();
    let path = environment.get("PATH").expect("PATH is set").to_owned();
    let found = std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{program} is not on PATH"))
}

fn write(repository: &Repository<'_>, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = repository.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }
    repository.commit("feat: begin");
}

#[test]
fn a_cargo_repository_is_formatted_linted_checked_and_tested() {
    let mut environment = TestEnvironment::new();
    // rustup and its toolchains are the user's; their home is not.
    let user = Environment::of_process();
    let home = user.home().expect("a home").to_owned();
    for (variable, directory) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let value = user.get(variable).map_or_else(|| home.join(directory), PathBuf::from);
        environment.set(variable, value);
    }
    environment.set("CARGO_NET_OFFLINE", "true");
    let repository = environment.repository("repo");
    let source = "//! Doubles.\n\n/// Doubles.\npub fn double(it: u32) -> u32 {\n    it * 2\n}\n\n#[cfg(test)]\nmod tests {\n    \
                  #[test]\n    fn doubles() {\n        assert_eq!(super::double(2), 4);\n    }\n}\n";
    write(
        &repository,
        &[
            ("Cargo.toml", "[package]\nname = \"it\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n"),
            ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"it\"\nversion = \"0.1.0\"\n"),
            (".gitignore", "target\n"),
            ("src/double.rs", source),
            ("src/lib.rs", "//! A crate.\npub mod double;\n"),
            (".preflight.json", r#"{"checks": {"audit": false}}"#),
        ],
    );
    let (code, answer) = battery(&environment, &repository);
    assert_eq!((code, lines(&answer, "blockers").as_str()), (0, ""), "{answer:#}");
    for name in ["cargo-fmt", "cargo-clippy", "cargo-check", "cargo-test", "tdd-test-counterpart"] {
        assert_eq!(check(&answer, name)["status"], "pass", "{answer:#}");
    }

    write(&repository, &[("src/double.rs", &source.replace("it * 2", "return it * 2;"))]);
    let (code, answer) = battery(&environment, &repository);
    assert_eq!((code, &check(&answer, "cargo-clippy")["status"]), (1, &json!("fail")), "{answer:#}");
    let details = check(&answer, "cargo-clippy")["details"].to_string();
    assert!(details.contains("needless_return") || details.contains("unneeded"), "{details}");
    assert_eq!(check(&answer, "cargo-test")["status"], "pass");
}

#[test]
fn this_project_holds_no_secret_and_is_formatted() {
    let mut environment = TestEnvironment::new();
    let user = Environment::of_process();
    let home = user.home().expect("a home").to_owned();
    for (variable, directory) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        environment.set(variable, user.get(variable).map_or_else(|| home.join(directory), PathBuf::from));
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let clone = environment.path("clone");
    let mut command = environment.command("git");
    command.args(["clone", "--quiet", "--no-hardlinks"]).arg(project).arg(&clone);
    assert!(command.status().expect("git starts").success());
    let repository = Repository::of(&environment, "clone");
    repository.git(&["switch", "--quiet", "--create", "feature/check"]);
    // What takes minutes is left to those who have them.
    let cheap = r#"{"secretDetectionStrict": true, "checks": {"typecheck": false, "test": false, "audit": false},
        "commands": {"lint": ["cargo fmt --all --check"]}}"#;
    repository.write(".preflight.json", cheap);
    repository.commit("chore: check the cheap parts");
    let (code, answer) = battery(&environment, &repository);
    assert_eq!((code, lines(&answer, "blockers").as_str()), (0, ""), "{answer:#}");
    let searched = check(&answer, "secret-detection")["details"].to_string();
    assert!(searched.contains("files searched"), "{searched}");
}

#[test]
fn an_npm_repository_runs_its_scripts_and_a_silent_registry_is_a_skip() {
    let mut environment = TestEnvironment::new();
    environment.set("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9/");
    let repository = environment.repository("repo");
    let lock = r#"{"name": "it", "version": "1.0.0", "lockfileVersion": 3, "packages": {
        "": {"name": "it", "version": "1.0.0", "dependencies": {"left": "1.0.0"}},
        "node_modules/left": {"version": "1.0.0"}}}"#;
    let manifest = r#"{"name": "it", "version": "1.0.0", "dependencies": {"left": "1.0.0"},
        "scripts": {"lint": "node --check src/it.js", "test": "node --test", "typecheck": "no-such-program"}}"#;
    write(
        &repository,
        &[
            ("package.json", manifest),
            ("package-lock.json", lock),
            ("src/it.js", "module.exports = 1;\n"),
            ("src/it.test.js", "require('node:test')('it', () => require('./it.js'));\n"),
        ],
    );
    let (code, answer) = battery(&environment, &repository);
    assert_eq!(code, 1);
    assert_eq!(check(&answer, "npm-lint")["status"], "pass", "{answer:#}");
    assert_eq!(check(&answer, "npm-test")["status"], "pass", "{answer:#}");
    assert_eq!(check(&answer, "npm-typecheck")["status"], "fail", "a script without its program fails: {answer:#}");
    assert_eq!(check(&answer, "npm-audit")["status"], "skip", "{answer:#}");
    assert!(lines(&answer, "limitations").contains("npm-audit"), "{answer:#}");
    assert!(!lines(&answer, "blockers").contains("npm-audit"), "{answer:#}");
}

#[test]
fn a_python_repository_is_linted_and_tested_by_what_is_installed() {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/.venv/bin");
    assert!(venv.join("ruff").exists(), "{} has no ruff: run `tests/run`, which installs it", venv.display());
    let environment = with_programs(&["git"], &[venv]);
    let repository = environment.repository("repo");
    write(
        &repository,
        &[
            ("pyproject.toml", "[project]\nname = \"it\"\nversion = \"0.1\"\n\n[tool.mypy]\nstrict = true\n"),
            ("it.py", "def double(it):\n    return it * 2\n"),
            ("test_it.py", "from it import double\n\n\ndef test_double():\n    assert double(2) == 4\n"),
        ],
    );
    let (code, answer) = battery(&environment, &repository);
    assert_eq!(code, 1, "mypy is configured and missing: {answer:#}");
    assert_eq!(check(&answer, "ruff")["status"], "pass", "{answer:#}");
    assert_eq!(check(&answer, "pytest")["status"], "pass", "{answer:#}");
    assert_eq!(check(&answer, "mypy")["status"], "skip", "{answer:#}");
    assert!(lines(&answer, "blockers").contains("mypy was not found on PATH"), "{answer:#}");
    assert_eq!(check(&answer, "pip-audit")["status"], "skip", "{answer:#}");
    assert_eq!(
        repository.git(&["status", "--porcelain", "--ignored"]),
        "",
        "no tool of ours writes beside the sources"
    );

    write(&repository, &[("it.py", "import os\n\n\ndef double(it):\n    return it * 3\n")]);
    let (_, answer) = battery(&environment, &repository);
    assert_eq!(
        (&check(&answer, "ruff")["status"], &check(&answer, "pytest")["status"]),
        (&json!("fail"), &json!("fail"))
    );
}

#[test]
fn a_go_repository_without_go_is_skipped_and_not_ready() {
    let environment = with_programs(&["git"], &[]);
    let repository = environment.repository("repo");
    write(
        &repository,
        &[("go.mod", "module it\n\ngo 1.22\n"), ("it.go", "package it\n"), ("it_test.go", "package it\n")],
    );
    let (code, answer) = battery(&environment, &repository);
    assert_eq!((code, &answer["ready"]), (1, &json!(false)));
    let statuses = statuses(&answer);
    for (kind, expected) in [("lint", "skip skip"), ("typecheck", "skip"), ("test", "skip"), ("audit", "skip")] {
        assert_eq!(statuses[kind], expected, "{answer:#}");
    }
    let (blockers, limitations) = (lines(&answer, "blockers"), lines(&answer, "limitations"));
    for name in ["gofmt", "go-vet", "go-build", "go-test"] {
        assert!(blockers.contains(&format!("{name} could not run")), "{blockers}");
        assert!(limitations.contains(&format!("{name} was skipped")), "{limitations}");
    }
    assert!(blockers.contains(environment.path("bin").to_str().expect("UTF-8")), "the PATH is named: {blockers}");
    assert!(blockers.contains("nothing about the code was checked"), "{blockers}");
    assert!(limitations.contains("govulncheck was skipped") && !blockers.contains("govulncheck"), "{answer:#}");
}

#[test]
fn make_targets_and_unknown_ecosystems() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    write(&repository, &[("Makefile", "lint:\n\t@true\n\ntest:\n\t@echo bad; exit 2\n"), ("pom.xml", "<project/>\n")]);
    let (_, answer) = battery(&environment, &repository);
    assert_eq!(check(&answer, "make-lint")["status"], "pass", "{answer:#}");
    assert_eq!(check(&answer, "make-test")["status"], "fail", "{answer:#}");
    let limitations = lines(&answer, "limitations");
    assert!(limitations.contains("Maven was seen (pom.xml)") && limitations.contains("`commands`"), "{limitations}");
}
