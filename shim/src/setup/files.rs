//! Files of others: read whole, replaced atomically where a link leads, kept as they were beside the record.
//!
//! A file is written only if it is still what was read. One that belongs to somebody else, or that a link leads out of
//! the home and its own directory, is refused. Nothing here knows what is in a file.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use grounding_proto::wire::OsText;
use sha2::{Digest, Sha256};

use super::error::SetupError;
use crate::store;

/// Largest file of a host that is read, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Mode of a file of ours, and of a host's file that was absent.
pub const PRIVATE_FILE: u32 = 0o600;
/// Mode of a directory of ours, and of a host's directory that was absent.
pub const PRIVATE_DIRECTORY: u32 = 0o700;

/// A host's file as it was read.
#[derive(Debug)]
pub struct Snapshot {
    /// Where a link leads, or the path itself.
    target: PathBuf,
    bytes: Option<Vec<u8>>,
    mode: u32,
}

impl Snapshot {
    /// Reads a file, which may be absent.
    ///
    /// # Errors
    /// When it can't be read, is no file, belongs to another user, or a link leads to it from elsewhere.
    pub fn read(path: &Path, home: &Path) -> Result<Self, SetupError> {
        let refused = |problem| SetupError::File { path: path.to_owned(), problem };
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => {
                return Ok(Self { target: path.to_owned(), bytes: None, mode: PRIVATE_FILE });
            }
            Err(error) => return Err(SetupError::io("read", path)(error)),
        };
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(error) if metadata.is_symlink() && error.kind() == ErrorKind::NotFound => {
                return Err(refused("is a symlink to a file that is not there; mend the link"));
            }
            Err(error) => return Err(SetupError::io("follow", path)(error)),
        };
        if metadata.is_symlink() {
            let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
            let allowed = [home.canonicalize().ok(), directory];
            if !allowed.iter().flatten().any(|directory| target.starts_with(directory)) {
                return Err(refused("is a symlink out of the home directory, which is not followed; edit it by hand"));
            }
        }
        let metadata = target.metadata().map_err(SetupError::io("read", &target))?;
        if !metadata.is_file() {
            return Err(refused("is no regular file; remove it"));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused("belongs to another user; run this as that user, or make it yours"));
        }
        if metadata.len() > MAX_BYTES {
            return Err(refused("is larger than 64 MiB, so it was not read; edit it by hand"));
        }
        let bytes = std::fs::read(&target).map_err(SetupError::io("read", &target))?;
        Ok(Self { target, bytes: Some(bytes), mode: metadata.mode() & 0o7777 })
    }

    /// Returns the content; nothing of a file that is absent.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Returns the content as text, which is empty for a file that is absent.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text(&self) -> Result<&str, SetupError> {
        let refused = |_| SetupError::File { path: self.target.clone(), problem: "is not UTF-8 text; mend it" };
        std::str::from_utf8(self.bytes().unwrap_or_default()).map_err(refused)
    }

    /// Replaces the content. Links to the file stay, and so does its mode.
    ///
    /// # Errors
    /// When the file changed since it was read, or can't be written.
    pub fn replace(&self, content: &[u8]) -> Result<(), SetupError> {
        self.check_unchanged()?;
        write_atomically(&self.target, content, self.mode)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// When the file changed since it was read, or can't be removed.
    pub fn remove(&self) -> Result<(), SetupError> {
        self.check_unchanged()?;
        remove_file(&self.target).map(drop)
    }

    /// A host that runs may write its file at any time; what it wrote since is not overwritten.
    fn check_unchanged(&self) -> Result<(), SetupError> {
        let now = match std::fs::read(&self.target) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(SetupError::io("read", &self.target)(error)),
        };
        let problem = "was changed by another program in this very moment; run this again";
        if now == self.bytes { Ok(()) } else { Err(SetupError::File { path: self.target.clone(), problem }) }
    }
}

/// Writes a file atomically and durably.
///
/// # Errors
/// When it can't be written.
pub fn write_atomically(path: &Path, content: &[u8], mode: u32) -> Result<(), SetupError> {
    store::write(path, content, mode).map_err(SetupError::io("write", path))
}

