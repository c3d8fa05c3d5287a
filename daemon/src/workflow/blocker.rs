//! What stands in the way, as a code and a sentence that names the file, the line, and what to do next.

use std::path::Path;

use grounding_proto::solution::WorkflowBlocker;

/// Returns a blocker; every message of this arm starts alike.
///
/// `subject` names what it is about in the message, `file` is the same as a path.
pub(super) fn blocker(code: &str, subject: &str, file: &Path, line: Option<u64>, sentence: &str) -> WorkflowBlocker {
    let place = line.map_or_else(String::new, |line| format!(", line {line}"));
    WorkflowBlocker {
        code: code.to_owned(),
        kind: None,
        message: format!("orchestrator-workflow: {subject}{place}: {sentence}"),
        file: Some(file.display().to_string()),
        line,
    }
}
