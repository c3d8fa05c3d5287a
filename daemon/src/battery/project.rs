//! What a directory holds: which ecosystems, with which tools (SPEC-battery "Checks").
//!
//! Only looks at files and at the client's PATH; starts nothing and judges nothing.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use grounding_proto::environment::is_executable;
use serde_json::Value;

use super::read::{Content, read};
use super::report::{Kind, Outcome};
use super::step::{Judge, Planned, Step, by_exit};
use crate::process::ClientEnvironment;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Largest manifest that is read, in bytes.
const MAX_MANIFEST_BYTES: u64 = 4 * 1024 * 1024;

/// Files that say what a directory is. Whether `Cargo.toml` and `go.mod` make sense their own tools say.
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "tox.ini",
    "go.mod",
    "go.work",
    "GNUmakefile",
    "makefile",
    "Makefile",
];

/// A directory in which commands run.
#[derive(Debug)]
pub struct Project<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The repository's root, above which nothing is looked at.
    pub root: &'a Path,
    /// The client's environment.
    pub environment: &'a ClientEnvironment,
    /// The files below the directory that git does not ignore, relative to it.
    pub files: &'a [String],
}

/// An ecosystem whose tools are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ecosystem {
    /// Rust with Cargo.
    Cargo,
    /// JavaScript and TypeScript.
    Node(Node),
    /// Python.
    Python,
    /// Go.
    Go,
}

/// What a `package.json` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The program that runs its scripts.
    pub manager: Manager,
    /// Its scripts.
    pub scripts: BTreeMap<String, String>,
}

impl Node {
    /// Returns a script that runs something: a blank one counts as none.
    #[must_use]
    pub fn script(&self, name: &str) -> Option<&str> {
        self.scripts.get(name).map(|script| script.trim()).filter(|script| !script.is_empty())
    }
}

/// A package manager of Node.js.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// npm.
    Npm,
    /// pnpm.
    Pnpm,
    /// Yarn.
    Yarn,
    /// Bun.
    Bun,
}

impl Manager {
    /// Returns the program's name.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }
}

/// Lock files, and whose they are.
const LOCK_FILES: &[(&str, Manager)] = &[
    ("package-lock.json", Manager::Npm),
    ("npm-shrinkwrap.json", Manager::Npm),
    ("pnpm-lock.yaml", Manager::Pnpm),
    ("yarn.lock", Manager::Yarn),
    ("bun.lock", Manager::Bun),
    ("bun.lockb", Manager::Bun),
];

/// Files at the root of an ecosystem that is seen but whose tools are not known.
const UNKNOWN: &[(&str, &str)] = &[
    ("pom.xml", "Maven"),
    ("build.gradle", "Gradle"),
    ("build.gradle.kts", "Gradle"),
    ("composer.json", "PHP Composer"),
    ("Gemfile", "Ruby Bundler"),
    ("mix.exs", "Elixir Mix"),
    ("rebar.config", "Erlang rebar3"),
    ("Package.swift", "Swift"),
    ("pubspec.yaml", "Dart"),
    ("deno.json", "Deno"),
    ("deno.jsonc", "Deno"),
    ("CMakeLists.txt", "CMake"),
    ("meson.build", "Meson"),
    ("build.sbt", "sbt"),
    ("stack.yaml", "Haskell Stack"),
    ("cabal.project", "Haskell Cabal"),
    ("dune-project", "OCaml dune"),
    ("build.zig", "Zig"),
    ("MODULE.bazel", "Bazel"),
    ("WORKSPACE", "Bazel"),
    ("DESCRIPTION", "R"),
    ("Project.toml", "Julia"),
];
/// The same, by the end of a file name.
const UNKNOWN_ENDS: &[(&str, &str)] =
    &[(".sln", ".NET"), (".slnx", ".NET"), (".csproj", ".NET"), (".fsproj", ".NET"), (".cabal", "Haskell Cabal")];

