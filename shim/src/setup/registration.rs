//! The entry in one host's file: what is to be done so that it is there, and how it is done.
//!
//! A host's own command adds the entry where the host has one; a file is edited where it has none, where our entry is there
//! already and has to be mended, and where the command would change more than the entry. What is there holds when the file
//! says so: no command is run to find out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::environment::{Environment, find_program};
use grounding_proto::wire::OsText;

use super::error::SetupError;
use super::files::{PRIVATE_DIRECTORY, Snapshot, create_directories, remove_file, sha256};
use super::programs::is_native;
use super::record::{Origin, Record, Registered, Servers};
use crate::host::entry::{Edit, EditError, Emptied, NAME, Registration, is_ours};
use crate::host::known::{Host, Site};
use crate::process;

/// How long a host's own command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be done in one file.
#[derive(Debug)]
pub struct Registering {
    /// Where.
    pub site: Site,
    /// How.
    pub way: Way,
    /// The file as it was when this was planned.
    before: Snapshot,
    /// What stood there.
    found: Registration,
}

/// How an entry gets into a file.
#[derive(Debug)]
pub enum Way {
    /// The file is edited, and becomes this.
    Edit(String),
    /// The host's own command adds it.
    Command(PathBuf),
}

impl Registering {
    /// Finds out what is to be done so that the host starts this program; nothing when it does.
    ///
    /// # Errors
    /// When the file can't be read or edited, or its entry is another program's.
    pub fn plan(environment: &Environment, site: Site, program: &str) -> Result<Option<Self>, SetupError> {
        let before = Snapshot::read(&site.file, environment.home()?)?;
        let text = before.text()?;
        let refused = |source| SetupError::Edit { path: site.file.clone(), source };
        let found = site.format.read(text).map_err(refused)?;
        let replaced = match &found {
            Registration::Present { command } if command == program => return Ok(None),
            Registration::Present { command } | Registration::Incomplete { command } => Some(command),
            Registration::Absent | Registration::Foreign { .. } => None,
        };
        if let Some(command) = replaced.filter(|command| !is_replaceable(environment, command)) {
            return Err(refused(EditError::Foreign { starts: format!("`{command}`") }));
        }
        let edited = site.format.edit(text, Edit::Register { command: program }).map_err(refused)?;
        let is_user_site = site.host.site(environment).is_ok_and(|users| users == site);
        // Codex's command would change every line end.
        let is_plain = !text.contains('\r') && !text.starts_with('\u{feff}');
        let executable = site.host.adding().and_then(|_| site.host.executable(environment));
        let way = match executable {
            Some(command) if found == Registration::Absent && is_user_site && is_plain => Way::Command(command),
            _ => Way::Edit(edited),
        };
        Ok(Some(Self { site, way, before, found }))
    }

    /// Returns a sentence, without its subject.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (title, file) = (self.site.host.title(), self.site.file.display());
        match (&self.way, self.before.bytes()) {
            (Way::Command(_), _) => {
                let words = self.site.host.adding().unwrap_or_default().iter().take(2).copied();
                let command = [self.site.host.program()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
                format!("Register grounding-mcp in {title}, with `{command}` ({file}).")
            }
            (Way::Edit(_), None) => format!("Register grounding-mcp in {title}, in the new file {file}."),
            (Way::Edit(_), Some(_)) if self.found == Registration::Absent => {
                format!("Register grounding-mcp in {title}: add `{NAME}` to {file}.")
            }
            (Way::Edit(_), Some(_)) => format!("Mend `{NAME}` in {title}: change it in {file}."),
        }
    }

