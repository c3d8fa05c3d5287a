//! The environment of a process, and what follows from it: home and state directory, the socket path, storage
//! roots, settings and the programs on PATH (SPEC 2 and 6, DESIGN 2).
//!
//! The only module of the workspace that reads environment variables. It never creates a file or directory; it looks
//! whether the harness directories exist, because their default depends on it, and whether a program does.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::wire::{OsText, Root, Roots, Settings};

/// Overrides the state directory.
pub const GROUNDING_STATE_DIR: &str = "GROUNDING_STATE_DIR";
/// Overrides the session directory.
pub const GROUNDING_MCP_SESSIONS_DIR: &str = "GROUNDING_MCP_SESSIONS_DIR";
/// Overrides the hypothesis directory.
pub const GROUNDING_MCP_HYPOTHESES_DIR: &str = "GROUNDING_MCP_HYPOTHESES_DIR";
/// Overrides the ledger file.
pub const EVIDENCE_LEDGER_DB: &str = "EVIDENCE_LEDGER_DB";
/// Overrides the verdict directory.
pub const SOLUTION_VERDICT_DIR: &str = "SOLUTION_VERDICT_DIR";
/// Names the signing key file.
pub const SOLUTION_VERDICT_SIGNING_KEY: &str = "SOLUTION_VERDICT_SIGNING_KEY";
/// Overrides the harness home.
pub const HARNESS_HOME: &str = "HARNESS_HOME";
/// Names the preflight program; `builtin` names the daemon's own checks.
pub const SOLUTION_PREFLIGHT_BIN: &str = "SOLUTION_PREFLIGHT_BIN";
/// Overrides the directory that the default verdict directory is below.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The project's directory, as some MCP hosts tell it to the servers they start; wins over the working directory.
pub const CLAUDE_PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";
/// Log filter of the daemon, in the syntax of `tracing`'s `EnvFilter`.
pub const GROUNDING_LOG: &str = "GROUNDING_LOG";

/// The directory that says what happens at the points of a daemon under test; a release does not know it.
pub const GROUNDING_POINTS: &str = "GROUNDING_POINTS";

/// Variables by which a service manager speaks to the one process it started; no other process may answer them.
pub const SERVICE_VARIABLES: &[&str] = &[
    "FDSTORE",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// The variables that say where things are kept and how an evaluation runs (SPEC 2 and 6), for hosts that pass on only
/// those they are told of.
pub const CLIENT_VARIABLES: &[&str] = &[
    GROUNDING_STATE_DIR,
    GROUNDING_MCP_SESSIONS_DIR,
    GROUNDING_MCP_HYPOTHESES_DIR,
    EVIDENCE_LEDGER_DB,
    SOLUTION_VERDICT_DIR,
    XDG_STATE_HOME,
    SOLUTION_VERDICT_SIGNING_KEY,
    HARNESS_HOME,
    SOLUTION_PREFLIGHT_BIN,
    "GROUNDING_ATTEMPT_WAIT_MS",
    "GROUNDING_ATTEMPT_POLL_MS",
    "GROUNDING_PROGRESS_MS",
    "GROUNDING_ATTEMPT_RETENTION_MS",
    "GROUNDING_ATTEMPT_STALE_MS",
    "GROUNDING_PREFLIGHT_TIMEOUT_MS",
    GROUNDING_LOG,
];

/// Longest socket path that every supported system can bind, in bytes.
pub const MAX_SOCKET_PATH_BYTES: usize = 100;

/// An environment: the variables, and the home directory they lead to.
#[derive(Debug, Clone)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    home: Option<PathBuf>,
}

