//! Memory references on the wire (SPEC 7).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a memory names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceKind {
    /// A file or directory.
    Path,
    /// An identifier.
    Symbol,
    /// A command-line flag.
    Flag,
}

/// Arguments of `verify_memory_reference`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyMemoryReference {
    /// path: a file or directory, also as file:line; symbol: a whole identifier; flag: a command-line flag such as --force.
    pub kind: ReferenceKind,
    /// What the memory names. 1 to 4096 characters.
    #[schemars(length(min = 1, max = 4096))]
    pub value: String,
    /// The repository to look in; relative to the working directory of the client. At most 4096 characters. Default: the working directory.
    #[schemars(length(min = 1, max = 4096))]
    pub repo_root: Option<String>,
    /// Time the scan may take, in milliseconds, 1 to 60000. Default: 10000.
    #[schemars(range(min = 1, max = 60_000))]
    pub deadline_ms: Option<u64>,
}

/// The reference as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReference {
    /// What the memory names.
    pub kind: ReferenceKind,
    /// The name itself.
    pub value: String,
    /// The repository as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_root: Option<String>,
}

/// Whether the reference is there, with the certainty a caller may act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceVerdict {
    /// Found.
    Present,
    /// Looked for everywhere it could be, and not found.
    Absent,
    /// Not found, but not everything could be looked at.
    Unknown,
}

/// Answer of `verify_memory_reference`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceAnswer {
    /// The reference as it was asked for.
    #[serde(rename = "ref")]
    pub reference: MemoryReference,
    /// Whether it was found.
    pub exists: bool,
    /// present, absent, or unknown when it was not found but not everything could be looked at.
    pub verdict: ReferenceVerdict,
    /// Absolute paths of the files it was found in, sorted, at most 200.
    pub found_in: Vec<String>,
    /// All occurrences.
    pub match_count: u64,
    /// When the path was last modified, UTC with milliseconds; kind path only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// One or two sentences for people and agents.
    pub summary: String,
    /// Whether the scan was cut short, or foundIn was.
    pub truncated: bool,
    /// The first 20 matches, definitions first.
    pub matches: Vec<ReferenceMatch>,
    /// Kind path, when it is absent: files of the same name elsewhere, tracked ones first.
    pub candidates: Vec<String>,
    /// Whether it was found only in files that git ignores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<bool>,
    /// What was looked at; absent for kind path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
}

/// One matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceMatch {
    /// Absolute path.
    pub file: String,
    /// Line, counted from 1.
    pub line: u64,
    /// The line's text, trimmed and cut at 200 characters.
    pub text: String,
    /// Whether the line declares the symbol rather than using it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<bool>,
}

/// What a scan looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Files searched.
    pub files_scanned: u64,
    /// Bytes searched.
    pub bytes_scanned: u64,
    /// What was passed over, by reason.
    pub skipped: SkippedFiles,
    /// Time the scan took, in milliseconds.
    pub elapsed_ms: u64,
    /// Whether an absent answer can be trusted.
    pub complete: bool,
}

/// Files and directories that a scan passed over, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedFiles {
    /// Ignored files that the second pass met and did not search. They are not counted when the first pass found the
    /// value, since it does not look for them.
    pub ignored: u64,
    /// Files with NUL bytes that were not searched: the second pass searches them.
    pub binary: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Files over the size limit.
    pub too_large: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Dependency and build directories that were passed over, or in which only what git tracks was looked at.
    pub dependency_dirs: u64,
}
