//! Whole files: the one place of the clients that replaces or removes one.
//!
//! A file is replaced atomically and durably, or stays as it was. Who may be replaced, and what an error is called, the
//! caller says, who knows what the file is for. Nothing here makes a directory or knows what is in a file.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file atomically and durably, with this mode whatever the umask says.
///
/// # Errors
/// When it can't be written; it is then as it was.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

/// Removes a file and returns whether it was there.
///
/// # Errors
/// When it is there and can't be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether two paths lead to one file or directory, perhaps by links.
#[must_use]
pub fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_removed_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write(&path, b"one", 0o600).unwrap();
        write(&path, b"two", 0o644).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), path.metadata().unwrap().mode() & 0o777), (b"two".to_vec(), 0o644));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(remove(&path).unwrap() && !remove(&path).unwrap());
    }

    #[test]
    fn a_link_leads_to_the_same_file_and_an_absent_path_to_none() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, absent] = ["file", "link", "absent"].map(|name| directory.path().join(name));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(is_same(&file, &link) && is_same(&absent, &absent));
        assert!(!is_same(&file, &absent) && !is_same(&absent, &directory.path().join("other")));
    }
}
