//! The preflight program: where it is found, and what of its answer may become a verdict (SPEC 6 and SPEC-battery).
//!
//! Never runs anything; the supervisor does. An answer that is not exactly what it should be is an error, never a
//! verdict.

use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, SOLUTION_PREFLIGHT_BIN};
use grounding_proto::solution::{Execution, PreflightProgram};
use serde_json::Value;

use super::diagnostics::{self, Payload};
use crate::process::{self, ClientEnvironment};

/// The command that installs the npm program for everybody.
const INSTALL: &str = "npm install -g @lannguyensi/agent-preflight";

/// No preflight program.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The variable names something that can't be run.
    #[error("{SOLUTION_PREFLIGHT_BIN} names {}, which is not an executable file; correct it or unset it", .0.display())]
    NotExecutable(PathBuf),
    /// Nothing is installed.
    #[error(
        "no preflight program was found: {SOLUTION_PREFLIGHT_BIN} is not set, there is no `preflight` on PATH ({path}) \
         and none at {}; install it with `{INSTALL}` or run `groundingctl demo`, which installs it privately",
        private.display()
    )]
    NotFound {
        /// The PATH that was searched.
        path: String,
        /// The private folder's program.
        private: PathBuf,
    },
}

/// The part of an answer that a verdict is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// Whether the repository is ready.
    pub ready: bool,
    /// How much of what can be checked was checked, 0 to 1.
    pub confidence: f64,
    /// What stands in the way.
    pub blockers: Vec<String>,
}

/// Finds the program for a client: `SOLUTION_PREFLIGHT_BIN`, else `preflight` on its PATH, else the private folder.
///
/// # Errors
/// Names every place that was looked at and the command that installs it.
pub fn find(environment: &ClientEnvironment, cwd: &Path) -> Result<PreflightProgram, PreflightError> {
    let found = |path: PathBuf, found_by: &str| PreflightProgram {
        version: version(&path),
        path: path.display().to_string(),
        found_by: found_by.to_owned(),
    };
    if let Some(named) = environment.get(SOLUTION_PREFLIGHT_BIN) {
        let bare = Path::new(named).components().count() == 1 && !named.as_encoded_bytes().contains(&b'/');
        let path = if bare { named.to_str().and_then(|name| environment.find_program(name)) } else { None };
        let path = path.unwrap_or_else(|| cwd.join(named));
        return if process::is_executable(&path) {
            Ok(found(path, SOLUTION_PREFLIGHT_BIN))
        } else {
            Err(PreflightError::NotExecutable(path))
        };
    }
    if let Some(path) = environment.find_program("preflight") {
        return Ok(found(path, "PATH"));
    }
    let private = Environment::of_variables(environment.variables().to_vec()).private_preflight().unwrap_or_default();
    if process::is_executable(&private) {
        return Ok(found(private, "private folder"));
    }
    let path = environment.get("PATH").map_or_else(|| "unset".to_owned(), |path| path.display().to_string());
    Err(PreflightError::NotFound { path, private })
}

/// Returns the version of the npm package that the program belongs to.
///
/// Asking the program itself would start it a second time, and an evaluation starts exactly one preflight.
fn version(program: &Path) -> Option<String> {
    let program = program.canonicalize().ok()?;
    let manifest =
        program.ancestors().skip(1).take(4).map(|dir| dir.join("package.json")).find(|path| path.is_file())?;
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).ok()?).ok()?;
    manifest.get("name")?.as_str()?.contains("preflight").then_some(())?;
    Some(manifest.get("version")?.as_str()?.to_owned())
}

/// Parses what preflight wrote to its stdout.
#[must_use]
pub fn parse(stdout: &[u8]) -> Payload {
    let Ok(text) = std::str::from_utf8(stdout) else {
        return Payload::Unreadable("preflight's output is not UTF-8".to_owned());
    };
    if text.trim().is_empty() {
        return Payload::Unreadable("preflight wrote nothing to its stdout".to_owned());
    }
    match serde_json::from_str(text) {
        Ok(value) => Payload::Json(value),
        Err(error) if error.is_eof() => Payload::Unreadable(format!(
            "preflight's output was cut: it ends in the middle of its JSON after {} bytes",
            stdout.len()
        )),
        Err(error) => Payload::Unreadable(format!("preflight's output is not JSON: {error}")),
    }
}

