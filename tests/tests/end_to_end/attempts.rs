//! Attempts that nothing loses: joins, whatever dies in between, lookups, cancellation, retention.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use grounding_tests::environment::shown;
use grounding_tests::{Shim, TestEnvironment, binaries, process, wait_for};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::stub::{self, attempt_of, keys, kinds, settled, start, status, task};

#[test]
fn fifty_processes_at_once_share_one_attempt_and_one_preflight() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_ATTEMPT_WAIT_MS", "300");
    stub::hold(&environment);
    let repository = environment.repository("repo");
    let arguments = task(&repository).to_string();
    let spawn = || {
        let mut command = environment.command(binaries::groundingctl());
        command.args(["call", "solution_evaluate", &arguments]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("groundingctl starts")
    };
    let children: Vec<_> = (0..50).map(|_| spawn()).collect();
    let mut named = Vec::new();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", shown(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
        match answer["status"].as_str() {
            Some("running") => named.push(attempt_of(&answer)),
            Some("running-unconfirmed") => {}
            _ => panic!("{answer}"),
        }
    }
    named.sort();
    named.dedup();
    assert_eq!(named.len(), 1, "{named:?}");
    stub::release(&environment);
    let result = settled(&mut environment.shim(), &named[0]);
    assert_eq!((&result["status"], &result["isLatestForId"]), (&json!("completed"), &json!(true)), "{result}");
    assert_eq!(stub::runs(&environment).len(), 1);
    assert_eq!(kinds(&environment, &named[0]), ["start", "terminal"]);
}

#[test]
fn a_killed_daemon_costs_an_attempt_nothing() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = start(&environment, &mut hurried, &repository);
    let killed = environment.kill_daemon();

    let running = status(&mut hurried, &attempt);
    assert_eq!((&running["status"], &running["isLatestForId"]), (&json!("running"), &json!(true)), "{running}");
    assert_ne!(environment.daemon(), killed);
    assert_eq!(attempt_of(&hurried.answer("solution_evaluate", task(&repository))), attempt);

    // One who waits is answered when the adopted attempt ends, with everything.
    let mut patient = stub::pinging(&environment);
    let call = stub::begin(&mut patient, &repository);
    stub::release(&environment);
    let evaluated = stub::evaluated(&mut patient, call);
    assert_eq!((&evaluated["status"], &evaluated["attemptId"]), (&json!("completed"), &json!(attempt)), "{evaluated}");
    let result = settled(&mut hurried, &attempt);
    for whole in [evaluated, result] {
        assert_eq!(whole["verdict"]["head"], *repository.head(), "{whole}");
        assert_eq!(whole["diagnostics"]["complete"], true, "{whole}");
    }
    assert_eq!(stub::runs(&environment).len(), 1);
    assert_eq!(kinds(&environment, &attempt), ["start", "terminal"]);
}

#[test]
fn an_attempt_that_ends_while_no_daemon_runs_is_found_whole() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let attempt = start(&environment, &mut stub::hurried(&environment), &repository);
    let supervisor = stub::process_with(&environment, "supervise");
    environment.kill_daemon();
    stub::release(&environment);
    stub::wait_until_gone(supervisor);
    assert_eq!(environment.daemons(), Vec::<u32>::new());

    let mut shim = environment.shim();
    let result = shim.answer("solution_evaluate_result", json!({ "id": "task" }));
    assert_eq!((&result["status"], &result["attemptId"]), (&json!("completed"), &json!(attempt)), "{result}");
    assert_eq!(result["diagnostics"]["payload"]["ready"], true, "{result}");
    let gate = shim.answer("solution_gate", task(&repository));
    assert_eq!(gate["allowed"], true, "{gate}");
}

#[test]
fn a_suspended_daemon_answers_with_what_happened_meanwhile() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut waiting = stub::pinging(&environment);
    let call = stub::begin(&mut waiting, &repository);
    stub::wait_for_run(&environment, 1);
    let (daemon, supervisor) = (environment.daemon(), stub::process_with(&environment, "supervise"));
    stub::signal(daemon, Signal::STOP);
    stub::release(&environment);
    stub::wait_until_gone(supervisor);
    stub::signal(daemon, Signal::CONT);
    let answer = stub::evaluated(&mut waiting, call);
    assert_eq!((&answer["status"], &answer["verdict"]["ready"]), (&json!("completed"), &json!(true)), "{answer}");
    assert_eq!(kinds(&environment, &attempt_of(&answer)), ["start", "terminal"]);
    assert_eq!(environment.daemon(), daemon);
}

