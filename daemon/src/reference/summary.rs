//! Answers and their wording: what was found, or what an agent may conclude from its absence.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grounding_proto::reference::{Coverage, MemoryReference, ReferenceAnswer, ReferenceKind, ReferenceVerdict};

use super::candidates::Candidates;
use super::file;
use super::hits::{MAX_FILES, Roles};
use super::path::{Found, LineFound, PathReference};
use super::qualified::Place;
use super::scan::{Obstacles, Scan};
use super::verify::MAX_SCANS;
use super::walk::Root;

/// How a symbol or flag was looked for in the end.
#[derive(Debug)]
pub(super) enum Finding {
    /// As it is written.
    Literal,
    /// A flag, in the pieces that an argument parser is given.
    FlagInPieces,
    /// A Rust macro, as its definition, which has no `!` after the name.
    Macro,
    /// A qualified symbol, without the generic arguments it was given with.
    WithoutGenerics(String),
    /// A qualified symbol, as the declaration of its member inside its type.
    Member,
    /// A qualified symbol that is nowhere written, and whose member was not seen inside its type; where the member is.
    MemberElsewhere(Place),
}

/// The root can't be read.
pub(super) fn root_unreadable(reference: MemoryReference, cwd: &Path, error: &std::io::Error) -> ReferenceAnswer {
    let root = reference.repo_root.as_ref().map_or_else(|| cwd.to_owned(), |given| cwd.join(given));
    let summary = format!("Nothing was looked at: the root {} can't be read ({error}).", root.display());
    answer(reference, ReferenceVerdict::Unknown, summary)
}

/// Nothing was looked at within the time.
pub(super) fn out_of_time(reference: MemoryReference, limit: Duration) -> ReferenceAnswer {
    let summary = format!(
        "Inconclusive: the time of {} ms ran out before anything was found; try again, or give a longer deadlineMs.",
        limit.as_millis()
    );
    ReferenceAnswer { truncated: true, ..answer(reference, ReferenceVerdict::Unknown, summary) }
}

/// Nothing was looked at, because others were looking.
pub(super) fn queued(reference: MemoryReference, wait: Duration) -> ReferenceAnswer {
    let summary = format!(
        "Inconclusive: nothing was looked at, because {MAX_SCANS} other scans were under way for the {} ms that this one waited in the queue; try again.",
        wait.as_millis()
    );
    ReferenceAnswer { truncated: true, ..answer(reference, ReferenceVerdict::Unknown, summary) }
}

/// The value can't be looked for.
pub(super) fn unusable(reference: MemoryReference, reason: &str) -> ReferenceAnswer {
    let summary = format!("Nothing was looked at: {reason}.");
    answer(reference, ReferenceVerdict::Unknown, summary)
}

/// What was found at a path.
pub(super) fn path(
    reference: MemoryReference,
    root: &Root,
    asked: &PathReference,
    found: &Found,
    line: Option<&LineFound>,
    candidates: Candidates,
) -> ReferenceAnswer {
    use ReferenceVerdict::{Absent, Present, Unknown};
    let name = asked.path.display();
    let (verdict, summary) = match (found, line) {
        (Found::Present { path, .. }, None) => (Present, format!("{} exists.", path.display())),
        (Found::Present { path, .. }, Some(LineFound::Present)) => {
            (Present, format!("{} exists and has line {}.", path.display(), asked.line.unwrap_or(0)))
        }
        (Found::Present { path, .. }, Some(LineFound::Beyond(lines))) => {
            let line = asked.line.unwrap_or(0);
            (Absent, format!("{} exists, but has no line {line}: its lines are numbered 1 to {lines}.", path.display()))
        }
        (Found::Present { path, .. }, Some(LineFound::Unknown)) => {
            (Unknown, format!("{} exists, but its lines could not be counted.", path.display()))
        }
        (Found::Absent, _) if candidates.paths.is_empty() => {
            (Absent, format!("{name} does not exist, {}", nowhere_else(root, &candidates)))
        }
        (Found::Absent, _) => (Absent, format!("{name} does not exist; candidates are of the same name elsewhere.")),
        (Found::Escapes, _) => (Unknown, format!("{name} escapes the root: refused, and not looked at.")),
        (Found::Loops, _) => (Unknown, format!("{name} leads into a loop of links: refused.")),
        (Found::Unreadable(error), _) => (Unknown, format!("{name} can't be looked at ({error}).")),
    };
    let mut answer = answer(reference, verdict, summary);
    answer.coverage = None;
    answer.candidates = candidates.paths;
    if let (Found::Present { path, modified }, Present) = (found, verdict) {
        answer.found_in = vec![path.to_string_lossy().into_owned()];
        answer.match_count = 1;
        answer.last_modified = modified.and_then(|time| jiff::Timestamp::try_from(time).ok()).map(crate::clock::iso);
    }
    answer
}