/// A directory that the environment can't lead to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// There is no home directory.
    #[error("no home directory: HOME is not an absolute path; set it to one")]
    NoHome,
    /// A variable that must be absolute is not.
    #[error("{variable} must be an absolute path, but is \"{value}\"; set it to an absolute path or unset it")]
    Relative {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The socket path does not fit.
    #[error(
        "the socket path {path} is {length} bytes long and the limit is {MAX_SOCKET_PATH_BYTES}; set {GROUNDING_STATE_DIR} to a shorter directory"
    )]
    SocketPathTooLong {
        /// The path.
        path: String,
        /// Its length in bytes.
        length: usize,
    },
}

impl Environment {
    /// Returns the environment of this process.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        let variables: Vec<_> = std::env::vars_os().collect();
        let home = absolute_home(&variables).or_else(|| std::env::home_dir().filter(|home| home.is_absolute()));
        Self { variables, home }
    }

    /// Returns an environment of exactly these variables.
    #[must_use]
    pub fn of_variables(variables: Vec<(OsString, OsString)>) -> Self {
        let home = absolute_home(&variables);
        Self { variables, home }
    }

    /// Returns the value of a variable; a blank one counts as unset.
    #[must_use]
    pub fn get(&self, variable: &str) -> Option<&OsStr> {
        lookup(&self.variables, variable)
    }

    /// Returns all variables.
    #[must_use]
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Returns the home directory.
    ///
    /// # Errors
    /// When there is none.
    pub fn home(&self) -> Result<&Path, EnvironmentError> {
        self.home.as_deref().ok_or(EnvironmentError::NoHome)
    }

    /// Returns the state directory: `GROUNDING_STATE_DIR`, else `~/.local/state/agent-grounding`.
    ///
    /// It depends on nothing else, so that a client that was handed little more than HOME finds the same daemon.
    ///
    /// # Errors
    /// When the override is relative or there is no home directory.
    pub fn state_dir(&self) -> Result<PathBuf, EnvironmentError> {
        match self.absolute(GROUNDING_STATE_DIR)? {
            Some(path) => Ok(path),
            None => Ok(self.home()?.join(".local/state/agent-grounding")),
        }
    }

    /// Returns the directory of the socket, `<state dir>/run`; it must be private.
    ///
    /// # Errors
    /// As `state_dir`.
    pub fn run_dir(&self) -> Result<PathBuf, EnvironmentError> {
        Ok(self.state_dir()?.join("run"))
    }

    /// Returns the file whose lock makes a daemon the only one, `<state dir>/groundingd.lock`.
    ///
    /// # Errors
    /// As `state_dir`.
    pub fn instance_lock(&self) -> Result<PathBuf, EnvironmentError> {
        Ok(self.state_dir()?.join("groundingd.lock"))
    }

    /// Returns the daemon's log file, `<state dir>/log/groundingd.log`.
    ///
    /// # Errors
    /// As `state_dir`.
    pub fn log_file(&self) -> Result<PathBuf, EnvironmentError> {
        Ok(self.state_dir()?.join("log/groundingd.log"))
    }

    /// Returns the ledger file that is used without an override.
    ///
    /// # Errors
    /// When there is no home directory.
    pub fn default_ledger(&self) -> Result<PathBuf, EnvironmentError> {
        Ok(self.home()?.join(".evidence-ledger/ledger.db"))
    }

    /// Returns the daemon's socket path, `<state dir>/run/groundingd.sock`.
    ///
    /// # Errors
    /// When the state directory is not known or the path is longer than `MAX_SOCKET_PATH_BYTES`.
    pub fn socket_path(&self) -> Result<PathBuf, EnvironmentError> {
        let path = self.run_dir()?.join("groundingd.sock");
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH_BYTES {
            return Err(EnvironmentError::SocketPathTooLong { path: path.display().to_string(), length });
        }
        Ok(path)
    }

    /// Returns the storage roots (SPEC 2), each with its own refusal where it can't be used.
    #[must_use]
    pub fn roots(&self) -> Roots {
        Roots {
            sessions: self.root(GROUNDING_MCP_SESSIONS_DIR, || Ok(self.home()?.join(".grounding-mcp/sessions"))),
            hypotheses: self.root(GROUNDING_MCP_HYPOTHESES_DIR, || Ok(self.home()?.join(".grounding-mcp/hypotheses"))),
            ledger: self.root(EVIDENCE_LEDGER_DB, || self.default_ledger()),
            verdicts: self.root(SOLUTION_VERDICT_DIR, || self.default_verdicts()),
            signing_key: self.root(SOLUTION_VERDICT_SIGNING_KEY, || {
                Ok(self.harness_home()?.join("harness.generated/.approval-signing.key"))
            }),
        }
    }

    /// Returns the settings (SPEC 6), and a sentence for each variable that could not be used.
    #[must_use]
    pub fn settings(&self) -> (Settings, Vec<String>) {
        let mut settings = Settings::default();
        let mut complaints = Vec::new();
        let mut read = |variable: &str, value: &mut u64| {
            let Some(text) = self.get(variable) else { return };
            match text.to_str().and_then(|text| text.trim().parse().ok()).filter(|number| *number > 0) {
                Some(number) => *value = number,
                None => complaints.push(format!(
                    "{variable} must be a whole number of milliseconds above 0, but is \"{}\"; using {value}",
                    text.display()
                )),
            }
        };
        read("GROUNDING_ATTEMPT_WAIT_MS", &mut settings.wait_bound_ms);
        read("GROUNDING_ATTEMPT_POLL_MS", &mut settings.poll_after_ms);
        read("GROUNDING_PROGRESS_MS", &mut settings.progress_ms);
        read("GROUNDING_ATTEMPT_RETENTION_MS", &mut settings.retention_ms);
        read("GROUNDING_ATTEMPT_STALE_MS", &mut settings.stale_ms);
        read("GROUNDING_PREFLIGHT_TIMEOUT_MS", &mut settings.run_limit_ms);
        (settings, complaints)
    }

    /// Returns the path that a variable holds; nothing when it is unset.
    ///
    /// # Errors
    /// When it is relative.
    pub fn absolute(&self, variable: &'static str) -> Result<Option<PathBuf>, EnvironmentError> {
        let Some(value) = self.get(variable) else { return Ok(None) };
        let path = PathBuf::from(value);
        if path.is_absolute() {
            Ok(Some(path))
        } else {
            Err(EnvironmentError::Relative { variable, value: value.display().to_string() })
        }
    }

    fn default_verdicts(&self) -> Result<PathBuf, EnvironmentError> {
        let state = match self.absolute(XDG_STATE_HOME)? {
            Some(path) => path,
            None => self.home()?.join(".local/state"),
        };
        Ok(state.join("agent-grounding/solution-verdicts"))
    }

    fn harness_home(&self) -> Result<PathBuf, EnvironmentError> {
        if let Some(path) = self.absolute(HARNESS_HOME)? {
            return Ok(path);
        }
        let harness = self.home()?.join(".harness");
        let claude = self.home()?.join(".claude");
        let claude_has_state = claude.join("harness.yaml").exists() || claude.join("harness.generated").exists();
        Ok(if !harness.is_dir() && claude_has_state { claude } else { harness })
    }

    fn root(&self, variable: &'static str, default: impl FnOnce() -> Result<PathBuf, EnvironmentError>) -> Root {
        let path = match self.absolute(variable) {
            Ok(Some(path)) => Ok(path),
            Ok(None) => default(),
            Err(error) => Err(error),
        };
        match path {
            Ok(path) => Root::Path(OsText::from(path)),
            Err(error) => Root::Refused(error.to_string()),
        }
    }
}

