//! Programs: the three of this build, the preflight that would check a solution, and git. Each is really started.
//!
//! What they print is read up to a bound, and one that does not end is killed with all it started.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use grounding_proto::environment::{Environment, SOLUTION_PREFLIGHT_BIN, find_program, is_executable};
use grounding_proto::text::printable;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;

use super::check::Check;
use crate::context::VERSION;
use crate::process;

/// How long a program may take to say its version; a preflight of npm starts Node.js first.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of its output that are read.
const MAX_OUTPUT_BYTES: u64 = 4096;

/// Looks at the programs.
pub(super) async fn checks(environment: &Environment) -> Vec<Check> {
    let (own, preflight, git) = tokio::join!(own(environment), preflight(environment), git(environment));
    vec![own, preflight, git]
}

async fn own(environment: &Environment) -> Check {
    let name = "programs";
    let mut places = Vec::new();
    for program in [process::DAEMON, "grounding-mcp"] {
        let path = match process::sibling(environment, program) {
            Ok(path) => path,
            Err(error) => {
                return Check::failure(name, error.to_string(), "groundingctl setup, or install all three together");
            }
        };
        let version = match version(environment, &path).await {
            Ok(said) => said.rsplit(' ').next().unwrap_or_default().to_owned(),
            Err(why) => {
                return Check::failure(
                    name,
                    format!("{} {why}", path.display()),
                    "install the three programs of one build",
                );
            }
        };
        if version != VERSION {
            let message = format!("{} is build {version}, this program is build {VERSION}", path.display());
            return Check::failure(name, message, "install the three programs of one build, then groundingctl restart");
        }
        places.push(path);
    }
    for path in &places {
        let named = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let on_path = environment.get("PATH").and_then(|path| find_program(path, named));
        if let Some(other) = on_path.filter(|other| other.canonicalize().ok() != path.canonicalize().ok()) {
            let message = format!("PATH leads to {}, which is another one than {}", other.display(), path.display());
            return Check::warning(name, message, "remove the one you do not want, or change the order of PATH");
        }
    }
    let directory = places[0].parent().unwrap_or(Path::new("/"));
    Check::ok(name, format!("all three are build {VERSION}, in {}", directory.display()))
}

/// Finds the preflight as the daemon does, and starts it.
async fn preflight(environment: &Environment) -> Check {
    let name = "preflight";
    let on_path = |program: &str| find_program(environment.get("PATH")?, program);
    let (program, found_by) = match environment.get(SOLUTION_PREFLIGHT_BIN) {
        None => match on_path("preflight") {
            Some(program) => (program, "on PATH"),
            None => return Check::ok(name, "the built-in checks: there is no `preflight` on PATH"),
        },
        Some(named) if named == "builtin" => {
            return Check::ok(name, format!("the built-in checks, as {SOLUTION_PREFLIGHT_BIN} says"));
        }
        Some(named) => {
            let is_bare = !named.as_encoded_bytes().contains(&b'/');
            let found = if is_bare { named.to_str().and_then(on_path) } else { None };
            (found.unwrap_or_else(|| PathBuf::from(named)), SOLUTION_PREFLIGHT_BIN)
        }
    };
    let shown = program.display();
    if !program.is_absolute() {
        let message = format!("{shown}, looked up in the directory of each evaluation");
        return Check::warning(
            name,
            message,
            format!("set {SOLUTION_PREFLIGHT_BIN} to an absolute path or to `builtin`"),
        );
    }
    let remedy = format!("correct or unset {SOLUTION_PREFLIGHT_BIN}, or set it to `builtin` for the built-in checks");
    if !is_executable(&program) {
        return Check::failure(name, format!("{shown} ({found_by}) is not an executable file"), remedy);
    }
    match version(environment, &program).await {
        Ok(said) => Check::ok(name, format!("{shown} ({found_by}), version {said}")),
        Err(why) => {
            let remedy = format!("run `{shown} --version` yourself; {remedy}");
            Check::failure(name, format!("{shown} ({found_by}) {why}"), remedy)
        }
    }
}

async fn git(environment: &Environment) -> Check {
    let name = "git";
    let remedy = "install git, and start the hosts with a PATH that leads to it";
    let Some(program) = environment.get("PATH").and_then(|path| find_program(path, "git")) else {
        return Check::failure(name, "not found on PATH, and no solution can be checked without it", remedy);
    };
    match version(environment, &program).await {
        Ok(said) => Check::ok(name, format!("{} ({said})", program.display())),
        Err(why) => Check::failure(name, format!("{} {why}", program.display()), remedy),
    }
}

/// Starts a program with `--version` and returns the first line it prints, else a predicate that says what is wrong.
async fn version(environment: &Environment, program: &Path) -> Result<String, String> {
    let mut command = process::plain(program);
    command.env_clear().envs(environment.variables().iter().cloned()).arg("--version").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let spawned = tokio::process::Command::from(command).kill_on_drop(true).spawn();
    let mut child = spawned.map_err(|error| format!("can't be started: {error}"))?;
    let group = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let stdout = child.stdout.take();
    let said = async {
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            // What could not be read is not said; how it ended tells the rest.
            let _ = stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await;
        }
        (bytes, child.wait().await)
    };
    match tokio::time::timeout(PATIENCE, said).await {
        Ok((bytes, Ok(status))) if status.success() => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(printable(text.lines().next().unwrap_or("(it prints none)").trim()))
        }
        Ok((_, Ok(status))) => Err(format!("does not run: `--version` ended with {status}")),
        Ok((_, Err(error))) => Err(format!("can't be waited for: {error}")),
        Err(_) => {
            if let Some(group) = group {
                // It ended this very moment when it can't be killed.
                let _ = kill_process_group(group, Signal::KILL);
            }
            Err(format!("did not end within {} s of `--version`", PATIENCE.as_secs()))
        }
    }
}
