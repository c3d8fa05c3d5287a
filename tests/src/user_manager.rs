//! A real `systemd --user` for one test: of the test's own home, with a runtime directory of its own.
//!
//! The manager insists on a system that was started by systemd, so it gets a mount namespace in which it looks like one; that
//! takes root. One runs at a time: their control groups would have the same names, and one manager removes what another one
//! just made. Everything it starts is in reach of the test: the namespace hides `/run/systemd` and nothing else.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::environment::{not_run_here, shown};
use crate::{TestEnvironment, binaries, process, wait_for};

/// Where distributions put the program.
const PROGRAMS: [&str; 2] = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
/// Makes the system look like one that systemd started, and becomes the manager.
const BEGIN: &str = "mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system && exec \"$0\" --user";

/// A running manager; it ends when this is dropped.
#[derive(Debug)]
pub struct UserManager {
    child: Child,
    runtime: TempDir,
    /// Held while the manager runs.
    _turn: File,
}

impl UserManager {
    /// Starts a manager for the environment's home and tells the environment where it is; nothing, with the reason on
    /// stderr, where none can run.
    ///
    /// # Panics
    /// When one can run and does not get ready.
    #[must_use]
    pub fn start(environment: &mut TestEnvironment) -> Option<Self> {
        let program = match usable() {
            Ok(program) => program,
            Err(why) => {
                not_run_here(&format!("a test with a user's service manager: {why}"));
                return None;
            }
        };
        let turn = OpenOptions::new().create(true).append(true).open("/tmp/grounding-tests-user-manager.lock");
        let turn = turn.and_then(|file| file.lock().map(|()| file)).expect("a lock in /tmp");
        let runtime = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").expect("a directory in /tmp");
        environment.set("XDG_RUNTIME_DIR", runtime.path());
        let mut command = environment.command("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", BEGIN]).arg(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("unshare starts");
        let manager = Self { child, runtime, _turn: turn };
        wait_for("the service manager to run", || {
            let output = manager.systemctl(environment, &["show", "--property=SystemState", "--value"]);
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            // Units of the machine's own that fail in here are nothing to this test.
            if matches!(state.as_str(), "running" | "degraded") { Ok(()) } else { Err(shown(&output)) }
        });
        Some(manager)
    }

    /// Returns the manager's process id: `unshare` and the shell became the manager.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs `systemctl --user` to its end.
    #[must_use]
    pub fn systemctl(&self, environment: &TestEnvironment, arguments: &[&str]) -> Output {
        let mut command = environment.command("systemctl");
        command.arg("--user").args(arguments).stdin(Stdio::null()).output().expect("systemctl starts")
    }

    /// Runs `systemctl --user` to its success and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn done(&self, environment: &TestEnvironment, arguments: &[&str]) -> String {
        let output = self.systemctl(environment, arguments);
        assert!(output.status.success(), "systemctl --user {}: {}", arguments.join(" "), shown(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns a property of a unit.
    #[must_use]
    pub fn property(&self, environment: &TestEnvironment, unit: &str, name: &str) -> String {
        self.done(environment, &["show", unit, "--value", "--property", name])
    }

    /// Installs the repository's service so that it starts the daemon under test, and has the manager read it.
    pub fn install_service(&self, environment: &TestEnvironment) {
        let text = unit("groundingd.service");
        let line = "ExecStart=%h/.local/bin/groundingd serve";
        assert!(text.contains(line), "{text}");
        let program = binaries::groundingd();
        let made = text.replace(line, &format!("ExecStart=\"{}\" serve", program.display()));
        environment.write(".config/systemd/user/groundingd.service", made);
        self.done(environment, &["daemon-reload"]);
    }

    /// Installs the repository's socket unit as it is, and has the manager read it.
    pub fn install_socket(&self, environment: &TestEnvironment) {
        environment.write(".config/systemd/user/groundingd.socket", unit("groundingd.socket"));
        self.done(environment, &["daemon-reload"]);
    }
}

impl Drop for UserManager {
    fn drop(&mut self) {
        // The daemons it started end with the environment; a manager that is killed stops nothing, which is fine.
        process::kill(self.child.id());
        // It was just killed.
        let _ = self.child.wait();
        debug_assert!(self.runtime.path().exists());
    }
}

/// Returns the path of a unit of the repository.
#[must_use]
pub fn unit_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd").join(name)
}

/// Returns the text of a unit of the repository.
#[must_use]
pub fn unit(name: &str) -> String {
    let path = unit_file(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the manager's program, or why none can be run here.
fn usable() -> Result<PathBuf, String> {
    static USABLE: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let program = PROGRAMS.iter().map(Path::new).find(|path| path.is_file()).ok_or("systemd is not installed")?;
        if !rustix::process::geteuid().is_root() {
            return Err("it takes root".to_owned());
        }
        std::fs::create_dir_all("/run/systemd").map_err(|error| format!("/run/systemd: {error}"))?;
        let mut command = process::command("unshare");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/run/systemd"]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("unshare: {error}"))?;
        if output.status.success() { Ok(program.to_owned()) } else { Err(shown(&output)) }
    });
    USABLE.clone()
}
