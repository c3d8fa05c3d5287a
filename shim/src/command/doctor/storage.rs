//! Files and directories: whether they are there, whose they are, who else may enter or write, and on which file
//! system.
//!
//! Nothing is created, changed or locked, and of the signing key nothing but its metadata is read.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use grounding_proto::environment::{
    EVIDENCE_LEDGER_DB, Environment, GROUNDING_MCP_HYPOTHESES_DIR, GROUNDING_MCP_SESSIONS_DIR, GROUNDING_STATE_DIR,
    SOLUTION_VERDICT_DIR,
};
use grounding_proto::wire::Root;
use rustix::fs::{Access, access};

use super::check::{Check, Status, bounded};
use super::file_system::{self, FileSystem};
use crate::error::chain;
use crate::setup::record::Record;
use crate::state::State;

const MIB: u64 = 1024 * 1024;
/// With less free space nothing can be written soon.
const LEAST_FREE: u64 = MIB;
/// With less free space it may not last.
const LITTLE_FREE: u64 = 64 * MIB;

/// What every database of SQLite starts with.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

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
    let stored = [&roots.ledger, &roots.verdicts].into_iter().filter_map(|root| match root {
        Root::Path(path) => Some(path.as_path().to_owned()),
        Root::Refused(_) => None,
    });
    let places: Vec<_> = environment.state_dir().into_iter().chain(stored).collect();
    let looked_at = state.clone();
    checks.push(bounded("socket", move || socket(&looked_at)).await);
    for (name, root) in [("sessions", roots.sessions), ("hypotheses", roots.hypotheses), ("verdicts", roots.verdicts)] {
        checks.push(of_root(name, root, move |path| storage_directory(name, path)).await);
    }
    checks.push(of_root("ledger-file", roots.ledger, ledger_file).await);
    let looking = environment.clone();
    let record = bounded("setup", move || setup_record(&looking)).await;
    checks.extend(Some(record).filter(|check| check.status != Status::Ok));
    checks.push(bounded("free-space", move || free_space(&places)).await);
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
        let remedy = format!("set {GROUNDING_STATE_DIR} to a directory of yours, for every client alike");
        return Check::failure(name, format!("{shown} belongs to another user"), remedy);
    }
    if mode(&metadata) & 0o022 != 0 {
        return Check::failure(name, format!("{shown} can be written by other users"), format!("chmod 700 {shown}"));
    }
    if access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Check::failure(name, format!("{shown} can't be written"), format!("chmod 700 {shown}"));
    }
    on_file_system(Check::ok(name, format!("{shown} (mode {:o})", mode(&metadata))), path, GROUNDING_STATE_DIR)
}

fn socket(state: &State) -> Check {
    let name = "socket";
    let path = state.socket();
    if let Err(error) = state.check_run_directory() {
        return Check::failure(name, chain(&error), "do as it says; the daemon makes the directory again");
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
        "sessions" => GROUNDING_MCP_SESSIONS_DIR,
        "hypotheses" => GROUNDING_MCP_HYPOTHESES_DIR,
        _ => SOLUTION_VERDICT_DIR,
    };
    on_file_system(Check::ok(name, format!("{shown} (mode {:o})", mode(&metadata))), path, variable)
}

fn ledger_file(path: &Path) -> Check {
    let name = "ledger-file";
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound && matches!(look(path), Found::Nothing) => {
            let check = absent(name, path, "it is made with the first entry");
            return on_file_system(check, path, EVIDENCE_LEDGER_DB);
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
    match is_database(path) {
        Ok(true) => {}
        Ok(false) => {
            let message = format!("{shown} is damaged: it does not start as a database of SQLite does");
            let remedy = "get the rows out with `sqlite3 <ledger> .recover`, and move the file away";
            return Check::failure(name, message, remedy);
        }
        Err(error) => return unreadable(name, path, &error),
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    if directory.metadata().is_ok_and(|directory| mode(&directory) & 0o022 != 0) {
        let directory = directory.display();
        let message = format!("{directory}, the directory of the ledger, can be written by other users");
        return Check::warning(name, message, format!("chmod go-w {directory}"));
    }
    if mode(&metadata) & 0o077 != 0 {
        let message = format!("{shown} is open to other users (mode {:o})", mode(&metadata));
        return Check::warning(name, message, format!("chmod 600 {shown}"));
    }
    on_file_system(Check::ok(name, format!("{shown} (mode {:o})", mode(&metadata))), path, EVIDENCE_LEDGER_DB)
}

/// Looks whether what set-up did is known; of a record that can be read nothing is said.
fn setup_record(environment: &Environment) -> Check {
    match Record::load(environment) {
        Ok(_) => Check::ok("setup", "its record can be read"),
        Err(error) => Check::warning("setup", chain(&error), "move it away, then groundingctl setup"),
    }
}

/// Looks at the file systems of these places, and says how it is with the fullest.
fn free_space(places: &[PathBuf]) -> Check {
    let free = places.iter().filter_map(|path| Some((file_system::free_bytes(path)?, path)));
    match free.min() {
        Some((bytes, path)) => enough(bytes, path),
        None => Check::ok("free-space", "not known here"),
    }
}

fn enough(bytes: u64, path: &Path) -> Check {
    let name = "free-space";
    let message = format!("{} MiB are free on the file system of {}", bytes / MIB, path.display());
    let remedy = "make room there, or name another place with the variable of README";
    match bytes {
        _ if bytes < LEAST_FREE => Check::failure(name, message, remedy),
        _ if bytes < LITTLE_FREE => Check::warning(name, message, remedy),
        _ => Check::ok(name, message),
    }
}

/// Reads the start of a ledger; an empty file is one that is not made yet.
fn is_database(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut start)?;
    Ok(start.is_empty() || start == SQLITE)
}

/// Turns a good finding into a warning where the path is on another machine.
fn on_file_system(check: Check, path: &Path, variable: &str) -> Check {
    if check.status != Status::Ok {
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
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let check = ledger_file(&path);
        assert!(check.status == Status::Warning && check.message.contains("the directory of the ledger"), "{check:?}");
    }

    #[test]
    fn a_ledger_that_is_no_database_is_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        for (content, status) in [(b"SQLite format 3\0 and more".as_slice(), Status::Ok), (b"garbage", Status::Failure)]
        {
            write(&path, content, 0o600);
            assert_eq!(ledger_file(&path).status, status);
        }
    }

    #[test]
    fn little_free_space_is_said() {
        let place = std::env::temp_dir();
        for (bytes, status) in [
            (MIB - 1, Status::Failure),
            (MIB, Status::Warning),
            (64 * MIB - 1, Status::Warning),
            (64 * MIB, Status::Ok),
        ] {
            assert_eq!(enough(bytes, &place).status, status, "{bytes}");
        }
        assert!(file_system::free_bytes(&place.join("a/b")).is_some());
    }
}
