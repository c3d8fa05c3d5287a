//! The first pass of a scan against `rg`, for a symbol that is nowhere: on a generated tree of 20,000 files and 300 MB
//! that is kept in `target/bench-tree`, and on the sources of cargo's registry. Also the second pass, the memory that
//! the passes take, and a whole answer in a repository of 500 files.
//!
//! `cargo bench -p groundingd --bench reference`. Runs of both programs alternate; medians are compared.
#![expect(clippy::print_stdout, reason = "the report of a benchmark goes to stdout")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grounding_proto::environment::Environment;
use grounding_proto::reference::{ReferenceKind, VerifyMemoryReference};
use groundingd::process::{self, ClientEnvironment};
use groundingd::reference::scan::Scan;
use groundingd::reference::{Pattern, verify};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SYMBOL: &str = "nowhere_to_be_found_9f3a";
const ROUNDS: usize = 15;
const LIMIT: Duration = Duration::from_secs(60);
const NUM_FILES: usize = 20_000;
const NUM_BYTES: usize = 300_000_000;
const WORDS: &[&str] = &[
    "alpha", "buffer", "connect", "decode", "entry", "format", "gather", "handle", "index", "join", "kind", "line",
    "match", "node", "offset", "parse", "query", "result", "scan", "token", "update", "value", "window", "yield",
];

