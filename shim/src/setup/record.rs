//! `<state dir>/setup.json`: what set-up did, so that it can be undone exactly.
//!
//! It is saved before each change it tells of: what it tells and what did not happen is recognized by its hash. One that
//! can't be read, or that a newer build wrote, is left as it is and nothing is changed.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, EnvironmentError};
use grounding_proto::wire::OsText;
use serde::{Deserialize, Serialize};

use super::error::SetupError;
use super::files::{PRIVATE_DIRECTORY, PRIVATE_FILE, create_directories, keep_copy, write_atomically};
use crate::host::known::Host;

/// The version that this build writes, and the newest that it reads.
const VERSION: u32 = 1;

/// What set-up did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    version: u32,
    /// The programs it installed.
    #[serde(default)]
    pub programs: Vec<Written>,
    /// The directories it created, each after those above it.
    #[serde(default)]
    pub directories: Vec<OsText>,
    /// The files of hosts that it changed.
    #[serde(default)]
    pub hosts: Vec<Registered>,
    /// The unit it installed.
    #[serde(default)]
    pub service: Option<Written>,
}

/// A file that is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The file.
    pub path: OsText,
    /// The SHA-256 of its content.
    pub sha256: String,
}

/// A host's file that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// The host.
    pub host: Host,
    /// The file.
    pub file: OsText,
    /// What was there before.
    pub origin: Origin,
    /// The SHA-256 of the file with our entry.
    pub sha256: String,
    /// Whether our entry brought the table of servers.
    pub servers: Servers,
}

/// What was there before our first change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// Nothing.
    Absent,
    /// The content that is kept here.
    Kept(OsText),
    /// A content that is kept here and must not come back: it has an older entry of ours, or was changed between two
    /// changes of ours.
    Superseded(OsText),
}

/// Whether our entry brought the table of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Servers {
    /// It was there.
    Found,
    /// Our entry brought it.
    Brought,
}

impl Default for Record {
    fn default() -> Self {
        Self { version: VERSION, programs: Vec::new(), directories: Vec::new(), hosts: Vec::new(), service: None }
    }
}

/// Returns where the record is.
///
/// # Errors
/// When there is no state directory.
pub fn path(environment: &Environment) -> Result<PathBuf, EnvironmentError> {
    Ok(environment.state_dir()?.join("setup.json"))
}

/// Returns where files are kept as they were.
///
/// # Errors
/// When there is no state directory.
pub fn backups(environment: &Environment) -> Result<PathBuf, EnvironmentError> {
    Ok(environment.state_dir()?.join("setup/backups"))
}

impl Record {
    /// Reads the record; nothing when there is none.
    ///
    /// # Errors
    /// When it can't be read or is newer.
    pub fn load(environment: &Environment) -> Result<Option<Self>, SetupError> {
        let path = path(environment)?;
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SetupError::io("read", &path)(error)),
        };
        #[derive(Deserialize)]
        struct Stamp {
            version: u32,
        }
        let refused = |problem| SetupError::File { path: path.clone(), problem };
        let damaged = "is damaged, so nothing was changed; move it away, and entries are found by name instead";
        let stamp: Stamp = serde_json::from_slice(&bytes).map_err(|_| refused(damaged))?;
        if stamp.version > VERSION {
            return Err(refused("was written by a newer build, so nothing was changed; run that build's groundingctl"));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|_| refused(damaged))
    }

    /// Takes the lock that a set-up or removal holds while it changes something, and checks that the record is still what
    /// this one was planned by. The lock is that of the state directory itself, so that no file of it is left.
    ///
    /// # Errors
    /// When another one has it or had it since, or the directory can't be used.
    pub fn lock(&mut self, environment: &Environment) -> Result<File, SetupError> {
        let directory = environment.state_dir()?;
        let planned = self.clone();
        create_directories(&directory, PRIVATE_DIRECTORY, &mut self.directories)?;
        let file = File::open(&directory).map_err(SetupError::io("open", &directory))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SetupError::Busy),
            Err(TryLockError::Error(source)) => return Err(SetupError::io("lock", &directory)(source)),
        }
        let is_current = Self::load(environment)?.unwrap_or_default() == planned;
        if is_current { Ok(file) } else { Err(SetupError::Busy) }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn save(&mut self, environment: &Environment) -> Result<(), SetupError> {
        let path = path(environment)?;
        create_directories(path.parent().unwrap_or(Path::new("/")), PRIVATE_DIRECTORY, &mut self.directories)?;
        // The types serialize without fail: no map has keys that are no strings.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        write_atomically(&path, text.as_bytes(), PRIVATE_FILE)
    }

    /// Keeps a content as it was and returns where.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn keep(&mut self, environment: &Environment, name: &str, content: &[u8]) -> Result<OsText, SetupError> {
        let directory = backups(environment)?;
        create_directories(&directory, PRIVATE_DIRECTORY, &mut self.directories)?;
        keep_copy(&directory, name, content).map(OsText::from)
    }

    /// Returns what is known of a host's file.
    #[must_use]
    pub fn registered(&self, file: &Path) -> Option<&Registered> {
        self.hosts.iter().find(|registered| registered.file.as_path() == file)
    }

    /// Notes what was done to a host's file, in place of what was known of it.
    pub fn note_host(&mut self, registered: Registered) {
        self.hosts.retain(|known| known.file != registered.file);
        self.hosts.push(registered);
    }

    /// Notes an installed program, in place of what was known of it.
    pub fn note_program(&mut self, program: Written) {
        self.programs.retain(|known| known.path != program.path);
        self.programs.push(program);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_one_that_is_not_understood_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::of_variables(vec![("HOME".into(), home.path().into())]);
        assert_eq!(Record::load(&environment).unwrap(), None);
        let mut record = Record::default();
        record.note_host(Registered {
            host: Host::Cursor,
            file: OsText::from(PathBuf::from("/x")),
            origin: Origin::Kept(OsText::from(PathBuf::from("/y"))),
            sha256: String::new(),
            servers: Servers::Brought,
        });
        let lock = Record::default().lock(&environment).unwrap();
        assert!(matches!(Record::default().lock(&environment), Err(SetupError::Busy)));
        drop(lock);
        std::fs::remove_dir_all(home.path().join(".local")).unwrap();
        record.save(&environment).unwrap();
        assert_eq!(record.directories.len(), 3);
        assert!(matches!(Record::default().lock(&environment), Err(SetupError::Busy)), "planned by another record");
        record.save(&environment).unwrap();
        assert_eq!(Record::load(&environment).unwrap(), Some(record));
        for (text, words) in [("{", "damaged"), ("{\"version\": 2, \"x\": 1}", "newer")] {
            std::fs::write(path(&environment).unwrap(), text).unwrap();
            assert!(Record::load(&environment).unwrap_err().to_string().contains(words), "{text}");
        }
    }
}
