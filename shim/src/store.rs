//! Whole files: the one place of the clients that replaces or removes one.
//!
//! A file is replaced atomically and durably, or stays as it was. Who may be replaced, and what an error is called, the
//! caller says, who knows what the file is for. Nothing here makes a directory or knows what is in a file.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// What temporary files are called, around random characters.
const TEMPORARY: (&str, &str) = (".grounding-", ".tmp");

/// Writes a file atomically and durably, with this mode whatever the umask says.
///
/// # Errors
/// When it can't be written; it is then as it was.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(TEMPORARY.0).suffix(TEMPORARY.1).tempfile_in(directory)?;
    // Held while it is written, so that `sweep` knows it from one that was left; without locks it is only not swept.
    let _ = file.as_file().try_lock();
    file.write_all(content)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

/// Removes from a directory the temporary files that an interrupted write left: those of this user that nobody holds.
///
/// # Errors
/// When one can't be removed.
pub fn sweep(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_named = name.to_str().is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
        let metadata = entry.path().symlink_metadata();
        let is_ours =
            metadata.is_ok_and(|metadata| metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw());
        if is_named && is_ours && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
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
    fn what_an_interrupted_write_left_is_swept_unless_somebody_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let [left, held, other] =
            [".grounding-a.tmp", ".grounding-b.tmp", ".tmpabc"].map(|name| directory.path().join(name));
        for path in [&left, &held, &other] {
            std::fs::write(path, "").unwrap();
        }
        let lock = File::open(&held).unwrap();
        lock.lock().unwrap();
        sweep(directory.path()).unwrap();
        assert!(!left.exists() && held.exists() && other.exists());
        drop(lock);
        sweep(directory.path()).unwrap();
        assert!(!held.exists() && other.exists());
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
