//! `groundingd exec`: the guard between a supervisor and preflight (DESIGN 8).
//!
//! It starts preflight in a process group of its own, tells the supervisor how it ended, and ends the whole group when
//! told to, or when the supervisor is gone, however it went. On Linux it also ends what left the group, because it is
//! the subreaper of everything below it. It stays outside the group and reads and writes nothing but its control socket.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::{points, process};

/// Time between SIGTERM and SIGKILL for what outlives preflight.
const GRACE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(5);

/// What the supervisor tells its guard: one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// Send SIGTERM to the group.
    Terminate = b't',
    /// Send SIGKILL to the group.
    Kill = b'k',
    /// preflight ended and its output was read: end what is left and exit.
    Clean = b'c',
}

/// What the guard tells its supervisor: one JSON line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// preflight was started; its process is its group's leader.
    Started {
        /// The group.
        group: i32,
    },
    /// preflight could not be started.
    Unstartable {
        /// Why.
        error: String,
    },
    /// preflight ended.
    Ended {
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<String>,
    },
}

/// Runs a program under guard: the control socket is stdin, the program's output is ours.
#[must_use]
pub fn exec(program: &Path, arguments: &[OsString]) -> ExitCode {
    match guard(program, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn guard(program: &Path, arguments: &[OsString]) -> io::Result<()> {
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    become_subreaper()?;
    let mut command = process::inheriting(program);
    command.args(arguments).process_group(0);
    points::reach("guard-starting");
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return report(&mut control, &Report::Unstartable { error: error.to_string() }),
    };
    // The pipes must end with preflight, not with its guard.
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    let group = Pid::from_child(&child);
    // A supervisor that is gone is noticed by the listener; a report it can't read changes nothing.
    let _ = report(&mut control, &Report::Started { group: group.as_raw_nonzero().get() });

    let (inputs, received) = mpsc::channel();
    let listener = control.try_clone()?;
    let told = inputs.clone();
    std::thread::spawn(move || listen(listener, &told));
    std::thread::spawn(move || {
        wait_without_reaping(group);
        // The receiver is gone only when the guard itself ends.
        let _ = inputs.send(Input::Ended);
    });

    let mut patience = Duration::ZERO;
    if signal_until_ended(group, &received) == Supervisor::Alive
        && let Some((code, signal)) = peek(group)
    {
        // As above: the listener notices a supervisor that is gone.
        let _ = report(&mut control, &Report::Ended { code, signal });
        patience = wait_for_clean(group, &received);
    }
    points::reach("guard-ending");
    end_group(group, &mut child, patience);
    end_strays();
    points::reach("guard-ended");
    Ok(())
}

/// What a guard waits for.
enum Input {
    Told(Command),
    Orphaned,
    Ended,
}

#[derive(PartialEq, Eq)]
enum Supervisor {
    Alive,
    Gone,
}

/// Forwards signals until preflight ends or the supervisor is gone.
fn signal_until_ended(group: Pid, inputs: &Receiver<Input>) -> Supervisor {
    loop {
        match inputs.recv() {
            Ok(Input::Told(Command::Terminate)) => signal_group(group, Signal::TERM),
            Ok(Input::Told(Command::Kill)) => signal_group(group, Signal::KILL),
            Ok(Input::Told(Command::Clean)) => {}
            Ok(Input::Ended) => return Supervisor::Alive,
            Ok(Input::Orphaned) | Err(_) => return Supervisor::Gone,
        }
    }
}

/// Waits until the supervisor has read the output; returns how patient to be with what is left.
fn wait_for_clean(group: Pid, inputs: &Receiver<Input>) -> Duration {
    loop {
        match inputs.recv() {
            Ok(Input::Told(Command::Clean)) => return GRACE,
            Ok(Input::Told(Command::Terminate)) => signal_group(group, Signal::TERM),
            Ok(Input::Ended) => {}
            Ok(Input::Told(Command::Kill) | Input::Orphaned) | Err(_) => return Duration::ZERO,
        }
    }
}

fn listen(mut control: UnixStream, inputs: &Sender<Input>) {
    let mut byte = [0];
    loop {
        let input = match control.read(&mut byte) {
            Ok(1) => match byte[0] {
                b't' => Input::Told(Command::Terminate),
                b'k' => Input::Told(Command::Kill),
                b'c' => Input::Told(Command::Clean),
                _ => continue,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => Input::Orphaned,
        };
        let last = matches!(input, Input::Orphaned);
        if inputs.send(input).is_err() || last {
            return;
        }
    }
}

/// Waits for the leader's end and leaves it a zombie: until it is reaped, its group's number can't be given to others.
fn wait_without_reaping(leader: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while rustix::process::waitid(WaitId::Pid(leader), options).is_err_and(|error| error == rustix::io::Errno::INTR) {}
}

/// Reads how the leader ended without reaping it.
fn peek(leader: Pid) -> Option<(Option<i32>, Option<String>)> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = rustix::process::waitid(WaitId::Pid(leader), options).ok()??;
    Some((status.exit_status(), status.terminating_signal().map(signal_name)))
}

/// Ends every member of the group: SIGTERM, after `patience` SIGKILL, then waits, bounded, until none is left.
fn end_group(group: Pid, child: &mut std::process::Child, patience: Duration) {
    signal_group(group, if patience.is_zero() { Signal::KILL } else { Signal::TERM });
    // The leader has ended or was killed just now; how it ended was reported before.
    let _ = child.wait();
    let started = Instant::now();
    let mut killed = patience.is_zero();
    while rustix::process::test_kill_process_group(group).is_ok() && started.elapsed() < patience + GRACE {
        reap();
        if !killed && started.elapsed() >= patience {
            signal_group(group, Signal::KILL);
            killed = true;
        }
        std::thread::sleep(TICK);
    }
}

/// Ends what left the group and came to us when its parent died.
fn end_strays() {
    let started = Instant::now();
    loop {
        reap();
        let strays = children();
        if strays.is_empty() || started.elapsed() >= GRACE {
            return;
        }
        for stray in strays {
            // One that ended in between stays a zombie until the next round; its number is not given to others.
            let _ = rustix::process::kill_process(stray, Signal::KILL);
        }
        std::thread::sleep(TICK);
    }
}

fn reap() {
    while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
}

fn signal_group(group: Pid, signal: Signal) {
    // A group without members needs no signal.
    let _ = rustix::process::kill_process_group(group, signal);
}

fn report(control: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    control.write_all(&line)
}

#[cfg(target_os = "linux")]
fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Our children, wherever they came from. Without /proc there is no list, and only the group is ended.
fn children() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let mut text = String::new();
    for thread in threads.flatten() {
        if let Ok(mut file) = File::open(thread.path().join("children")) {
            // A thread that ended meanwhile has no children.
            let _ = file.read_to_string(&mut text);
        }
    }
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw).collect()
}

/// Returns the name of a signal as people know it.
fn signal_name(number: i32) -> String {
    const NAMED: &[(Signal, &str)] = &[
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let named = NAMED.iter().find(|(signal, _)| signal.as_raw() == number);
    named.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}