#[test]
fn a_daemon_that_is_stopped_answers_running_and_leaves_the_attempt_alone() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let attempt = start(&environment, &mut stub::hurried(&environment), &repository);
    let mut waiting = stub::pinging(&environment);
    let call = stub::begin(&mut waiting, &repository);
    let stopped = environment.groundingctl(&["stop"]);
    assert!(stopped.status.success(), "{}", shown(&stopped));
    let answer = stub::evaluated(&mut waiting, call);
    assert_eq!((&answer["status"], &answer["attemptId"]), (&json!("running"), &json!(attempt)), "{answer}");
    stub::process_with(&environment, "supervise");

    let started = environment.groundingctl(&["start"]);
    assert!(started.status.success(), "{}", shown(&started));
    stub::release(&environment);
    assert_eq!(settled(&mut waiting, &attempt)["status"], "completed");
    assert_eq!(stub::runs(&environment).len(), 1);
}

#[test]
fn a_killed_supervisor_leaves_unknown_no_process_and_a_free_lock() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = start(&environment, &mut hurried, &repository);
    let preflight = stub::runs(&environment)[0];
    let mut waiting = stub::pinging(&environment);
    let call = stub::begin(&mut waiting, &repository);
    process::kill(stub::process_with(&environment, "supervise"));

    let answer = stub::evaluated(&mut waiting, call);
    assert_eq!((&answer["status"], &answer["attemptId"]), (&json!("unknown"), &json!(attempt)), "{answer}");
    stub::wait_until_gone(preflight);
    let unknown = status(&mut hurried, &attempt);
    assert_eq!(unknown["status"], "unknown", "{unknown}");

    // No stale time goes by: the lock of a dead holder of ours is free at once.
    let second = start(&environment, &mut hurried, &repository);
    assert_ne!(second, attempt);
    stub::release(&environment);
    assert_eq!(settled(&mut hurried, &second)["outcomeClass"], "ready");
    let result = settled(&mut hurried, &attempt);
    assert_eq!((&result["status"], &result["isLatestForId"]), (&json!("unknown"), &json!(false)), "{result}");
    assert_eq!(result.get("outcomeClass"), None, "{result}");
    assert_eq!(kinds(&environment, &attempt), ["start", "reconciled-unknown"]);
    assert_eq!(stub::runs(&environment).len(), 2);
}

#[test]
fn a_daemon_and_the_group_of_a_supervisor_killed_together_leave_unknown() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let attempt = start(&environment, &mut stub::hurried(&environment), &repository);
    let supervisor = stub::process_with(&environment, "supervise");
    process::kill(environment.daemon());
    // Its whole group with it: the guard is not part of that.
    let group = i32::try_from(supervisor).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process_group(group, Signal::KILL).expect("the supervisor's group");
    stub::wait_until_gone(supervisor);
    stub::wait_until_gone(stub::runs(&environment)[0]);
    let unknown = environment.shim().answer("solution_evaluate_status", json!({ "id": "task" }));
    assert_eq!((&unknown["status"], &unknown["attemptId"]), (&json!("unknown"), &json!(attempt)), "{unknown}");
}

