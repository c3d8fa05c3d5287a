//! A daemon in a user's session: sandboxes, blocked starts, other builds, successors, a start that fails.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grounding_tests::environment::shown;
use grounding_tests::http::block_on;
use grounding_tests::{Shim, TestEnvironment, binaries, process, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

use crate::stub;

const STATE: &str = ".local/state/agent-grounding";

/// How a test takes the right to write below a home away from one program.
enum Sandbox {
    /// A mount namespace in which the home is mounted read-only; the words that begin one.
    Mount(Vec<&'static str>),
    /// The permissions of the directories: enough for everybody but root.
    Permissions,
    /// Root in a container that may not mount: the program runs as a user who owns nothing.
    OtherUser,
}

/// A user who owns nothing.
const NOBODY: u32 = 65_534;

impl Sandbox {
    const READ_ONLY_HOME: &str =
        "mount --bind \"$HOME\" \"$HOME\" && mount -o remount,bind,ro \"$HOME\" && exec \"$@\"";

    /// Returns what works here; nothing when nothing does.
    fn of(environment: &TestEnvironment) -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let unshare: &[&str] = if is_root { &["--mount"] } else { &["--map-root-user", "--mount"] };
        let mount = Self::Mount(unshare.to_vec());
        let mut probe = mount.command(environment, "sh".as_ref());
        let writes = probe.args(["-c", "touch \"$HOME/probe\" || exit 7"]).output();
        match writes {
            Ok(output) if output.status.code() == Some(7) => Some(mount),
            _ if !is_root => Some(Self::Permissions),
            _ => {
                let mut probe = Self::OtherUser.command(environment, &binaries::grounding_mcp());
                let runs = probe.arg("--version").output().is_ok_and(|output| output.status.success());
                runs.then_some(Self::OtherUser)
            }
        }
    }

    fn command(&self, environment: &TestEnvironment, program: &std::path::Path) -> Command {
        match self {
            Self::Mount(unshare) => {
                let mut command = environment.command("unshare");
                command.args(unshare).args(["sh", "-c", Self::READ_ONLY_HOME, "sh"]).arg(program);
                command
            }
            Self::Permissions => environment.command(program),
            Self::OtherUser => {
                let mut command = environment.command(program);
                command.uid(NOBODY).gid(NOBODY).current_dir("/");
                command
            }
        }
    }

    /// Does something while nothing can be written below the home.
    fn enter(&self, environment: &TestEnvironment, act: impl FnOnce()) {
        let set = |mode| fs::set_permissions(environment.home(), fs::Permissions::from_mode(mode));
        match self {
            Self::Mount(_) => {}
            Self::Permissions => set(0o500).expect("the home is ours"),
            Self::OtherUser => set(0o755).expect("the home is ours"),
        }
        act();
        set(0o700).expect("the home is ours");
    }
}

/// gastownhall/beads#1580. A sandbox forbids writing outside the project, so that no daemon can start.
#[test]
fn a_sandbox_that_forbids_writing_at_home_gets_an_answered_handshake_and_one_clear_error() {
    let environment = TestEnvironment::new();
    let Some(sandbox) = Sandbox::of(&environment) else {
        eprintln!("NOT RUN: this needs a mount namespace, a user who is not root, or binaries that others may run");
        return;
    };
    sandbox.enter(&environment, || {
        let mut shim = Shim::spawn(sandbox.command(&environment, &binaries::grounding_mcp()));
        shim.initialize();
        let tools = shim.request("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(20), "{tools}");
        for _ in 0..5 {
            let since = Instant::now();
            let said = shim.refusal("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
            assert!(said.contains(environment.home().to_str().expect("UTF-8")), "no path to allow: {said}");
            assert!(said.contains("GROUNDING_STATE_DIR") && !said.contains('\n'), "{said}");
            assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        }
        assert_eq!(environment.daemons(), Vec::<u32>::new());
        assert_eq!(shim.stderr(), "");
    });

    if matches!(sandbox, Sandbox::OtherUser) {
        eprintln!("NOT RUN to its end: that another user's files are refused is not what is tested here");
        return;
    }
    // A directory elsewhere is all it takes for what needs no file at home.
    let state = tempfile::Builder::new().prefix("g").tempdir_in("/tmp").expect("a directory in /tmp");
    sandbox.enter(&environment, || {
        let mut command = sandbox.command(&environment, &binaries::grounding_mcp());
        command.env("GROUNDING_STATE_DIR", state.path());
        let mut shim = Shim::spawn(command);
        shim.initialize();
        shim.answer("claim_evaluate", json!({ "claim": "Something is so" }));
        let said = shim.refusal("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
        assert!(said.contains(".evidence-ledger"), "{said}");
        for daemon in environment.daemons() {
            process::kill(daemon);
        }
    });

    // And a daemon that was started outside serves those inside.
    let mut outside = environment.shim();
    outside.answer("ledger_status", json!({}));
    sandbox.enter(&environment, || {
        let mut inside = Shim::spawn(sandbox.command(&environment, &binaries::grounding_mcp()));
        inside.initialize();
        inside.answer("claim_evaluate", json!({ "claim": "Something is so" }));
        assert_eq!(environment.daemons().len(), 1);
    });
}

/// gastownhall/beads#1344 and #1352. Every command paid for a start that could not succeed.
#[test]
fn a_start_that_is_blocked_slows_down_one_call_and_not_every_one() {
    let environment = TestEnvironment::new();
    stub::make_directory(&environment.path(STATE));
    let blocker = File::create(environment.path(STATE).join("groundingd.lock")).expect("the lock file");
    blocker.lock().expect("the lock");
    let mut shims = [environment.shim(), environment.shim()];
    let since = Instant::now();
    let said = shims[0].refusal("ledger_status", json!({}));
    assert!(said.contains("does not serve"), "{said}");
    let failed = Instant::now();
    let cost = failed.duration_since(since);

    let mut times = Vec::new();
    wait_for("longer than any one start takes", || {
        for shim in &mut shims {
            let since = Instant::now();
            let again = shim.refusal("ledger_status", json!({}));
            times.push(since.elapsed());
            assert!(again.contains("does not serve") && again.contains("not tried again"), "{again}");
        }
        if failed.elapsed() > Duration::from_secs(15) { Ok(()) } else { Err(format!("{:?}", failed.elapsed())) }
    });
    times.sort_unstable();
    assert!(cost > Duration::from_secs(5), "the start was not blocked: {cost:?}");
    assert!(times[times.len() / 2] < Duration::from_millis(200), "{times:?}");
    assert!(*times.last().expect("some calls") < Duration::from_secs(5), "one of them waited for a start: {times:?}");
    for shim in &shims {
        assert!(shim.stderr().lines().count() <= 1, "{}", shim.stderr());
    }

    // Whoever sees to it does not have to wait until it is forgotten.
    drop(blocker);
    let started = environment.groundingctl(&["start"]);
    assert!(started.status.success(), "{}", shown(&started));
    shims[0].answer("ledger_status", json!({}));
}

/// themotionmachine/OmniFocus-MCP#99 and PR#102. After an upgrade the old daemon served for ever, because
/// only one without clients was replaced. 1jehuang/jcode#291, the binary was swapped and the old one stayed.
#[test]
fn an_upgraded_daemon_replaces_the_old_one_although_a_client_stays_connected() {
    let environment = TestEnvironment::new();
    let installed = environment.path("bin/groundingd");
    fs::create_dir(environment.path("bin")).expect("a directory");
    fs::copy(binaries::groundingd(), &installed).expect("a copy");
    fs::copy(binaries::grounding_mcp(), environment.path("bin/grounding-mcp")).expect("a copy");
    let mut shim = Shim::spawn(environment.command(environment.path("bin/grounding-mcp")));
    shim.initialize();
    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "before" }));
    let old = environment.daemon();
    let held_open = UnixStream::connect(environment.socket()).expect("the daemon listens");

    let upgrade = environment.path("bin/upgrade");
    fs::copy(binaries::groundingd(), &upgrade).expect("a copy");
    fs::rename(&upgrade, &installed).expect("swapped");
    stub::wait_until_gone(old);
    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "after" }));
    let new = environment.daemon();
    assert_ne!(new, old);
    let runs = fs::metadata(format!("/proc/{new}/exe")).expect("the daemon's executable");
    assert_eq!(runs.ino(), fs::metadata(&installed).expect("it is installed").ino());
    let summary = shim.answer("ledger_summary", json!({ "sessionId": "s" }));
    assert_eq!(summary["counts"]["facts"], 2, "{summary}");
    drop(held_open);
}

