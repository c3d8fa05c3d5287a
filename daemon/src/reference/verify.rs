//! One question, from its arguments to its answer: bounded in time, and in threads over all clients.
//!
//! The work is blocking and runs on the blocking pool. Walkers are counted in one place for the whole process, so that
//! many clients at once wait for each other rather than starve the daemon; a small scan never waits for a few large
//! ones. Waiting is no part of a scan's time. When the client hangs up, its scan ends.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use grounding_proto::reference::{MemoryReference, ReferenceAnswer, ReferenceKind, VerifyMemoryReference};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::candidates::Candidates;
use super::file::Judging;
use super::flag;
use super::path::{self, Found, LineFound, PathReference};
use super::pattern::{Pattern, macro_definition};
use super::qualified::{self, Member};
use super::scan::Scan;
use super::summary::{self, Finding};
use super::walk::Root;

/// Time of a scan when the caller names none.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Longest time of a scan.
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// How much longer a blocked read may take before the answer is given without it.
const GRACE: Duration = Duration::from_millis(300);

/// Threads of one scan: more than this gain nothing on one file system.
pub(super) static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(2, |n| n.get().min(12)));

/// Most scans at once, each with a walker of its own; others wait for their turn.
pub(super) const MAX_SCANS: usize = 16;

/// Turns of scans.
pub(super) static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_SCANS)));

/// The walkers beyond the first of each scan: two scans go at full speed, the next ones with what these leave.
static MORE_WALKERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(2 * (*THREADS - 1))));

/// Answers whether what a memory names is there (SPEC 7). Roots that can't be read, escapes and timeouts are answers
/// too, never errors. Takes at most `deadlineMs` and a moment, and waits for its turn as long at most; must run on a
/// tokio runtime.
pub async fn verify(cwd: &Path, arguments: VerifyMemoryReference) -> ReferenceAnswer {
    let started = Instant::now();
    let limit = arguments.deadline_ms.map_or(DEFAULT_DEADLINE, Duration::from_millis);
    let limit = limit.clamp(Duration::from_millis(1), MAX_DEADLINE);
    let VerifyMemoryReference { kind, value, repo_root, .. } = arguments;
    let reference = MemoryReference { kind, value, repo_root };
    let root = {
        let (cwd, given) = (cwd.to_owned(), reference.repo_root.clone());
        on_pool(started + limit, move || Root::find(&cwd, given.as_deref())).await
    };
    let root = match root {
        Some(Ok(root)) => root,
        Some(Err(error)) => return summary::root_unreadable(reference, cwd, &error),
        None => return summary::out_of_time(reference, limit),
    };
    match kind {
        ReferenceKind::Path => verify_path(reference, root, started, limit).await,
        ReferenceKind::Symbol | ReferenceKind::Flag => verify_name(reference, root, limit).await,
    }
}

async fn verify_path(reference: MemoryReference, root: Root, started: Instant, limit: Duration) -> ReferenceAnswer {
    let deadline = started + limit;
    let looked = {
        let (root, value) = (root.clone(), reference.value.clone());
        on_pool(deadline, move || look_for_path(&root, &value, deadline)).await
    };
    let Some((asked, found, line)) = looked else { return summary::out_of_time(reference, limit) };
    if !matches!(found, Found::Absent) {
        return summary::path(reference, &root, &asked, &found, line.as_ref(), Candidates::default());
    }
    let candidates = match walkers(limit).await {
        None => None,
        Some((_walkers, threads)) => {
            let (root, path, deadline) = (root.clone(), asked.path.clone(), Instant::now() + limit);
            let late = move || Instant::now() >= deadline;
            on_pool(deadline, move || Candidates::find(&root, &path, threads, &late)).await
        }
    };
    let candidates = candidates.unwrap_or_else(Candidates::unknown);
    summary::path(reference, &root, &asked, &found, line.as_ref(), candidates)
}

/// Looks for the value as it is, then as `file:line`.
fn look_for_path(root: &Root, value: &str, deadline: Instant) -> (PathReference, Found, Option<LineFound>) {
    let mut asked = PathReference { path: value.into(), line: None };
    let mut found = path::find(root, &asked.path);
    for other in path::with_line(value) {
        if !matches!(found, Found::Absent) {
            break;
        }
        found = path::find(root, &other.path);
        asked = other;
    }
    let line = match (&found, asked.line) {
        (Found::Present { path, .. }, Some(line)) => Some(path::find_line(path, line, &|| Instant::now() >= deadline)),
        _ => None,
    };
    (asked, found, line)
}