fn main() -> Outcome<()> {
    let environment = Environment::of_process();
    let client = ClientEnvironment::new(environment.variables().iter().cloned());
    let rg = client.find_program("rg").ok_or("rg is not on PATH; install it with `cargo install ripgrep`")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _guard = runtime.enter();
    let rg = Ripgrep { program: rg, client: client.clone() };
    println!("{}", runtime.block_on(rg.version())?);

    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the crate has no workspace")?;
    let large = workspace.join("target/bench-tree/large");
    let small = workspace.join("target/bench-tree/small");
    runtime.block_on(generate(&large, NUM_FILES, NUM_BYTES, &client))?;
    runtime.block_on(generate(&small, 500, 5_000_000, &client))?;
    let cargo_home = environment.get("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.map_or_else(|| environment.home().map(|home| home.join(".cargo")), Ok)?;

    compare("generated tree, 20,000 files, 300 MB", &large, &rg, &runtime)?;
    compare("sources of cargo's registry", &cargo_home.join("registry/src"), &rg, &runtime)?;
    println!("\nwhole answers in the generated tree, without the shim");
    whole_answer(&large, ReferenceKind::Symbol, "alpha", 5, &runtime);
    whole_answer(&large, ReferenceKind::Symbol, "Missing::member", 5, &runtime);
    whole_answer(&large, ReferenceKind::Flag, "--missing", 5, &runtime);
    println!("\nwhole answers in a repository of 500 files, without the shim (at most 6 ms with it)");
    whole_answer(&small, ReferenceKind::Symbol, "symbol_17", 100, &runtime);
    whole_answer(&small, ReferenceKind::Symbol, SYMBOL, 100, &runtime);
    whole_answer(&small, ReferenceKind::Flag, "--missing", 100, &runtime);
    whole_answer(&small, ReferenceKind::Path, "missing.rs", 100, &runtime);
    Ok(())
}

fn compare(name: &str, tree: &Path, rg: &Ripgrep, runtime: &tokio::runtime::Runtime) -> Outcome<()> {
    let threads = std::thread::available_parallelism()?.get().min(12);
    let pattern = Pattern::symbol(SYMBOL)?;
    let (mut ours, mut theirs, mut second, mut peaks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let before = reset_peak();
        let scan = Scan::of(tree, threads, LIMIT)?;
        let started = Instant::now();
        scan.first_pass(&pattern);
        let first_took = started.elapsed();
        let started = Instant::now();
        scan.second_pass(&pattern);
        let second_took = started.elapsed();
        let peak = peak_kilobytes().saturating_sub(before);
        let rg_took = runtime.block_on(rg.look(tree))?;
        if scan.hits().count > 0 {
            return Err(format!("{SYMBOL} is in {}", tree.display()).into());
        }
        if round == 0 {
            let coverage = scan.coverage();
            println!(
                "\n{name}: {} files, {} MB, {threads} threads",
                coverage.files_scanned,
                coverage.bytes_scanned / 1_000_000
            );
            println!("  passed over: {:?}", coverage.skipped);
            continue;
        }
        ours.push(first_took);
        theirs.push(rg_took);
        second.push(second_took);
        peaks.push(peak);
    }
    let (ours, theirs, second) = (median(&mut ours), median(&mut theirs), median(&mut second));
    println!("  first pass   {ours:>10.1?}");
    println!("  rg           {theirs:>10.1?}");
    println!("  ratio        {:>10.2}  (at most 1.15)", ours.as_secs_f64() / theirs.as_secs_f64());
    println!("  second pass  {second:>10.1?}");
    println!(
        "  memory peak  {:>7} kB  over the process's before both passes (at most 64 MB)",
        peaks.iter().max().unwrap_or(&0)
    );
    Ok(())
}

fn whole_answer(tree: &Path, kind: ReferenceKind, value: &str, rounds: usize, runtime: &tokio::runtime::Runtime) {
    let (mut times, mut count) = (Vec::new(), 0);
    for _ in 0..rounds {
        let arguments = VerifyMemoryReference { kind, value: value.to_owned(), repo_root: None, deadline_ms: None };
        let started = Instant::now();
        count = runtime.block_on(verify(tree, arguments)).match_count;
        times.push(started.elapsed());
    }
    println!("  {value:<24}  {count:>8} found  {:>10.1?}  median of {rounds}", median(&mut times));
}

struct Ripgrep {
    program: PathBuf,
    client: ClientEnvironment,
}

impl Ripgrep {
    async fn version(&self) -> Outcome<String> {
        let mut command = process::command(&self.program, &self.client, Path::new("/"));
        command.arg("--version");
        let output = process::run(command, LIMIT, 1000).await?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    }

    async fn look(&self, tree: &Path) -> Outcome<Duration> {
        let mut command = process::command(&self.program, &self.client, tree);
        command.args(["-l", "-w", "-F", "--hidden", "--no-ignore-dot", SYMBOL, "."]);
        let started = Instant::now();
        let output = process::run(command, LIMIT, 1000).await?;
        match output.code {
            Some(1) => Ok(started.elapsed()),
            code => Err(format!("rg ended with {code:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}

/// Writes the tree and an index that tracks it, unless they are there from an earlier run.
async fn generate(tree: &Path, num_files: usize, num_bytes: usize, client: &ClientEnvironment) -> Outcome<()> {
    if tree.join(".git/index").exists() {
        return Ok(());
    }
    println!("generating {}", tree.display());
    std::fs::create_dir_all(tree)?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % bound as u64).unwrap_or(0)
    };
    let mut listing = String::new();
    for number in 0..num_files {
        let module = number / 10 % 400;
        let name = format!("package_{:02}/module_{module:03}/file_{number:05}.rs", module % 40);
        // Most files are small and some are large, as in real trees; the average is kept.
        let average = num_bytes / num_files;
        let size = match next(10) {
            0 => average * 5,
            _ => average * 5 / 9,
        };
        let mut text = format!("pub fn symbol_{number}() {{}}\n");
        while text.len() < size {
            for _ in 0..3 + next(6) {
                text += WORDS[next(WORDS.len())];
                text += [" ", "_", "(", "::", ", "][next(5)];
            }
            text.push('\n');
        }
        let path = tree.join(&name);
        std::fs::create_dir_all(path.parent().ok_or("a generated file has a directory")?)?;
        std::fs::write(&path, text)?;
        listing += &format!("100644 {:040x} 0\t{name}\n", number + 1);
    }
    let git = client.find_program("git").ok_or("git is not on PATH; install git")?;
    let run = |arguments: &[&str], stdin: std::process::Stdio| {
        let mut command = process::command(&git, client, tree);
        command.args(arguments).stdin(stdin);
        process::run(command, LIMIT, 1000)
    };
    let list = tree.with_extension("index-info");
    std::fs::write(&list, listing)?;
    for (arguments, input) in [(&["init", "-q"][..], None), (&["update-index", "--add", "--index-info"], Some(&list))] {
        let stdin =
            input.map_or_else(|| Ok(std::process::Stdio::null()), |path| std::fs::File::open(path).map(Into::into))?;
        let output = run(arguments, stdin).await?;
        if output.code != Some(0) {
            return Err(format!("git {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    Ok(())
}

fn median<T: Ord + Copy>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Starts a new measurement of the process's peak memory and returns what it has now; Linux only, 0 elsewhere.
fn reset_peak() -> u64 {
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        return 0;
    }
    peak_kilobytes()
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