#[test]
fn a_supervisor_killed_at_any_moment_leaves_one_outcome_and_a_free_lock() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let begin = json!({ "name": "solution_evaluate", "arguments": task(&repository) });
    let mut outcomes = std::collections::BTreeMap::new();
    environment.write("stub/then", "sleep 0.05");
    for round in 0..24 {
        let (settled, begun) = (terminals(&environment), Instant::now());
        let call = shim.send_request("tools/call", begin.clone());
        if let Some(supervisor) = supervisor_or_its_end(&environment, settled) {
            stub::wait_until(Instant::now(), Duration::from_millis(round * 4));
            process::kill(supervisor);
        }
        let answer = stub::evaluated(&mut shim, call);
        let answered = answer["status"].as_str().expect("a status").to_owned();
        // What it was starting when it died has the lock until it runs.
        let found = wait_for("the lock to be free", || {
            let found = shim.answer("solution_evaluate_status", json!({ "id": "task" }));
            if found["status"] == "running-unconfirmed" { Err(found.to_string()) } else { Ok(found) }
        });
        let stands = found["status"].as_str().expect("a status").to_owned();
        match answer.get("attemptId") {
            Some(attempt) => assert_eq!((&found["attemptId"], &stands), (attempt, &answered), "{answer} {found}"),
            // It died before it had a record; then nothing of it is there.
            None => assert_eq!(answered, "failed", "{answer}"),
        }
        // What it is starting bears its name for a moment, and may have been killed instead: then the attempt failed.
        assert!(["completed", "unknown", "failed"].contains(&stands.as_str()), "{answer} {found}");
        assert!(begun.elapsed() < Duration::from_secs(10), "a stale time went by");
        *outcomes.entry(answered).or_insert(0) += 1;
    }
    assert!(outcomes.len() >= 2, "every kill came at the same moment: {outcomes:?}");
    let evaluated = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    for record in stub::records(&environment).iter().filter(|record| record["kind"] == "start") {
        let attempt = record["attemptId"].as_str().expect("a name");
        assert_eq!(kinds(&environment, attempt).len(), 2, "{attempt}: not one outcome");
    }
}

fn terminals(environment: &TestEnvironment) -> usize {
    stub::records(environment).iter().filter(|record| record["kind"] == "terminal").count()
}

/// Returns the supervisor, or nothing when it has ended already: there are more terminal records than before.
fn supervisor_or_its_end(environment: &TestEnvironment, before: usize) -> Option<u32> {
    wait_for("a supervisor, or its end", || {
        let processes = process::processes_of(environment.home());
        let supervisor = processes.iter().find(|(_, line)| line.starts_with("groundingd supervise"));
        match supervisor {
            Some((pid, _)) => Ok(Some(*pid)),
            None if terminals(environment) > before => Ok(None),
            None => Err(format!("{processes:?}")),
        }
    })
}

#[test]
fn a_killed_guard_fails_the_attempt_and_takes_preflight_with_it() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = start(&environment, &mut hurried, &repository);
    process::kill(stub::process_with(&environment, "exec"));
    let result = settled(&mut hurried, &attempt);
    assert_eq!((&result["status"], &result["outcomeClass"]), (&json!("failed"), &json!("error")), "{result}");
    assert!(result["error"].as_str().is_some_and(|error| error.contains("guard")), "{result}");
    assert_eq!(result["markerPresent"], false);
    stub::wait_until_gone(stub::runs(&environment)[0]);
}

#[test]
fn the_end_of_a_host_and_of_all_its_processes_costs_an_attempt_nothing() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    // The host, its shim, and the daemon that this shim starts.
    let mut host = environment.command("sh");
    host.args(["-c", "\"$0\"; exit"]).arg(binaries::grounding_mcp()).process_group(0);
    let mut host = Shim::spawn(host);
    host.initialize();
    let call = json!({ "name": "solution_evaluate", "arguments": task(&repository) });
    host.send_request("tools/call", call);
    let preflight = stub::wait_for_run(&environment, 1);
    let group = i32::try_from(host.pid()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process_group(group, Signal::KILL).expect("the host's group");
    host.wait_exit();

    assert!(process::is_alive(preflight));
    let mut next = environment.shim();
    let running = next.answer("solution_evaluate_status", json!({ "id": "task" }));
    assert_eq!(running["status"], "running", "{running}");
    stub::release(&environment);
    let evaluated = settled(&mut next, &attempt_of(&running));
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    assert_eq!(stub::runs(&environment).len(), 1);
}