/// What a scan found of a symbol or flag.
pub(super) fn name(reference: MemoryReference, scan: &Scan, finding: Finding, limit: Duration) -> ReferenceAnswer {
    let (hits, coverage, obstacles) = (scan.hits(), scan.coverage(), scan.obstacles());
    let is_definitely_absent = coverage.complete && matches!(finding, Finding::Literal);
    let verdict = match hits.count {
        0 if is_definitely_absent => ReferenceVerdict::Absent,
        0 => ReferenceVerdict::Unknown,
        _ => ReferenceVerdict::Present,
    };
    let value = &reference.value;
    let told = reference.kind == ReferenceKind::Symbol || matches!(finding, Finding::FlagInPieces);
    let matches = hits.matches(if told { Roles::Told } else { Roles::NotTold });
    let ignored = verdict == ReferenceVerdict::Present && !hits.outside_ignored;
    let mut sentences = Vec::new();
    if verdict == ReferenceVerdict::Present {
        let what = match &finding {
            Finding::FlagInPieces => format!("{value} is nowhere written out, but defined in pieces"),
            Finding::Macro => format!("{value} is nowhere used, but defined"),
            Finding::Member => format!("{value} is nowhere written so, but the member is declared inside its type"),
            Finding::WithoutGenerics(plain) => format!("{value} is nowhere written so, but {plain} occurs"),
            _ => format!("{value} occurs"),
        };
        let (times, files) = (counted(hits.count, "time", "times"), counted(hits.num_files, "file", "files"));
        let whose = if ignored { " that git ignores" } else { "" };
        let best = matches.first().map(|best| {
            let role = if best.definition == Some(true) { "definition" } else { "match" };
            format!("; first {role} at {}:{}", best.file, best.line)
        });
        sentences.push(format!("{what} {times} in {files}{whose}{}.", best.unwrap_or_default()));
        if scan.stopped() {
            sentences.push("The time ran out, so there may be more.".to_owned());
        }
    } else {
        let scanned = counted(coverage.files_scanned, "file", "files");
        let lead = if verdict == ReferenceVerdict::Absent { "Absent" } else { "Inconclusive" };
        sentences.push(format!("{lead}: {value} is not in the {scanned} scanned."));
        sentences.extend(reasons(&coverage, &obstacles, &finding, scan.stopped().then_some(limit)));
    }
    if verdict != ReferenceVerdict::Present {
        sentences.extend(dependency_dirs(&scan.root, &obstacles));
    }
    let truncated = scan.stopped() || hits.num_files > MAX_FILES as u64;
    ReferenceAnswer {
        exists: verdict == ReferenceVerdict::Present,
        found_in: hits.files().map(str::to_owned).collect(),
        match_count: hits.count,
        truncated,
        matches,
        ignored: ignored.then_some(true),
        coverage: Some(coverage),
        ..answer(reference, verdict, sentences.join(" "))
    }
}

