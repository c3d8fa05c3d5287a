//! What a removal will do, found out from the record and from what is on disk; nothing is changed here.

use std::path::{Path, PathBuf};

use grounding_proto::environment::Environment;
use grounding_proto::wire::OsText;

use super::data::{self, Data};
use super::error::SetupError;
use super::files::{Snapshot, sha256, sha256_of_file};
use super::record::{Origin, Record, Registered};
use super::registration::{is_replaceable, sites};
use crate::client::{Client, StartPolicy};
use crate::error::{ClientError, chain};
use crate::host::entry::{NAME, Registration};
use crate::host::known::Site;
use crate::process;
use crate::service::ServiceManager;

/// What becomes of the user's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays.
    Kept,
    /// It is deleted.
    Deleted,
}

/// What will be done.
#[derive(Debug)]
pub struct Removal {
    /// The hosts' files that lose our entry.
    pub sites: Vec<(Site, Option<Registered>)>,
    /// The manager that loses the unit, if it has it.
    pub service: Option<ServiceManager>,
    /// The unit's file, where no manager answers.
    pub unit: Option<PathBuf>,
    /// The programs.
    pub programs: Vec<PathBuf>,
    /// The user's data that is there.
    pub data: Vec<Data>,
    /// A sentence for each change.
    pub changes: Vec<String>,
    /// A sentence for what stays, and what is good to know.
    pub notes: Vec<String>,
    /// A sentence for each host that is left out, with the reason.
    pub refusals: Vec<String>,
    /// How many attempts run.
    pub attempts: usize,
    /// What set-up did.
    pub record: Record,
}

/// Finds out what is to be done.
///
/// # Errors
/// When there is no home, or a record that is not understood.
pub async fn plan(environment: &Environment, fate: Fate) -> Result<Removal, SetupError> {
    let record = Record::load(environment)?.unwrap_or_default();
    let mut removal = Removal {
        sites: Vec::new(),
        service: None,
        unit: None,
        programs: Vec::new(),
        data: data::present(environment)?,
        changes: Vec::new(),
        notes: Vec::new(),
        refusals: Vec::new(),
        attempts: 0,
        record,
    };
    removal.plan_hosts(environment)?;
    removal.plan_service(environment).await;
    removal.plan_daemon(environment).await;
    removal.plan_programs()?;
    removal.plan_state(environment)?;
    removal.plan_data(environment, fate);
    Ok(removal)
}

impl Removal {
    fn plan_hosts(&mut self, environment: &Environment) -> Result<(), SetupError> {
        let home = environment.home()?;
        for (site, known) in sites(environment, &self.record) {
            match sentence(environment, home, &site, known.as_ref()) {
                Ok(None) => {}
                Ok(Some(sentence)) => {
                    self.changes.push(sentence);
                    self.sites.push((site, known));
                }
                Err(error) => self.refusals.push(format!("{}: {}", site.host.title(), chain(&error))),
            }
        }
        Ok(())
    }

    async fn plan_service(&mut self, environment: &Environment) {
        let manager = ServiceManager::find(environment).await.ok();
        let recorded = self.record.service.clone().filter(|unit| is_as_written(unit.path.as_path(), &unit.sha256));
        // Without a record, a unit that is exactly what set-up writes for the daemon next to this program is ours.
        let found = manager.as_ref().filter(|_| self.record.service.is_none()).and_then(|manager| {
            let text = manager.text(&process::sibling(environment, process::DAEMON).ok()?).ok()?;
            let file = manager.file();
            is_as_written(&file, &sha256(text.as_bytes())).then_some(file)
        });
        let Some(file) = recorded.map(|unit| unit.path.as_path().to_owned()).or(found) else {
            if let Some(unit) = &self.record.service
                && unit.path.as_path().exists()
            {
                let file = unit.path.as_path().display();
                self.notes.push(format!("{file} was changed since it was installed, so it stays; remove it by hand."));
            }
            return;
        };
        self.changes.push(format!("Disable and remove the service: {}.", file.display()));
        match manager.filter(|manager| manager.file() == file) {
            Some(manager) => self.service = Some(manager),
            None => self.unit = Some(file),
        }
    }