#[test]
fn a_supervisor_suspended_for_three_stale_times_is_still_the_one_holder() {
    let mut environment = stub::environment();
    environment.set("GROUNDING_ATTEMPT_STALE_MS", "2000");
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = start(&environment, &mut hurried, &repository);
    let supervisor = stub::process_with(&environment, "supervise");
    let second_state = environment.path("second");
    let mut second = environment
        .shim_with(&[("GROUNDING_STATE_DIR", second_state.as_os_str()), ("GROUNDING_ATTEMPT_WAIT_MS", "100".as_ref())]);

    stub::signal(supervisor, Signal::STOP);
    let since = Instant::now();
    stub::wait_until(since, Duration::from_secs(6));
    // Neither its own daemon nor another one takes the lock, by evaluation or by lookup.
    for shim in [&mut hurried, &mut second] {
        assert_eq!(attempt_of(&shim.answer("solution_evaluate", task(&repository))), attempt);
        let forced = json!({ "id": "task", "repoPath": repository.text(), "forceNewAttempt": true });
        assert_eq!(shim.answer("solution_evaluate", forced)["status"], "refused");
        assert_eq!(status(shim, &attempt)["status"], "running");
    }
    stub::release(&environment);
    stub::signal(supervisor, Signal::CONT);

    let result = settled(&mut hurried, &attempt);
    assert_eq!(result["outcomeClass"], "ready", "{result}");
    assert_eq!(kinds(&environment, &attempt), ["start", "terminal"]);
    assert_eq!(stub::runs(&environment).len(), 1);
    assert_eq!(settled(&mut second, &attempt)["verdict"], result["verdict"]);
    stop_daemon_in(&environment, &second_state);
}

#[test]
fn another_daemon_joins_and_gives_the_full_result() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let attempt = start(&environment, &mut stub::hurried(&environment), &repository);
    let second_state = environment.path("second");
    let mut second = environment
        .shim_with(&[("GROUNDING_STATE_DIR", second_state.as_os_str()), ("GROUNDING_PROGRESS_MS", "20".as_ref())]);
    let forced = json!({ "id": "task", "repoPath": repository.text(), "forceNewAttempt": true });
    let refused = second.answer("solution_evaluate", forced);
    assert_eq!((&refused["status"], &refused["attemptId"]), (&json!("refused"), &json!(attempt)), "{refused}");
    let call = stub::begin(&mut second, &repository);
    stub::release(&environment);
    let joined = stub::evaluated(&mut second, call);
    assert_eq!((&joined["status"], &joined["attemptId"]), (&json!("completed"), &json!(attempt)), "{joined}");
    assert_eq!(joined["diagnostics"]["complete"], true, "{joined}");
    assert_eq!(stub::runs(&environment).len(), 1);
    stop_daemon_in(&environment, &second_state);
}

fn stop_daemon_in(environment: &TestEnvironment, state: &std::path::Path) {
    let mut stop = environment.command(binaries::groundingctl());
    let output = stop.arg("stop").env("GROUNDING_STATE_DIR", state).output().expect("groundingctl starts");
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn a_live_attempt_is_joined_for_its_own_repository_and_id_alone() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let other = environment.repository("other");
    std::os::unix::fs::symlink(repository.path(), environment.path("link")).expect("a symlink");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let evaluate =
        |shim: &mut Shim, id: &str, path: &str| shim.answer("solution_evaluate", json!({ "id": id, "repoPath": path }));
    let attempt = attempt_of(&evaluate(&mut hurried, "a/b", repository.text()));
    for path in ["repo/", "other/../repo", "link"] {
        let joined = evaluate(&mut hurried, "a/b", path);
        assert_eq!((&joined["status"], &joined["attemptId"]), (&json!("running"), &json!(attempt)), "{path}: {joined}");
    }
    let refused = evaluate(&mut hurried, "a/b", other.text());
    assert_eq!((&refused["status"], &refused["id"]), (&json!("refused"), &json!("a/b")), "{refused}");
    assert!(refused["error"].as_str().is_some_and(|error| error.contains(repository.text())), "{refused}");
    let refused = evaluate(&mut hurried, "a_b", repository.text());
    assert_eq!((&refused["status"], &refused["id"]), (&json!("refused"), &json!("a_b")), "{refused}");
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("a/b")), "{refused}");
    assert_eq!(keys(&refused), ["attemptId", "error", "id", "status"].into());
    // The records of the other id are no attempts of this one.
    let lookup = json!({ "id": "a_b", "attemptId": attempt });
    assert_eq!(hurried.answer("solution_evaluate_status", lookup)["status"], "unknown");
    stub::release(&environment);
}

