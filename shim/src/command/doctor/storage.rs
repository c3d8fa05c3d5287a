//! Files and directories: whether they are there, whose they are, who else may enter or write, and on which file system.
//!
//! Nothing is created, changed or locked, and of the signing key nothing but its metadata is read.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use grounding_proto::environment::Environment;
use grounding_proto::wire::Root;
use rustix::fs::{Access, access};

use super::check::{Check, bounded};
use super::file_system::{self, FileSystem};
use crate::state::State;

/// What a key of fewer bytes is not.
const MIN_KEY_BYTES: u64 = 32;

/// What stands where a path leads.
enum Found {
    Nothing,
    Something(Metadata),
    Unreadable(std::io::Error),
}

/// Looks at everything that is stored.
pub(super) async fn checks(environment: &Environment, state: &State) -> Vec<Check> {
    let roots = environment.roots();
    let mut checks = Vec::new();
    let directory = environment.state_dir();
    if let Ok(directory) = directory {
        checks.push(bounded("state-directory", move || state_directory(&directory)).await);
    }
    let looked_at = state.clone();
    checks.push(bounded("socket", move || socket(&looked_at)).await);
    for (name, root) in [("sessions", roots.sessions), ("hypotheses", roots.hypotheses), ("verdicts", roots.verdicts)] {
        checks.push(of_root(name, root, move |path| storage_directory(name, path)).await);
    }
    checks.push(of_root("ledger-file", roots.ledger, ledger_file).await);
    checks.push(of_root("signing-key", roots.signing_key, signing_key).await);
    checks
}

/// Looks at a root, or says why the environment refuses it.
async fn of_root(name: &'static str, root: Root, look: impl FnOnce(&Path) -> Check + Send + 'static) -> Check {
    match root {
        Root::Path(path) => bounded(name, move || look(path.as_path())).await,
        Root::Refused(why) => Check::failure(name, why, "set the variable to an absolute path, or unset it"),
    }
}

fn look(path: &Path) -> Found {
    match path.symlink_metadata() {
        Ok(metadata) => Found::Something(metadata),
        Err(error) if error.kind() == ErrorKind::NotFound => Found::Nothing,
        Err(error) => Found::Unreadable(error),
    }
}

fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o777
}

/// Says what is wrong with the place where something would be made.
fn place_problem(path: &Path) -> Option<String> {
    let existing = path.ancestors().skip(1).find(|ancestor| ancestor.exists())?;
    if !existing.is_dir() {
        return Some(format!("{} is in the way: it is not a directory", existing.display()));
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK)
        .is_err()
        .then(|| format!("{} can't be written", existing.display()))
}

fn absent(name: &str, path: &Path, when: &str) -> Check {
    match place_problem(path) {
        None => Check::ok(name, format!("{} is not there yet; {when}", path.display())),
        Some(problem) => {
            let remedy = "make that directory yours to write, or name another with the variable of README";
            Check::failure(name, format!("{} can't be made: {problem}", path.display()), remedy)
        }
    }
}

fn unreadable(name: &str, path: &Path, error: &std::io::Error) -> Check {
    Check::failure(
        name,
        format!("can't look at {}: {error}", path.display()),
        "make the directories above it yours to enter",
    )
}

fn state_directory(path: &Path) -> Check {
    let name = "state-directory";
    let metadata = match look(path) {
        Found::Nothing => return absent(name, path, "it is made with the first start"),
        Found::Unreadable(error) => return unreadable(name, path, &error),
        Found::Something(metadata) => metadata,
    };
    let shown = path.display();
    if !metadata.is_dir() {
        return Check::failure(name, format!("{shown} is not a directory (a symlink is not followed)"), "remove it");
    }
    if !is_ours(&metadata) {
        let remedy = "set GROUNDING_STATE_DIR to a directory of yours, for every client alike";
        return Check::failure(name, format!("{shown} belongs to another user"), remedy);
    }
    if mode(&metadata) & 0o022 != 0 {
        return Check::failure(name, format!("{shown} can be written by other users"), format!("chmod 700 {shown}"));
    }
    if access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Check::failure(name, format!("{shown} can't be written"), format!("chmod 700 {shown}"));
    }
    on_file_system(Check::ok(name, format!("{shown} (mode {:o})", mode(&metadata))), path, "GROUNDING_STATE_DIR")
}

