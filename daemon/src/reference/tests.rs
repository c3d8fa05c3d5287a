//! Memory references over real trees: files, links, pipes and repositories in temporary directories.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use grounding_proto::environment::Environment;
use grounding_proto::reference::{ReferenceAnswer, ReferenceKind, ReferenceVerdict, VerifyMemoryReference};
use serde_json::{Value, json};

use super::verify;
use crate::process::{self, ClientEnvironment};

use ReferenceKind::{Flag, Path as PathKind, Symbol};
use ReferenceVerdict::{Absent, Present, Unknown};

/// A directory with a tree to look in, and room beside it.
struct Tree {
    directory: tempfile::TempDir,
    root: PathBuf,
}

impl Tree {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap().join("repo");
        std::fs::create_dir(&root).unwrap();
        Self { directory, root }
    }

    async fn repository() -> Self {
        let tree = Self::new();
        tree.git(&["init", "-q"]).await;
        tree
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn at(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    async fn git(&self, arguments: &[&str]) {
        git_in(&self.root, arguments).await;
    }

    async fn ask(&self, kind: ReferenceKind, value: &str) -> ReferenceAnswer {
        ask_in(&self.root, kind, value, None).await
    }
}

async fn git_in(directory: &Path, arguments: &[&str]) {
    let client = ClientEnvironment::new([
        ("PATH".into(), Environment::of_process().get("PATH").unwrap().to_owned()),
        ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
    ]);
    let mut command = process::command(&client.find_program("git").unwrap(), &client, directory);
    let name = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"];
    command.args(name).args(arguments);
    let output = process::run(command, Duration::from_secs(60), 10_000).await.unwrap();
    assert_eq!(output.code, Some(0), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn ask_in(root: &Path, kind: ReferenceKind, value: &str, deadline_ms: Option<u64>) -> ReferenceAnswer {
    let repo_root = Some(root.to_str().unwrap().to_owned());
    verify(Path::new("/"), VerifyMemoryReference { kind, value: value.to_owned(), repo_root, deadline_ms }).await
}

#[track_caller]
fn check(answer: &ReferenceAnswer, verdict: ReferenceVerdict, found_in: &[&str], count: u64) {
    assert_eq!(answer.verdict, verdict, "{answer:#?}");
    assert_eq!(
        (answer.found_in.iter().map(String::as_str).collect::<Vec<_>>(), answer.match_count),
        (found_in.to_vec(), count),
        "{answer:#?}"
    );
    assert_eq!(answer.exists, verdict == Present, "{answer:#?}");
}

#[tokio::test]
async fn recorded_answers() {
    let tree = Tree::new();
    tree.write("a.ts", "export function alpha() {}\nrun('--force')\n");
    let fixtures: Value = serde_json::from_str(include_str!("../../../tests/fixtures/answers.json")).unwrap();
    let cases = fixtures["cases"].as_array().unwrap();
    let mut run = 0;
    for case in cases.iter().filter(|case| case["tool"] == "verify_memory_reference" && case["isError"] == false) {
        let directory = tree.directory.path().canonicalize().unwrap();
        let filled: Value =
            serde_json::from_str(&case.to_string().replace("<dir>", directory.to_str().unwrap())).unwrap();
        let arguments = serde_json::from_value(filled["arguments"].clone()).unwrap();
        let answer = serde_json::to_value(verify(Path::new("/"), arguments).await).unwrap();
        for (key, expected) in filled["answer"].as_object().unwrap() {
            match expected.as_str() {
                Some("<text>") => assert!(answer[key].as_str().is_some_and(|text| !text.is_empty()), "{case} {answer}"),
                Some("<time>") => {
                    let time = answer[key].as_str().unwrap();
                    assert!(
                        time.len() == 24 && time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(),
                        "{time}"
                    );
                }
                _ => assert_eq!(&answer[key], expected, "{key} of {case} in {answer}"),
            }
        }
        assert_eq!(answer.get("lastModified").is_some(), filled["answer"].get("lastModified").is_some(), "{answer}");
        run += 1;
    }
    assert_eq!(run, 6);
}

#[tokio::test]
async fn every_text_file_is_searched_whatever_its_name() {
    let tree = Tree::repository().await;
    let mut expected = Vec::new();
    for name in ["a.c", "b.rb", "c.unheardof", "Makefile", ".hidden", ".config/deep/x", "sub/.ignore.txt", "build"] {
        expected.push(tree.write(name, "x alpha y\n"));
    }
    // Only git's own ignore rules count.
    tree.write(".ignore", "*.c\n");
    tree.write(".rgignore", "*.rb\n");
    expected.sort();
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Present, &expected.iter().map(String::as_str).collect::<Vec<_>>(), 8);
    assert!(answer.coverage.unwrap().complete && answer.ignored.is_none());
}

#[tokio::test]
async fn all_occurrences_count() {
    let tree = Tree::new();
    let unix = tree.write("a", "alpha alpha\nalphas\nalpha");
    let dos = tree.write("b", "x\r\nalpha, alpha\r\n\r\n(alpha)\r\n");
    let latin = tree.write("c", b"\xe9alpha\xff \x80 alpha\n");
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Present, &[&unix, &dos, &latin], 8);
    let lines: Vec<_> =
        answer.matches.iter().map(|found| (found.file.as_str(), found.line, found.text.as_str())).collect();
    assert_eq!(
        lines[..4],
        [(&*unix, 1, "alpha alpha"), (&*unix, 3, "alpha"), (&*dos, 2, "alpha, alpha"), (&*dos, 4, "(alpha)")]
    );
}

#[tokio::test]
async fn definitions_come_first() {
    let tree = Tree::new();
    for number in 0..30 {
        tree.write(&format!("a{number:02}.rs"), "alpha();\n");
    }
    let defined = tree.write("z.rs", "// of alpha\n\nfn alpha() {}\n");
    let answer = tree.ask(Symbol, "alpha").await;
    assert_eq!((answer.match_count, answer.found_in.len(), answer.matches.len()), (32, 31, 20));
    let first = &answer.matches[0];
    assert_eq!((first.file.as_str(), first.line, first.definition), (defined.as_str(), 3, Some(true)));
    assert_eq!((answer.matches[1].definition, answer.truncated), (Some(false), false));
    assert!(answer.summary.contains(&format!("definition at {defined}:3")), "{}", answer.summary);
}

#[tokio::test]
async fn found_in_is_bounded_and_sorted() {
    let tree = Tree::new();
    for number in 0..250 {
        tree.write(&format!("{number:03}"), "alpha");
    }
    let answer = tree.ask(Symbol, "alpha").await;
    let expected: Vec<_> = (0..200).map(|number| tree.at(&format!("{number:03}"))).collect();
    assert_eq!((answer.found_in, answer.match_count, answer.truncated), (expected, 250, true));
}

#[tokio::test]
async fn utf16_is_text() {
    let tree = Tree::new();
    let encode = |mark: u16, swap: bool| {
        let units = std::iter::once(mark).chain("x\nfn größe() {}\n".encode_utf16());
        units.flat_map(|unit| if swap { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect::<Vec<u8>>()
    };
    let big = tree.write("be", encode(0xfeff, true));
    let little = tree.write("le", encode(0xfeff, false));
    let marked = tree.write("utf8", "\u{feff}größe");
    let answer = tree.ask(Symbol, "größe").await;
    check(&answer, Present, &[&big, &little, &marked], 3);
    assert_eq!((answer.matches[0].line, answer.matches[0].text.as_str()), (2, "fn größe() {}"));
}

#[tokio::test]
async fn ignored_files_are_the_second_pass() {
    let tree = Tree::repository().await;
    tree.write(".gitignore", "*.log\n/private/\nnode_modules\n");
    let log = tree.write("a.log", "alpha beta\n");
    let private = tree.write("private/deep/x", "alpha\n");
    tree.write("node_modules/m/i.js", "alpha gamma\n");
    let code = tree.write("code", "beta\n");
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Present, &[&log, &private], 2);
    assert_eq!(answer.ignored, Some(true));
    // A hit in the first pass is the answer.
    let answer = tree.ask(Symbol, "beta").await;
    check(&answer, Present, &[&code], 1);
    assert_eq!(answer.ignored, None);
    // Dependencies are named, and leave the answer certain.
    let answer = tree.ask(Symbol, "gamma").await;
    check(&answer, Absent, &[], 0);
    let coverage = answer.coverage.unwrap();
    assert_eq!((coverage.skipped.dependency_dirs, coverage.complete, coverage.files_scanned), (1, true, 4));
    assert!(answer.summary.contains("node_modules"), "{}", answer.summary);
}

#[tokio::test]
async fn files_with_nul_bytes_are_searched_as_bytes() {
    let tree = Tree::repository().await;
    let binary = tree.write("b.bin", b"\0\0beta\0alpha\0\n");
    let late = tree.write("late.bin", [b"alpha\n".as_slice(), &vec![b'x'; 300_000], b"\0"].concat());
    let text = tree.write("text", "beta\n");
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Present, &[&binary, &late], 2);
    // NUL ends no line.
    let first = &answer.matches[0];
    assert_eq!((first.line, first.text.as_str()), (1, "alpha"));
    assert_eq!(answer.ignored, None);
    let answer = tree.ask(Symbol, "beta").await;
    check(&answer, Present, &[&text], 1);
    let coverage = answer.coverage.unwrap();
    assert_eq!((coverage.skipped.binary, coverage.complete), (2, false));
    let answer = tree.ask(Symbol, "gamma").await;
    check(&answer, Absent, &[], 0);
    let coverage = answer.coverage.unwrap();
    assert_eq!((coverage.skipped.binary, coverage.files_scanned), (0, 3));
}

#[tokio::test]
async fn tracked_files_are_scanned_wherever_they_are() {
    for format in [
        &["update-index", "--index-version=2"][..],
        &["update-index", "--index-version=4"],
        &["update-index", "--split-index"],
    ] {
        let tree = Tree::repository().await;
        tree.write(".gitignore", "*.log\nvendor/\n");
        let names = ["dist/a.js", "packages/p/build/deep/b.js", "vendor/v/c.go", "kept.log", "ordinary"];
        let mut expected: Vec<_> = names.iter().map(|name| tree.write(name, "alpha\n")).collect();
        tree.git(&["add", "-f", "."]).await;
        tree.git(format).await;
        for name in ["dist/untracked.js", "target/x", "other.log", "packages/p/build/u"] {
            tree.write(name, "alpha untracked_only\n");
        }
        expected.sort();
        let answer = tree.ask(Symbol, "alpha").await;
        check(&answer, Present, &expected.iter().map(String::as_str).collect::<Vec<_>>(), 5);
        assert_eq!((answer.ignored, answer.coverage.unwrap().skipped.dependency_dirs), (None, 1));
        // From a directory below the top, and through a link to the root.
        let below = ask_in(&tree.root.join("packages"), Symbol, "alpha", None).await;
        check(&below, Present, &[&tree.at("packages/p/build/deep/b.js")], 1);
        let link = tree.directory.path().canonicalize().unwrap().join("link");
        symlink(&tree.root, &link).unwrap();
        let linked = ask_in(&link, Symbol, "alpha", None).await;
        assert_eq!((linked.match_count, linked.found_in[0].as_str()), (5, link.join("dist/a.js").to_str().unwrap()));
        // What is only in untracked build output is left out; the ignored log is not.
        let answer = tree.ask(Symbol, "untracked_only").await;
        check(&answer, Present, &[&tree.at("other.log")], 1);
        assert_eq!(answer.ignored, Some(true));
    }
}

#[tokio::test]
async fn work_trees_submodules_and_nested_repositories_know_what_they_track() {
    let inner = Tree::repository().await;
    inner.write("dist/x.js", "alpha\n");
    inner.git(&["add", "-f", "."]).await;
    inner.git(&["commit", "-qm", "m"]).await;
    let tree = Tree::repository().await;
    tree.git(&["submodule", "--quiet", "add", inner.root.to_str().unwrap(), "vendor/inner"]).await;
    tree.write("build/y", "alpha\n");
    tree.git(&["add", "-f", "."]).await;
    tree.git(&["commit", "-qm", "m"]).await;
    tree.git(&["worktree", "add", "-q", "../side"]).await;
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Present, &[&tree.at("build/y"), &tree.at("vendor/inner/dist/x.js")], 2);
    let side = tree.root.with_file_name("side");
    let answer = ask_in(&side, Symbol, "alpha", None).await;
    check(&answer, Present, &[side.join("build/y").to_str().unwrap()], 1);
    // Outside a repository, those below it still count, and fewer names are left out.
    let outside = Tree::new();
    git_in(&outside.root, &["clone", "-q", inner.root.to_str().unwrap(), "clone"]).await;
    outside.write("dist/z", "alpha\n");
    outside.write("target/z", "alpha\n");
    std::fs::rename(outside.root.join("clone/dist"), outside.root.join("clone/target")).unwrap();
    git_in(&outside.root.join("clone"), &["add", "-f", "."]).await;
    let answer = outside.ask(Symbol, "alpha").await;
    check(&answer, Present, &[&outside.at("clone/target/x.js"), &outside.at("dist/z")], 2);
}