#[test]
fn a_caller_is_answered_in_time_even_when_git_is_slow() {
    let mut environment = stub::environment();
    let path = environment.environment().get("PATH").expect("PATH is set").to_owned();
    let git = "case \"$*\" in *rev-parse*) while [ -e \"$HOME/slow\" ]; do sleep 0.02; done;; esac\n\
        PATH=${PATH#*:} exec git \"$@\"";
    let slow = environment.script("slow-git/git", git);
    let mut first = vec![slow.parent().expect("a directory").to_path_buf()];
    first.extend(std::env::split_paths(&path));
    environment.set("PATH", std::env::join_paths(first).expect("directories"));
    let repository = environment.repository("repo");
    environment.write("slow", "");
    let mut hurried = stub::hurried(&environment);
    let _ = hurried.answer("ledger_status", json!({}));

    let since = Instant::now();
    let first = hurried.answer("solution_evaluate", task(&repository));
    let second = hurried.answer("solution_evaluate", task(&repository));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    for answer in [&first, &second] {
        assert_eq!(answer["status"], "running-unconfirmed", "{answer}");
        assert_eq!(keys(answer), ["id", "pollAfterMs", "status"].into());
    }
    let status = hurried.answer("solution_evaluate_status", json!({ "id": "task" }));
    assert_eq!(status, json!({ "status": "running-unconfirmed", "id": "task", "pollAfterMs": 5000 }));
    std::fs::remove_file(environment.path("slow")).expect("git was slow");
    let evaluated = environment.shim().answer("solution_evaluate", task(&repository));
    assert_eq!(evaluated["status"], "completed", "{evaluated}");
    assert_eq!(stub::runs(&environment).len(), 1, "nobody starts again what was started");
}

#[test]
fn a_cancelled_attempt_fails_with_that_error() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = start(&environment, &mut hurried, &repository);
    let cancelled = environment.groundingctl(&["attempt", "cancel", &attempt]);
    assert!(cancelled.status.success(), "{}", shown(&cancelled));
    let result = settled(&mut hurried, &attempt);
    assert_eq!((&result["status"], &result["error"]), (&json!("failed"), &json!("cancelled")), "{result}");
    assert_eq!((&result["outcomeClass"], &result["markerPresent"]), (&json!("error"), &json!(false)), "{result}");
    stub::wait_until_gone(stub::runs(&environment)[0]);
    for attempt in [attempt.as_str(), "nope"] {
        let refused = environment.groundingctl(&["attempt", "cancel", attempt]);
        assert!(!refused.status.success() && !refused.stderr.is_empty(), "{}", shown(&refused));
    }
}

