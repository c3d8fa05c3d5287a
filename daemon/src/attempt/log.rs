//! The attempt log `<key>.attempts.jsonl` (SPEC 6): one record a line, one append a record.
//!
//! Shared with other programs that append to the same file. Lines that are no records are skipped, never repaired;
//! compaction alone rewrites the file, and only by someone who holds the id's lock.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use grounding_proto::solution::{AttemptStatus, OutcomeClass};
use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::iso;
use crate::solution::verdict::surrogates;
use crate::store::{self, StoreError};
use crate::{json, points};

/// Longest line, with its newline, in bytes.
pub const MAX_LINE_BYTES: usize = 2048;

const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;
const CUT: &str = "... [truncated]";

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Record {
    /// An attempt began.
    Start {
        /// Names the attempt.
        attempt_id: String,
        /// The id.
        id: String,
        /// The commit; null when there is none.
        head: Option<String>,
        /// UTC with milliseconds.
        started_at: String,
        /// The supervisor's process; informational.
        pid: u32,
        /// Always running.
        status: AttemptStatus,
    },
    /// It ended.
    Terminal {
        /// Names the attempt.
        attempt_id: String,
        /// The id.
        id: String,
        /// completed or failed.
        status: AttemptStatus,
        /// UTC with milliseconds.
        terminal_at: String,
        /// How it ended.
        outcome_class: OutcomeClass,
        /// The outcome in counts.
        summary: String,
        /// Why there is no verdict.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether `error` was cut.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_truncated: Option<bool>,
    },
    /// Its fate was never established.
    ReconciledUnknown {
        /// Names the attempt.
        attempt_id: String,
        /// The id.
        id: String,
        /// UTC with milliseconds.
        reconciled_at: String,
    },
    /// It settled long ago; its records were pruned.
    Tombstone {
        /// Names the attempt.
        attempt_id: String,
        /// The id.
        id: String,
        /// How it ended; unknown when that was never established.
        outcome_class: OutcomeClass,
        /// UTC with milliseconds.
        pruned_at: String,
    },
}

/// What a log says of one attempt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// Names the attempt.
    pub attempt_id: String,
    /// The id.
    pub id: String,
    /// Its start record.
    pub start: Option<Start>,
    /// Its last terminal record.
    pub terminal: Option<Terminal>,
    /// When it was reconciled.
    pub reconciled_at: Option<String>,
    /// Its tombstone.
    pub tombstone: Option<Tombstone>,
}

/// What a start record says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// The commit.
    pub head: Option<String>,
    /// When it began.
    pub started_at: String,
}

/// What a terminal record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// Whether a verdict was produced.
    pub status: AttemptStatus,
    /// When it ended.
    pub terminal_at: String,
    /// How it ended.
    pub outcome_class: OutcomeClass,
    /// The outcome in counts.
    pub summary: Option<String>,
    /// Why there is no verdict.
    pub error: Option<String>,
}

/// What a tombstone says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// How it ended.
    pub outcome_class: OutcomeClass,
    /// When it was pruned.
    pub pruned_at: String,
}

impl Attempt {
    /// Returns where the attempt stands, before any look at the lock (SPEC 6, Reader).
    #[must_use]
    pub fn status(&self) -> AttemptStatus {
        match (&self.tombstone, &self.reconciled_at, &self.terminal) {
            (Some(tombstone), _, _) if tombstone.outcome_class == OutcomeClass::Unknown => AttemptStatus::Unknown,
            (Some(_), _, _) => AttemptStatus::Expired,
            (None, Some(_), _) => AttemptStatus::Unknown,
            (None, None, Some(terminal)) => terminal.status,
            (None, None, None) => AttemptStatus::Running,
        }
    }

    /// Returns how the attempt ended; nothing while it runs or when that was never established, which only a tombstone
    /// says in words.
    #[must_use]
    pub fn outcome_class(&self) -> Option<OutcomeClass> {
        match (&self.tombstone, &self.reconciled_at, &self.terminal) {
            (Some(tombstone), _, _) => Some(tombstone.outcome_class),
            (None, Some(_), _) => None,
            (None, None, terminal) => {
                let class = terminal.as_ref().map(|terminal| terminal.outcome_class);
                class.filter(|class| *class != OutcomeClass::Unknown)
            }
        }
    }

