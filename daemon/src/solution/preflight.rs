//! The preflight program: where it is found, and what of its answer may become a verdict (SPEC 6 and SPEC-battery).
//!
//! Never runs anything; the supervisor does. An answer that is not exactly what it should be is an error, never a
//! verdict.

use std::path::{Path, PathBuf};

use grounding_proto::environment::{SOLUTION_PREFLIGHT_BIN, is_executable};
use grounding_proto::solution::{Execution, PreflightProgram};
use serde_json::Value;

use super::diagnostics::{self, Payload};
use crate::process::{self, ClientEnvironment};

/// The value of `SOLUTION_PREFLIGHT_BIN` that names the built-in battery.
const BUILT_IN: &str = "builtin";

/// No preflight program.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// The variable names something that can't be run.
    #[error(
        "{SOLUTION_PREFLIGHT_BIN} names {}, which is not an executable file; correct it, unset it, or set it to \
         `{BUILT_IN}` for the built-in checks",
        .0.display()
    )]
    NotExecutable(PathBuf),
    /// This very build can't be named, so its battery can't be started.
    #[error("the built-in checks can't be started: the system does not name the running executable")]
    NoExecutable(#[source] std::io::Error),
}

/// What checks a repository for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// What starts it.
    pub program: PathBuf,
    /// Which it is.
    pub kind: PreflightKind,
    /// What is said of it beside the verdict.
    pub described: PreflightProgram,
}

/// Whose checks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreflightKind {
    /// Those of a program that somebody installed.
    External,
    /// Those of this build.
    BuiltIn,
}

impl PreflightKind {
    /// Returns the `source` of a verdict.
    #[must_use]
    pub fn source(self) -> &'static str {
        match self {
            Self::External => "preflight",
            Self::BuiltIn => "preflight-builtin",
        }
    }

    /// Returns the word between the program and `run`, if there is one.
    #[must_use]
    pub fn verb(self) -> Option<&'static str> {
        match self {
            Self::External => None,
            Self::BuiltIn => Some("preflight"),
        }
    }
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

/// Finds the program for a client: `SOLUTION_PREFLIGHT_BIN`, else `preflight` on its PATH, else this very build.
///
/// # Errors
/// When the variable names what can't be run, or this build can't be started again.
pub fn find(environment: &ClientEnvironment, cwd: &Path) -> Result<Preflight, PreflightError> {
    let external = |program: PathBuf, found_by: &str| Preflight {
        described: PreflightProgram {
            version: version(&program),
            path: program.display().to_string(),
            found_by: found_by.to_owned(),
        },
        kind: PreflightKind::External,
        program,
    };
    let Some(named) = environment.get(SOLUTION_PREFLIGHT_BIN) else {
        return match environment.find_program("preflight") {
            Some(program) => Ok(external(program, "PATH")),
            None => built_in(BUILT_IN),
        };
    };
    if named == BUILT_IN {
        return built_in(SOLUTION_PREFLIGHT_BIN);
    }
    let bare = Path::new(named).components().count() == 1 && !named.as_encoded_bytes().contains(&b'/');
    let program = if bare { named.to_str().and_then(|name| environment.find_program(name)) } else { None };
    let program = program.unwrap_or_else(|| cwd.join(named));
    if is_executable(&program) {
        Ok(external(program, SOLUTION_PREFLIGHT_BIN))
    } else {
        Err(PreflightError::NotExecutable(program))
    }
}

fn built_in(found_by: &str) -> Result<Preflight, PreflightError> {
    let program = process::own_executable().map_err(PreflightError::NoExecutable)?;
    let described = PreflightProgram {
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        path: program.canonicalize().unwrap_or_else(|_| program.clone()).display().to_string(),
        found_by: found_by.to_owned(),
    };
    Ok(Preflight { program, kind: PreflightKind::BuiltIn, described })
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
        let bin = dir.path().join("bin");
        let found = |pairs: &[(&str, &Path)]| {
            find(&environment(pairs), dir.path()).map(|found| (found.kind, found.described.found_by))
        };

        assert_eq!(found(&[("PATH", &bin)]).unwrap(), (PreflightKind::BuiltIn, BUILT_IN.to_owned()));
        executable(&bin.join("preflight"));
        assert_eq!(found(&[("PATH", &bin)]).unwrap(), (PreflightKind::External, "PATH".to_owned()));
        for (named, kind) in [
            ("preflight", PreflightKind::External),
            ("bin/preflight", PreflightKind::External),
            (BUILT_IN, PreflightKind::BuiltIn),
        ] {
            let pairs = [("PATH", bin.as_path()), (SOLUTION_PREFLIGHT_BIN, Path::new(named))];
            assert_eq!(found(&pairs).unwrap(), (kind, SOLUTION_PREFLIGHT_BIN.to_owned()), "{named}");
        }
        let wrong = [("PATH", bin.as_path()), (SOLUTION_PREFLIGHT_BIN, Path::new("/no/such"))];
        assert!(found(&wrong).unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn the_built_in_battery_says_its_version_and_its_source() {
        let found = find(&environment(&[]), Path::new("/")).unwrap();
        assert_eq!(found.described.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!((found.kind.source(), found.kind.verb()), ("preflight-builtin", Some("preflight")));
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