    /// Does it, and returns where the content before is kept.
    ///
    /// # Errors
    /// When the file changed since, can't be written, or the host's command fails; the file is then as it was.
    pub async fn carry_out(
        &self,
        environment: &Environment,
        program: &str,
        record: &mut Record,
    ) -> Result<Option<PathBuf>, SetupError> {
        let file = &self.site.file;
        let known = record.registered(file).cloned();
        let origin = self.origin(environment, record, known.as_ref())?;
        let servers = self.servers(known.as_ref())?;
        let kept = match (&origin, &known) {
            (Origin::Kept(path), Some(known)) if known.origin == Origin::Kept(path.clone()) => None,
            (Origin::Kept(path) | Origin::Superseded(path), _) => Some(path.as_path().to_owned()),
            (Origin::Absent, _) => None,
        };
        let note = |record: &mut Record, content: &[u8]| {
            record.note_host(Registered {
                host: self.site.host,
                file: OsText::from(file.clone()),
                origin: origin.clone(),
                sha256: sha256(content),
                servers,
            });
            record.save(environment)
        };
        let done = match &self.way {
            Way::Edit(edited) => {
                let directory = file.parent().unwrap_or(Path::new("/"));
                create_directories(directory, PRIVATE_DIRECTORY, &mut record.directories)?;
                note(record, edited.as_bytes())?;
                self.before.replace(edited.as_bytes())
            }
            Way::Command(command) => {
                let directory = file.parent().unwrap_or(Path::new("/"));
                let absent: Vec<_> = directory.ancestors().take_while(|above| !above.exists()).collect();
                match self.run(environment, command, program).await {
                    Ok(content) => {
                        record.directories.extend(absent.iter().rev().map(|above| OsText::from((*above).to_owned())));
                        note(record, &content)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        if let Err(error) = done {
            self.forget(environment, record, known, kept.as_deref())?;
            return Err(error);
        }
        Ok(kept)
    }

    /// Keeps what is there, unless it is a content of ours whose origin is known.
    fn origin(
        &self,
        environment: &Environment,
        record: &mut Record,
        known: Option<&Registered>,
    ) -> Result<Origin, SetupError> {
        let Some(content) = self.before.bytes() else { return Ok(Origin::Absent) };
        if let Some(known) = known.filter(|known| known.sha256 == sha256(content)) {
            return Ok(known.origin.clone());
        }
        let name = self.site.file.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{}-{}", self.site.host.program(), name.trim_start_matches('.'));
        let kept = record.keep(environment, &name, content)?;
        let is_original = known.is_none() && self.found == Registration::Absent;
        Ok(if is_original { Origin::Kept(kept) } else { Origin::Superseded(kept) })
    }

    fn servers(&self, known: Option<&Registered>) -> Result<Servers, SetupError> {
        if let Some(known) = known.filter(|_| self.found != Registration::Absent) {
            return Ok(known.servers);
        }
        let refused = |source| SetupError::Edit { path: self.site.file.clone(), source };
        let has = self.site.format.has_servers(self.before.text()?).map_err(refused)?;
        Ok(if has { Servers::Found } else { Servers::Brought })
    }

    /// Takes back what was noted and kept for a change that did not happen.
    fn forget(
        &self,
        environment: &Environment,
        record: &mut Record,
        known: Option<Registered>,
        kept: Option<&Path>,
    ) -> Result<(), SetupError> {
        record.hosts.retain(|noted| noted.file.as_path() != self.site.file);
        record.hosts.extend(known);
        record.save(environment)?;
        kept.map_or(Ok(()), |path| remove_file(path).map(drop))
    }

    /// Runs the host's own command, and adds what it can't; returns the content of the file after it.
    async fn run(&self, environment: &Environment, command: &Path, program: &str) -> Result<Vec<u8>, SetupError> {
        let arguments = self.site.host.adding().unwrap_or_default().iter().map(OsString::from);
        run_host(command, arguments.chain([program.into()])).await?;
        let after = Snapshot::read(&self.site.file, environment.home()?)?;
        let shown = format!("{} mcp add", command.display());
        let refused = |source| SetupError::Edit { path: self.site.file.clone(), source };
        match self.site.format.read(after.text()?).map_err(refused)? {
            Registration::Present { command } | Registration::Incomplete { command } if command == program => {}
            _ => return Err(SetupError::HostDiffers { command: shown, path: self.site.file.clone() }),
        }
        let register = Edit::Register { command: program };
        let complete = self.site.format.edit(after.text()?, register).map_err(refused)?;
        if after.bytes() != Some(complete.as_bytes()) {
            after.replace(complete.as_bytes())?;
        }
        Ok(complete.into_bytes())
    }
}

/// Runs a command of a host to its end.
///
/// # Errors
/// When it fails or does not end.
pub async fn run_host(command: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), SetupError> {
    let mut plain = process::plain(command);
    plain.args(arguments);
    match tokio::time::timeout(PATIENCE, process::run(plain)).await {
        Ok(ended) => ended.map(drop).map_err(SetupError::Host),
        Err(_) => {
            let command = command.display().to_string();
            Err(SetupError::HostHangs { command, seconds: PATIENCE.as_secs() })
        }
    }
}

/// Returns whether an entry with a command that looks like ours is: what it starts is a native program, or gone.
#[must_use]
pub fn is_replaceable(environment: &Environment, command: &str) -> bool {
    let path = Path::new(command);
    let found = if path.is_absolute() {
        Some(path.to_owned()).filter(|path| path.exists())
    } else {
        environment.get("PATH").and_then(|value| find_program(value, command))
    };
    is_ours(command) && found.is_none_or(|path| is_native(&path))
}

/// Takes our entry out of a host's file, as far as it is ours, and returns whether anything was changed.
///
/// # Errors
/// When the file can't be read or edited, or the host's command fails.
pub async fn unregister(environment: &Environment, site: &Site, known: Option<&Registered>) -> Result<(), SetupError> {
    let now = Snapshot::read(&site.file, environment.home()?)?;
    let Some(content) = now.bytes() else { return Ok(()) };
    if let Some(known) = known.filter(|known| known.sha256 == sha256(content)) {
        match &known.origin {
            Origin::Absent => return now.remove(),
            Origin::Kept(kept) => {
                let original = std::fs::read(kept.as_path()).map_err(SetupError::io("read", kept.as_path()))?;
                return now.replace(&original);
            }
            Origin::Superseded(_) => {}
        }
    }
    let refused = |source| SetupError::Edit { path: site.file.clone(), source };
    let is_user_site = site.host.site(environment).is_ok_and(|users| users == *site);
    let executable = site.host.executable(environment).filter(|_| is_user_site);
    if let (Some(arguments), Some(command)) = (site.host.removing(), executable) {
        run_host(&command, arguments.iter().map(OsString::from)).await?;
        let after = Snapshot::read(&site.file, environment.home()?)?;
        return match site.format.read(after.text()?).map_err(refused)? {
            Registration::Absent => Ok(()),
            _ => {
                let command = format!("{} mcp remove", command.display());
                Err(SetupError::HostDiffers { command, path: site.file.clone() })
            }
        };
    }
    let brought = known.is_some_and(|known| known.servers == Servers::Brought);
    let emptied = if brought { Emptied::Goes } else { Emptied::Stays };
    let edited = site.format.edit(now.text()?, Edit::Unregister { emptied }).map_err(refused)?;
    now.replace(edited.as_bytes())
}

/// Returns every host's file that may hold our entry: those of the record, and those of the hosts.
pub fn sites(environment: &Environment, record: &Record) -> Vec<(Site, Option<Registered>)> {
    let recorded = record.hosts.iter().map(|known| {
        let file = known.file.as_path().to_owned();
        let format = known.host.format();
        (Site { host: known.host, file, format }, Some(known.clone()))
    });
    let mut sites: Vec<_> = recorded.collect();
    for site in Host::ALL.iter().filter_map(|host| host.site(environment).ok()) {
        if !sites.iter().any(|(known, _)| known.file == site.file) {
            sites.push((site, None));
        }
    }
    sites
}