#[test]
fn attempts_are_listed_shown_and_their_logs_followed() {
    let environment = stub::environment();
    environment.write("stub/say", b"first \xff line\n");
    environment.write("stub/then", "echo second line >&2");
    let repository = environment.repository("repo");
    stub::hold(&environment);
    let mut hurried = stub::hurried(&environment);
    let attempt = start(&environment, &mut hurried, &repository);

    let mut follow = environment.command(binaries::groundingctl());
    let follow = follow.args(["attempt", "log", &attempt]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let follow = follow.expect("groundingctl starts");
    let rows: Value = serde_json::from_slice(&environment.groundingctl(&["attempts", "--json"]).stdout).expect("rows");
    assert_eq!((&rows[0]["attemptId"], &rows[0]["status"]), (&json!(attempt), &json!("running")), "{rows}");
    assert_eq!((&rows[0]["repoPath"], &rows[0]["head"]), (&json!(repository.text()), &json!(repository.head())));
    stub::release(&environment);
    let followed = follow.wait_with_output().expect("it ends with the attempt");
    assert!(followed.status.success(), "{}", shown(&followed));
    assert_eq!(followed.stdout, b"first \xff line\nsecond line\n", "{}", shown(&followed));

    let show = environment.groundingctl(&["attempt", "show", &attempt, "--json"]);
    let row: Value = serde_json::from_slice(&show.stdout).expect("a row");
    assert_eq!((&row["status"], &row["outcomeClass"]), (&json!("completed"), &json!("ready")), "{row}");
    let listed = environment.groundingctl(&["attempts"]);
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    assert!(listed.contains(&attempt) && listed.contains("completed"), "{listed}");
    let unknown = environment.groundingctl(&["attempt", "show", "nope"]);
    assert!(!unknown.status.success(), "{}", shown(&unknown));
}

#[test]
fn lookups_have_exactly_the_keys_of_their_status() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut hurried = stub::hurried(&environment);
    let mut look = |arguments: Value| {
        let mut answer = |tool| hurried.answer(tool, arguments.clone());
        (answer("solution_evaluate_status"), answer("solution_evaluate_result"))
    };
    let both = |(status, result): (Value, Value), expected: Value| {
        assert_eq!((&status, &result), (&expected, &expected));
    };
    both(look(json!({ "id": "task" })), json!({ "status": "unknown", "id": "task" }));
    let named = json!({ "id": "task", "attemptId": "../x" });
    both(look(named), json!({ "status": "unknown", "id": "task", "attemptId": "../x" }));
    let (status, result) = look(json!({ "id": ".." }));
    for answer in [status, result] {
        assert_eq!(keys(&answer), ["error", "id", "status"].into(), "{answer}");
    }
    assert!(!environment.path(stub::VERDICTS).exists(), "a lookup created something");

    stub::make_directory(&stub::file(&environment, ".attempt-lock.lock"));
    both(look(json!({ "id": "task" })), json!({ "status": "running-unconfirmed", "id": "task", "pollAfterMs": 5000 }));
    assert_eq!(stub::files_below(&environment.path(stub::VERDICTS)), Vec::<std::path::PathBuf>::new());
    std::fs::remove_dir(stub::file(&environment, ".attempt-lock.lock")).expect("it is empty");

    stub::hold(&environment);
    let attempt = start(&environment, &mut stub::hurried(&environment), &repository);
    let found = ["attemptId", "head", "id", "isLatestForId", "lastUpdatedAt", "startedAt", "status"];
    let (status, result) = look(json!({ "id": "task" }));
    assert_eq!(keys(&status), found.into_iter().chain(["pollAfterMs"]).collect(), "{status}");
    let expected = json!({
        "status": "running", "id": "task", "attemptId": attempt, "isLatestForId": true, "pollAfterMs": 5000
    });
    assert_eq!(result, expected);
    stub::release(&environment);
    let mut shim = environment.shim();
    settled(&mut shim, &attempt);
    let (status, result) = look(json!({ "id": "task" }));
    assert_eq!((keys(&status), &status["head"]), (found.into(), &json!(repository.head())), "{status}");
    let settled_keys = ["attemptId", "id", "isLatestForId", "markerPresent", "outcomeClass", "status", "summary"];
    let latest = ["diagnostics", "markerPath", "verdict"];
    assert_eq!(keys(&result), settled_keys.into_iter().chain(latest).collect(), "{result}");

    // No longer the latest: counts, and no more.
    environment.write("stub/code", "2");
    let failed = shim.answer("solution_evaluate", task(&repository));
    let (_, result) = look(json!({ "id": "task", "attemptId": attempt }));
    assert_eq!(keys(&result), settled_keys.into(), "{result}");
    assert_eq!((&result["markerPresent"], &result["isLatestForId"]), (&json!(false), &json!(false)), "{result}");
    let (status, result) = look(json!({ "id": "task" }));
    assert_eq!((&status["status"], &status["attemptId"]), (&json!("failed"), &failed["attemptId"]));
    assert_eq!(keys(&result), settled_keys.into_iter().chain(latest).chain(["error"]).collect(), "{result}");
    assert_eq!((&result["verdict"], &result["markerPath"]), (&Value::Null, &Value::Null));
}