/// A daemon of another build, as far as a client gets to know it: it says its version, refuses the rest, and notes what
/// it was asked.
struct OtherBuild {
    asked: Arc<Mutex<Vec<String>>>,
    /// The process it claims to be.
    process: std::process::Child,
}

impl OtherBuild {
    fn serve(environment: &TestEnvironment, version: &str, oldest: u32, newest: u32) -> Self {
        let process = environment.command("sleep").arg("600").spawn().expect("sleep starts");
        let protocol = json!({ "oldest": oldest, "newest": newest });
        let said = json!({ "version": version, "protocol": protocol, "pid": process.id(), "draining": false });
        let socket = environment.socket();
        stub::make_directory(socket.parent().expect("a directory"));
        let listener = UnixListener::bind(&socket).expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, said) = (Arc::clone(&noted), said.clone());
                std::thread::spawn(move || answer_requests(&stream, &noted, &said));
            }
        });
        Self { asked, process }
    }

    /// Returns what it was asked beside its version.
    fn asked_else(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("no holder panics");
        asked.iter().filter(|line| !line.contains("/v1/version")).cloned().collect()
    }
}

impl Drop for OtherBuild {
    fn drop(&mut self) {
        // One that is gone already is what the test has found.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn answer_requests(stream: &UnixStream, noted: &Mutex<Vec<String>>, said: &Value) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut request, mut length) = (String::new(), 0);
        if reader.read_line(&mut request).is_ok_and(|count| count > 0) {
            noted.lock().expect("no holder panics").push(request.trim_end().to_owned());
        } else {
            return;
        }
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).is_err() || header.trim_end().is_empty() {
                break;
            }
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let (status, answer) = if request.contains("/v1/version") {
            ("200 OK", said.clone())
        } else {
            ("400 Bad Request", json!({ "code": "invalid_request", "message": "not of this build", "requestId": "r" }))
        };
        let text = answer.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", text.len());
        let mut stream = stream;
        if stream.write_all(format!("{head}{text}").as_bytes()).is_err() {
            return;
        }
    }
}