fn socket(state: &State) -> Check {
    let name = "socket";
    let path = state.socket();
    if let Err(error) = state.check_run_directory() {
        return Check::failure(
            name,
            crate::error::chain(&error),
            "do as it says; the daemon makes the directory again",
        );
    }
    let metadata = match look(path) {
        Found::Nothing => return Check::ok(name, format!("{} is not there: no daemon listens", path.display())),
        Found::Unreadable(error) => return unreadable(name, path, &error),
        Found::Something(metadata) => metadata,
    };
    let shown = path.display();
    if !metadata.file_type().is_socket() {
        return Check::failure(name, format!("{shown} is not a socket"), "remove it; the daemon makes its own");
    }
    if mode(&metadata) & 0o077 != 0 {
        let message = format!("{shown} has mode {:o}; its directory keeps others out all the same", mode(&metadata));
        return Check::warning(name, message, format!("chmod 600 {shown}"));
    }
    Check::ok(name, format!("{shown} (mode {:o}, its directory is private)", mode(&metadata)))
}

fn storage_directory(name: &'static str, path: &Path) -> Check {
    // Its user may have put it elsewhere by a symlink.
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound && matches!(look(path), Found::Nothing) => {
            return absent(name, path, "it is made when it is first needed");
        }
        Err(error) => return unreadable(name, path, &error),
    };
    let shown = path.display();
    if !metadata.is_dir() {
        return Check::failure(name, format!("{shown} is not a directory"), "move it away");
    }
    if access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Check::failure(name, format!("{shown} can't be read and written"), format!("chmod u+rwx {shown}"));
    }
    if mode(&metadata) & 0o022 != 0 {
        return Check::warning(name, format!("{shown} can be written by other users"), format!("chmod go-w {shown}"));
    }
    let variable = match name {
        "sessions" => "GROUNDING_MCP_SESSIONS_DIR",
        "hypotheses" => "GROUNDING_MCP_HYPOTHESES_DIR",
        _ => "SOLUTION_VERDICT_DIR",
    };
    on_file_system(Check::ok(name, format!("{shown} (mode {:o})", mode(&metadata))), path, variable)
}

fn ledger_file(path: &Path) -> Check {
    let name = "ledger-file";
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound && matches!(look(path), Found::Nothing) => {
            let check = absent(name, path, "it is made with the first entry");
            return on_file_system(check, path, "EVIDENCE_LEDGER_DB");
        }
        Err(error) => return unreadable(name, path, &error),
    };
    let shown = path.display();
    if !metadata.is_file() {
        return Check::failure(name, format!("{shown} is not a regular file"), "move it away");
    }
    if access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Check::failure(name, format!("{shown} can't be read and written"), format!("chmod u+rw {shown}"));
    }
    if path.parent().is_some_and(|directory| access(directory, Access::WRITE_OK | Access::EXEC_OK).is_err()) {
        let message = format!("the directory of {shown} can't be written, and SQLite keeps its log there");
        return Check::failure(name, message, "make the directory yours to write");
    }
    if mode(&metadata) & 0o077 != 0 {
        let message = format!("{shown} is open to other users (mode {:o})", mode(&metadata));
        return Check::warning(name, message, format!("chmod 600 {shown}"));
    }
    on_file_system(Check::ok(name, format!("{shown} (mode {:o})", mode(&metadata))), path, "EVIDENCE_LEDGER_DB")
}

/// Turns a good finding into a warning where the path is on another machine.
fn on_file_system(check: Check, path: &Path, variable: &str) -> Check {
    if check.status != super::check::Status::Ok {
        return check;
    }
    match file_system::of(path) {
        FileSystem::Network(kind) => {
            let message =
                format!("{} is on a network file system ({kind}), whose locks can't be relied on", path.display());
            Check::warning(
                &check.check,
                message,
                format!("set {variable} to a path on a local disk, for every client alike"),
            )
        }
        FileSystem::Local | FileSystem::Unknown => check,
    }
}