#[test]
fn old_attempts_expire_and_unknown_ones_stay_unknown() {
    let mut environment = stub::environment();
    // A hundred times the poll time is the least.
    environment.set("GROUNDING_ATTEMPT_RETENTION_MS", "1");
    environment.set("GROUNDING_ATTEMPT_POLL_MS", "20");
    environment.set("GROUNDING_PREFLIGHT_TIMEOUT_MS", "20000");
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let first = attempt_of(&shim.answer("solution_evaluate", task(&repository)));
    stub::hold(&environment);
    let lost = start(&environment, &mut stub::hurried(&environment), &repository);
    process::kill(stub::process_with(&environment, "supervise"));
    stub::release(&environment);
    assert_eq!(settled(&mut shim, &lost)["status"], "unknown");
    assert_eq!(status(&mut shim, &first)["status"], "completed");
    let result_files = |attempt: &str| {
        let name = |extension: &str| environment.path(&format!("{}/results/{attempt}.{extension}", stub::VERDICTS));
        [name("json").exists(), name("log").exists()]
    };
    assert_eq!((result_files(&first), result_files(&lost)), ([true, true], [false, true]));

    stub::wait_until(Instant::now(), Duration::from_millis(2050));
    let last = attempt_of(&shim.answer("solution_evaluate", task(&repository)));
    let expired = status(&mut shim, &first);
    let expected_keys = ["attemptId", "head", "id", "isLatestForId", "lastUpdatedAt", "status"];
    assert_eq!(keys(&expired), expected_keys.into(), "{expired}");
    assert_eq!((&expired["status"], &expired["head"]), (&json!("expired"), &Value::Null), "{expired}");
    let result = settled(&mut shim, &first);
    let expected = json!({
        "status": "expired", "id": "task", "attemptId": first, "isLatestForId": false, "markerPresent": true,
        "outcomeClass": "ready"
    });
    assert_eq!(result, expected);
    let unknown = settled(&mut shim, &lost);
    assert_eq!((&unknown["status"], &unknown["outcomeClass"]), (&json!("unknown"), &json!("unknown")), "{unknown}");
    assert_eq!((result_files(&first), result_files(&lost)), ([false; 2], [false; 2]));
    assert_eq!(result_files(&last), [true, true]);
    assert_eq!(kinds(&environment, &first), ["tombstone"]);
}

#[test]
fn an_attempt_whose_result_can_not_be_kept_fails_and_says_so() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let results = environment.path(&format!("{}/results", stub::VERDICTS));
    // Gone between the start of preflight and its end.
    environment.write("stub/then", format!("rm -r '{0}'; echo in the way > '{0}'", results.display()));
    let mut shim = environment.shim();
    let evaluated = shim.answer("solution_evaluate", task(&repository));
    assert_eq!(evaluated["status"], "failed", "{evaluated}");
    assert!(evaluated["error"].as_str().is_some_and(|error| error.contains("results")), "{evaluated}");
    let found = shim.answer("solution_evaluate_status", json!({ "id": "task" }));
    assert_eq!(found["status"], "failed", "{found}");
    let gate = shim.answer("solution_gate", task(&repository));
    assert_eq!(gate["code"], "no_verdict", "{gate}");
}

#[test]
fn the_environment_of_a_client_reaches_its_preflight_and_no_file() {
    const MARK: &str = "5ecret-0f-the-c11ent";
    let mut environment = stub::environment();
    environment.set("GROUNDING_LOG", "trace");
    let repository = environment.repository("repo");
    environment.write("stub/then", "[ \"$TOKEN\" = 5ecret-0f-the-c11ent ] || exit 7");
    let mut shim = environment.shim_with(&[("TOKEN", MARK.as_ref()), ("GROUNDING_ATTEMPT_WAIT_MS", "100".as_ref())]);
    stub::hold(&environment);
    let attempt = start(&environment, &mut shim, &repository);
    let holders = || {
        let directories = [environment.path(".local"), environment.path(".harness"), environment.path("repo")];
        let files = directories.iter().flat_map(|directory| stub::files_below(directory));
        let holds = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes())
        };
        files.filter(holds).collect::<Vec<_>>()
    };
    assert_eq!(holders(), Vec::<std::path::PathBuf>::new());
    stub::release(&environment);
    assert_eq!(settled(&mut shim, &attempt)["outcomeClass"], "ready");
    assert_eq!(holders(), Vec::<std::path::PathBuf>::new());
    assert!(environment.path(".local/state/agent-grounding/log").exists());
}
