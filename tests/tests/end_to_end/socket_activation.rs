//! What a service manager hands to the daemon and hears from it: a listening socket, the watchdog, the end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use grounding_tests::environment::not_run_here;
use grounding_tests::http::{Connection, block_on, context};
use grounding_tests::process::{processes_of, wait_exit};
use grounding_tests::wait::DEADLINE;
use grounding_tests::{TestEnvironment, binaries, wait_for};
use hyper::Method;
use serde_json::{Value, json};

use super::stub;

/// Becomes the daemon with its own process id where a manager would write it; descriptor 0 becomes the one handed over.
const HANDED: &str = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_FDNAMES=s LISTEN_PID=$$; exec \"$0\" serve";

/// A socket that this test holds as a manager would.
fn managers_socket(environment: &TestEnvironment) -> UnixListener {
    let socket = environment.socket();
    let directory = socket.parent().expect("a directory");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).expect("the socket's directory");
    UnixListener::bind(&socket).expect("a free path")
}

fn hand(environment: &TestEnvironment, listener: &UnixListener) -> Child {
    let mut command = environment.command("sh");
    command.args(["-c", HANDED]).arg(binaries::groundingd());
    command.stdin(OwnedFd::from(listener.try_clone().expect("a copy")));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("sh starts")
}

/// A socket file is there before anybody listens on it.
fn wait_until_it_listens(environment: &TestEnvironment) {
    wait_for("somebody to listen", || {
        UnixStream::connect(environment.socket()).map(drop).map_err(|error| error.to_string())
    });
}

fn version(environment: &TestEnvironment) -> Value {
    block_on(async {
        let mut connection = Connection::open(&environment.socket()).await;
        connection.send(Method::GET, "/v1/version", Vec::new()).await.1
    })
}

fn drain(environment: &TestEnvironment) {
    let mut stream = UnixStream::connect(environment.socket()).expect("the daemon listens");
    write!(stream, "POST /v1/drain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
}

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).expect("the socket file").ino()
}

#[test]
fn systemd_socket_activate_hands_a_socket_that_is_used() {
    let environment = TestEnvironment::new();
    drop(managers_socket(&environment));
    std::fs::remove_file(environment.socket()).expect("it was bound");
    let mut command = environment.command("systemd-socket-activate");
    command.arg(format!("--setenv=HOME={}", environment.home().display())).arg("--listen").arg(environment.socket());
    command.arg(binaries::groundingd()).arg("serve");
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut daemon) = started else {
        not_run_here("systemd-socket-activate is not installed");
        return;
    };
    wait_until_it_listens(&environment);
    let bound = inode(&environment.socket());
    assert_eq!(version(&environment)["pid"], daemon.id(), "it became the daemon");
    environment.shim().answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    assert_eq!(inode(&environment.socket()), bound);
    assert_eq!(environment.daemons(), [daemon.id()]);
    drain(&environment);
    assert!(wait_exit(&mut daemon).0.success());
    assert_eq!(inode(&environment.socket()), bound, "the file is not the daemon's to remove");
}