async fn verify_name(reference: MemoryReference, root: Root, limit: Duration) -> ReferenceAnswer {
    let pattern = match reference.kind {
        ReferenceKind::Flag => Pattern::flag(&reference.value),
        _ => Pattern::symbol(&reference.value),
    };
    let pattern = match pattern {
        Ok(pattern) => pattern,
        Err(error) => return summary::unusable(reference, &error.to_string()),
    };
    let Some((_walkers, threads)) = walkers(limit).await else {
        return summary::queued(reference, limit);
    };
    let started = Instant::now();
    let scan = CancelOnDrop(Arc::new(Scan::new(root, threads, started, limit)));
    let finding = {
        let (scan, kind, value) = (Arc::clone(&scan.0), reference.kind, reference.value.clone());
        on_pool(started + limit, move || search(&scan, &pattern, kind, &value)).await
    };
    if finding.is_none() {
        scan.0.cancel();
    }
    summary::name(reference, &scan.0, finding.unwrap_or(Finding::Literal), limit)
}

/// Looks for a symbol or flag: as written, then as declared in pieces, then in ignored and binary files.
fn search(scan: &Scan, pattern: &Pattern, kind: ReferenceKind, value: &str) -> Finding {
    let judging = if kind == ReferenceKind::Flag { Judging::None } else { Judging::Keywords };
    scan.look(pattern, judging);
    if scan.hits().count > 0 || scan.stopped() {
        return Finding::Literal;
    }
    let mut finding = Finding::Literal;
    let plain = qualified::without_generics(value);
    if kind == ReferenceKind::Flag {
        if let Some(hits) = flag::find(scan, value) {
            scan.adopt(hits);
            return Finding::FlagInPieces;
        }
    } else if let Some((outer, member)) = qualified::split(&plain) {
        if plain != value
            && let Ok(pattern) = Pattern::symbol(&plain)
        {
            let found = scan.another();
            found.look(&pattern, judging);
            if found.hits().count > 0 {
                scan.adopt(found.hits());
                return Finding::WithoutGenerics(plain.into_owned());
            }
        }
        finding = match qualified::find(scan, outer, member) {
            Member::Declared(hits) => {
                scan.adopt(hits);
                return Finding::Member;
            }
            Member::Elsewhere(place) => Finding::MemberElsewhere(place),
            Member::Nowhere => Finding::Literal,
        };
    } else if let Some(definition) = macro_definition(value) {
        let defined = scan.another();
        defined.look(&definition, Judging::AllDefine);
        if defined.hits().count > 0 {
            scan.adopt(defined.hits());
            return Finding::Macro;
        }
    }
    scan.look_further(pattern, judging);
    if scan.hits().count > 0 { Finding::Literal } else { finding }
}

/// Waits for a turn and its walker, and takes as many more as are free; nothing when the wait took too long.
async fn walkers(wait: Duration) -> Option<(Walkers, usize)> {
    let turn = tokio::time::timeout(wait, Arc::clone(&TURNS).acquire_owned()).await.ok()?.ok()?;
    for more in (1..*THREADS).rev() {
        let Ok(count) = u32::try_from(more) else { continue };
        if let Ok(others) = Arc::clone(&MORE_WALKERS).try_acquire_many_owned(count) {
            return Some((Walkers { _turn: turn, _more: Some(others) }, more + 1));
        }
    }
    Some((Walkers { _turn: turn, _more: None }, 1))
}

/// The walkers of one scan, until it ends.
struct Walkers {
    _turn: OwnedSemaphorePermit,
    _more: Option<OwnedSemaphorePermit>,
}

/// Runs blocking work that ends by itself at the deadline. Nothing when it does not: a read from a file system that
/// hangs can't be interrupted, so its thread is waited for no longer. Walkers are given back by the caller in any case:
/// a thread that hangs takes no time from others.
async fn on_pool<T: Send + 'static>(deadline: Instant, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::time::timeout_at((deadline + GRACE).into(), tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => Some(result),
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "looking for a memory reference failed");
            None
        }
        Err(_) => None,
    }
}

/// Ends the scan when its client is gone.
struct CancelOnDrop(Arc<Scan>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
