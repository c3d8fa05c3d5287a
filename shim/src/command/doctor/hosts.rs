//! The hosts that the user has: whether each is told of the server, and whether what it would start is there.
//!
//! Reads their files, says nothing of what else is in them, and changes none.

use std::io::Read;
use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, find_program, is_executable};
use grounding_proto::text::printable;

use super::check::{Check, bounded};
use crate::host::entry::Registration;
use crate::host::known::{Host, Site};
use crate::process;

/// Largest configuration that is read, in bytes.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

const SETUP: &str = "groundingctl setup";

/// Looks at each host that is found.
pub(super) async fn checks(environment: &Environment) -> Vec<Check> {
    let ours = process::sibling(environment, "grounding-mcp").ok();
    let mut checks = Vec::new();
    for host in Host::ALL {
        let name = format!("host-{}", host.program());
        let site = match host.site(environment) {
            Ok(site) => site,
            Err(error) => {
                checks.push(Check::warning(&name, error.to_string(), "correct or unset the variable"));
                continue;
            }
        };
        let (looking, ours, named) = (environment.clone(), ours.clone(), name.clone());
        let found = bounded(&name, move || {
            if site.host.is_found(&looking, &site) {
                look(&named, &site, &looking, ours.as_deref())
            } else {
                Check::ok(&named, "")
            }
        });
        // Nothing is said of a host that is not there.
        checks.extend(Some(found.await).filter(|check| !check.message.is_empty()));
    }
    if checks.is_empty() {
        checks.push(Check::ok("hosts", "none of the known hosts was found; README says how to register in one"));
    }
    checks
}

fn look(name: &str, site: &Site, environment: &Environment, ours: Option<&Path>) -> Check {
    let (title, file) = (site.host.title(), site.file.display());
    let text = match read(&site.file) {
        Ok(Some(text)) => text,
        Ok(None) => return Check::warning(name, format!("{title} is not told of the server"), SETUP),
        Err(why) => return Check::warning(name, format!("{title}: can't read {file}: {why}"), "make it yours to read"),
    };
    let (command, is_complete) = match site.format.read(&text) {
        Ok(Registration::Present { command }) => (command, true),
        Ok(Registration::Incomplete { command }) => (command, false),
        Ok(Registration::Absent) => {
            return Check::warning(name, format!("{title} is not told of the server in {file}"), SETUP);
        }
        Ok(Registration::Foreign { starts }) => {
            let message =
                format!("{title}: the entry `grounding` in {file} starts something else, {}", printable(&starts));
            return Check::warning(name, message, "rename or remove that entry, then groundingctl setup");
        }
        Err(error) => {
            let message = format!("{title} can't use {file}: {}", printable(&error.to_string()));
            return Check::warning(name, message, "mend the file, then groundingctl setup");
        }
    };
    let shown = printable(&command);
    let Some(program) = program(&command, environment) else {
        return Check::failure(name, format!("{title} starts {shown} ({file}), which is not there"), SETUP);
    };
    if ours.is_some_and(|ours| ours.canonicalize().ok() != program.canonicalize().ok()) {
        let message = format!("{title} starts {shown} ({file}), which is not the one beside this program");
        return Check::warning(name, message, SETUP);
    }
    if !is_complete {
        let message = format!("{title} starts {shown}, and its entry in {file} lacks something");
        return Check::warning(name, message, SETUP);
    }
    Check::ok(name, format!("{title} starts {shown} ({file})"))
}

fn read(path: &Path) -> Result<Option<String>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut text = String::new();
    if !is_file {
        return Err("it is not a regular file".to_owned());
    }
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(Some(text))
}

/// Returns the file that a host would start for a command.
fn program(command: &str, environment: &Environment) -> Option<PathBuf> {
    let path = Path::new(command);
    let found =
        if command.contains('/') { Some(path.to_owned()) } else { find_program(environment.get("PATH")?, command) };
    found.filter(|path| is_executable(path))
}