#[test]
fn who_is_queued_at_a_managers_socket_is_served_by_the_next_daemon() {
    let environment = TestEnvironment::new();
    let listener = managers_socket(&environment);
    let bound = inode(&environment.socket());
    let mut first = hand(&environment, &listener);
    assert_eq!(version(&environment)["pid"], first.id());
    drain(&environment);
    assert!(wait_exit(&mut first).0.success());
    assert_eq!(inode(&environment.socket()), bound);

    let mut queued = UnixStream::connect(environment.socket()).expect("the manager still listens");
    let arguments = json!({ "sessionId": "s", "type": "fact", "content": "queued" });
    let body = json!({ "arguments": arguments, "context": context(&environment) }).to_string();
    let head = "POST /v1/tools/ledger_add HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close";
    write!(queued, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("the queue takes it");
    let mut second = hand(&environment, &listener);
    queued.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    let mut answer = String::new();
    queued.read_to_string(&mut answer).expect("the next daemon answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(version(&environment)["pid"], second.id());
    assert_eq!(inode(&environment.socket()), bound);
    let summary = environment.shim().answer("ledger_summary", json!({ "sessionId": "s" }));
    assert_eq!(summary["counts"]["facts"], 1);
    drain(&environment);
    assert!(wait_exit(&mut second).0.success());
}

#[test]
fn a_managers_socket_file_that_vanishes_is_replaced_by_the_daemons_own() {
    let environment = TestEnvironment::new();
    let listener = managers_socket(&environment);
    let mut daemon = hand(&environment, &listener);
    version(&environment);
    std::fs::remove_file(environment.socket()).expect("it is there");
    wait_until_it_listens(&environment);
    assert_eq!(version(&environment)["pid"], daemon.id());
    drain(&environment);
    assert!(wait_exit(&mut daemon).0.success());
    assert!(!environment.socket().exists(), "now the file was the daemon's");
    // The manager hands over the same one, which nobody can reach: the daemon binds its own from the start.
    let mut daemon = hand(&environment, &listener);
    wait_until_it_listens(&environment);
    assert_eq!(version(&environment)["pid"], daemon.id());
    drain(&environment);
    assert!(wait_exit(&mut daemon).0.success());
}

#[test]
fn another_daemon_that_serves_is_seen_behind_a_managers_socket() {
    let environment = TestEnvironment::new();
    environment.shim().answer("ledger_status", json!({}));
    let serving = environment.daemon();
    // A manager that starts to listen takes the path, until the daemon takes it back.
    std::fs::remove_file(environment.socket()).expect("it is there");
    let listener = managers_socket(&environment);
    let bound = inode(&environment.socket());
    let mut late = hand(&environment, &listener);
    let (status, _) = wait_exit(&mut late);
    assert_eq!(status.code(), Some(5), "busy");
    let mut said = String::new();
    late.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(said.ends_with("busy\n"), "{said}");
    assert_ne!(inode(&environment.socket()), bound);
    assert_eq!(environment.daemon(), serving);
}

#[test]
fn a_socket_that_is_not_the_daemons_is_refused_by_name() {
    let environment = TestEnvironment::new();
    let other = environment.path("other.sock");
    let listener = UnixListener::bind(&other).expect("a free path");
    let mut daemon = hand(&environment, &listener);
    let (status, _) = wait_exit(&mut daemon);
    assert_eq!(status.code(), Some(4));
    let mut said = String::new();
    daemon.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    let names = |path: &Path| said.contains(path.to_str().expect("UTF-8"));
    assert!(said.starts_with("error ") && names(&other) && names(&environment.socket()), "{said}");
    assert!(!environment.socket().exists());
}

/// What the daemon tells the manager.
struct Notices {
    socket: UnixDatagram,
}

impl Notices {
    fn listen(environment: &mut TestEnvironment, interval: Duration) -> Self {
        let path = environment.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a free path");
        environment.set("NOTIFY_SOCKET", path);
        environment.set("WATCHDOG_USEC", interval.as_micros().to_string());
        Self { socket }
    }

    /// Returns the next notice, or nothing when none came in time.
    fn next(&self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).expect("a timeout");
        let mut buffer = [0; 4096];
        match self.socket.recv(&mut buffer) {
            Ok(length) => Some(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the notices up to the one that has this line, that one included.
    fn until(&self, line: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let started = Instant::now();
        while started.elapsed() < DEADLINE {
            seen.extend(self.next(DEADLINE));
            if seen.last().is_some_and(|notice| notice.lines().any(|it| it == line)) {
                return seen;
            }
        }
        panic!("no {line} among {seen:?}");
    }

    /// Waits until nothing came for so long.
    fn until_silence(&self, silence: Duration) {
        let started = Instant::now();
        while self.next(silence).is_some() {
            assert!(started.elapsed() < DEADLINE, "the notices go on");
        }
    }
}

/// Becomes the daemon, with so few descriptors that some dozen connections take them all.
const FEW_DESCRIPTORS: &str = "ulimit -n 60; export WATCHDOG_PID=$$; exec \"$0\" serve";

fn watched(environment: &TestEnvironment) -> Child {
    let mut command = environment.command("sh");
    command.args(["-c", FEW_DESCRIPTORS]).arg(binaries::groundingd());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh starts")
}

#[test]
fn the_manager_hears_readiness_pings_and_the_end() {
    let mut environment = TestEnvironment::new();
    // Trouble with the ledger is for `status` to tell.
    environment.write(".evidence-ledger/ledger.db", "This is no database. ".repeat(100));
    let notices = Notices::listen(&mut environment, Duration::from_millis(400));
    let mut daemon = watched(&environment);
    let start = notices.until("READY=1");
    assert!(start[0].contains("STATUS=Starting: ") && start[0].contains("EXTEND_TIMEOUT_USEC="), "{start:?}");
    assert!(!start.iter().any(|notice| notice.contains("WATCHDOG=1")), "{start:?}");
    let ready = start.last().expect("the one with READY=1");
    assert!(ready.contains(&format!("STATUS=Serving on {}", environment.socket().display())), "{ready}");
    for _ in 0..3 {
        let notice = notices.next(DEADLINE).expect("a ping");
        assert_eq!(notice.trim(), "WATCHDOG=1");
    }
    drain(&environment);
    let end = notices.until("STOPPING=1");
    assert!(wait_exit(&mut daemon).0.success());
    let others = end[..end.len() - 1].iter().filter(|notice| notice.trim() != "WATCHDOG=1").collect::<Vec<_>>();
    assert_eq!(others, Vec::<&String>::new());
    assert_eq!(notices.next(Duration::from_millis(500)), None, "nothing follows the end");
}

#[test]
fn the_manager_hears_why_a_daemon_can_not_serve() {
    let mut environment = TestEnvironment::new();
    environment.write(".local/state/agent-grounding", "in the way");
    let notices = Notices::listen(&mut environment, Duration::from_secs(10));
    let mut daemon = watched(&environment);
    assert_eq!(wait_exit(&mut daemon).0.code(), Some(4));
    let said = notices.next(DEADLINE).expect("a status");
    assert!(said.starts_with("STATUS=Failed: ") && said.contains(".local/state/agent-grounding"), "{said}");
}

#[test]
fn the_watchdog_hears_nothing_while_the_socket_can_not_be_reached() {
    let mut environment = TestEnvironment::new();
    let interval = Duration::from_millis(400);
    let notices = Notices::listen(&mut environment, interval);
    let mut daemon = watched(&environment);
    notices.until("WATCHDOG=1");
    let crowd: Vec<_> =
        (0..80).map(|_| UnixStream::connect(environment.socket()).expect("the queue takes it")).collect();
    notices.until_silence(interval * 3);
    assert!(daemon.try_wait().expect("a child").is_none(), "the daemon lives");
    drop(crowd);
    notices.until("WATCHDOG=1");
    drain(&environment);
    assert!(wait_exit(&mut daemon).0.success());
}

#[test]
fn no_child_is_told_what_a_manager_told_the_daemon_or_its_client() {
    let mut environment = stub::environment();
    let notices = Notices::listen(&mut environment, Duration::from_secs(60));
    environment.write("stub/then", "tr '\\0' '\\n' < /proc/$$/environ > seen");
    let repository = environment.repository("repo");
    let listener = managers_socket(&environment);
    let mut daemon = hand(&environment, &listener);
    notices.until("READY=1");
    // The client's own environment names the manager's socket, too.
    let mut shim = environment.shim_with(&[("LISTEN_FDS", "1".as_ref()), ("LISTEN_PID", "1".as_ref())]);
    stub::hold(&environment);
    let begun =
        shim.send_request("tools/call", json!({ "name": "solution_evaluate", "arguments": stub::task(&repository) }));
    stub::wait_for_run(&environment, 1);
    let told = |text: &str| {
        let names = ["LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_"];
        text.split(['\0', '\n']).filter(|line| names.iter().any(|name| line.starts_with(name))).count()
    };
    let others = processes_of(environment.home());
    let ours = |line: &str| line.contains("groundingd supervise") || line.contains("groundingd exec");
    let ours: Vec<_> = others.into_iter().filter(|(_, line)| ours(line)).collect();
    assert_eq!(ours.len(), 2, "a supervisor and its guard: {ours:?}");
    for (pid, line) in ours {
        let variables = std::fs::read(format!("/proc/{pid}/environ")).expect("it waits for the held preflight");
        assert_eq!(told(&String::from_utf8_lossy(&variables)), 0, "{line}");
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it waits");
        let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let own = std::fs::read_link(format!("/proc/{}/fd/3", daemon.id())).expect("the socket handed over");
        assert!(!links.into_iter().any(|link| link == own), "{line} has the daemon's socket");
    }
    stub::release(&environment);
    assert_eq!(stub::evaluated(&mut shim, begun)["status"], "completed");
    assert_eq!(told(&environment.read("stub/seen")), 0);
    drain(&environment);
    assert!(wait_exit(&mut daemon).0.success());
    // A client that starts a daemon does not let it speak in the client's name.
    drop(listener);
    shim.answer("ledger_status", json!({}));
    notices.until("STOPPING=1");
    let said = std::iter::from_fn(|| notices.next(Duration::from_millis(300))).collect::<Vec<_>>();
    assert_eq!(said, Vec::<String>::new());
}