/// Returns the value of a variable among these; a blank one counts as unset.
#[must_use]
pub fn lookup<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let (_, value) = variables.iter().find(|(candidate, _)| candidate == name)?;
    let blank = value.to_str().is_some_and(|text| text.trim().is_empty());
    (!blank).then_some(value.as_os_str())
}

/// Finds an executable file of that name in the directories of a PATH; empty and relative entries are passed over.
#[must_use]
pub fn find_program(path_value: &OsStr, name: &str) -> Option<PathBuf> {
    let directories = std::env::split_paths(path_value).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).find(|path| is_executable(path))
}

/// Returns whether the path is a file that someone may execute.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn absolute_home(variables: &[(OsString, OsString)]) -> Option<PathBuf> {
    lookup(variables, "HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::of_variables(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    fn path(root: &Root) -> &str {
        match root {
            Root::Path(text) => text.0.to_str().expect("test paths are UTF-8"),
            Root::Refused(why) => why,
        }
    }

    #[test]
    fn roots_default_to_the_home_directory() {
        let roots = environment(&[("HOME", "/nowhere")]).roots();
        assert_eq!(path(&roots.sessions), "/nowhere/.grounding-mcp/sessions");
        assert_eq!(path(&roots.hypotheses), "/nowhere/.grounding-mcp/hypotheses");
        assert_eq!(path(&roots.ledger), "/nowhere/.evidence-ledger/ledger.db");
        assert_eq!(path(&roots.verdicts), "/nowhere/.local/state/agent-grounding/solution-verdicts");
        assert_eq!(path(&roots.signing_key), "/nowhere/.harness/harness.generated/.approval-signing.key");
    }

    #[test]
    fn a_blank_override_counts_as_unset_and_a_relative_one_is_refused_by_name() {
        let roots =
            environment(&[("HOME", "/h"), ("EVIDENCE_LEDGER_DB", " "), ("SOLUTION_VERDICT_DIR", "here")]).roots();
        assert_eq!(path(&roots.ledger), "/h/.evidence-ledger/ledger.db");
        assert!(matches!(&roots.verdicts, Root::Refused(why) if why.contains("SOLUTION_VERDICT_DIR")));
        assert!(matches!(&roots.sessions, Root::Path(_)));
    }

    #[test]
    fn the_harness_home_follows_what_exists() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let key =
            |home: &Path| path(&environment(&[("HOME", home.to_str().expect("UTF-8"))]).roots().signing_key).to_owned();
        std::fs::create_dir_all(home.path().join(".claude/harness.generated")).expect("created");
        assert!(key(home.path()).contains("/.claude/harness.generated/"));
        std::fs::create_dir(home.path().join(".harness")).expect("created");
        assert!(key(home.path()).contains("/.harness/harness.generated/"));
    }

    #[test]
    fn without_a_home_each_root_says_so() {
        let roots = environment(&[]).roots();
        assert!(matches!(&roots.sessions, Root::Refused(why) if why.contains("HOME")));
    }

    #[test]
    fn settings_that_are_no_whole_number_above_zero_are_said_and_not_used() {
        let (settings, complaints) = environment(&[
            ("GROUNDING_ATTEMPT_WAIT_MS", "250"),
            ("GROUNDING_ATTEMPT_POLL_MS", "0"),
            ("GROUNDING_PROGRESS_MS", "1.5"),
        ])
        .settings();
        assert_eq!(settings.wait_bound_ms, 250);
        assert_eq!(settings.poll_after_ms, 5_000);
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("GROUNDING_ATTEMPT_POLL_MS"));
    }

    #[test]
    fn every_setting_is_among_the_variables_of_a_client() {
        let wrong: Vec<_> = CLIENT_VARIABLES.iter().map(|variable| (*variable, "x")).collect();
        let (_, complaints) = environment(&wrong).settings();
        assert_eq!(complaints.len(), 6, "{complaints:?}");
    }

    #[test]
    fn a_socket_path_that_does_not_fit_is_refused_with_the_limit() {
        let deep = format!("/{}", "x".repeat(120));
        let error = environment(&[("HOME", &deep)]).socket_path().expect_err("too long");
        assert!(error.to_string().contains("limit is 100"));
    }
}
