//! The socket that a service manager hands over at the start (DESIGN 3).
//!
//! It owns what counts as handed to this very process, and what is refused: anything but one listening Unix stream socket
//! at the daemon's own path. It never binds or removes a file; the manager made the one there is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use grounding_proto::environment::Environment;
use listenfd::ListenFd;

use super::ServeError;

/// Takes the socket that was handed over, if any. To be called first of all: no descriptor of this process's own may stand
/// where a manager puts them, and variables are changed, which is safe only without other threads.
///
/// # Errors
/// When what was handed over is not the daemon's socket.
pub(super) fn take(environment: &Environment) -> Result<Option<UnixListener>, ServeError> {
    let number = |name| environment.get(name)?.to_str()?.parse::<u32>().ok();
    // Variables that were meant for a parent lead to whatever descriptors this process happens to have.
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let Some(count) = environment.get("LISTEN_FDS").filter(|_| is_ours) else { return Ok(None) };
    let path = environment.socket_path()?;
    let refused = |problem: String| ServeError::Handed { problem, path: path.clone() };
    match number("LISTEN_FDS") {
        Some(0) => return Ok(None),
        Some(1) => {}
        _ => return Err(refused(format!("{} descriptors", count.display()))),
    }
    let taken = ListenFd::from_env().take_unix_listener(0).map_err(|error| refused(error.to_string()))?;
    let Some(listener) = taken else { return Ok(None) };
    check(&listener, &path).map_err(refused)?;
    listener.set_nonblocking(true).map_err(ServeError::io("use the socket handed over at", &path))?;
    Ok(Some(listener))
}

fn check(listener: &UnixListener, path: &Path) -> Result<(), String> {
    if !listens(listener) {
        return Err("a socket that does not listen".to_owned());
    }
    let address = listener.local_addr().map_err(|error| format!("a socket without an address ({error})"))?;
    let Some(bound) = address.as_pathname() else { return Err("a socket without a path".to_owned()) };
    // The manager may know the home directory by another name.
    let file = |path: &Path| fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    let is_ours = bound == path || (file(bound).is_some() && file(bound) == file(path));
    if is_ours { Ok(()) } else { Err(format!("a socket at {}", bound.display())) }
}

#[cfg(not(target_vendor = "apple"))]
fn listens(listener: &UnixListener) -> bool {
    rustix::net::sockopt::socket_acceptconn(listener).is_ok_and(|listens| listens)
}

/// Returns that it does: this system can't be asked.
#[cfg(target_vendor = "apple")]
fn listens(_listener: &UnixListener) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_socket_at_the_daemons_path_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, other) = (directory.path().join("ours"), directory.path().join("other"));
        let listener = UnixListener::bind(&ours).unwrap();
        check(&listener, &ours).unwrap();
        assert!(check(&listener, &other).unwrap_err().contains("ours"));
        let linked = directory.path().join("linked");
        std::os::unix::fs::symlink(directory.path(), &linked).unwrap();
        check(&listener, &linked.join("ours")).unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let unbound = UnixListener::from(std::os::fd::OwnedFd::from(one));
        assert!(check(&unbound, &ours).unwrap_err().starts_with("a socket "));
    }

    #[test]
    fn what_was_meant_for_another_process_is_left_alone() {
        let environment = |pid: u32, count: &str| {
            let pairs = [("HOME", "/h"), ("LISTEN_PID", &pid.to_string()), ("LISTEN_FDS", count)];
            Environment::of_variables(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
        };
        assert!(take(&environment(1, "1")).unwrap().is_none());
        assert!(take(&environment(std::process::id(), "0")).unwrap().is_none());
        for count in ["2", "many", "99999999999"] {
            let error = take(&environment(std::process::id(), count)).unwrap_err().to_string();
            assert!(error.contains(count) && error.contains("groundingd.sock"), "{error}");
        }
    }
}