    /// Returns when its last record was written.
    #[must_use]
    pub fn last_updated_at(&self) -> Option<&str> {
        match (&self.tombstone, &self.reconciled_at, &self.terminal, &self.start) {
            (Some(tombstone), _, _, _) => Some(&tombstone.pruned_at),
            (None, Some(at), _, _) => Some(at),
            (None, None, Some(terminal), _) => Some(&terminal.terminal_at),
            (None, None, None, start) => start.as_ref().map(|start| start.started_at.as_str()),
        }
    }
}

/// A log as it was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    attempts: Vec<Attempt>,
}

impl Log {
    /// Reads a log; an absent one is empty.
    ///
    /// # Errors
    /// When it is a symlink, no regular file, or can't be read.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        Ok(store::read_file(path, MAX_LOG_BYTES)?.map_or_else(Self::default, |bytes| Self::parse(&bytes)))
    }

    /// Reads the text of a log.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut log = Self::default();
        // Ids that share the file may share the name of an attempt, too: what is said of one says nothing of the other.
        let mut positions = HashMap::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Some((attempt_id, id, kind, record)) = parse_line(line) {
                let position = *positions.entry((attempt_id.clone(), id.clone())).or_insert_with(|| {
                    log.attempts.push(Attempt { attempt_id, id, ..Attempt::default() });
                    log.attempts.len() - 1
                });
                apply(&mut log.attempts[position], &kind, &record);
            }
        }
        log
    }

    /// Returns the attempts of an id, in the order of the file.
    fn of_id<'log>(&'log self, id: &str) -> impl Iterator<Item = &'log Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.id == id)
    }

    /// Returns all attempts, of whatever id shares the file.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns an attempt of an id by its name.
    #[must_use]
    pub fn attempt<'log>(&'log self, id: &str, attempt_id: &str) -> Option<&'log Attempt> {
        self.of_id(id).find(|attempt| attempt.attempt_id == attempt_id)
    }

    /// Returns the latest attempt of an id: the largest start time, the first in the file when equal, no tombstones.
    #[must_use]
    pub fn latest<'log>(&'log self, id: &str) -> Option<&'log Attempt> {
        let mut latest: Option<(&Attempt, &str)> = None;
        for attempt in self.of_id(id).filter(|attempt| attempt.tombstone.is_none()) {
            let Some(start) = &attempt.start else { continue };
            if latest.is_none_or(|(_, started_at)| start.started_at.as_str() > started_at) {
                latest = Some((attempt, &start.started_at));
            }
        }
        latest.map(|(attempt, _)| attempt)
    }

    /// Returns the attempts of an id that still read running.
    pub fn running<'log>(&'log self, id: &str) -> impl Iterator<Item = &'log Attempt> {
        self.of_id(id).filter(|attempt| attempt.status() == AttemptStatus::Running)
    }

    /// Returns the names of settled attempts whose last record is older than `before`; all that bear the name are.
    #[must_use]
    pub fn prunable(&self, before: Timestamp) -> HashSet<String> {
        let is_old = |attempt: &Attempt| {
            let time = attempt.last_updated_at().and_then(|time| time.parse::<Timestamp>().ok());
            attempt.tombstone.is_none()
                && attempt.status() != AttemptStatus::Running
                && time.is_some_and(|time| time < before)
        };
        let (old, young): (Vec<_>, Vec<_>) = self.attempts.iter().partition(|attempt| is_old(attempt));
        let kept: HashSet<_> = young.iter().map(|attempt| attempt.attempt_id.as_str()).collect();
        let names = old.iter().map(|attempt| attempt.attempt_id.as_str());
        names.filter(|name| !kept.contains(name)).map(str::to_owned).collect()
    }
}

/// Appends a record, durably. The caller holds the id's lock.
///
/// # Errors
/// When the log is a symlink or no regular file, or can't be written; nothing of the record is then read as one.
pub fn append(path: &Path, record: &Record) -> Result<(), StoreError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(flags);
    let opened = points::touch("open", path).and_then(|()| options.open(path));
    let mut file = opened.map_err(StoreError::io("open", path))?;
    if !file.metadata().map_err(StoreError::io("read", path))?.is_file() {
        return Err(StoreError::unusable(path, "is not a regular file"));
    }
    let mut line = line_of(record);
    let end = file.seek(SeekFrom::End(0)).map_err(StoreError::io("read", path))?;
    if end > 0 && !ends_with_newline(&mut file).map_err(StoreError::io("read", path))? {
        line.insert(0, '\n');
    }
    let mut appended = 0;
    let written = points::write(path, line.as_bytes(), |bytes| append_counted(&mut file, bytes, &mut appended))
        .and_then(|()| points::touch("sync", path))
        .and_then(|()| file.sync_data())
        .map_err(StoreError::io("write", path))
        // The first record makes the file, whose name must be on disk as well.
        .and_then(|()| if end == 0 { store::sync_parent(path) } else { Ok(()) });
    if written.is_err() {
        // What can't be blanked either reads as a record, of which the attempt's caller was told that it failed.
        let _ = blank(path, &mut file, &line.as_bytes()[..appended]);
    }
    written
}