/// a client of the new build and a daemon of the old one without a common protocol.
#[test]
fn a_daemon_without_a_common_protocol_is_refused_by_build_and_never_asked() {
    let environment = TestEnvironment::new();
    let old = OtherBuild::serve(&environment, "0.0.1", 0, 0);
    let mut shim = environment.shim();
    for (tool, arguments) in
        [("ledger_status", json!({})), ("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }))]
    {
        let said = shim.refusal(tool, arguments);
        assert!(said.contains("build 0.0.1") && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
        assert!(said.contains("groundingctl restart"), "{said}");
    }
    assert_eq!(old.asked_else(), Vec::<String>::new());
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}

/// anomalyco/opencode PR#35455. An older client killed the newer daemon, and 366 daemons started in 23 minutes.
#[test]
fn an_older_client_never_stops_a_newer_daemon_and_starts_none_beside_it() {
    let environment = TestEnvironment::new();
    let mut newer = OtherBuild::serve(&environment, "99.0.0", 7, 9);
    let mut shim = environment.shim();
    for _ in 0..20 {
        let said = shim.refusal("ledger_status", json!({}));
        assert!(said.contains("build 99.0.0") && said.contains("upgrade this program"), "{said}");
    }
    for arguments in [&["restart"] as &[_], &["start"], &["call", "ledger_status", "{}"]] {
        let output = environment.groundingctl(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains("99.0.0"), "{arguments:?}: {}", shown(&output));
    }
    assert_eq!(newer.asked_else(), Vec::<String>::new(), "it was asked to end");
    assert_eq!(environment.daemons(), Vec::<u32>::new());
    assert!(newer.process.try_wait().expect("a child").is_none(), "its process was ended");

    // Nor where the two understand each other.
    drop(newer);
    fs::remove_file(environment.socket()).expect("the socket");
    let newer = OtherBuild::serve(&environment, "99.0.0", 1, 9);
    let said = shim.refusal("ledger_status", json!({}));
    assert!(said.contains("not of this build"), "it is asked, and answers for itself: {said}");
    let output = environment.groundingctl(&["restart"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("newer"), "{}", shown(&output));
    assert_eq!(newer.asked_else(), ["POST /v1/tools/ledger_status HTTP/1.1"]);
    assert_eq!(environment.daemons(), Vec::<u32>::new());
}

/// Starts a daemon and returns once it is ready.
fn serve(environment: &TestEnvironment) -> std::process::Child {
    let mut command = environment.command(binaries::groundingd());
    command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("groundingd starts");
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let last = lines.map_while(Result::ok).last();
    assert_eq!(last.as_deref(), Some("ready"));
    child
}

fn inode(environment: &TestEnvironment) -> u64 {
    fs::symlink_metadata(environment.socket()).expect("the socket is there").ino()
}

/// propensive/soundness PR#1318 and ohdearquant/khive#645. A daemon that ended removed its successor's socket.
#[test]
fn a_daemon_that_ends_slowly_leaves_its_successors_socket() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    shim.answer("ledger_status", json!({}));
    let old = environment.daemon();
    // A request that waits for a lock keeps it from ending.
    let ledger = SqliteConnectOptions::new().filename(environment.path(".evidence-ledger/ledger.db"));
    let writer = block_on(async {
        let mut writer = ledger.connect().await.expect("the ledger opens");
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut writer).await.expect("nobody writes");
        writer
    });
    let arguments = json!({ "sessionId": "s", "type": "fact", "content": "c" });
    let call = shim.send_request("tools/call", json!({ "name": "ledger_add", "arguments": arguments }));
    wait_for("the call to be on its way", || match environment.status().clients {
        Some(2..) => Ok(()),
        clients => Err(format!("{clients:?}")),
    });
    stub::signal(old, Signal::TERM);
    let started = environment.groundingctl(&["start"]);
    assert!(started.status.success(), "{}", shown(&started));
    stub::wait_until_gone(old);
    let (new, bound) = (environment.daemon(), inode(&environment));
    assert_ne!(new, old);
    drop(writer);
    // Answered by whichever of them it reached; what matters is that it is answered.
    let answered = shim.response(call);
    assert!(answered.get("result").is_some(), "{answered}");
    shim.answer("ledger_status", json!({}));
    assert_eq!((environment.daemons(), inode(&environment)), (vec![new], bound));
}

/// Report 20 again, where even the lock between the two was removed.
#[test]
fn a_daemon_whose_lock_was_removed_ends_and_leaves_its_successors_socket() {
    for told_to_end in [true, false] {
        let environment = TestEnvironment::new();
        let mut old = serve(&environment);
        stub::signal(old.id(), Signal::STOP);
        fs::remove_file(environment.path(STATE).join("groundingd.lock")).expect("the lock file");
        let mut new = serve(&environment);
        let bound = inode(&environment);
        if told_to_end {
            stub::signal(old.id(), Signal::TERM);
        }
        stub::signal(old.id(), Signal::CONT);
        let (status, _) = process::wait_exit(&mut old);
        assert!(status.success(), "{status}");
        assert_eq!(inode(&environment), bound, "told to end: {told_to_end}");
        environment.shim().answer("ledger_status", json!({}));
        assert_eq!(environment.daemons(), [new.id()]);
        assert!(environment.groundingctl(&["stop"]).status.success());
        process::wait_exit(&mut new);
    }
}

/// Giammarco-Ferranti/deja#106. `bind: invalid argument`, which nobody saw, because the start went to /dev/null.
#[test]
fn a_socket_that_can_not_be_bound_is_told_to_whoever_started_it() {
    let environment = TestEnvironment::new();
    stub::make_directory(&environment.socket());
    let socket = environment.socket();
    let socket = socket.to_str().expect("UTF-8");
    let output = environment.groundingctl(&["start"]);
    assert!(!output.status.success(), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(socket) && said.contains("directory"), "{said}");
    let refused = environment.shim().refusal("ledger_status", json!({}));
    assert!(refused.contains(socket) && refused.contains("directory"), "{refused}");
    let log = environment.read(&format!("{STATE}/log/groundingd.log"));
    assert!(log.contains(socket), "{log}");
}
