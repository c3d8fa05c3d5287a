//! `.preflight.json`: what it may say, and what becomes of the rest (SPEC-battery "Configuration").
//!
//! A key that is unknown or ill-typed is a limitation that names it, never silently dropped. Where a value can't be
//! used, the stricter default stands.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::glob;
use super::report::{Kind, Notes};

/// The file's name.
pub const FILE: &str = ".preflight.json";

const TEST_LIMIT: Duration = Duration::from_secs(10 * 60);
const OTHER_LIMIT: Duration = Duration::from_secs(5 * 60);
const MAX_LIMIT_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether a kind of check runs, and whether its failure is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toggle {
    /// It runs.
    On,
    /// It does not run.
    Off,
    /// It runs, and a failure is acknowledged for this reason.
    Acknowledged(String),
}

/// Which commit messages are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// Conventional Commits.
    Conventional,
    /// None in particular.
    None,
}

/// Which files are searched for secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretScope {
    /// Those that the branch changed.
    Changed,
    /// All that git does not ignore.
    All,
}

/// A check that the repository adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomCheck {
    /// Its name.
    pub name: String,
    /// Its shell command.
    pub command: String,
    /// What a failure amounts to.
    pub severity: Severity,
}

/// What the failure of a custom check amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A blocker.
    Fail,
    /// A warning.
    Warn,
}

/// What a repository asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Where commands run, relative to the repository.
    pub working_dir: String,
    /// Which kinds run; one that is not listed runs.
    pub toggles: BTreeMap<Kind, Toggle>,
    /// Shell commands that replace the detected ones.
    pub commands: BTreeMap<Kind, Vec<String>>,
    /// Further checks.
    pub custom_checks: Vec<CustomCheck>,
    /// Branches that work is not done on: names and globs that can be read.
    pub protected_branches: Vec<String>,
    /// Which commit messages are expected.
    pub convention: Convention,
    /// Where secrets are known: path, path:line or glob.
    pub secret_allowlist: Vec<String>,
    /// Which files are searched for secrets.
    pub secret_scope: SecretScope,
    /// Sources that need no test: path or glob.
    pub tdd_exceptions: Vec<String>,
    /// Where logs go.
    pub log_dir: Option<String>,
    /// How long a command of a kind may take, where that is not the default.
    pub time_limits: BTreeMap<Kind, Duration>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            working_dir: ".".to_owned(),
            toggles: BTreeMap::new(),
            commands: BTreeMap::new(),
            custom_checks: Vec::new(),
            protected_branches: vec!["main".to_owned(), "master".to_owned()],
            convention: Convention::Conventional,
            secret_allowlist: Vec::new(),
            secret_scope: SecretScope::Changed,
            tdd_exceptions: Vec::new(),
            log_dir: None,
            time_limits: BTreeMap::new(),
        }
    }
}

impl Configuration {
    /// Returns whether a kind runs.
    #[must_use]
    pub fn runs(&self, kind: Kind) -> bool {
        self.toggles.get(&kind) != Some(&Toggle::Off)
    }

    /// Returns whether work is not done on the branch of this name.
    #[must_use]
    pub fn protects(&self, branch: &str) -> bool {
        self.protected_branches.iter().any(|pattern| glob::matches(pattern, branch) == Some(true))
    }

    /// Returns the reason for which a failure of this kind is acknowledged.
    #[must_use]
    pub fn acknowledged(&self, kind: Kind) -> Option<&str> {
        match self.toggles.get(&kind) {
            Some(Toggle::Acknowledged(reason)) => Some(reason),
            Some(Toggle::On | Toggle::Off) | None => None,
        }
    }

    /// Returns how long a command of this kind may take.
    #[must_use]
    pub fn time_limit(&self, kind: Kind) -> Duration {
        let default = if kind == Kind::Test { TEST_LIMIT } else { OTHER_LIMIT };
        self.time_limits.get(&kind).copied().unwrap_or(default)
    }
}

/// Reads a configuration; one that does not parse is a blocker, and the defaults stand.
#[must_use]
pub fn parse(bytes: &[u8]) -> (Configuration, Notes) {
    let mut reader = Reader { configuration: Configuration::default(), notes: Notes::default() };
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => reader.read(&object),
        Ok(_) => reader.notes.blockers.push(format!("{FILE} is not a JSON object")),
        Err(error) => reader.notes.blockers.push(format!("{FILE} is not JSON: {error}")),
    }
    (reader.configuration, reader.notes)
}

struct Reader {
    configuration: Configuration,
    notes: Notes,
}

