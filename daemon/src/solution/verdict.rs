//! The verdict marker on disk (SPEC 6): written signed and whole, read as a regular file and verified.
//!
//! A marker never leaves this module as a verdict unless its signature was checked with the id asked for.

use std::path::{Path, PathBuf};

use grounding_proto::solution::Verdict;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::signing::{self, ALGORITHM, KeyError, Signable, SigningKey};
use crate::json;
use crate::store::{self, FileKey, StoreError};

const MAX_MARKER_BYTES: u64 = 64 * 1024 * 1024;

/// Why a marker is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum MarkerError {
    /// There is none.
    #[error("there is no verdict for this id; run solution_evaluate first")]
    Absent,
    /// It can't be read as a marker.
    #[error("the marker can't be read: {0}")]
    Invalid(String),
    /// Its signature is missing or wrong, or it speaks of another id.
    #[error("the marker is not one that was signed for this id: {0}")]
    Forged(&'static str),
    /// There is no key to verify it with.
    #[error("the marker can't be verified")]
    Key(#[from] KeyError),
}

#[derive(Serialize)]
struct SignedMarker<'a> {
    id: &'a str,
    head: &'a str,
    ready: bool,
    confidence: Box<RawValue>,
    blockers: &'a [String],
    timestamp: &'a str,
    source: &'a str,
    alg: &'static str,
    signature: String,
}

#[derive(Deserialize)]
struct StoredMarker {
    #[serde(flatten)]
    verdict: Verdict,
    alg: Option<serde_json::Value>,
    signature: Option<serde_json::Value>,
}

/// Returns the path of an id's marker in a verdict directory.
#[must_use]
pub fn marker_path(verdict_dir: &Path, key: &FileKey) -> PathBuf {
    key.path_in(verdict_dir, ".json")
}

/// Writes the signed marker of a verdict, replacing what is there.
///
/// # Errors
/// When it can't be written; what was there then stands.
pub fn write_marker(path: &Path, verdict: &Verdict, key: &SigningKey) -> Result<(), StoreError> {
    store::replace(path, marker_text(verdict, key).as_bytes())
}

fn marker_text(verdict: &Verdict, key: &SigningKey) -> String {
    let marker = SignedMarker {
        id: &verdict.id,
        head: &verdict.head,
        ready: verdict.ready,
        confidence: signing::raw_number(verdict.confidence),
        blockers: &verdict.blockers,
        timestamp: &verdict.timestamp,
        source: &verdict.source,
        alg: ALGORITHM,
        signature: signing::sign(key, signable(verdict)),
    };
    let mut text = json::pretty(&marker);
    text.push('\n');
    text
}

/// Reads a marker and returns its verdict once the signature was verified with the id asked for.
///
/// # Errors
/// Each reason why it is no verdict is a variant of its own.
pub fn read_marker(path: &Path, id: &str, key_path: &Path) -> Result<Verdict, MarkerError> {
    let bytes = match store::read_file(path, MAX_MARKER_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(MarkerError::Absent),
        Err(StoreError::Io { source, doing, path }) => {
            return Err(MarkerError::Invalid(format!("can't {doing} {}: {source}", path.display())));
        }
        Err(error) => return Err(MarkerError::Invalid(error.to_string())),
    };
    let text = String::from_utf8(bytes).map_err(|_| MarkerError::Invalid("it is not UTF-8".to_owned()))?;
    let (text, surrogates) = surrogates::stand_in(&text);
    let marker: StoredMarker = serde_json::from_str(&text).map_err(|error| MarkerError::Invalid(error.to_string()))?;
    if marker.alg.is_none_or(|alg| alg != ALGORITHM) {
        return Err(MarkerError::Forged("it has no signature of a known kind"));
    }
    let Some(serde_json::Value::String(signature)) = marker.signature else {
        return Err(MarkerError::Forged("it has no signature"));
    };
    let verdict = marker.verdict;
    if verdict.id != id {
        return Err(MarkerError::Forged("it names another id"));
    }
    let blockers = surrogates.restore(&json::compact(&verdict.blockers));
    let key = signing::read_key(key_path)?;
    if signing::verify(&key, signable(&verdict), &blockers, &signature) {
        Ok(verdict)
    } else {
        Err(MarkerError::Forged("its signature does not match"))
    }
}

/// Returns the fields of a verdict that are signed.
#[must_use]
pub fn signable(verdict: &Verdict) -> Signable<'_> {
    Signable {
        id: &verdict.id,
        head: &verdict.head,
        ready: verdict.ready,
        confidence: verdict.confidence,
        blockers: &verdict.blockers,
        timestamp: &verdict.timestamp,
        source: &verdict.source,
    }
}

