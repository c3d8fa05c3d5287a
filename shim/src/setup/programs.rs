//! The three programs: where they are, where they go, and whether a file there may be replaced.
//!
//! A file in the way that is no native program, a script of the same name for instance, is never replaced.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use grounding_proto::environment::{Environment, is_executable};
use grounding_proto::wire::OsText;

use super::error::SetupError;
use super::files::{sha256, sha256_of_file, write_atomically};
use super::record::{Record, Written};
use crate::process::{CONTROL, DAEMON, SERVER};
use crate::store;

/// The programs, which stand next to each other.
pub const PROGRAMS: [&str; 3] = [DAEMON, SERVER, CONTROL];

/// Mode of a program, and of a directory that is made for programs.
const EXECUTABLE: u32 = 0o755;

/// Where the programs will be, and which of them have to be copied there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Where they will be.
    pub directory: PathBuf,
    /// What has to be copied, from and to.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Whether the directory is on PATH.
    pub reach: Reach,
}

/// Whether a shell finds the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Their directory is on PATH.
    OnPath,
    /// It is not.
    OffPath,
}

impl Installation {
    /// Finds out what has to be done: nothing when this program stands with the others in a directory of PATH and no
    /// other place is asked for, else copies to `<prefix>/bin`.
    ///
    /// # Errors
    /// When a program is missing, or something that is not ours is in the way.
    pub fn plan(environment: &Environment, prefix: Option<&Path>) -> Result<Self, SetupError> {
        let own = std::env::current_exe().and_then(std::fs::canonicalize);
        let own = own.map_err(SetupError::io("find the program that runs as", Path::new("/proc/self/exe")))?;
        let source = own.parent().unwrap_or(Path::new("/")).to_owned();
        let on_path = path_directories(environment);
        if prefix.is_none()
            && let Some(directory) = on_path.iter().find(|directory| holds_all(directory, &own))
        {
            return Ok(Self { directory: directory.clone(), copies: Vec::new(), reach: Reach::OnPath });
        }
        let prefix = match prefix {
            Some(prefix) => std::path::absolute(prefix).map_err(SetupError::io("find", prefix))?,
            None => environment.home()?.join(".local"),
        };
        let directory = prefix.join("bin");
        let mut copies = Vec::new();
        for name in PROGRAMS {
            let (from, to) = (source.join(name), directory.join(name));
            if !is_executable(&from) {
                let problem =
                    "is missing: the three programs are installed from one directory; build or unpack them all";
                return Err(SetupError::File { path: from, problem });
            }
            if !is_current(&from, &to)? {
                copies.push((from, to));
            }
        }
        let is_reached = on_path.iter().any(|known| store::is_same(known, &directory));
        let reach = if is_reached { Reach::OnPath } else { Reach::OffPath };
        Ok(Self { directory, copies, reach })
    }

    /// Returns the path of a program, as it is registered.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Copies what has to be copied.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn carry_out(&self, environment: &Environment, record: &mut Record) -> Result<(), SetupError> {
        record.create_directories(environment, &self.directory, EXECUTABLE)?;
        for (from, to) in &self.copies {
            let content = std::fs::read(from).map_err(SetupError::io("read", from))?;
            record.note_program(Written { path: OsText::from(to.clone()), sha256: sha256(&content) });
            record.save(environment)?;
            write_atomically(to, &content, EXECUTABLE)?;
        }
        Ok(())
    }
}

fn path_directories(environment: &Environment) -> Vec<PathBuf> {
    let value = environment.get("PATH").unwrap_or_default();
    std::env::split_paths(value).filter(|directory| directory.is_absolute()).collect()
}

/// Returns whether a directory holds this very program, perhaps by links, and the others.
fn holds_all(directory: &Path, own: &Path) -> bool {
    let is_own = directory.join(CONTROL).canonicalize().is_ok_and(|path| path == own);
    is_own && PROGRAMS.iter().all(|name| is_executable(&directory.join(name)))
}

/// Returns whether a program is in its place already.
fn is_current(from: &Path, to: &Path) -> Result<bool, SetupError> {
    let Ok(metadata) = to.symlink_metadata() else { return Ok(false) };
    let refused = |problem| Err(SetupError::File { path: to.to_owned(), problem });
    if store::is_same(from, to) {
        return Ok(true);
    }
    if !metadata.is_file() {
        return refused("is in the way and no regular file; remove it, or choose another place with --prefix");
    }
    if !is_native(to) {
        return refused("is another program; remove it, or choose another place with --prefix");
    }
    let same_size = from.metadata().is_ok_and(|from| from.len() == metadata.len());
    Ok(same_size && is_executable(to) && sha256_of_file(from)? == sha256_of_file(to)?)
}

/// Returns whether a file is a native program, as ours are, and not a script.
#[must_use]
pub fn is_native(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    // ELF; Mach-O of 64 bits in either byte order; a universal binary.
    let known = [*b"\x7fELF", *b"\xcf\xfa\xed\xfe", *b"\xfe\xed\xfa\xcf", *b"\xca\xfe\xba\xbe"];
    read.is_ok() && known.contains(&magic)
}