impl Reader {
    fn read(&mut self, object: &Map<String, Value>) {
        for (key, value) in object {
            match key.as_str() {
                "workingDir" => {
                    if let Some(directory) = self.text(key, value) {
                        self.configuration.working_dir = directory;
                    }
                }
                "checks" => self.each(key, value, Self::toggle),
                "commands" => self.each(key, value, Self::command),
                "timeLimitsMs" => self.each(key, value, Self::time_limit),
                "customChecks" => self.custom_checks(key, value),
                "protectedBranches" => {
                    if let Some(branches) = self.texts(key, value) {
                        self.protected_branches(key, &branches);
                    }
                }
                "commitConvention" => match value.as_str() {
                    Some("conventional") => self.configuration.convention = Convention::Conventional,
                    Some("none") => self.configuration.convention = Convention::None,
                    _ => self.ill_typed(key, "`conventional` or `none`"),
                },
                "secretAllowlist" => {
                    if let Some(paths) = self.texts(key, value) {
                        self.configuration.secret_allowlist = paths;
                    }
                }
                "secretDetectionStrict" => match value {
                    Value::Bool(true) => self.configuration.secret_scope = SecretScope::All,
                    Value::Bool(false) => self.configuration.secret_scope = SecretScope::Changed,
                    _ => self.ill_typed(key, "true or false"),
                },
                "tddExceptions" => {
                    if let Some(paths) = self.texts(key, value) {
                        self.configuration.tdd_exceptions = paths;
                    }
                }
                "logDir" => self.configuration.log_dir = self.text(key, value),
                "setup" | "sandbox" => {
                    if *value == Value::Bool(true) || value.get("enabled") == Some(&Value::Bool(true)) {
                        self.not_built_in(key);
                    }
                }
                // Flags of ciSimulation, which says itself that it is not built in.
                "actFlags" => {}
                // Editors read it.
                "$schema" => {}
                _ => self.unknown(key),
            }
        }
    }

    fn protected_branches(&mut self, key: &str, entries: &[String]) {
        let mut branches = Vec::new();
        for entry in entries {
            let name = entry.trim();
            let name = name.strip_prefix("refs/heads/").unwrap_or(name);
            if name.is_empty() || glob::matches(name, "").is_none() {
                self.limit(format!("`{key}` in {FILE} has an entry that is no branch's name or glob: `{entry}`"));
            } else {
                branches.push(name.to_owned());
            }
        }
        // With none that can be read, the defaults stand.
        if entries.is_empty() || !branches.is_empty() {
            self.configuration.protected_branches = branches;
        }
    }

    fn each(&mut self, key: &str, value: &Value, read: fn(&mut Self, &str, &Value)) {
        match value {
            Value::Object(object) => object.iter().for_each(|(name, value)| read(self, name, value)),
            _ => self.ill_typed(key, "an object"),
        }
    }

    fn toggle(&mut self, name: &str, value: &Value) {
        let key = format!("checks.{name}");
        let kind = match name {
            "ciSimulation" => {
                match value {
                    Value::Bool(false) => {}
                    Value::Bool(true) => self.not_built_in(&key),
                    _ => self.ill_typed(&key, "true or false"),
                }
                return;
            }
            "gitState" => Kind::GitState,
            "lint" => Kind::Lint,
            "typecheck" => Kind::Typecheck,
            "test" => Kind::Test,
            "audit" => Kind::Audit,
            "commitConvention" => Kind::CommitConvention,
            "secretDetection" => Kind::SecretDetection,
            "tdd" => Kind::Tdd,
            _ => return self.unknown(&key),
        };
        let toggle = match value {
            Value::Bool(true) => Toggle::On,
            Value::Bool(false) => Toggle::Off,
            Value::Object(object) if object.is_empty() => Toggle::On,
            Value::Object(object) => {
                for other in object.keys().filter(|other| *other != "acknowledge") {
                    self.unknown(&format!("{key}.{other}"));
                }
                match object.get("acknowledge") {
                    None => Toggle::On,
                    Some(_) if kind == Kind::SecretDetection => {
                        self.limit(format!(
                            "`{key}.acknowledge` in {FILE} is not taken: name a reviewed place in secretAllowlist instead"
                        ));
                        Toggle::On
                    }
                    Some(Value::String(reason)) if !reason.trim().is_empty() => {
                        Toggle::Acknowledged(reason.trim().to_owned())
                    }
                    Some(_) => {
                        self.ill_typed(&format!("{key}.acknowledge"), "a reason in words");
                        Toggle::On
                    }
                }
            }
            _ => return self.ill_typed(&key, "true, false or {\"acknowledge\": \"<reason>\"}"),
        };
        self.configuration.toggles.insert(kind, toggle);
    }

    fn command(&mut self, name: &str, value: &Value) {
        let key = format!("commands.{name}");
        let kind = match name {
            "lint" => Kind::Lint,
            "typecheck" => Kind::Typecheck,
            "test" => Kind::Test,
            "audit" => Kind::Audit,
            _ => return self.unknown(&key),
        };
        if let Some(commands) = self.texts(&key, value) {
            self.configuration.commands.insert(kind, commands);
        }
    }