#[tokio::test]
async fn more_files_than_the_index_tells_are_searched_once() {
    let tree = Tree::repository().await;
    tree.write("dist/a", "alpha");
    tree.git(&["add", "-f", "."]).await;
    for number in 0..5000 {
        tree.write(&format!("{}/f{number}", number % 10), "alpha\n");
    }
    tree.write("9/binary", "\0alpha\0beta");
    let answer = tree.ask(Symbol, "alpha").await;
    let coverage = answer.coverage.unwrap();
    assert_eq!((answer.match_count, coverage.files_scanned, coverage.skipped.binary), (5001, 5001, 1));
    assert!(answer.truncated);
}

#[tokio::test]
async fn directories_that_git_tracks_in_part_are_named() {
    let tree = Tree::repository().await;
    tree.write("dist/tracked.js", "alpha\n");
    tree.write("vendor/whole/tracked.js", "alpha\n");
    tree.git(&["add", "-f", "."]).await;
    tree.write("dist/deep/other.js", "beta\n");
    tree.write("build/other.js", "beta\n");
    let answer = tree.ask(Symbol, "beta").await;
    check(&answer, Absent, &[], 0);
    assert_eq!(answer.coverage.unwrap().skipped.dependency_dirs, 2);
    assert!(answer.summary.contains("build output: build."), "{}", answer.summary);
    assert!(answer.summary.contains("tracks in them: dist."), "{}", answer.summary);
    let answer = tree.ask(PathKind, "other.js").await;
    check(&answer, Absent, &[], 0);
    assert!(answer.candidates.is_empty() && answer.summary.contains("build, dist, vendor"), "{}", answer.summary);
}

