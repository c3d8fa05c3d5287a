//! Section K: what a search may say when it did not look everywhere.

use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use grounding_tests::TestEnvironment;

/// 127, anthropics/claude-code#80103, #84161, #87245 (and R16): a search passed over ignored, hidden and binary files and
/// said "none"; a quarter of the runs concluded that what was there was absent.
#[test]
fn what_stands_in_a_file_that_others_skip_is_never_called_absent() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    repository.write(".gitignore", "ignored/\n*.log\n");
    let big = [vec![b'x'; 12 * 1024 * 1024], b"\nfn in_a_huge_file() {}\n".to_vec()].concat();
    for (file, content) in [
        ("ignored/a.rs", b"fn in_an_ignored_directory() {}\n".to_vec()),
        ("a.log", b"in_an_ignored_file\n".to_vec()),
        (".hidden/.a.rs", b"fn in_a_hidden_file() {}\n".to_vec()),
        ("nul.rs", b"\0\0\nfn in_a_file_with_nul() {}\n\0".to_vec()),
        ("huge.rs", big),
        ("a.unheard-of", b"in_an_unlisted_extension\n".to_vec()),
        ("Extensionless", b"in_a_file_without_extension\n".to_vec()),
        ("a.c", b"int in_a_c_file(void);\n".to_vec()),
        ("latin.txt", b"caf\xe9 in_a_latin_1_file\n".to_vec()),
        ("minified.js", [vec![b' '; 3_000_000], b"in_a_line_of_megabytes".to_vec(), vec![b' '; 3_000_000]].concat()),
    ] {
        environment.write(&format!("repo/{file}"), content);
    }
    let mut shim = environment.shim();
    let mut look = |kind: &str, value: &str| {
        shim.answer("verify_memory_reference", json!({ "kind": kind, "value": value, "repoRoot": repository.text() }))
    };
    for symbol in [
        "in_an_ignored_directory",
        "in_an_ignored_file",
        "in_a_hidden_file",
        "in_a_file_with_nul",
        "in_a_huge_file",
        "in_an_unlisted_extension",
        "in_a_file_without_extension",
        "in_a_c_file",
        "in_a_latin_1_file",
        "in_a_line_of_megabytes",
    ] {
        let answer = look("symbol", symbol);
        assert!(answer["exists"] == true && answer["matchCount"] == 1, "{symbol}: {answer}");
    }
    let absent = look("symbol", "in_no_file_at_all");
    assert_eq!((&absent["exists"], &absent["verdict"]), (&json!(false), &json!("absent")), "{absent}");
}

/// 128, MemPalace/mempalace#2221, cajasmota/grafel#6416, FerroxLabs/wayland-core#381: a pipe with the extension of a
/// source file blocked the walker for ever, and any client of the daemon could have it so.
#[test]
fn a_fifo_with_a_source_extension_blocks_nobody() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    std::fs::create_dir(repository.path().join("src")).expect("a directory");
    let node = |name: &str, kind: FileType, device: u64| {
        mknodat(CWD, repository.path().join(name), kind, Mode::RUSR | Mode::WUSR, device)
    };
    node("src/a.rs", FileType::Fifo, 0).expect("a pipe");
    node(".gitignore", FileType::Fifo, 0).expect("a pipe");
    // Only root may make devices; without it the pipes stand for all.
    let _ = node("src/zero.rs", FileType::CharacterDevice, rustix::fs::makedev(1, 5));
    let socket = std::os::unix::net::UnixListener::bind(repository.path().join("src/socket.rs")).expect("a socket");
    std::os::unix::fs::symlink("/proc/self/mem", repository.path().join("src/mem.rs")).expect("a link");
    std::os::unix::fs::symlink("/dev/zero", repository.path().join("src/link.rs")).expect("a link");
    std::os::unix::fs::symlink(".", repository.path().join("src/loop")).expect("a link");
    repository.write("src/b.rs", "fn found_beside_pipes() {}\n");

    let mut shim = environment.shim();
    let since = Instant::now();
    let mut look = |kind: &str, value: &str| -> Value {
        shim.answer("verify_memory_reference", json!({ "kind": kind, "value": value, "repoRoot": repository.text() }))
    };
    assert_eq!(look("symbol", "found_beside_pipes")["exists"], true);
    let unknown = look("symbol", "found_nowhere");
    assert_eq!((&unknown["exists"], &unknown["verdict"]), (&json!(false), &json!("unknown")), "{unknown}");
    assert_eq!(look("path", "src/a.rs:3")["exists"], false);
    assert_eq!(look("path", "src/link.rs")["exists"], false, "it leads out of the repository");
    assert_eq!(look("path", "src/loop/loop/b.rs")["exists"], true);
    // Less than the scan's own deadline: nothing was waited for.
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    drop(socket);
}

/// U48 of the original (0.2.1, #38): an empty symbol matched everywhere with no width, for ever.
#[test]
fn a_symbol_of_no_width_ends_at_once() {
    let environment = TestEnvironment::new();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let since = Instant::now();
    for kind in ["symbol", "flag"] {
        let call = |value: &str| json!({ "kind": kind, "value": value, "repoRoot": repository.text() });
        let _ = shim.refusal("verify_memory_reference", call(""));
        for value in ["()", " ", "\t", "\u{200b}", "::", "-", "--", "\n", "$^", ".*", "\\b"] {
            let result = shim.call("verify_memory_reference", call(value));
            let found = result.structured.as_ref().is_some_and(|answer| answer["exists"] == true);
            assert!(!found, "{kind} {value:?}: {}", result.text);
        }
    }
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
}
