//! `groundingctl logs`: the daemon's log, with a daemon or without.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use grounding_tests::environment::shown;
use grounding_tests::{Terminal, TestEnvironment, binaries, process};
use serde_json::{Value, json};

const LOG: &str = ".local/state/agent-grounding/log/groundingd.log";

fn logs(environment: &TestEnvironment, arguments: &[&str]) -> String {
    let output = environment.groundingctl(&[&["logs"], arguments].concat());
    assert!(output.status.success(), "{}", shown(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_log_begins_with_build_and_protocol_and_is_read_without_a_daemon() {
    let environment = TestEnvironment::new();
    let absent = environment.groundingctl(&["logs"]);
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert_eq!(absent.status.code(), Some(4), "{said}");
    assert!(said.contains("groundingd.log") && said.contains("hint: "), "{said}");

    environment.shim().answer("ledger_status", json!({}));
    environment.kill_daemon();
    let text = logs(&environment, &[]);
    let first = text.lines().next().expect("a line");
    assert!(first.contains(env!("CARGO_PKG_VERSION")) && first.contains("protocol 1 to 1"), "{first}");
    assert_eq!(logs(&environment, &["-n", "1"]).lines().count(), 1);

    let parsed: Vec<Value> = logs(&environment, &["--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(parsed.len() >= 2, "{text}");
    assert!(parsed.iter().all(|line| line["level"] == "INFO" && line["time"].is_string()), "{parsed:?}");
    assert_eq!(environment.daemons(), Vec::<u32>::new(), "looking starts no daemon");
}

#[test]
fn the_last_lines_are_taken_from_both_files_and_a_huge_one_costs_little() {
    let environment = TestEnvironment::new();
    environment.write(&format!("{LOG}.1"), "a\nb\n");
    environment.write(LOG, "c\nd");
    assert_eq!(logs(&environment, &["-n", "3"]), "b\nc\nd");
    assert_eq!(logs(&environment, &["-n", "0"]), "");

    let huge = fs::File::create(environment.path(LOG)).expect("a file");
    huge.set_len(3 << 30).expect("a sparse file of 3 GiB");
    (&huge).write_all(b"first\n").expect("written");
    let mut end = OpenOptions::new().append(true).open(environment.path(LOG)).expect("the file");
    end.write_all(b"\nlast\n").expect("appended");
    let mut limited = environment.command("sh");
    limited.args(["-c", r#"ulimit -v 400000 && exec "$0" logs -n 1"#]).arg(binaries::groundingctl());
    let output = limited.output().expect("sh starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "last\n", "{}", shown(&output));
}

#[test]
fn a_terminal_sees_no_control_characters() {
    let environment = TestEnvironment::new();
    environment.write(LOG, "evil \u{1b}]0;title\u{7}\u{9b}2J\nlast\n");
    let mut command = environment.command(binaries::groundingctl());
    command.arg("logs");
    let (status, text) = Terminal::start(command).end("last");
    assert!(status.success());
    assert!(text.contains("evil ?]0;title??2J") && !text.contains('\u{1b}'), "{text:?}");
    assert!(logs(&environment, &[]).contains('\u{1b}'), "a file gets the bytes");
}

#[test]
fn following_goes_on_over_a_log_that_is_set_aside_and_ends_when_nobody_reads() {
    let environment = TestEnvironment::new();
    environment.write(LOG, "one\n");
    let mut command = environment.command(binaries::groundingctl());
    command.args(["logs", "-f"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut follow = command.spawn().expect("groundingctl starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a further line").expect("UTF-8");
    assert_eq!(next(), "one");
    let log = environment.path(LOG);
    let mut old = OpenOptions::new().append(true).open(&log).expect("the log");
    old.write_all(b"two\n").expect("appended");
    assert_eq!(next(), "two");
    fs::rename(&log, log.with_extension("log.1")).expect("set aside");
    old.write_all(b"three\n").expect("the last words of the old file");
    fs::write(&log, "four\n").expect("the new file");
    assert_eq!([next(), next()], ["three", "four"]);
    drop(lines);
    let (status, _) = process::wait_exit(&mut follow);
    assert_eq!(status.code(), Some(0));
}

#[test]
fn what_is_no_file_holds_nobody_up() {
    let environment = TestEnvironment::new();
    fs::create_dir_all(environment.path(LOG)).expect("a directory in the place of the log");
    let output = environment.groundingctl(&["logs"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("groundingd.log") && said.contains("not a regular file"), "{said}");
}