/// Lone surrogate escapes, which ECMAScript writes and Rust's strings can't hold.
pub(crate) mod surrogates {
    /// First of 2,048 private-use characters, one per surrogate.
    const FIRST: u32 = 0xF_0000;

    /// Whether characters of a text stand for lone surrogates.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum StandIns {
        /// None do.
        None,
        /// The private-use characters from `FIRST` on do.
        Present,
    }

    impl StandIns {
        /// Writes the escapes back, as `JSON.stringify` writes them.
        pub(crate) fn restore(self, json: &str) -> String {
            if self == Self::None {
                return json.to_owned();
            }
            let mut restored = String::with_capacity(json.len());
            for character in json.chars() {
                match u32::from(character).checked_sub(FIRST).filter(|offset| *offset < 0x800) {
                    Some(offset) => restored.push_str(&format!("\\u{:04x}", 0xD800 + offset)),
                    None => restored.push(character),
                }
            }
            restored
        }
    }

    /// Replaces each lone surrogate escape of a JSON text by a private-use character.
    pub(crate) fn stand_in(json: &str) -> (String, StandIns) {
        let character = |unit: u16| char::from_u32(FIRST + u32::from(unit) - 0xD800).unwrap_or('\u{FFFD}');
        match replace(json, character) {
            Some(text) => (text, StandIns::Present),
            None => (json.to_owned(), StandIns::None),
        }
    }

    /// Replaces each lone surrogate escape of a JSON text; returns nothing when there is none.
    pub(crate) fn replace(json: &str, with: impl Fn(u16) -> char) -> Option<String> {
        let escape = |at: usize| -> Option<u16> {
            let digits = json.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
            u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        let (mut replaced, mut copied, mut at) = (String::new(), 0, 0);
        while let Some(found) = json.get(at..)?.find('\\') {
            let start = at + found;
            at = match escape(start) {
                None => (start + 2).min(json.len()),
                Some(0xD800..=0xDBFF) if escape(start + 6).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) => {
                    start + 12
                }
                Some(unit @ 0xD800..=0xDFFF) => {
                    replaced.push_str(&json[copied..start]);
                    replaced.push(with(unit));
                    copied = start + 6;
                    copied
                }
                Some(_) => start + 6,
            };
            while !json.is_char_boundary(at) {
                at += 1;
            }
        }
        if copied == 0 {
            return None;
        }
        replaced.push_str(&json[copied..]);
        Some(replaced)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_lone_surrogates_are_replaced() {
            assert_eq!(replace(r#"["\ud83d\ude00", "\\ud83d", "\u00e9", "x\"", "\é"]"#, |_| '?'), None);
            assert_eq!(replace(r#"["a\ud83d", "\ude00b"]"#, |_| '?').unwrap(), r#"["a?", "?b"]"#);
            assert_eq!(replace(r"\ud83d\ud83d\ude00\", |_| '?').unwrap(), r"?\ud83d\ude00\");
        }

        #[test]
        fn stand_ins_are_restored() {
            let json = r#"["cut \ud83d","\udfff"]"#;
            let (text, stand_ins) = stand_in(json);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(stand_ins.restore(&value.to_string()), json);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn verdict(id: &str) -> Verdict {
        Verdict {
            id: id.to_owned(),
            head: "b6589fc6ab0dc82cf12099d1c2d40ab994e8410c".to_owned(),
            ready: true,
            confidence: 1.0,
            blockers: Vec::new(),
            timestamp: "2026-09-06T10:00:00.000Z".to_owned(),
            source: "preflight".to_owned(),
        }
    }

    struct Files {
        dir: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("key"), [9; 32]).unwrap();
            Self { dir }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.dir.path().join(name)
        }

        fn write(&self, verdict: &Verdict) -> String {
            let key = signing::read_key(&self.path("key")).unwrap();
            write_marker(&self.path("marker"), verdict, &key).unwrap();
            fs::read_to_string(self.path("marker")).unwrap()
        }

        fn read(&self, id: &str) -> Result<Verdict, MarkerError> {
            read_marker(&self.path("marker"), id, &self.path("key"))
        }
    }

    #[test]
    fn a_marker_of_the_original_verifies_and_ours_has_its_bytes() {
        let files = Files::new();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/original-files");
        let key = fs::read_to_string(fixtures.join("signing-key-hex.txt")).unwrap();
        fs::write(files.path("key"), hex::decode(key.trim()).unwrap()).unwrap();
        let original = fs::read_to_string(fixtures.join("marker.json")).unwrap();
        fs::write(files.path("marker"), &original).unwrap();
        let verdict = files.read("t").unwrap();
        assert_eq!(files.write(&verdict), original);
    }

    #[test]
    fn each_signed_field_counts() {
        let files = Files::new();
        let text = files.write(&verdict("t"));
        assert_eq!(files.read("t").unwrap(), verdict("t"));
        for (from, to) in [
            (r#""head": "b6"#, r#""head": "c6"#),
            (r#""ready": true"#, r#""ready": false"#),
            (r#""confidence": 1"#, r#""confidence": 0.9"#),
            (r#""blockers": []"#, r#""blockers": ["x"]"#),
            ("10:00:00.000Z", "10:00:00.001Z"),
            (r#""source": "preflight""#, r#""source": "preflighu""#),
            ("hmac-sha256-v1", "hmac-sha256-v2"),
            (r#""id": "t""#, r#""id": "u""#),
        ] {
            assert!(text.contains(from), "{from}");
            fs::write(files.path("marker"), text.replace(from, to)).unwrap();
            assert!(matches!(files.read("t"), Err(MarkerError::Forged(_))), "{from} -> {to}");
        }
        let (unsigned, _) = text.split_once(",\n  \"signature\"").unwrap();
        fs::write(files.path("marker"), format!("{unsigned}}}")).unwrap();
        assert!(matches!(files.read("t"), Err(MarkerError::Forged(_))));
    }

    #[test]
    fn a_marker_is_for_one_id() {
        let files = Files::new();
        files.write(&verdict("a/b"));
        assert!(files.read("a/b").is_ok());
        assert!(matches!(files.read("a_b"), Err(MarkerError::Forged(_))));
    }

    #[test]
    fn what_is_no_marker_is_invalid() {
        let files = Files::new();
        assert!(matches!(files.read("t"), Err(MarkerError::Absent)));
        for text in ["", "{", "[]", r#"{"id":"t"}"#, r#"{"id":"t","head":1}"#, "\u{1}"] {
            fs::write(files.path("marker"), text).unwrap();
            assert!(matches!(files.read("t"), Err(MarkerError::Invalid(_))), "{text}");
        }
        fs::remove_file(files.path("marker")).unwrap();
        std::os::unix::fs::symlink(files.path("key"), files.path("marker")).unwrap();
        assert!(matches!(files.read("t"), Err(MarkerError::Invalid(_))));
    }

    #[test]
    fn without_a_key_nothing_is_verified() {
        let files = Files::new();
        files.write(&verdict("t"));
        fs::write(files.path("key"), [9; 31]).unwrap();
        assert!(matches!(files.read("t"), Err(MarkerError::Key(KeyError::Short(_)))));
        fs::remove_file(files.path("key")).unwrap();
        assert!(matches!(files.read("t"), Err(MarkerError::Key(KeyError::Absent(_)))));
    }

    #[test]
    fn a_marker_with_a_lone_surrogate_verifies_over_its_own_escapes() {
        let files = Files::new();
        let key = signing::read_key(&files.path("key")).unwrap();
        let mut cut = verdict("t");
        cut.ready = false;
        let blockers = r#"["cut \ud83d"]"#;
        let content = format!(r#"{{"head":"{}","ready":false,"confidence":1,"blockers":{blockers}}}"#, cut.head);
        assert!(!signing::verify(&key, signable(&cut), blockers, ""));
        let digest = <sha2::Sha256 as sha2::Digest>::digest(content);
        let signed = format!(
            r#"{{"markerId":"solution-verdict-t","approvedAt":"{}","approvedBy":"preflight","reportContentHash":"{}"}}"#,
            cut.timestamp,
            hex::encode(digest)
        );
        let mut mac = <hmac::Hmac<sha2::Sha256> as hmac::KeyInit>::new_from_slice(&[9; 32]).unwrap();
        hmac::Mac::update(&mut mac, signed.as_bytes());
        let signature = hex::encode(hmac::Mac::finalize(mac).into_bytes());
        let text = format!(
            r#"{{"id":"t","head":"{}","ready":false,"confidence":1,"blockers":{blockers},"timestamp":"{}","source":"preflight","alg":"{ALGORITHM}","signature":"{signature}"}}"#,
            cut.head, cut.timestamp
        );
        fs::write(files.path("marker"), text).unwrap();
        assert!(files.read("t").is_ok());
    }
}