fn append_counted(file: &mut File, mut bytes: &[u8], appended: &mut usize) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *appended += count;
                bytes = &bytes[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes back what a failed append left, so that it is no record of something that was answered as failed. It is blanked
/// in its place: somebody else's record may stand behind it, which cutting the file would take along.
fn blank(path: &Path, file: &mut File, appended: &[u8]) -> io::Result<()> {
    let start = file.stream_position()?.saturating_sub(appended.len() as u64);
    let mut found = vec![0; appended.len()];
    file.read_exact_at(&mut found, start)?;
    if found != appended {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let blanks: Vec<u8> = appended.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }).collect();
    // A file that is opened to be appended to can't be written anywhere else.
    let in_place = OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    in_place.write_all_at(&blanks, start)?;
    in_place.sync_data()
}

/// Replaces the settled attempts of these names by tombstones, and drops what is no record. The caller holds the lock.
///
/// # Errors
/// When the log can't be read or replaced; it then stands as it was.
pub fn compact(path: &Path, prune: &HashSet<String>, now: Timestamp) -> Result<(), StoreError> {
    let bytes = store::read_file(path, MAX_LOG_BYTES)?.unwrap_or_default();
    store::replace(path, compacted(&bytes, prune, now).as_bytes())
}

/// Returns the text of a log with tombstones for the settled attempts of these names, and without what is no record.
#[must_use]
pub fn compacted(bytes: &[u8], prune: &HashSet<String>, now: Timestamp) -> String {
    let mut compacted = String::new();
    for attempt in Log::parse(bytes).attempts.iter().filter(|attempt| prune.contains(&attempt.attempt_id)) {
        let tombstone = Record::Tombstone {
            attempt_id: attempt.attempt_id.clone(),
            id: attempt.id.clone(),
            outcome_class: attempt.outcome_class().unwrap_or(OutcomeClass::Unknown),
            pruned_at: iso(now),
        };
        compacted.push_str(&line_of(&tombstone));
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        if parse_line(line).is_some_and(|(attempt_id, ..)| !prune.contains(&attempt_id)) {
            compacted.push_str(&String::from_utf8_lossy(line));
            compacted.push('\n');
        }
    }
    compacted
}

/// Appends reconciled-unknown for every attempt of an id that still reads running. The caller holds the lock.
///
/// # Errors
/// When the log can't be read or written.
pub fn reconcile(log_path: &Path, id: &str, now: String) -> Result<(), StoreError> {
    let log = Log::read(log_path)?;
    for attempt in log.running(id) {
        let attempt_id = attempt.attempt_id.clone();
        let record = Record::ReconciledUnknown { attempt_id, id: id.to_owned(), reconciled_at: now.clone() };
        append(log_path, &record)?;
    }
    Ok(())
}

fn parse_line(line: &[u8]) -> Option<(String, String, String, Value)> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let parsed = serde_json::from_str(text).or_else(|error| match surrogates::replace(text, |_| '\u{FFFD}') {
        Some(text) => serde_json::from_str(&text),
        None => Err(error),
    });
    let record: Value = parsed.ok()?;
    let kind = record.get("kind")?.as_str()?.to_owned();
    let attempt_id = record.get("attemptId")?.as_str().filter(|name| !name.is_empty())?.to_owned();
    let id = record.get("id")?.as_str()?.to_owned();
    let known = matches!(kind.as_str(), "start" | "terminal" | "reconciled-unknown" | "tombstone");
    known.then_some((attempt_id, id, kind, record))
}

fn apply(attempt: &mut Attempt, kind: &str, record: &Value) {
    let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
    let outcome_class = || {
        let class = record.get("outcomeClass").and_then(|class| OutcomeClass::deserialize(class).ok());
        class.unwrap_or(OutcomeClass::Unknown)
    };
    match kind {
        "start" if attempt.start.is_none() => {
            attempt.start = Some(Start { head: text("head"), started_at: text("startedAt").unwrap_or_default() });
        }
        "terminal" => {
            let completed = text("status").is_some_and(|status| status == "completed");
            attempt.terminal = Some(Terminal {
                status: if completed { AttemptStatus::Completed } else { AttemptStatus::Failed },
                terminal_at: text("terminalAt").unwrap_or_default(),
                outcome_class: outcome_class(),
                summary: text("summary"),
                error: text("error"),
            });
        }
        "reconciled-unknown" => attempt.reconciled_at = Some(text("reconciledAt").unwrap_or_default()),
        "tombstone" => {
            let pruned_at = text("prunedAt").unwrap_or_default();
            attempt.tombstone = Some(Tombstone { outcome_class: outcome_class(), pruned_at });
        }
        _ => {}
    }
}

