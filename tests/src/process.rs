//! Processes: the one place of this crate that makes commands, and what `/proc` says about running ones.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{DEADLINE, wait_for};

/// Returns a command with an empty environment.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that makes commands")]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// Sends SIGKILL and returns once the process is gone; one that is gone already is fine.
pub fn kill(pid: u32) {
    if signal(pid, Signal::KILL) {
        wait_for("a killed process to be gone", || if is_alive(pid) { Err(format!("{pid} lives")) } else { Ok(()) });
    }
}

/// Sends SIGINT, as Ctrl-C does.
pub fn interrupt(pid: u32) {
    assert!(signal(pid, Signal::INT), "process {pid} is gone already");
}

fn signal(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id is a positive i32");
    kill_process(pid, signal).is_ok()
}

/// Returns whether any of the process runs; a zombie does not.
///
/// A killed process whose first thread is a zombie already may hold its sockets until its other threads are gone. They are
/// counted by the kernel: a listing of them ends early when one goes while it is read.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The fields follow the command name, which stands in parentheses and may hold anything.
    let fields: Vec<_> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let threads = fields.get(17).and_then(|count| count.parse::<u32>().ok());
    let is_zombie = fields.first().is_some_and(|state| matches!(*state, "Z" | "X"));
    !is_zombie || threads.is_some_and(|threads| threads > 1)
}

/// Waits for a child of this process to end and returns its status and how long that took from now on.
///
/// # Panics
/// When it has not ended within the general deadline.
pub fn wait_exit(child: &mut Child) -> (ExitStatus, Duration) {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of this process can be waited for") {
            return (status, started.elapsed());
        }
        assert!(started.elapsed() < DEADLINE, "process {} did not end within {DEADLINE:?}", child.id());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the running processes whose home directory is `home`, with their command lines.
///
/// Empty where there is no `/proc`.
#[must_use]
pub fn processes_of(home: &Path) -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ours = std::process::id();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != ours && has_home(*pid, home) && is_alive(*pid))
        .map(|pid| (pid, command_line(pid)))
        .collect()
}

fn has_home(pid: u32, home: &Path) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = [b"HOME=", home.as_os_str().as_encoded_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
}

fn command_line(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}

/// Returns the proportional memory of a process in bytes.
#[must_use]
pub fn proportional_memory(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