    fn time_limit(&mut self, name: &str, value: &Value) {
        let key = format!("timeLimitsMs.{name}");
        let kind = match name {
            "lint" => Kind::Lint,
            "typecheck" => Kind::Typecheck,
            "test" => Kind::Test,
            "audit" => Kind::Audit,
            "custom" => Kind::Custom,
            _ => return self.unknown(&key),
        };
        match value.as_u64().filter(|limit| (1..=MAX_LIMIT_MS).contains(limit)) {
            Some(limit) => {
                self.configuration.time_limits.insert(kind, Duration::from_millis(limit));
            }
            None => self.ill_typed(&key, &format!("a whole number from 1 to {MAX_LIMIT_MS}")),
        }
    }

    fn custom_checks(&mut self, key: &str, value: &Value) {
        let Some(checks) = value.as_array() else { return self.ill_typed(key, "an array") };
        for (index, check) in checks.iter().enumerate() {
            let key = format!("{key}[{index}]");
            let Some(object) = check.as_object() else {
                self.ill_typed(&key, "an object");
                continue;
            };
            for other in object.keys().filter(|other| !["name", "command", "failOnError"].contains(&other.as_str())) {
                self.unknown(&format!("{key}.{other}"));
            }
            let named = |field: &str| object.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            let (Some(name), Some(command)) = (named("name"), named("command")) else {
                self.ill_typed(&key, "an object with a `name` and a `command`");
                continue;
            };
            let severity = match object.get("failOnError") {
                None | Some(Value::Bool(true)) => Severity::Fail,
                Some(Value::Bool(false)) => Severity::Warn,
                Some(_) => {
                    self.ill_typed(&format!("{key}.failOnError"), "true or false");
                    Severity::Fail
                }
            };
            let check = CustomCheck { name: name.to_owned(), command: command.to_owned(), severity };
            self.configuration.custom_checks.push(check);
        }
    }

    fn text(&mut self, key: &str, value: &Value) -> Option<String> {
        let text = value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        if text.is_none() {
            self.ill_typed(key, "a text that is not blank");
        }
        text
    }

    /// An array of texts; one item that is none spoils it all, so that nothing is left out unseen.
    fn texts(&mut self, key: &str, value: &Value) -> Option<Vec<String>> {
        let text = |item: &Value| item.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let texts = value.as_array().and_then(|items| items.iter().map(text).collect());
        if texts.is_none() {
            self.ill_typed(key, "an array of texts that are not blank");
        }
        texts
    }

    fn ill_typed(&mut self, key: &str, expected: &str) {
        self.limit(format!("`{key}` in {FILE} was not used: it must be {expected}"));
    }

    fn unknown(&mut self, key: &str) {
        self.limit(format!("`{key}` in {FILE} was not used: there is no such key"));
    }

    fn not_built_in(&mut self, key: &str) {
        self.limit(format!("`{key}` in {FILE} was not used: the built-in checks do not do it"));
    }