/// Returns the part of an answer that may become a verdict.
///
/// # Errors
/// A sentence that says what is not as it must be: the core's shape, a ready answer with blockers, an exit code that
/// does not go with `ready`, a signal, or an error of execution.
pub fn accept(payload: &Payload, execution: &Execution) -> Result<Core, String> {
    if let Some(error) = &execution.error {
        return Err(error.clone());
    }
    if let Some(signal) = &execution.signal {
        return Err(format!("preflight was ended by {signal}"));
    }
    let answer = match payload {
        Payload::Json(Value::Object(answer)) => answer,
        Payload::Json(_) => return Err("preflight's answer is not a JSON object".to_owned()),
        Payload::Unreadable(why) => return Err(why.clone()),
        Payload::None => return Err("preflight did not answer".to_owned()),
    };
    let ready = answer.get("ready").and_then(Value::as_bool);
    let ready = ready.ok_or("preflight's answer has no boolean `ready`")?;
    let confidence = diagnostics::confidence(answer);
    let confidence = confidence.ok_or("preflight's answer has no `confidence` from 0 to 1")?;
    let blockers = answer.get("blockers").filter(|blockers| diagnostics::is_strings(blockers));
    let blockers = blockers.and_then(Value::as_array).ok_or("preflight's answer has no string array `blockers`")?;
    let blockers: Vec<_> = blockers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if ready && !blockers.is_empty() {
        return Err("preflight's answer contradicts itself: ready with blockers".to_owned());
    }
    match execution.exit_code {
        Some(code) if code == i32::from(!ready) => Ok(Core { ready, confidence, blockers }),
        Some(code) => Err(format!("preflight's exit code {code} does not go with ready {ready}")),
        None => Err("preflight ended without an exit code".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn executable(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn environment(pairs: &[(&str, &Path)]) -> ClientEnvironment {
        ClientEnvironment::new(pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn the_program_is_looked_up_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (home, bin) = (dir.path().join("home"), dir.path().join("bin"));
        let found = |pairs: &[(&str, &Path)]| find(&environment(pairs), dir.path()).map(|program| program.found_by);

        let nothing = found(&[("HOME", &home), ("PATH", &bin)]).unwrap_err().to_string();
        for part in [SOLUTION_PREFLIGHT_BIN, bin.to_str().unwrap(), "preflight/node_modules", INSTALL] {
            assert!(nothing.contains(part), "{part}: {nothing}");
        }
        executable(&home.join(".local/share/agent-grounding/preflight/node_modules/.bin/preflight"));
        assert_eq!(found(&[("HOME", &home), ("PATH", &bin)]).unwrap(), "private folder");
        executable(&bin.join("preflight"));
        assert_eq!(found(&[("HOME", &home), ("PATH", &bin)]).unwrap(), "PATH");
        let named = [("PATH", bin.as_path()), (SOLUTION_PREFLIGHT_BIN, Path::new("preflight"))];
        assert_eq!(found(&named).unwrap(), SOLUTION_PREFLIGHT_BIN);
        let relative = [("PATH", bin.as_path()), (SOLUTION_PREFLIGHT_BIN, Path::new("bin/preflight"))];
        assert_eq!(found(&relative).unwrap(), SOLUTION_PREFLIGHT_BIN);
        let wrong = [("PATH", bin.as_path()), (SOLUTION_PREFLIGHT_BIN, Path::new("/no/such"))];
        assert!(found(&wrong).unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn output_that_is_no_json_is_told_apart() {
        let reason = |bytes: &[u8]| match parse(bytes) {
            Payload::Unreadable(why) => why,
            other => panic!("{other:?}"),
        };
        assert!(reason(b"").contains("nothing"));
        assert!(reason(b"{\"ready\": tr").contains("cut"));
        assert!(reason(b"hello").contains("not JSON"));
        assert!(reason(b"{\"a\":\"\xff\"}").contains("not UTF-8"));
        assert!(reason(br#"{"blockers":["\ud83d"]}"#).contains("not JSON"));
        assert!(matches!(parse(b" {\"ready\":true}\n"), Payload::Json(_)));
    }
}