#[tokio::test]
async fn a_small_scan_does_not_wait_for_large_ones() {
    let large = Tree::new();
    for number in 0..64 {
        let sparse = std::fs::File::create(large.root.join(format!("sparse{number}"))).unwrap();
        sparse.set_len(1 << 30).unwrap();
    }
    let small = Tree::new();
    let text = small.write("a", "alpha");
    let scans: Vec<_> = (0..5)
        .map(|_| {
            let root = large.root.clone();
            tokio::spawn(async move { ask_in(&root, Symbol, "beta", Some(60_000)).await })
        })
        .collect();
    // Their turns come first.
    tokio::task::yield_now().await;
    check(&small.ask(Symbol, "alpha").await, Present, &[&text], 1);
    assert!(scans.iter().all(|scan| !scan.is_finished()));
    scans.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn sha256_repositories_are_read() {
    let tree = Tree::new();
    tree.git(&["init", "-q", "--object-format=sha256"]).await;
    let kept = tree.write("dist/a", "alpha");
    tree.git(&["add", "-f", "."]).await;
    check(&tree.ask(Symbol, "alpha").await, Present, &[&kept], 1);
}

#[tokio::test]
async fn a_broken_index_makes_absence_uncertain() {
    let tree = Tree::repository().await;
    tree.write("a", "beta");
    for index in [&b"DIRC\0\0\0\x02\xff\xff\xff\xff"[..], b"", b"DIRC\0\0\0\x09\0\0\0\0", &[0xff; 300]] {
        tree.write(".git/index", index);
        let answer = tree.ask(Symbol, "alpha").await;
        check(&answer, Unknown, &[], 0);
        assert!(answer.summary.contains("git tracks"), "{}", answer.summary);
    }
}

#[tokio::test]
async fn tracked_names_lead_through_no_link() {
    let tree = Tree::repository().await;
    tree.write("dist/secret", "alpha");
    tree.git(&["add", "-f", "."]).await;
    let outside = tree.directory.path().join("outside");
    std::fs::rename(tree.root.join("dist"), &outside).unwrap();
    symlink(&outside, tree.root.join("dist")).unwrap();
    check(&tree.ask(Symbol, "alpha").await, Absent, &[], 0);
    // Nor does a submodule's name.
    let other = Tree::repository().await;
    other.write("dist/secret", "alpha");
    other.git(&["add", "-f", "."]).await;
    let tree = Tree::repository().await;
    let commit = format!("160000,{:040x},module", 7);
    tree.git(&["update-index", "--add", "--cacheinfo", &commit]).await;
    symlink(&other.root, tree.root.join("module")).unwrap();
    check(&tree.ask(Symbol, "alpha").await, Absent, &[], 0);
}

#[tokio::test]
async fn links_are_not_followed_and_loops_end() {
    let tree = Tree::new();
    let outside = tree.directory.path().join("outside");
    std::fs::write(&outside, "alpha").unwrap();
    symlink(&outside, tree.root.join("file")).unwrap();
    symlink(tree.directory.path(), tree.root.join("up")).unwrap();
    symlink(".", tree.root.join("itself")).unwrap();
    symlink("b", tree.root.join("a")).unwrap();
    symlink("a", tree.root.join("b")).unwrap();
    check(&tree.ask(Symbol, "alpha").await, Absent, &[], 0);
}

#[tokio::test]
async fn pipes_and_sockets_never_hang_and_make_absence_uncertain() {
    let tree = Tree::new();
    let text = tree.write("a.rs", "alpha");
    let pipe = tree.root.join("pipe.rs");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(tree.root.join("s")).unwrap();
    check(&tree.ask(Symbol, "alpha").await, Present, &[&text], 1);
    let answer = tree.ask(Symbol, "beta").await;
    check(&answer, Unknown, &[], 0);
    assert_eq!(answer.coverage.unwrap().skipped.special, 2);
    assert!(answer.summary.contains(pipe.to_str().unwrap()), "{}", answer.summary);
    check(&tree.ask(PathKind, "pipe.rs").await, Present, &[pipe.to_str().unwrap()], 1);
    check(&tree.ask(PathKind, "pipe.rs:3").await, Unknown, &[], 0);
}

#[tokio::test]
async fn ignore_files_that_are_pipes_never_hang() {
    let tree = Tree::repository().await;
    let text = tree.write("sub/a.rs", "alpha");
    let pipe = |name: &str| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.root.join(name), mode).unwrap();
    };
    std::fs::remove_file(tree.root.join(".git/info/exclude")).unwrap();
    for name in ["sub/.gitignore", ".git/info/exclude", ".gitignore"] {
        pipe(name);
        check(&tree.ask(Symbol, "alpha").await, Present, &[&text], 1);
        check(&tree.ask(Symbol, "beta").await, Unknown, &[], 0);
    }
    assert_eq!(tree.ask(PathKind, "a.rs").await.candidates, [text]);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn trees_of_the_kernel_never_hang() {
    let started = Instant::now();
    for (root, uncertain) in [("/dev", true), ("/proc/self", true), ("/sys/kernel", false)] {
        let answer = ask_in(Path::new(root), Symbol, "nowhere_at_all", Some(2000)).await;
        assert!(answer.verdict == Unknown || !uncertain && answer.verdict == Absent, "{}", answer.summary);
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn a_growing_file_is_read_to_where_it_was() {
    let tree = Tree::new();
    tree.write("log", "alpha\n");
    let stop = AtomicBool::new(false);
    let mut log = std::fs::File::options().append(true).open(tree.root.join("log")).unwrap();
    let answers = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded, should the test fail to stop it.
            for _ in 0..4000 {
                log.write_all(&[b'x'; 64 * 1024]).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answers = runtime.block_on(async {
            (tree.ask(Symbol, "alpha").await, ask_in(&tree.root, Symbol, "beta", Some(60_000)).await)
        });
        stop.store(true, Ordering::Relaxed);
        answers
    });
    check(&answers.0, Present, &[&tree.at("log")], 1);
    check(&answers.1, Absent, &[], 0);
}

#[tokio::test]
async fn long_lines_are_searched_in_windows() {
    let tree = Tree::new();
    let mut text = b"first\n".to_vec();
    let mut expected = 0;
    while text.len() < 5 << 20 {
        let gap = 900 + text.len() % 7919;
        text.extend(std::iter::repeat_n(b'.', gap));
        text.extend_from_slice(b"alpha(xalpha,alphas)");
        expected += 1;
    }
    let long = tree.write("long.js", &text);
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Present, &[&long], expected);
    assert_eq!(answer.matches[0].line, 2);
    assert!(answer.matches.iter().all(|found| found.text.contains("alpha(") && found.text.chars().count() <= 200));
    // An identifier that fills windows, with the value at its edges, is one identifier.
    let wide = tree.write("wide", ["beta".repeat(600_000).as_bytes(), b" beta"].concat());
    check(&tree.ask(Symbol, "beta").await, Present, &[&wide], 1);
    check(&tree.ask(Symbol, "gamma").await, Absent, &[], 0);
    // Many thousand matches in one line take no longer than their number.
    let dense = tree.write("dense", "delta,".repeat(300_000));
    let short = tree.write("short", "delta,".repeat(150_000));
    let answer = tree.ask(Symbol, "delta").await;
    check(&answer, Present, &[&dense, &short], 450_000);
    assert!(!answer.truncated);
}