    fn limit(&mut self, limitation: String) {
        self.notes.limitations.push(limitation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_known_is_read() {
        let text = r#"{
            "$schema": "x", "workingDir": "sub",
            "checks": {"gitState": true, "lint": {"acknowledge": " legacy "}, "test": false, "audit": {}, "ciSimulation": false},
            "commands": {"lint": ["a", "b"], "test": ["c"]},
            "customChecks": [{"name": "n", "command": "c"}, {"name": "m", "command": "d", "failOnError": false}],
            "protectedBranches": ["trunk"], "commitConvention": "none", "secretAllowlist": ["a.py:3"],
            "secretDetectionStrict": true, "tddExceptions": ["gen/**"], "logDir": "/var/log/x",
            "timeLimitsMs": {"test": 1000}, "setup": {"enabled": false}, "sandbox": {"aptPackages": ["x"]}, "actFlags": ["-v"]
        }"#;
        let (configuration, notes) = parse(text.as_bytes());
        assert_eq!(notes, Notes::default());
        assert_eq!(configuration.working_dir, "sub");
        assert_eq!(configuration.acknowledged(Kind::Lint), Some("legacy"));
        assert!(!configuration.runs(Kind::Test) && configuration.runs(Kind::Audit) && configuration.runs(Kind::Tdd));
        assert_eq!(configuration.commands[&Kind::Lint], ["a", "b"]);
        assert_eq!(configuration.custom_checks[0].severity, Severity::Fail);
        assert_eq!(configuration.custom_checks[1].severity, Severity::Warn);
        assert_eq!(configuration.protected_branches, ["trunk"]);
        assert_eq!((configuration.convention, configuration.secret_scope), (Convention::None, SecretScope::All));
        assert_eq!(configuration.time_limit(Kind::Test), Duration::from_secs(1));
        assert_eq!(configuration.time_limit(Kind::Lint), Duration::from_secs(300));
        assert_eq!(parse(b"{}").0.time_limit(Kind::Test), Duration::from_secs(600));
    }

    #[test]
    fn protected_branches_are_names_and_globs() {
        let text = br#"{"protectedBranches": [" trunk ", "refs/heads/stable", "release/*", "v?"]}"#;
        let (configuration, notes) = parse(text);
        assert_eq!(notes, Notes::default());
        for branch in ["trunk", "stable", "release/1.2", "v1"] {
            assert!(configuration.protects(branch), "{branch}");
        }
        for branch in ["main", "trunk2", "x/stable", "release", "v12"] {
            assert!(!configuration.protects(branch), "{branch}");
        }
        assert!(parse(br#"{"protectedBranches": ["[x"]}"#).0.protects("main"));
    }

    #[test]
    fn each_key_that_was_not_used_is_named() {
        let cases = [
            (r#"{"bogus": 1}"#, "`bogus`"),
            (r#"{"checks": []}"#, "`checks`"),
            (r#"{"checks": {"foo": true}}"#, "`checks.foo`"),
            (r#"{"checks": {"lint": "yes"}}"#, "`checks.lint`"),
            (r#"{"checks": {"lint": {"acknowledge": " "}}}"#, "`checks.lint.acknowledge`"),
            (r#"{"checks": {"lint": {"acknowlege": "x"}}}"#, "`checks.lint.acknowlege`"),
            (r#"{"checks": {"secretDetection": {"acknowledge": "x"}}}"#, "`checks.secretDetection.acknowledge`"),
            (r#"{"checks": {"ciSimulation": true}}"#, "`checks.ciSimulation`"),
            (r#"{"checks": {"ciSimulation": {"acknowledge": "x"}}}"#, "`checks.ciSimulation`"),
            (r#"{"commands": {"lint": "npm run lint"}}"#, "`commands.lint`"),
            (r#"{"commands": {"lint": ["a", 1]}}"#, "`commands.lint`"),
            (r#"{"commands": {"build": ["a"]}}"#, "`commands.build`"),
            (r#"{"customChecks": {}}"#, "`customChecks`"),
            (r#"{"customChecks": [1]}"#, "`customChecks[0]`"),
            (r#"{"customChecks": [{"name": "n"}]}"#, "`customChecks[0]`"),
            (r#"{"customChecks": [{"name": "n", "command": "c", "failOnError": 1}]}"#, "`customChecks[0].failOnError`"),
            (r#"{"customChecks": [{"name": "n", "command": "c", "when": 1}]}"#, "`customChecks[0].when`"),
            (r#"{"protectedBranches": "main"}"#, "`protectedBranches`"),
            (r#"{"protectedBranches": ["[x"]}"#, "`protectedBranches`"),
            (r#"{"protectedBranches": ["refs/heads/"]}"#, "`protectedBranches`"),
            (r#"{"commitConvention": "angular"}"#, "`commitConvention`"),
            (r#"{"secretDetectionStrict": "no"}"#, "`secretDetectionStrict`"),
            (r#"{"workingDir": 5}"#, "`workingDir`"),
            (r#"{"logDir": ""}"#, "`logDir`"),
            (r#"{"setup": {"enabled": true}}"#, "`setup`"),
            (r#"{"sandbox": {"enabled": true}}"#, "`sandbox`"),
            (r#"{"timeLimitsMs": {"test": 0}}"#, "`timeLimitsMs.test`"),
            (r#"{"timeLimitsMs": {"tdd": 1}}"#, "`timeLimitsMs.tdd`"),
        ];
        for (text, named) in cases {
            let (_, notes) = parse(text.as_bytes());
            assert_eq!((notes.limitations.len(), notes.blockers.len()), (1, 0), "{text}: {notes:?}");
            assert!(notes.limitations[0].contains(named), "{text}: {notes:?}");
        }
        assert_eq!(parse(br#"{"checks": {"lint": "yes"}}"#).0, Configuration::default());
    }

    #[test]
    fn what_does_not_parse_is_a_blocker() {
        for text in ["", "{", "[]", "null", "{\"a\":\u{0}}", "\u{feff}{}"] {
            let (configuration, notes) = parse(text.as_bytes());
            assert_eq!((notes.blockers.len(), configuration), (1, Configuration::default()), "{text:?}");
            assert!(notes.blockers[0].contains(FILE));
        }
        assert_eq!(parse(b"{\"workingDir\": \"\xff\"}").1.blockers.len(), 1);
    }
}