/// Returns the record's line, cut to fit: the error first, then the summary.
fn line_of(record: &Record) -> String {
    let write = |record: &Record| {
        let mut line = json::compact(record);
        line.push('\n');
        line
    };
    let line = write(record);
    if line.len() <= MAX_LINE_BYTES {
        return line;
    }
    let mut shorter = record.clone();
    if let Record::Terminal { error: Some(error), error_truncated, .. } = &mut shorter {
        *error_truncated = Some(true);
        let full = std::mem::take(error);
        shorter = fit(&shorter, &full, |record, text| {
            if let Record::Terminal { error, .. } = record {
                *error = Some(text);
            }
        });
    }
    if write(&shorter).len() > MAX_LINE_BYTES
        && let Record::Terminal { summary, .. } = &mut shorter
    {
        let full = std::mem::take(summary);
        shorter = fit(&shorter, &full, |record, text| {
            if let Record::Terminal { summary, .. } = record {
                *summary = text;
            }
        });
    }
    write(&shorter)
}

/// Puts the longest prefix of `full` that fits the line into the record, marked as cut.
fn fit(record: &Record, full: &str, put: impl Fn(&mut Record, String)) -> Record {
    let with = |end: usize| {
        let mut candidate = record.clone();
        put(&mut candidate, format!("{}{CUT}", &full[..end]));
        candidate
    };
    let fits = |end: usize| {
        let length = serde_json::to_string(&with(end)).map_or(usize::MAX, |line| line.len() + 1);
        length <= MAX_LINE_BYTES
    };
    let ends: Vec<usize> = full.char_indices().map(|(index, _)| index).take(MAX_LINE_BYTES).collect();
    let fitting = ends.partition_point(|end| fits(*end));
    with(ends[..fitting].last().copied().unwrap_or(0))
}

