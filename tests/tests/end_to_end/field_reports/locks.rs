//! Lock files, sleep and clocks.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use grounding_proto::exit;
use grounding_tests::environment::shown;
use grounding_tests::process::{processes_of, wait_exit};
use grounding_tests::{TestEnvironment, binaries, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::stub::{self, attempt_of, kinds};

/// Sends a signal to everything that runs in a home, as sleep does; what ended meanwhile needs none.
fn signal_all(environment: &TestEnvironment, signal: Signal) {
    for (pid, _) in processes_of(environment.home()) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
        let _ = kill_process(pid, signal);
    }
}

/// earendil-works/pi#1322. Heartbeats freeze in sleep; on wake the holder found its lock compromised and died.
#[test]
fn a_daemon_that_slept_ends_its_attempt_in_one_outcome() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_ATTEMPT_STALE_MS", "2000");
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut waiting = stub::pinging(&environment);
    let call = stub::begin(&mut waiting, &repository);
    stub::wait_for_run(&environment, 1);
    let (daemon, supervisor) = (environment.daemon(), stub::process_with(&environment, "supervise"));

    signal_all(&environment, Signal::STOP);
    stub::wait_until(Instant::now(), Duration::from_secs(6));
    signal_all(&environment, Signal::CONT);
    // Several heartbeats after the sleep, the holder is who it was.
    stub::wait_until(Instant::now(), Duration::from_secs(3));
    assert_eq!(stub::process_with(&environment, "supervise"), supervisor);

    stub::release(&environment);
    let answer = stub::evaluated(&mut waiting, call);
    assert_eq!((&answer["status"], &answer["verdict"]["ready"]), (&json!("completed"), &json!(true)), "{answer}");
    assert_eq!(kinds(&environment, &attempt_of(&answer)), ["start", "terminal"]);
    assert_eq!(stub::runs(&environment).len(), 1);
    assert_eq!(environment.daemons(), [daemon]);
}

/// ipfs/js-ipfs-repo#182. After a crash a restart was refused until the stale time was over.
#[test]
fn a_killed_daemon_starts_again_at_once_and_not_after_a_stale_time() {
    let environment = TestEnvironment::new();
    let mut shim = environment.shim();
    let mut starts = Vec::new();
    for number in 1..=8 {
        shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": number.to_string() }));
        environment.kill_daemon();
        let since = Instant::now();
        let started = environment.groundingctl(&["start"]);
        starts.push(since.elapsed());
        assert!(started.status.success(), "{}", shown(&started));
        let status = environment.status();
        assert_eq!(status.ledger.and_then(|ledger| ledger.entry_count), Some(number));
    }
    // A busy machine may stretch one start; that every one of them is late would be ours.
    let fastest = starts.iter().min().expect("some starts");
    assert!(*fastest < Duration::from_secs(1), "{starts:?}");
}

/// Signet-AI/signetai#1076. "database is locked", and the cause was two daemons.
#[test]
fn of_twenty_daemons_started_at_once_one_serves_and_opens_the_ledger() {
    let environment = TestEnvironment::new();
    let spawn = || {
        let mut command = environment.command(binaries::groundingd());
        command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("groundingd starts")
    };
    let mut children: Vec<_> = (0..20).map(|_| spawn()).collect();
    let last_word = |child: &mut std::process::Child| {
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        lines.map_while(Result::ok).last().unwrap_or_default()
    };
    let words: Vec<_> = children.iter_mut().map(last_word).collect();
    assert_eq!(words.iter().filter(|word| *word == "ready").count(), 1, "{words:?}");
    assert_eq!(words.iter().filter(|word| *word == "busy").count(), 19, "{words:?}");
    let serving = environment.daemon();
    for (child, word) in children.iter_mut().zip(&words) {
        if word == "ready" {
            assert_eq!(child.id(), serving);
        } else {
            assert_eq!(wait_exit(child).0.code(), Some(i32::from(exit::BUSY)), "{word}");
        }
    }

    // Nobody opens it before the lock, and the one with the lock not before it is needed.
    let other = environment.path("other/ledger.db");
    let mut shim = environment.shim_with(&[("EVIDENCE_LEDGER_DB", other.as_os_str())]);
    shim.answer("claim_evaluate", json!({ "claim": "Something is so" }));
    assert!(!other.exists());
    shim.answer("ledger_add", json!({ "sessionId": "s", "type": "fact", "content": "c" }));
    let openers = wait_for("the ledger to be open", || {
        let all = processes_of(environment.home()).into_iter().map(|(pid, _)| pid);
        let openers: Vec<_> = all.filter(|pid| has_open(*pid, &other)).collect();
        if openers.is_empty() { Err("nobody has it open".to_owned()) } else { Ok(openers) }
    });
    assert_eq!(openers, [serving]);
    // It is a child of this process, which is to be waited for.
    assert!(environment.groundingctl(&["stop"]).status.success());
    let mut served = children.into_iter().find(|child| child.id() == serving).expect("it is one of them");
    assert!(wait_exit(&mut served).0.success());
}

fn has_open(pid: u32, path: &std::path::Path) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|it| std::fs::read_link(it.path()).is_ok_and(|target| target == path))
}
