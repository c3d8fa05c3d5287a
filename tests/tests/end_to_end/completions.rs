//! `groundingctl completions` and `man`: what is generated is accepted by what reads it.

use std::process::{Output, Stdio};

use grounding_tests::environment::shown;
use grounding_tests::{TestEnvironment, process};

/// Shells that check a script without running it; one that is not installed checks nothing.
const SHELLS: [(&str, &[&str]); 3] = [("bash", &["-n"]), ("zsh", &["-n"]), ("fish", &["--no-execute"])];

/// Runs a program that may not be installed.
fn run(environment: &TestEnvironment, program: &str, arguments: &[&str]) -> Option<Output> {
    environment.command(program).args(arguments).stdin(Stdio::null()).output().ok()
}

#[test]
fn completions_are_accepted_by_their_shells() {
    let environment = TestEnvironment::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = environment.groundingctl(&["completions", shell]);
        assert!(output.status.success(), "{}", shown(&output));
        let script = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(script.contains("groundingctl") && script.contains("socket-path"), "{shell}");
        environment.write(&format!("completions/{shell}"), script);
    }
    let mut checked = 0;
    for (shell, arguments) in SHELLS {
        let script = environment.path(&format!("completions/{shell}"));
        let arguments = [arguments, &[script.to_str().expect("UTF-8")]].concat();
        if let Some(output) = run(&environment, shell, &arguments) {
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {}", shown(&output));
            checked += 1;
        }
    }
    assert!(checked > 0, "bash at least is on every system this is tested on");
}

#[test]
fn bash_completes_verbs_and_their_options() {
    let environment = TestEnvironment::new();
    let script = environment.groundingctl(&["completions", "bash"]);
    environment.write("completions", script.stdout);
    let complete = |words: &str, position: u32| {
        let line = format!(
            "source ~/completions; COMP_WORDS=({words}); COMP_CWORD={position}; \
             _groundingctl groundingctl \"${{COMP_WORDS[{position}]}}\" \"\"; echo \"${{COMPREPLY[@]}}\""
        );
        let output = run(&environment, "bash", &["-c", &line]).expect("bash runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", shown(&output));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    assert_eq!(complete("groundingctl led", 1), "ledger");
    assert_eq!(complete("groundingctl session sh", 2), "show");
    assert_eq!(complete("groundingctl ledger list --ty", 3), "--type");
    assert_eq!(complete("groundingctl completions z", 2), "zsh");
}

#[test]
fn there_is_a_manual_page_per_command_and_they_render_without_warnings() {
    let environment = TestEnvironment::new();
    let output = environment.groundingctl(&["man", "--dir", environment.path("man/man1").to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", shown(&output));
    let pages: Vec<_> = std::fs::read_dir(environment.path("man/man1"))
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    for page in ["groundingctl.1", "groundingctl-status.1", "groundingctl-attempt-show.1", "groundingctl-ledger-add.1"]
    {
        assert!(pages.iter().any(|it| it == page), "{page}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    let one = environment.groundingctl(&["man"]);
    assert_eq!(String::from_utf8_lossy(&one.stdout), environment.read("man/man1/groundingctl.1"));

    for page in pages {
        let path = environment.path(&format!("man/man1/{page}"));
        let path = path.to_str().expect("UTF-8");
        if let Some(output) = run(&environment, "man", &["--warnings", "-l", path]) {
            assert!(output.status.success() && output.stderr.is_empty(), "{page}: {}", shown(&output));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("NAME") && text.contains("SYNOPSIS"), "{page}: {text}");
        }
        if let Some(output) = run(&environment, "mandoc", &["-T", "lint", "-W", "error", path]) {
            assert!(output.status.success(), "{page}: {}", shown(&output));
        }
    }
}

#[test]
fn a_manual_that_cannot_be_written_is_named() {
    let environment = TestEnvironment::new();
    environment.write("file", "");
    let output = environment.groundingctl(&["man", "--dir", environment.path("file/man").to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(4), "{}", shown(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file/man"), "{}", shown(&output));
    // Nothing runs here: the verbs need no daemon.
    assert_eq!(process::processes_of(environment.home()), []);
}