fn ends_with_newline(file: &mut std::fs::File) -> std::io::Result<bool> {
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn start(attempt_id: &str, started_at: &str) -> Record {
        Record::Start {
            attempt_id: attempt_id.into(),
            id: "t".into(),
            head: None,
            started_at: started_at.into(),
            pid: 1,
            status: AttemptStatus::Running,
        }
    }

    fn terminal(attempt_id: &str, error: &str, summary: &str) -> Record {
        Record::Terminal {
            attempt_id: attempt_id.into(),
            id: "t".into(),
            status: AttemptStatus::Failed,
            terminal_at: "2026-01-01T00:00:01.000Z".into(),
            outcome_class: OutcomeClass::Error,
            summary: summary.into(),
            error: Some(error.into()),
            error_truncated: None,
        }
    }

    #[test]
    fn logs_are_read_as_recorded() {
        let fixture: Value = serde_json::from_str(include_str!("../../../tests/fixtures/attempt-log.json")).unwrap();
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() > 15);
        for case in cases {
            let name = &case["name"];
            let log = Log::parse(case["log"].as_str().unwrap().as_bytes());
            let expected = &case["expect"];
            assert_eq!(
                log.latest("t").map(|attempt| attempt.attempt_id.as_str()),
                expected["latest"].as_str(),
                "{name}"
            );
            let attempts = expected["attempts"].as_object().unwrap();
            assert_eq!(log.attempts().len(), attempts.len(), "{name}");
            for (attempt_id, expected) in attempts {
                let attempt = log.attempt("t", attempt_id).unwrap();
                assert_eq!(serde_json::to_value(attempt.status()).unwrap(), expected["status"], "{name}");
                assert_eq!(serde_json::to_value(attempt.outcome_class()).unwrap(), expected["outcomeClass"], "{name}");
            }
        }
    }

    #[test]
    fn the_original_log_is_read_and_ours_has_its_lines() {
        let original = include_str!("../../../tests/fixtures/original-files/attempts.jsonl");
        let log = Log::parse(original.as_bytes());
        assert_eq!(log.latest("t").unwrap().outcome_class(), Some(OutcomeClass::Ready));
        let record = Record::Start {
            attempt_id: "b2f5385a-b484-4360-8d9a-e5189fb70371".into(),
            id: "t".into(),
            head: Some("1266a2d2577d0f050bcab15d82cd23087ebdaf9d".into()),
            started_at: "2026-12-01T07:12:02.118Z".into(),
            pid: 5567,
            status: AttemptStatus::Running,
        };
        assert_eq!(line_of(&record).trim_end(), original.lines().next().unwrap());
    }

    #[test]
    fn a_torn_line_never_swallows_the_next_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, &start("a", "2026-01-01T00:00:00.000Z")).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"kind\":\"terminal\",\"att").unwrap();
        append(&path, &start("b", "2026-01-01T00:00:02.000Z")).unwrap();
        let log = Log::read(&path).unwrap();
        assert_eq!(log.latest("t").unwrap().attempt_id, "b");
        assert_eq!(log.attempts().len(), 2);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_line_never_exceeds_its_bound() {
        for (error, summary) in [
            ("x".repeat(9000), "ready=false".to_owned()),
            ("\u{1}é\"".repeat(900), "s".repeat(9000)),
            ("😀".repeat(3000), "😀".repeat(3000)),
        ] {
            let line = line_of(&terminal("a", &error, &summary));
            assert!(line.len() <= MAX_LINE_BYTES && line.len() > MAX_LINE_BYTES - 40, "{}", line.len());
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["errorTruncated"], true);
            assert!(value["error"].as_str().unwrap().ends_with(CUT));
        }
    }

    #[test]
    fn records_of_another_id_say_nothing_of_an_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, &start("a", "2026-01-01T00:00:00.000Z")).unwrap();
        let of_another = r#"{"kind":"terminal","attemptId":"a","id":"T","status":"completed","outcomeClass":"ready","terminalAt":"2026-01-01T00:00:01.000Z"}"#;
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(of_another.as_bytes()).unwrap();
        let log = Log::read(&path).unwrap();
        assert_eq!(log.attempt("t", "a").unwrap().status(), AttemptStatus::Running);
        assert_eq!(log.attempt("T", "a").unwrap().status(), AttemptStatus::Completed);
        assert!(log.prunable("2026-01-02T00:00:00Z".parse().unwrap()).is_empty());
    }

    #[test]
    fn a_class_that_is_none_is_not_answered() {
        let class = |class: &str| {
            let line =
                format!(r#"{{"kind":"terminal","attemptId":"a","id":"t","status":"failed","outcomeClass":{class}}}"#);
            Log::parse(line.as_bytes()).attempts()[0].outcome_class()
        };
        assert_eq!(class(r#""error""#), Some(OutcomeClass::Error));
        for none in [r#""unknown""#, r#""splendid""#, "1"] {
            assert_eq!(class(none), None);
        }
    }

    #[test]
    fn lone_surrogates_do_not_hide_a_record() {
        let line = r#"{"kind":"terminal","attemptId":"a","id":"t","status":"failed","outcomeClass":"error","error":"cut \ud83d"}"#;
        assert_eq!(Log::parse(line.as_bytes()).attempt("t", "a").unwrap().status(), AttemptStatus::Failed);
    }

    #[test]
    fn compaction_leaves_tombstones_and_what_is_young() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, &start("old", "2026-01-01T00:00:00.000Z")).unwrap();
        append(&path, &terminal("old", "e", "s")).unwrap();
        append(&path, &start("lost", "2026-01-01T00:00:00.000Z")).unwrap();
        let reconciled_at = "2026-01-01T00:00:09.000Z".into();
        append(&path, &Record::ReconciledUnknown { attempt_id: "lost".into(), id: "t".into(), reconciled_at }).unwrap();
        append(&path, &start("live", "2026-01-01T00:00:00.000Z")).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"garbage\n").unwrap();

        let log = Log::read(&path).unwrap();
        assert!(log.prunable("2026-01-01T00:00:01Z".parse().unwrap()).is_empty());
        let prune = log.prunable("2026-01-02T00:00:00Z".parse().unwrap());
        compact(&path, &prune, "2026-01-03T00:00:00Z".parse().unwrap()).unwrap();

        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        let log = Log::read(&path).unwrap();
        let status = |name| log.attempt("t", name).unwrap().status();
        assert_eq!(status("old"), AttemptStatus::Expired);
        assert_eq!(status("lost"), AttemptStatus::Unknown);
        assert_eq!(status("live"), AttemptStatus::Running);
        assert!(log.prunable("2027-01-01T00:00:00Z".parse().unwrap()).is_empty());
    }
}