/// Creates a directory and those above it, and adds each that was absent to the list, the outermost first.
///
/// # Errors
/// When one can't be created; those that were are on the list.
pub fn create_directories(path: &Path, mode: u32, created: &mut Vec<OsText>) -> Result<(), SetupError> {
    let absent: Vec<_> = path.ancestors().take_while(|path| path.symlink_metadata().is_err()).collect();
    for directory in absent.into_iter().rev() {
        match std::fs::DirBuilder::new().mode(mode).create(directory) {
            Ok(()) => created.push(OsText::from(directory.to_owned())),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(SetupError::io("create the directory", directory)(error)),
        }
    }
    if path.is_dir() {
        return Ok(());
    }
    Err(SetupError::File { path: path.to_owned(), problem: "is no directory; remove it" })
}

/// Keeps a copy under a name of its own and returns where.
///
/// # Errors
/// When it can't be written.
pub fn keep_copy(directory: &Path, name: &str, content: &[u8]) -> Result<PathBuf, SetupError> {
    let mut number = 0;
    loop {
        let path = directory.join(if number == 0 { name.to_owned() } else { format!("{name}.{number}") });
        match OpenOptions::new().create_new(true).write(true).mode(PRIVATE_FILE).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(content).and_then(|()| file.sync_all());
                return written.map(|()| path.clone()).map_err(SetupError::io("write", &path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(SetupError::io("write", &path)(error)),
        }
    }
}

/// Removes a file and returns whether it was there.
///
/// # Errors
/// When it can't be removed.
pub fn remove_file(path: &Path) -> Result<bool, SetupError> {
    store::remove(path).map_err(SetupError::io("remove", path))
}

/// Removes a directory if nothing is in it.
///
/// # Errors
/// When it is empty and can't be removed.
pub fn remove_empty_directory(path: &Path) -> Result<(), SetupError> {
    match std::fs::remove_dir(path) {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory
            ) =>
        {
            Err(SetupError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the SHA-256 of a content, in hexadecimal.
#[must_use]
pub fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Returns the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// When it can't be read.
pub fn sha256_of_file(path: &Path) -> Result<String, SetupError> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut hash = || -> std::io::Result<()> {
        let mut file = File::open(path)?;
        loop {
            let count = file.read(&mut buffer)?;
            let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { return Ok(()) };
            hasher.update(part);
        }
    };
    hash().map_err(SetupError::io("read", path))?;
    Ok(hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_inside_the_home_is_written_through_and_one_out_of_it_is_refused() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let real = home.path().join("dotfiles.json");
        std::fs::write(&real, "a").unwrap();
        std::fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
        let link = home.path().join("link");
        symlink(&real, &link).unwrap();
        Snapshot::read(&link, home.path()).unwrap().replace(b"b").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!((std::fs::read(&real).unwrap(), real.metadata().unwrap().mode() & 0o777), (b"b".to_vec(), 0o640));

        std::fs::write(outside.path().join("x"), "").unwrap();
        for (name, target) in [("out", outside.path().join("x")), ("gone", home.path().join("absent"))] {
            symlink(target, home.path().join(name)).unwrap();
            let error = Snapshot::read(&home.path().join(name), home.path()).unwrap_err().to_string();
            assert!(error.contains("symlink"), "{error}");
        }
        assert!(Snapshot::read(home.path(), home.path()).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn what_another_program_wrote_meanwhile_is_not_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        let absent = Snapshot::read(&path, home.path()).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert!(absent.replace(b"ours").unwrap_err().to_string().contains("run this again"));
        let present = Snapshot::read(&path, home.path()).unwrap();
        std::fs::write(&path, "theirs too").unwrap();
        assert!(present.remove().unwrap_err().to_string().contains("run this again"));
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs too");
    }

    #[test]
    fn copies_never_replace_one_another_and_created_directories_are_told() {
        let home = tempfile::tempdir().unwrap();
        let mut created = Vec::new();
        let deep = home.path().join("a/b");
        create_directories(&deep, PRIVATE_DIRECTORY, &mut created).unwrap();
        create_directories(&deep, PRIVATE_DIRECTORY, &mut created).unwrap();
        assert_eq!(created, [home.path().join("a"), deep.clone()].map(OsText::from));
        let copies = [b"1", b"2"].map(|content| keep_copy(&deep, "f", content).unwrap());
        assert_eq!(copies, [deep.join("f"), deep.join("f.1")]);
        assert_eq!(sha256_of_file(&copies[0]).unwrap(), sha256(b"1"));
        assert!(create_directories(&copies[0], PRIVATE_DIRECTORY, &mut created).is_err());
    }
}