impl Project<'_> {
    /// Returns the known ecosystems.
    #[must_use]
    pub fn ecosystems(&self) -> Vec<Ecosystem> {
        let mut found = Vec::new();
        if self.has("Cargo.toml") {
            found.push(Ecosystem::Cargo);
        }
        if let Some(node) = self.node() {
            found.push(Ecosystem::Node(node));
        }
        let python = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "tox.ini"];
        if python.iter().any(|name| self.has(name)) {
            found.push(Ecosystem::Python);
        }
        if self.has("go.mod") || self.has("go.work") {
            found.push(Ecosystem::Go);
        }
        found
    }

    /// Returns a sentence for each ecosystem that is seen but not known.
    #[must_use]
    pub fn unknown_ecosystems(&self) -> Vec<String> {
        let at_root = self.files.iter().filter(|file| !file.contains('/'));
        let by_end = at_root.filter_map(|file| {
            UNKNOWN_ENDS.iter().find(|(end, _)| file.ends_with(end)).map(|(_, what)| (file.as_str(), *what))
        });
        let by_name = UNKNOWN.iter().copied().filter(|(file, _)| self.has(file));
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (file, what) in by_name.chain(by_end) {
            seen.entry(what).or_insert(file);
        }
        let said = |(what, file): (&str, &str)| {
            format!(
                "{what} was seen ({file}), but its tools are not known; name them under `commands` in .preflight.json"
            )
        };
        seen.into_iter().map(said).collect()
    }

    /// Returns whether the directory holds a file of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.directory.join(name).is_file()
    }

    /// Returns a sentence for each manifest that is there and can't be read or does not parse.
    #[must_use]
    pub fn unreadable_manifests(&self) -> Vec<String> {
        let said = |name: &&str| {
            let why = match self.content(name) {
                Ok(content) => unparsed(name, &content?)?,
                Err(why) => why,
            };
            Some(format!("{name} can't be used, so that what it says was not checked: {why}"))
        };
        MANIFESTS.iter().filter_map(said).collect()
    }

    /// Returns the text of a file in the directory; nothing when it is not there, too large, or no regular file. What
    /// is not UTF-8 is replaced.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<String> {
        self.content(name).ok()?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the bytes of a file in the directory; nothing when it is not there, and why when it can't be read.
    fn content(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.directory.join(name);
        match path.symlink_metadata() {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            found => found.map_err(|error| error.to_string())?,
        };
        // A manifest may be a symlink, as in some monorepos.
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        match read(&path, MAX_MANIFEST_BYTES, &mut bytes).map_err(|error| error.to_string())? {
            Content::Whole => Ok(Some(bytes)),
            Content::TooLarge => Err(format!("it is over {} MiB", MAX_MANIFEST_BYTES >> 20)),
            Content::NoFile => Err("it is no regular file".to_owned()),
        }
    }

    /// Returns whether a file in the directory holds the text.
    #[must_use]
    pub fn mentions(&self, name: &str, text: &str) -> bool {
        self.read(name).is_some_and(|content| content.contains(text))
    }

    /// Returns whether the client's PATH leads to the program.
    #[must_use]
    pub fn finds(&self, program: &str) -> bool {
        self.environment.find_program(program).is_some()
    }

    /// Returns how the shell names a Python tool: in the project's virtual environment, else on PATH.
    #[must_use]
    pub fn python_tool(&self, program: &str) -> Option<String> {
        let private = [".venv", "venv"].map(|venv| format!("{venv}/bin/{program}"));
        let private = private.into_iter().find(|path| is_executable(&self.directory.join(path)));
        private.or_else(|| self.finds(program).then(|| program.to_owned()))
    }

    /// Returns how the shell names a tool of Node.js: in `node_modules` here or above, else on PATH.
    #[must_use]
    pub fn node_tool(&self, program: &str) -> Option<String> {
        let mut prefix = String::new();
        for directory in self.directory.ancestors().take_while(|directory| directory.starts_with(self.root)) {
            let path = format!("node_modules/.bin/{program}");
            if is_executable(&directory.join(&path)) {
                return Some(format!("{prefix}{path}"));
            }
            prefix.push_str("../");
        }
        self.finds(program).then(|| program.to_owned())
    }

    /// Plans a command whose tool must be on PATH; judged by its exit code.
    #[must_use]
    pub fn plan(&self, kind: Kind, name: &str, tool: &str, command: impl Into<String>) -> Planned {
        self.plan_judged(kind, name, tool, command, by_exit)
    }

    /// Plans a command whose tool must be on PATH.
    #[must_use]
    pub fn plan_judged(&self, kind: Kind, name: &str, tool: &str, command: impl Into<String>, judge: Judge) -> Planned {
        if self.finds(tool) {
            Planned::Run(Step::new(name, kind, command).judged(judge))
        } else {
            Planned::Skip(self.missing(kind, name, tool))
        }
    }

    /// Returns a check that is skipped because its tool is missing.
    #[must_use]
    pub fn missing(&self, kind: Kind, name: &str, tool: &str) -> Outcome {
        missing_tool(self.environment, kind, name, tool)
    }

    fn node(&self) -> Option<Node> {
        let manifest = self.content("package.json").ok()??;
        // One that does not parse is told of by `unreadable_manifests`.
        let manifest = package(&manifest).unwrap_or_default();
        let scripts = manifest.get("scripts").and_then(Value::as_object);
        let texts = |(name, script): (&String, &Value)| Some((name.clone(), script.as_str()?.to_owned()));
        let scripts = scripts.map(|scripts| scripts.iter().filter_map(texts).collect()).unwrap_or_default();
        Some(Node { manager: self.manager(&manifest), scripts })
    }

    fn manager(&self, manifest: &Value) -> Manager {
        let above = self.directory.ancestors().take_while(|directory| directory.starts_with(self.root));
        let by_lock = above
            .flat_map(|directory| LOCK_FILES.iter().map(move |(file, manager)| (directory.join(file), *manager)))
            .find(|(path, _)| path.is_file());
        if let Some((_, manager)) = by_lock {
            return manager;
        }
        let named = manifest.get("packageManager").and_then(Value::as_str).unwrap_or_default();
        let all = [Manager::Pnpm, Manager::Yarn, Manager::Bun];
        all.into_iter().find(|manager| named.starts_with(manager.program())).unwrap_or(Manager::Npm)
    }
}