/// Returns why a negative answer is not certain, a sentence each.
fn reasons(coverage: &Coverage, obstacles: &Obstacles, finding: &Finding, late: Option<Duration>) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(limit) = late {
        reasons.push(format!("The time of {} ms ran out; a longer deadlineMs may tell.", limit.as_millis()));
    }
    let skipped = &coverage.skipped;
    let most = file::MAX_BYTES >> 20;
    let kinds = [
        (skipped.unreadable, "unreadable".to_owned()),
        (skipped.too_large, format!("over {most} MiB")),
        (skipped.special, "no regular file (pipe, socket or device)".to_owned()),
        (skipped.binary, "binary".to_owned()),
    ];
    let kinds: Vec<_> = kinds.iter().filter(|(count, _)| *count > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !kinds.is_empty() {
        let paths: Vec<_> = obstacles.paths.iter().map(String::as_str).collect();
        let named = if paths.is_empty() { String::new() } else { format!(", such as {}", paths.join(", ")) };
        reasons.push(format!("Not searched: {}{named}.", kinds.join(", ")));
    }
    if let Some(tree) = &obstacles.untold {
        reasons.push(format!("What git tracks in {} could not be learned.", tree.display()));
    }
    match finding {
        Finding::MemberElsewhere(Place { name, file, line, is_declaration }) => {
            let what = if *is_declaration { "is declared" } else { "occurs" };
            reasons.push(format!("{name} {what} at {file}:{line}, which may or may not be what is meant: look there."));
        }
        Finding::Literal | Finding::FlagInPieces | Finding::Macro | Finding::WithoutGenerics(_) | Finding::Member => {}
    }
    reasons
}

/// Names the directories that were left out, which does not make an answer uncertain.
fn dependency_dirs(root: &Root, obstacles: &Obstacles) -> Vec<String> {
    let whole = named(root, &obstacles.dependency_dirs);
    let partly = named(root, &obstacles.partly_tracked_dirs);
    let whole = whole.map(|names| format!("Left out as dependencies or build output: {names}."));
    let partly = partly.map(|names| format!("Left out but for what git tracks in them: {names}."));
    whole.into_iter().chain(partly).collect()
}

/// Says that no candidate was found, and where none was looked for.
fn nowhere_else(root: &Root, candidates: &Candidates) -> String {
    let found = if candidates.is_cut {
        "and the time ran out before it was looked for everywhere else."
    } else {
        "and nothing of that name was found elsewhere in the root."
    };
    let mut text = found.to_owned();
    if let Some(names) = named(root, &candidates.left_out) {
        text += &format!(" Not looked for in dependencies and build output but for what git tracks: {names}.");
    }
    if candidates.unreadable > 0 {
        text +=
            &format!(" Not looked for in what can't be read: {}.", counted(candidates.unreadable, "place", "places"));
    }
    text
}

/// Returns the first directories by their names below the root; nothing when there is none.
fn named(root: &Root, directories: &BTreeSet<PathBuf>) -> Option<String> {
    const NAMED: usize = 5;
    let number = directories.len();
    let short = |path: &PathBuf| path.strip_prefix(&root.path).unwrap_or(path).display().to_string();
    let names: Vec<_> = directories.iter().take(NAMED).map(short).collect();
    let more = if number > NAMED { format!(" and {} more", number - NAMED) } else { String::new() };
    (number > 0).then(|| format!("{}{more}", names.join(", ")))
}

fn answer(reference: MemoryReference, verdict: ReferenceVerdict, summary: String) -> ReferenceAnswer {
    let is_scan = reference.kind != ReferenceKind::Path;
    ReferenceAnswer {
        reference,
        exists: verdict == ReferenceVerdict::Present,
        verdict,
        found_in: Vec::new(),
        match_count: 0,
        last_modified: None,
        summary,
        truncated: false,
        matches: Vec::new(),
        candidates: Vec::new(),
        ignored: None,
        coverage: is_scan.then(Coverage::default),
    }
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
