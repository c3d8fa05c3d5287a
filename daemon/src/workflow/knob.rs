//! The knob of the arm in `.ai/solution-acceptance.json` (SPEC-workflow 1).
//!
//! Whatever can't be read means `auto`, so that a broken file never turns the arm off.

use std::path::Path;

use serde_json::Value;

use super::run_file::{RunFile, read};

/// When the arm counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knob {
    /// When there is an active run.
    Auto,
    /// Always; no active run blocks.
    On,
    /// Never.
    Off,
}

/// Returns the knob of the repository at `repository`.
pub(super) fn knob(repository: &Path) -> Knob {
    let RunFile::Text(text) = read(&repository.join(".ai/solution-acceptance.json")) else { return Knob::Auto };
    let settings: Value = serde_json::from_str(&text).unwrap_or_default();
    match settings.get("orchestratorWorkflow").and_then(Value::as_str) {
        Some("on") => Knob::On,
        Some("off") => Knob::Off,
        _ => Knob::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_words_turn_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".ai/solution-acceptance.json");
        assert_eq!(knob(folder.path()), Knob::Auto);
        std::fs::create_dir(folder.path().join(".ai")).unwrap();
        let cases = [
            (r#"{"orchestratorWorkflow":"on"}"#, Knob::On),
            (r#"{"orchestratorWorkflow":"off","other":1}"#, Knob::Off),
            (r#"{"orchestratorWorkflow":"auto"}"#, Knob::Auto),
            (r#"{"orchestratorWorkflow":"OFF"}"#, Knob::Auto),
            (r#"{"orchestratorWorkflow":false}"#, Knob::Auto),
            (r#"{"orchestratorWorkflow":"off""#, Knob::Auto),
            (r#"["off"]"#, Knob::Auto),
            ("", Knob::Auto),
        ];
        for (text, expected) in cases {
            std::fs::write(&file, text).unwrap();
            assert_eq!(knob(folder.path()), expected, "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(knob(folder.path()), Knob::Auto);
    }
}