fn signing_key(path: &Path) -> Check {
    let name = "signing-key";
    let metadata = match look(path) {
        Found::Nothing => return absent(name, path, "the first evaluation makes it"),
        Found::Unreadable(error) => return unreadable(name, path, &error),
        Found::Something(metadata) => metadata,
    };
    let shown = path.display();
    let remedy = "move it away; the next evaluation makes a new one, and earlier verdicts then count as forged";
    if metadata.is_symlink() {
        return Check::failure(name, format!("{shown} is a symlink, which is never followed"), remedy);
    }
    if !metadata.is_file() {
        return Check::failure(name, format!("{shown} is not a regular file"), remedy);
    }
    if !is_ours(&metadata) && metadata.uid() != 0 {
        return Check::failure(name, format!("{shown} belongs to another user, who can sign as you"), remedy);
    }
    if mode(&metadata) & 0o022 != 0 {
        let remedy = format!("chmod 600 {shown}, or move it away if somebody may have changed it");
        return Check::failure(name, format!("{shown} can be written by other users"), remedy);
    }
    if access(path, Access::READ_OK).is_err() {
        return Check::failure(name, format!("{shown} can't be read"), format!("chmod 600 {shown}"));
    }
    if metadata.size() < MIN_KEY_BYTES {
        let message = format!("{shown} has {} bytes; a key has {MIN_KEY_BYTES} or more", metadata.size());
        return Check::warning(name, message, "nothing, if it is yours: the next evaluation replaces it");
    }
    if mode(&metadata) & 0o077 != 0 {
        let message = format!("{shown} can be read by other users, who can sign as you");
        return Check::warning(name, message, format!("chmod 600 {shown}"));
    }
    Check::ok(name, format!("{shown} ({} bytes, mode {:o})", metadata.size(), mode(&metadata)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::check::Status;
    use super::*;

    fn write(path: &Path, content: &[u8], mode: u32) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_signing_key_is_judged_without_being_read() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        assert_eq!(signing_key(&key).status, Status::Ok, "absent");
        for (bytes, mode, status) in [
            (32, 0o600, Status::Ok),
            (31, 0o600, Status::Warning),
            (32, 0o640, Status::Warning),
            (32, 0o620, Status::Failure),
        ] {
            let secret = vec![b'k'; bytes];
            write(&key, &secret, mode);
            let check = signing_key(&key);
            assert_eq!(check.status, status, "{bytes} bytes, {mode:o}: {check:?}");
            assert!(!check.message.contains("kkk"), "{check:?}");
            fs::remove_file(&key).unwrap();
        }
        write(&directory.path().join("other"), &[1; 32], 0o600);
        symlink("other", &key).unwrap();
        assert_eq!(signing_key(&key).status, Status::Failure, "a symlink");
        assert_eq!(signing_key(Path::new("/dev/null")).status, Status::Failure, "a device");
    }

    #[test]
    fn directories_that_others_may_write_are_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        assert_eq!(storage_directory("sessions", &path).status, Status::Ok, "absent");
        fs::create_dir(&path).unwrap();
        for (mode, stored, state) in [
            (0o700, Status::Ok, Status::Ok),
            (0o755, Status::Ok, Status::Ok),
            (0o770, Status::Warning, Status::Failure),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(storage_directory("sessions", &path).status, stored, "{mode:o}");
            assert_eq!(state_directory(&path).status, state, "{mode:o}");
        }
        let file = directory.path().join("f");
        write(&file, b"", 0o600);
        assert_eq!(storage_directory("sessions", &file).status, Status::Failure);
        let below = storage_directory("sessions", &file.join("x"));
        assert_eq!(below.status, Status::Failure, "{below:?}");
        symlink("nowhere", directory.path().join("dangling")).unwrap();
        assert_eq!(storage_directory("sessions", &directory.path().join("dangling")).status, Status::Failure);
    }

    #[test]
    fn a_ledger_that_is_open_to_others_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        assert_eq!(ledger_file(&path).status, Status::Ok, "absent");
        write(&path, b"", 0o600);
        assert_eq!(ledger_file(&path).status, Status::Ok);
        write(&path, b"", 0o644);
        let check = ledger_file(&path);
        assert_eq!(check.status, Status::Warning);
        assert!(check.remedy.is_some_and(|remedy| remedy.contains("chmod 600")));
    }
}
