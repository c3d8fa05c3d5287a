//! How long the readers of a run take on 4 MiB of the worst text there is for them, and whether that stays linear.
//!
//! `cargo bench -p groundingd --bench workflow`. Prints a table; exits with 1 when a reading takes more than 50 ms or
//! grows more than fivefold from 1 MiB to 4 MiB. Times are processor time, the best of several rounds.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use groundingd::workflow::field::{self, FINAL_STATUS, RECOMMENDATION};
use groundingd::workflow::{findings, run_base};
use rustix::time::{ClockId, clock_gettime};

const MIB: usize = 1024 * 1024;
const LIMIT: Duration = Duration::from_millis(50);
const MAX_GROWTH: f64 = 5.0;
const ROUNDS: usize = 15;

/// Text that starts so, then repeats a piece, then ends so.
struct Shape {
    name: &'static str,
    start: &'static str,
    piece: &'static str,
    end: &'static str,
}

const TABLE: &str = "| Severity | Description | Decision |\n|---|---|---|\n";
const MENTION: &str = "\n\nsolution-acceptance run-base\n";

const SHAPES: &[Shape] = &[
    Shape { name: "backticks", start: "", piece: "`", end: MENTION },
    Shape { name: "backticks on lines", start: "", piece: "`\n", end: MENTION },
    Shape { name: "backticks around mentions", start: "", piece: "`solution-acceptance` run-base\n", end: "`" },
    Shape { name: "mentions in an open span", start: "`", piece: "solution-acceptance run-base\n", end: "" },
    Shape { name: "mentions", start: "", piece: "solution-acceptance:run-base=", end: "" },
    Shape { name: "fences", start: TABLE, piece: "```\n", end: MENTION },
    Shape { name: "fences that never close", start: "", piece: "````\n~~~\n```` a\n", end: MENTION },
    Shape { name: "fences in lists", start: TABLE, piece: "- ```\n", end: "" },
    Shape { name: "fences in quotes", start: TABLE, piece: "> ```\n", end: "" },
    Shape { name: "items before a fence", start: TABLE, piece: "- x\n", end: "```\n" },
    Shape { name: "nested items before a fence", start: "- - - - - - - x\n", piece: "\n", end: "```\n" },
    Shape {
        name: "white space in nested items",
        start: "- - - - - - - - - - - - - - - x\n",
        piece: " ",
        end: "\n```\n",
    },
    Shape { name: "lines of a letter before a fence", start: "", piece: "x\n", end: "```\n" },
    Shape { name: "tags before a fence", start: "<pre>\n", piece: "</\n", end: "```\n" },
    Shape { name: "lines in a fence", start: "```\n", piece: "|\n", end: "```\n" },
    Shape { name: "lines of a letter", start: "", piece: "x\n", end: "" },
    Shape { name: "only backticks on lines", start: "", piece: "`\n", end: "" },
    Shape { name: "only blank lines", start: "", piece: "\n", end: "" },
    Shape { name: "columns of a name", start: "", piece: "severity|decision|", end: "\nhigh\nhigh\n" },
    Shape { name: "pipes", start: TABLE, piece: "|", end: "" },
    Shape { name: "pipes on lines", start: TABLE, piece: "|\n", end: "" },
    Shape { name: "escaped pipes", start: TABLE, piece: "\\|", end: "" },
    Shape { name: "open findings", start: TABLE, piece: "high|\n", end: "" },
    Shape { name: "headers", start: "", piece: "severity|decision\n", end: "" },
    Shape { name: "comment openers", start: "## Findings\n", piece: "<!--", end: "\nx\n" },
    Shape { name: "comment openers on lines", start: "## Findings\n", piece: "<!--\n", end: "-->\nx\n" },
    Shape { name: "comments", start: "## Findings\n", piece: "<!---->", end: "\nx\n" },
    Shape { name: "keyed attempts", start: "", piece: "<!-- solution-acceptance : run-base[\n", end: "" },
    Shape { name: "keyed markers", start: "", piece: "<!--solution-acceptance:run-base[k]=v-->\n", end: "" },
    Shape { name: "markers without a value", start: "", piece: "solution-acceptance: final-status = -\n", end: "" },
    Shape { name: "headings", start: "", piece: "# Findings\n", end: "" },
    Shape { name: "blank lines", start: "", piece: "\n", end: MENTION },
    Shape { name: "blank lines of a section", start: "## Findings\n", piece: "\r", end: "" },
    Shape { name: "white space", start: "<!-- solution-acceptance:", piece: "\u{a0}\n", end: "" },
    Shape { name: "quote marks", start: TABLE, piece: "> ", end: "" },
    Shape { name: "list marks", start: TABLE, piece: "- ", end: "" },
];

type Reader = fn(&str);

const READERS: &[(&str, Reader)] = &[("handoff", read_handoff), ("review", read_review), ("goal", read_goal)];

fn read_handoff(text: &str) {
    black_box(field::read(&FINAL_STATUS, text));
}

fn read_review(text: &str) {
    black_box(field::read(&RECOMMENDATION, text));
    black_box(findings::read(text));
}

fn read_goal(text: &str) {
    let goal = run_base::read(text);
    black_box((goal.select(&["alpha".to_owned()]), goal.shown_keys()));
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> ExitCode {
    let mut exceeded = false;
    println!("| text | reader | 1 MiB | 4 MiB | growth | |\n|---|---|---|---|---|---|");
    for shape in SHAPES {
        let (small, large) = (shape.text(MIB), shape.text(4 * MIB));
        for (name, reader) in READERS {
            let (short, long) = (fastest(*reader, &small), fastest(*reader, &large));
            // Below a millisecond the memory decides, not the reader: 1 MiB fits a cache that 4 MiB do not.
            let growth = long.as_secs_f64() / short.max(Duration::from_millis(1)).as_secs_f64();
            let passed = long <= LIMIT && growth <= MAX_GROWTH;
            exceeded |= !passed;
            let verdict = if passed { "ok" } else { "EXCEEDED" };
            let (short, long) = (short.as_secs_f64() * 1e3, long.as_secs_f64() * 1e3);
            println!("| {} | {name} | {short:.2} ms | {long:.2} ms | {growth:.2} | {verdict} |", shape.name);
        }
    }
    ExitCode::from(u8::from(exceeded))
}

impl Shape {
    fn text(&self, length: usize) -> String {
        let room = length - self.start.len() - self.end.len();
        format!("{}{}{}", self.start, self.piece.repeat(room / self.piece.len()), self.end)
    }
}

/// Returns the processor time of this thread, so that other work on the machine is not counted.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn fastest(reader: Reader, text: &str) -> Duration {
    let round = || {
        let start = processor_time();
        reader(black_box(text));
        processor_time().saturating_sub(start)
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}
