//! Another user's process is refused by the daemon itself, whatever became of the permissions of files and directories.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use grounding_tests::TestEnvironment;
use grounding_tests::environment::not_run_here;
use grounding_tests::wait::DEADLINE;
use rustix::process::{Uid, geteuid};
use serde_json::json;

const NOBODY: u32 = 65534;

/// Asks for the version from a thread of that user, and returns what came back.
fn ask_as(uid: u32, socket: &Path) -> Result<String, String> {
    let ask = || -> Result<String, String> {
        let uid = Uid::from_raw(uid);
        // Linux keeps users per thread: this one ends with its question.
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(|error| format!("can't become {uid:?}: {error}"))?;
        let mut stream = UnixStream::connect(socket).map_err(|error| format!("can't connect: {error}"))?;
        stream.set_read_timeout(Some(DEADLINE)).map_err(|error| error.to_string())?;
        // The daemon may have closed the connection already.
        let _ = stream.write_all(b"GET /v1/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let mut answer = Vec::new();
        // It may also end with a reset, after nothing.
        let _ = stream.read_to_end(&mut answer);
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    std::thread::scope(|scope| scope.spawn(ask).join().expect("the thread ends"))
}

#[test]
fn another_user_is_not_served_even_where_files_let_it_in() {
    if !geteuid().is_root() {
        not_run_here("only root can become another user");
        return;
    }
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_status", json!({}));
    let socket = environment.socket();
    let private = ask_as(NOBODY, &socket).expect_err("directories keep other users out");
    assert!(private.contains("ermission denied"), "{private}");

    let ancestors = socket.ancestors().skip(1).take_while(|path| path.starts_with(environment.home()));
    for directory in ancestors {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).expect("ours");
    assert!(ask_as(0, &socket).expect("root connects").starts_with("HTTP/1.1 200"), "the question is a good one");
    assert_eq!(ask_as(NOBODY, &socket).expect("now nothing but the daemon stands in the way"), "");
    let log = environment.read(".local/state/agent-grounding/log/groundingd.log");
    assert!(log.contains("refused") && log.contains("65534"), "{log}");

    let run = socket.parent().expect("a directory");
    std::fs::set_permissions(run, std::fs::Permissions::from_mode(0o700)).expect("ours");
    environment.shim().answer("ledger_status", json!({}));
}