    async fn plan_daemon(&mut self, environment: &Environment) {
        self.attempts = data::running_attempts(&self.data);
        match Client::new(environment.clone(), StartPolicy::Never).version().await {
            Ok(version) => self.changes.push(format!("Stop groundingd (pid {}).", version.pid)),
            Err(ClientError::NotRunning { .. }) => {}
            Err(error) => self.refusals.push(chain(&error)),
        }
        match self.attempts {
            0 => {}
            1 => self.notes.push("1 attempt is running: it goes on to its end and keeps its result.".to_owned()),
            some => {
                self.notes.push(format!("{some} attempts are running: they go on to their end and keep their results."))
            }
        }
    }

    fn plan_programs(&mut self) -> Result<(), SetupError> {
        for program in &self.record.programs {
            let path = program.path.as_path();
            if is_as_written(path, &program.sha256) {
                self.changes.push(format!("Remove {}.", path.display()));
                self.programs.push(path.to_owned());
            } else if path.exists() {
                let path = path.display();
                self.notes.push(format!("{path} was replaced since it was installed, so it stays; remove it by hand."));
            }
        }
        if self.record.programs.is_empty() {
            let own = std::env::current_exe().map_err(SetupError::io("find", Path::new("/proc/self/exe")))?;
            let directory = own.parent().unwrap_or(Path::new("/")).display();
            self.notes.push(format!("The programs in {directory} stay: setup did not put them there."));
        }
        Ok(())
    }

    fn plan_state(&mut self, environment: &Environment) -> Result<(), SetupError> {
        let directory = environment.state_dir()?;
        if directory.exists() {
            self.changes.push(format!("Remove the daemon's log and locks in {}.", directory.display()));
        }
        Ok(())
    }

    fn plan_data(&mut self, environment: &Environment, fate: Fate) {
        for Data { kind, path } in &self.data {
            let (title, path) = (kind.title(), path.display());
            match fate {
                Fate::Kept => self.notes.push(format!("Your data stays: {title} in {path}.")),
                Fate::Deleted => self.changes.push(format!("Delete the {title} in {path}.")),
            }
        }
        if let Some(key) = data::signing_key(environment) {
            let path = key.display();
            self.notes.push(format!("The signing key {path} stays: other programs may sign with it."));
        }
    }
}

/// Returns whether a file is what was written.
fn is_as_written(path: &Path, sha256: &str) -> bool {
    sha256_of_file(path).is_ok_and(|found| found == sha256)
}

/// Returns what will be done to a host's file; nothing when our entry is not in it.
fn sentence(
    environment: &Environment,
    home: &Path,
    site: &Site,
    known: Option<&Registered>,
) -> Result<Option<String>, SetupError> {
    let now = Snapshot::read(&site.file, home)?;
    let (title, file) = (site.host.title(), site.file.display());
    let Some(content) = now.bytes() else { return Ok(None) };
    if let Some(known) = known.filter(|known| known.sha256 == sha256(content)) {
        match &known.origin {
            Origin::Absent => return Ok(Some(format!("Unregister from {title}: remove {file}, which setup created."))),
            Origin::Kept(_) => return Ok(Some(format!("Unregister from {title}: restore {file} as it was."))),
            Origin::Superseded(_) => {}
        }
    }
    let refused = |source| SetupError::Edit { path: site.file.clone(), source };
    let is_removable = |command: &str| known.is_some() || is_replaceable(environment, command);
    match site.format.read(now.text()?).map_err(refused)? {
        Registration::Present { command } | Registration::Incomplete { command } if is_removable(&command) => {
            Ok(Some(format!("Unregister from {title}: take `{NAME}` out of {file}.")))
        }
        _ => Ok(None),
    }
}

/// Returns the directories that set-up created, the innermost first.
pub(super) fn directories(record: &Record) -> impl Iterator<Item = &Path> {
    record.directories.iter().rev().map(OsText::as_path)
}