/// Returns why a manifest does not parse.
fn unparsed(name: &str, bytes: &[u8]) -> Option<String> {
    match name {
        "package.json" => package(bytes).err(),
        "pyproject.toml" => match std::str::from_utf8(bytes) {
            Ok(text) => text.parse::<toml::Table>().err().map(|error| format!("it is not TOML: {}", error.message())),
            Err(error) => Some(format!("it is not TOML: {error}")),
        },
        _ => None,
    }
}

/// Reads a `package.json`, which some editors begin with a byte order mark that npm passes over.
fn package(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    match serde_json::from_slice(bytes) {
        Ok(manifest @ Value::Object(_)) => Ok(manifest),
        Ok(_) => Err("it is not a JSON object".to_owned()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// Returns a check that is skipped because its tool is missing; of lint, typecheck and test that is a blocker too.
#[must_use]
pub fn missing_tool(environment: &ClientEnvironment, kind: Kind, name: &str, tool: &str) -> Outcome {
    let path = environment.get("PATH").map_or_else(|| "unset".to_owned(), |path| path.display().to_string());
    let why = format!("{tool} was not found on PATH");
    let mut outcome = Outcome::skip(name, kind, &why);
    if matches!(kind, Kind::Lint | Kind::Typecheck | Kind::Test) {
        outcome.blockers.push(format!("{name} could not run: {why} ({path})"));
    }
    outcome.with_details(vec![format!("PATH is {path}")])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs something on a project of these files; PATH leads to empty programs of these names.
    pub(in crate::battery) fn with_project<T>(
        files: &[(&str, &str)],
        programs: &[&str],
        look: impl FnOnce(&Project<'_>) -> T,
    ) -> T {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (root, bin) = (dir.path().join("repo"), dir.path().join("bin"));
        for program in programs {
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::write(bin.join(program), "").unwrap();
            std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::create_dir_all(&root).unwrap();
        for (name, content) in files {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), content).unwrap();
        }
        let environment = ClientEnvironment::new([("PATH".into(), bin.into_os_string())]);
        let files: Vec<_> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        look(&Project { directory: &root, root: &root, environment: &environment, files: &files })
    }

    /// Returns the commands of what was planned, and `-name` for what is skipped.
    pub(in crate::battery) fn commands(planned: &[Planned]) -> Vec<String> {
        let shown = |planned: &Planned| match planned {
            Planned::Run(step) => step.command.clone(),
            Planned::Skip(outcome) => format!("-{}", outcome.check.name),
        };
        planned.iter().map(shown).collect()
    }

    /// Returns the commands that a check plans for a project of these files, as `commands` shows them.
    pub(in crate::battery) fn planned_by(
        plan: fn(&Project<'_>, &Ecosystem) -> Vec<Planned>,
        files: &[(&str, &str)],
        programs: &[&str],
    ) -> Vec<String> {
        with_project(files, programs, |project| {
            commands(&project.ecosystems().iter().flat_map(|it| plan(project, it)).collect::<Vec<_>>())
        })
    }

    #[test]
    fn ecosystems_are_told_by_their_files() {
        let found = |files: &[(&str, &str)]| with_project(files, &[], |project| project.ecosystems());
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[("Cargo.toml", ""), ("go.mod", "")]), [Ecosystem::Cargo, Ecosystem::Go]);
        assert_eq!(found(&[("requirements.txt", "")]), [Ecosystem::Python]);
        let package = ("package.json", r#"{"scripts":{"test":"x","odd":1}}"#);
        for (lock, manager) in LOCK_FILES {
            let scripts = [("test".to_owned(), "x".to_owned())].into();
            let node = Ecosystem::Node(Node { manager: *manager, scripts });
            assert_eq!(found(&[package, (lock, "")]), [node], "{lock}");
        }
        let named = ("package.json", r#"{"packageManager":"pnpm@9.0.0"}"#);
        let node = Node { manager: Manager::Pnpm, scripts: BTreeMap::new() };
        assert_eq!(found(&[named]), [Ecosystem::Node(node)]);
        assert!(matches!(&found(&[("package.json", "{")])[..], [Ecosystem::Node(node)] if node.scripts.is_empty()));
    }

    #[test]
    fn manifests_that_cannot_be_used_are_named_with_why() {
        let unreadable = |files: &[(&str, &str)]| with_project(files, &[], |project| project.unreadable_manifests());
        let marked = ("package.json", "\u{feff}{\"scripts\":{\"test\":\"x\"}}");
        let good = [marked, ("pyproject.toml", "[tool.x]\na = 1\n"), ("Cargo.toml", "["), ("Makefile", "x:\n")];
        assert_eq!(unreadable(&good), [""; 0]);
        let found = with_project(&[marked], &[], |project| project.ecosystems());
        assert!(matches!(&found[..], [Ecosystem::Node(node)] if node.scripts.contains_key("test")), "{found:?}");
        let huge = " ".repeat(usize::try_from(MAX_MANIFEST_BYTES).unwrap() + 1);
        let bad = [
            ("package.json", "{", "not JSON"),
            ("package.json", "[]", "not a JSON object"),
            ("pyproject.toml", "[tool\n", "not TOML"),
            ("Cargo.toml/x", "", "no regular file"),
            ("Makefile", &huge, "over 4 MiB"),
        ];
        for (name, content, why) in bad {
            let said = unreadable(&[(name, content)]);
            let name = name.trim_end_matches("/x");
            assert!(said.len() == 1 && said[0].starts_with(name) && said[0].contains(why), "{name}: {said:?}");
        }
        with_project(&[], &[], |project| {
            std::os::unix::fs::symlink("nowhere", project.directory.join("package.json")).unwrap();
            assert_eq!(project.unreadable_manifests().len(), 1);
        });
    }

    #[test]
    fn what_is_seen_but_not_known_is_said_once() {
        let seen =
            with_project(&[("pom.xml", ""), ("a.csproj", ""), ("b.csproj", ""), ("x/Gemfile", "")], &[], |project| {
                project.unknown_ecosystems()
            });
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen[0].contains(".NET") && seen[1].contains("Maven") && seen[1].contains("`commands`"));
    }

    #[test]
    fn a_missing_tool_is_named_with_the_path_and_blocks_where_code_is_checked() {
        with_project(&[], &["npm"], |project| {
            let Planned::Skip(lint) = project.plan(Kind::Lint, "go-vet", "go", "go vet") else { panic!("planned") };
            assert!(lint.blockers[0].contains("go was not found") && lint.blockers[0].contains("/bin"), "{lint:?}");
            let Planned::Skip(audit) = project.plan(Kind::Audit, "a", "b", "c") else { panic!("planned") };
            assert!(audit.blockers.is_empty() && audit.limitations.len() == 1, "{audit:?}");
            assert!(matches!(project.plan(Kind::Lint, "npm-lint", "npm", "npm run lint"), Planned::Run(_)));
        });
    }
}