#[tokio::test]
async fn too_large_files_make_absence_uncertain() {
    let tree = Tree::new();
    std::fs::File::create(tree.root.join("huge")).unwrap().set_len(2 << 30).unwrap();
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Unknown, &[], 0);
    assert_eq!(answer.coverage.unwrap().skipped.too_large, 1);
    assert!(answer.summary.contains("huge"), "{}", answer.summary);
}

#[tokio::test]
async fn a_deadline_makes_absence_uncertain() {
    let tree = Tree::new();
    let text = tree.write("a", "alpha");
    for number in 0..8 {
        let sparse = std::fs::File::create(tree.root.join(format!("sparse{number}"))).unwrap();
        sparse.set_len(1 << 30).unwrap();
    }
    let started = Instant::now();
    let answer = ask_in(&tree.root, Symbol, "beta", Some(300)).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    check(&answer, Unknown, &[], 0);
    assert!(answer.truncated && !answer.coverage.unwrap().complete, "{}", answer.summary);
    assert!(answer.summary.contains("300 ms"), "{}", answer.summary);
    check(&tree.ask(Symbol, "alpha").await, Present, &[&text], 1);
}

#[tokio::test]
async fn unreadable_files_make_absence_uncertain() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let tree = Tree::new();
    // Deeper than a path can be long: unreadable for everyone, the superuser too.
    let name = "d".repeat(250);
    let mut directory = openat(CWD, &tree.root, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..20 {
        mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = openat(&directory, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let answer = tree.ask(Symbol, "alpha").await;
    check(&answer, Unknown, &[], 0);
    assert_eq!(answer.coverage.unwrap().skipped.unreadable, 1, "{}", answer.summary);
    assert!(answer.summary.contains(&name), "{}", answer.summary);
    // A path on the way to which nothing can be read is not absent either; for the superuser all can be.
    let locked = Tree::new();
    locked.write("locked/a", "alpha");
    std::fs::set_permissions(locked.root.join("locked"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let expected = if rustix::process::geteuid().is_root() { Present } else { Unknown };
    assert_eq!(locked.ask(Symbol, "alpha").await.verdict, expected);
    assert_eq!(locked.ask(PathKind, "locked/a").await.verdict, expected);
    std::fs::set_permissions(locked.root.join("locked"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn roots_that_cannot_be_read_are_unknown() {
    let tree = Tree::new();
    tree.write("file", "alpha");
    for kind in [PathKind, Symbol, Flag] {
        for root in ["absent", "file"] {
            let answer = ask_in(&tree.root.join(root), kind, "--alpha", None).await;
            check(&answer, Unknown, &[], 0);
            assert!(answer.summary.contains("can't be read"), "{}", answer.summary);
        }
    }
    for value in ["", "  ", "a\nb"] {
        check(&tree.ask(Symbol, value).await, Unknown, &[], 0);
        check(&tree.ask(Flag, value).await, Unknown, &[], 0);
    }
    check(&tree.ask(PathKind, "a\0b").await, Absent, &[], 0);
    check(&tree.ask(PathKind, &"x".repeat(4096)).await, Absent, &[], 0);
}

#[tokio::test]
async fn a_relative_root_is_the_clients() {
    let tree = Tree::new();
    let file = tree.write("sub/a", "alpha");
    for (cwd, root) in [("sub", None), ("", Some("sub")), ("sub", Some(".")), ("sub", Some("../sub/"))] {
        let ask = |kind, value: &str| {
            let repo_root = root.map(str::to_owned);
            let cwd = tree.root.join(cwd);
            let value = value.to_owned();
            async move { verify(&cwd, VerifyMemoryReference { kind, value, repo_root, deadline_ms: None }).await }
        };
        check(&ask(Symbol, "alpha").await, Present, &[&file], 1);
        check(&ask(PathKind, "a").await, Present, &[&file], 1);
        check(&ask(PathKind, "./a").await, Present, &[&file], 1);
    }
}

#[tokio::test]
async fn escapes_are_refused_and_tell_nothing() {
    let tree = Tree::new();
    let outside = tree.directory.path().canonicalize().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("there"), "alpha").unwrap();
    tree.write("dir/inside", "alpha");
    let link = |target: &Path, name: &str| symlink(target, tree.root.join(name)).unwrap();
    for end in ["there", "absent"] {
        link(&outside.join(end), &format!("absolute-{end}"));
        link(Path::new(&format!("../outside/{end}")), &format!("relative-{end}"));
        link(Path::new(&format!("absolute-{end}")), &format!("chain-{end}"));
        link(Path::new(&format!("dir/../chain-{end}")), &format!("longer-{end}"));
    }
    link(&outside, "dirlink");
    link(Path::new("/"), "slash");
    link(Path::new("dirlink"), "dirchain");
    let mut summaries = BTreeSet::new();
    for end in ["there", "absent"] {
        for value in [
            format!("../outside/{end}"),
            format!("dir/../../outside/{end}"),
            format!("dir/../../repo/../outside/{end}"),
            format!("absolute-{end}"),
            format!("relative-{end}"),
            format!("chain-{end}"),
            format!("longer-{end}"),
            format!("dirlink/{end}"),
            format!("dirchain/{end}"),
            format!("slash{}/{end}", outside.display()),
            format!("dirlink/{end}:1"),
            format!("../outside/{end}:1"),
            format!("dirlink/../outside/{end}"),
        ] {
            let answer = tree.ask(PathKind, &value).await;
            check(&answer, Unknown, &[], 0);
            assert!(answer.summary.contains("escapes") && answer.candidates.is_empty(), "{}", answer.summary);
            assert!(answer.last_modified.is_none());
            let mut told = serde_json::to_value(&answer).unwrap();
            told["ref"] = json!(null);
            summaries.insert(told.to_string().replace(end, "END"));
        }
    }
    // What is there and what is not give the same answers.
    assert_eq!(summaries.len(), 13, "{summaries:#?}");
}

#[tokio::test]
async fn links_inside_the_root_are_followed() {
    let tree = Tree::new();
    tree.write("dir/inside", "alpha");
    let link = |target: &Path, name: &str| symlink(target, tree.root.join(name)).unwrap();
    link(&tree.root.join("dir/inside"), "absolute");
    link(Path::new("../repo/dir"), "around");
    link(Path::new("loop-b"), "loop-a");
    link(Path::new("loop-a"), "loop-b");
    link(Path::new("self"), "self");
    link(Path::new("dir/nothing"), "dangling");
    for value in ["absolute", "around", "around/inside", "dir/../dir/inside", ".", "dir/"] {
        let answer = tree.ask(PathKind, value).await;
        assert_eq!((answer.verdict, answer.match_count), (Present, 1), "{value}: {}", answer.summary);
        assert!(answer.last_modified.is_some() && answer.found_in[0].starts_with(tree.root.to_str().unwrap()));
    }
    for value in ["loop-a", "self", "loop-a/x"] {
        let answer = tree.ask(PathKind, value).await;
        check(&answer, Unknown, &[], 0);
        assert!(answer.summary.contains("loop"), "{}", answer.summary);
    }
    for value in ["dangling", "dir/inside/x", "dir/inside/", "absent/../dir/inside"] {
        let answer = tree.ask(PathKind, value).await;
        assert_eq!(answer.verdict, Absent, "{value}: {}", answer.summary);
    }
    // Absolute values are checked as they are.
    let outside = tree.directory.path().canonicalize().unwrap().join("outside");
    std::fs::write(&outside, "x").unwrap();
    check(&tree.ask(PathKind, outside.to_str().unwrap()).await, Present, &[outside.to_str().unwrap()], 1);
    check(&tree.ask(PathKind, &format!("{}x", outside.display())).await, Absent, &[], 0);
    // A root that is itself a link names what it holds by its own name.
    let linked = tree.directory.path().canonicalize().unwrap().join("linked");
    symlink(&tree.root, &linked).unwrap();
    symlink(linked.join("dir"), tree.root.join("by-link")).unwrap();
    let answer = ask_in(&linked, PathKind, "by-link/inside", None).await;
    check(&answer, Present, &[linked.join("by-link/inside").to_str().unwrap()], 1);
}

#[tokio::test]
async fn lines_of_files() {
    let tree = Tree::new();
    let file = tree.write("a.rs", "one\ntwo\nthree");
    let odd = tree.write("odd:7", "one\n");
    // The second byte of U+010A is no line break.
    let text = "one\n\u{10a}\u{a0a}\nthree".encode_utf16();
    let text: Vec<_> = std::iter::once(0xfeff).chain(text).flat_map(u16::to_le_bytes).collect();
    let wide = tree.write("wide", text);
    for (value, verdict, found) in [
        ("a.rs:1", Present, &file),
        ("a.rs:3", Present, &file),
        ("a.rs:3:9", Present, &file),
        ("odd:7", Present, &odd),
        ("odd:7:1", Present, &odd),
        ("a.rs:4", Absent, &file),
        ("a.rs:0", Absent, &file),
        ("a.rs:99999999999999999999999", Absent, &file),
        ("a.rs:x", Absent, &file),
        ("a.rs:", Absent, &file),
        (":3", Absent, &file),
        ("a.rs/", Absent, &file),
        ("a.rs/.", Absent, &file),
        ("wide:3", Present, &wide),
        ("wide:4", Absent, &wide),
    ] {
        let answer = tree.ask(PathKind, value).await;
        let found: &[&str] = if verdict == Present { &[found] } else { &[] };
        check(&answer, verdict, found, found.len() as u64);
    }
    assert!(tree.ask(PathKind, "a.rs:4").await.summary.contains("1 to 3"));
}

#[tokio::test]
async fn an_absent_path_has_candidates() {
    let tree = Tree::repository().await;
    tree.write(".gitignore", "*.log\n");
    let vendored = tree.write("vendor/scan.rs", "");
    let tracked = tree.write("src/z/scan.rs", "");
    tree.git(&["add", "-f", "."]).await;
    let untracked = tree.write("a/scan.rs", "");
    tree.write("node_modules/m/scan.rs", "");
    let log = tree.write("logs/x.log", "");
    let answer = tree.ask(PathKind, "scan.rs").await;
    check(&answer, Absent, &[], 0);
    assert_eq!(answer.candidates, [tracked.clone(), vendored.clone(), untracked.clone()]);
    assert_eq!(tree.ask(PathKind, "old/scan.rs:12").await.candidates, [tracked, vendored, untracked]);
    assert_eq!(tree.ask(PathKind, "x.log").await.candidates, [log]);
    assert!(tree.ask(PathKind, "nothing.rs").await.candidates.is_empty());
    // A link to nothing is no candidate, least of all for itself.
    symlink("gone.rs", tree.root.join("link.rs")).unwrap();
    assert!(tree.ask(PathKind, "link.rs").await.candidates.is_empty());
}

#[tokio::test]
async fn qualified_symbols() {
    let tree = Tree::repository().await;
    let store =
        tree.write("store.rs", "pub struct Store;\nimpl Store {\n    pub fn open() {}\n    fn helper() {}\n}\n");
    let go = tree.write("s.go", "func (s *Server) Listen() error {\n");
    let python = tree.write("p.py", "class Parser(Base):\n    def parse(self):\n");
    let user = tree.write("use.rs", "let store = Store::connect();\nother.reset();\n");
    let far = tree.write("far.rs", "fn distant() {}\n");
    let other = tree.write(
        "other.rs",
        "struct Reader;\nstruct Writer;\nimpl Reader {\n    fn x() {} // fn in_comment\n    const S: &str = \"fn in_string\";\n}\nimpl Writer {\n    fn flush_all() {}\n}\nfn is_free() {}\n",
    );
    let settings = tree.write("settings.rs", "pub struct Settings;\n");
    let module = tree.write(
        "pkg/mod.py",
        "def func():\n    pass\nclass Base:\n    def inh(self):\n        pass\nclass Child(Base):\n    pass\n",
    );
    let generic = tree.write(
        "generic.rs",
        "struct Holder<T>(T);\nimpl<T> Holder<T> {\n    fn unwrap_it() {\n        Settings::called();\n    }\n}\n",
    );
    let marked = tree.write("marked.rs", "macro_rules! marked {\n}\n");
    tree.write(".gitignore", "generated\n");
    let ignored = tree.write("generated", "only\n");
    for (value, verdict, found, count) in [
        ("Store::open", Present, &store, 1),
        ("crate::Store::open()", Present, &store, 1),
        ("Server.Listen", Present, &go, 1),
        ("Parser.parse", Present, &python, 1),
        ("Parser#parse", Present, &python, 1),
        ("Store::connect", Present, &user, 1),
        ("Store::reset", Unknown, &user, 0),
        ("Store::distant", Unknown, &far, 0),
        ("Store::missing", Absent, &user, 0),
        ("Missing::open", Unknown, &store, 0),
        // Both names in one file make no member.
        ("Reader::flush_all", Unknown, &other, 0),
        ("Reader::is_free", Unknown, &other, 0),
        ("Reader::in_comment", Unknown, &other, 0),
        ("Reader::in_string", Unknown, &other, 0),
        ("Writer::flush_all", Present, &other, 1),
        // Modules by the names of files, and inherited members.
        ("crate::settings::Settings", Unknown, &settings, 0),
        ("settings::Settings", Unknown, &settings, 0),
        ("pkg.mod.func", Unknown, &module, 0),
        ("Child.inh", Unknown, &module, 0),
        ("Base.inh", Present, &module, 1),
        ("Holder<T>::unwrap_it", Present, &generic, 1),
        ("Holder::<u8>::unwrap_it", Present, &generic, 1),
        ("Holder<u8>::nothing", Absent, &generic, 0),
        ("Settings<T>::called", Present, &generic, 1),
        ("Generated.only", Unknown, &ignored, 0),
        ("crate::marked!", Unknown, &marked, 0),
    ] {
        let answer = tree.ask(Symbol, value).await;
        let expected: &[&str] = if verdict == Present { &[found] } else { &[] };
        check(&answer, verdict, expected, count);
        assert_eq!(answer.summary.contains(found.as_str()), verdict != Absent, "{}", answer.summary);
    }
}

#[tokio::test]
async fn macros_are_defined_without_their_mark() {
    let tree = Tree::new();
    let defined = tree.write("m.rs", "macro_rules! ensure {\n}\nfn bail() {}\n");
    let answer = tree.ask(Symbol, "ensure!").await;
    check(&answer, Present, &[&defined], 1);
    assert_eq!(answer.matches[0].definition, Some(true));
    check(&tree.ask(Symbol, "bail!").await, Absent, &[], 0);
}

#[tokio::test]
async fn flags() {
    let tree = Tree::repository().await;
    tree.write(".gitignore", "ignored\n");
    tree.write("ignored", "--force\n");
    tree.write("a.sh", "push --force-with-lease --verbose\n");
    let cli = tree.write("cli.rs", "#[arg(short = 'f', long = \"force\")]\nforce: bool,\n");
    for value in ["--force", "-f"] {
        let answer = tree.ask(Flag, value).await;
        check(&answer, Present, &[&cli], 1);
        assert!(answer.summary.contains("in pieces") && answer.ignored.is_none(), "{}", answer.summary);
    }
    check(&tree.ask(Flag, "-v").await, Absent, &[], 0);
    // A field of a derive, and fields that are none.
    let derived = tree.write(
        "derive.rs",
        "struct Plain {\n    dry_run: bool,\n    #[arg(short)]\n    quiet: bool,\n}\nstruct Args {\n    #[arg(\n        short,\n        long,\n    )]\n    /// Looks only.\n    pub(crate) dry_run: bool,\n}\n",
    );
    let answer = tree.ask(Flag, "--dry-run").await;
    check(&answer, Present, &[&derived], 1);
    assert_eq!((answer.matches[0].line, answer.matches[0].definition), (12, Some(true)));
    assert_eq!(answer.matches[0].text, "pub(crate) dry_run: bool,");
    check(&tree.ask(Flag, "--quiet").await, Absent, &[], 0);
    let node = tree.write(
        "node.mjs",
        "const other = { options: { plain: { type: 'boolean' } } };\nconst { values } = parseArgs({\n  options: {\n    \"so-quick\": { type: 'string', short: 'q' },\n    slow: {\n      type: 'boolean',\n    },\n  },\n});\n",
    );
    for value in ["--so-quick", "--slow"] {
        check(&tree.ask(Flag, value).await, Present, &[&node], 1);
    }
    check(&tree.ask(Flag, "--plain").await, Absent, &[], 0);
    let literal = tree.write("b.py", "add_argument('--force')\n");
    let answer = tree.ask(Flag, "--force").await;
    check(&answer, Present, &[&literal], 1);
    assert_eq!(answer.matches[0].definition, None);
}

#[tokio::test]
async fn names_that_are_no_text() {
    let tree = Tree::new();
    std::fs::write(tree.root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.rs")), "alpha").unwrap();
    let answer = tree.ask(Symbol, "alpha").await;
    assert_eq!((answer.verdict, answer.match_count, answer.found_in.len()), (Present, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_at_once() {
    let tree = std::sync::Arc::new(Tree::new());
    for number in 0..500 {
        tree.write(&format!("d{}/f{number}", number % 20), format!("fn symbol_{number}() {{}}\n").repeat(20));
    }
    let asked: Vec<_> = (0..40)
        .map(|number| {
            let tree = std::sync::Arc::clone(&tree);
            tokio::spawn(async move { tree.ask(Symbol, &format!("symbol_{number}")).await })
        })
        .collect();
    for (number, answer) in asked.into_iter().enumerate() {
        check(&answer.await.unwrap(), Present, &[&tree.at(&format!("d{}/f{number}", number % 20))], 20);
    }
}

#[tokio::test]
async fn a_scan_waits_for_walkers_until_its_deadline_and_ends_with_its_client() {
    let tree = Tree::new();
    let text = tree.write("a", "alpha");
    for number in 0..64 {
        let sparse = std::fs::File::create(tree.root.join(format!("sparse{number}"))).unwrap();
        sparse.set_len(1 << 30).unwrap();
    }
    let most = u32::try_from(super::verify::MAX_SCANS).unwrap();
    let all = super::verify::TURNS.clone().acquire_many_owned(most).await.unwrap();
    let answer = ask_in(&tree.root, Symbol, "alpha", Some(50)).await;
    check(&answer, Unknown, &[], 0);
    assert!(answer.truncated && !answer.coverage.unwrap().complete, "{}", answer.summary);
    assert!(answer.summary.contains("queue"), "{}", answer.summary);
    // An absent path says that it was not looked for elsewhere.
    let answer = ask_in(&tree.root, PathKind, "x/a", Some(50)).await;
    check(&answer, Absent, &[], 0);
    assert!(answer.summary.contains("time ran out"), "{}", answer.summary);
    // Waiting for others is no part of the scan's time.
    let (asked, wait) = (Instant::now(), Duration::from_millis(300));
    let mut waiting = std::pin::pin!(ask_in(&tree.root, Symbol, "alpha", Some(60_000)));
    tokio::time::timeout(wait, &mut waiting).await.unwrap_err();
    drop(all);
    let answer = waiting.await;
    check(&answer, Present, &[&text], 1);
    assert!(Duration::from_millis(answer.coverage.unwrap().elapsed_ms) <= asked.elapsed() - wait);
    let all = super::verify::TURNS.clone().acquire_many_owned(most).await.unwrap();
    // A path needs no walker.
    check(&tree.ask(PathKind, "a").await, Present, &[&text], 1);
    drop(all);
    // The second pass over 64 GB takes long; when its client hangs up, its threads end, and with them the runtime.
    let root = tree.root.clone();
    let started = Instant::now();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let asked = ask_in(&root, Symbol, "beta", Some(60_000));
            tokio::time::timeout(Duration::from_millis(200), asked).await.unwrap_err();
        });
    })
    .join()
    .unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

/// ripgrep is the judge of 200 generated symbols and flags.
#[tokio::test]
async fn hits_are_those_of_ripgrep() {
    let client = ClientEnvironment::new([("PATH".into(), Environment::of_process().get("PATH").unwrap().to_owned())]);
    let rg = client.find_program("rg").expect("rg is not on PATH; install it with `cargo install ripgrep`");
    let tree = Tree::repository().await;
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % bound as u64).unwrap()
    };
    let stems = ["alpha", "beta", "größe", "naïve", "Имя", "名前", "x", "_y", "max_len", "Z9"];
    let joints = ["_", "", "1", "Max"];
    let mut name = |mark: &str| format!("{mark}{}{}{}", stems[next(10)], joints[next(4)], stems[next(10)]);
    let symbols: Vec<_> = (0..100).map(|_| name("")).collect();
    let flags: Vec<_> = (0..100).map(|_| name("--").replace('_', "-")).collect();
    let glue = [" ", "\n", "\r\n", "-", "_", ".", "::", "(", ")", "=", "s", "é", "\u{301}", "--", "\t", "!"];
    for number in 0..60 {
        let mut text = String::new();
        for _ in 0..next(60) {
            let values = if next(2) == 0 { &symbols } else { &flags };
            text += &values[next(100)];
            text += glue[next(glue.len())];
        }
        tree.write(&format!("{}{number}", ["", ".hidden/", "src/deep/"][next(3)]), text);
    }
    let run = async |arguments: &[&str]| {
        let mut command = process::command(&rg, &client, &tree.root);
        command.args(["--hidden", "--no-ignore-dot", "--glob", "!.git"]).args(arguments).arg(&tree.root);
        let output = process::run(command, Duration::from_secs(60), 1_000_000).await.unwrap();
        assert!(matches!(output.code, Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        let mut lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let mut found = 0;
    for symbol in &symbols {
        let answer = tree.ask(Symbol, symbol).await;
        assert_eq!(answer.found_in, run(&["-l", "-w", "-F", "-e", symbol]).await, "{symbol}");
        let counts = run(&["--count-matches", "--no-filename", "-w", "-F", "-e", symbol]).await;
        assert_eq!(
            answer.match_count,
            counts.iter().map(|count| count.parse::<u64>().unwrap()).sum::<u64>(),
            "{symbol}"
        );
        found += answer.found_in.len();
    }
    for flag in &flags {
        let answer = tree.ask(Flag, flag).await;
        assert_eq!(answer.found_in, run(&["-l", "-e", &format!(r"(^|[^\w-]){flag}($|[^\w-])")]).await, "{flag}");
        found += answer.found_in.len();
    }
    assert!(found > 500, "too few hits to judge by: {found}");
}
