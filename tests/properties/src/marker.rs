//! The verdict marker: what is read as a verdict, and what the gate makes of it.
//!
//! The input is a marker's text. The key is that of the recorded marker, so that this one verifies; a fuzzer can't sign,
//! so a text that says what a verdict says is also signed here and read back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use grounding_proto::solution::{GateCode, Verdict};
use groundingd::solution::repository::RepositoryError;
use groundingd::solution::verdict::{MarkerError, read_marker, write_marker};
use groundingd::solution::{gate, signing};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::folder;

/// The id that is asked for.
const ID: &str = "t";
const KEY: &str = include_str!("../../fixtures/original-files/signing-key-hex.txt");

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: folder::private() };
        fs::write(files.key(), key()).expect("the key");
        fs::set_permissions(files.key(), fs::Permissions::from_mode(0o600)).expect("the key's mode");
        files
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    fn marker(&self) -> PathBuf {
        self.folder.path().join("marker")
    }

    fn read(&self, text: &[u8], id: &str) -> Result<Verdict, MarkerError> {
        fs::write(self.marker(), text).expect("the marker");
        read_marker(&self.marker(), id, &self.key())
    }
}

fn key() -> Vec<u8> {
    hex::decode(KEY.trim()).expect("hex")
}

/// Checks that a marker is a verdict only when it is correctly signed for its id, that what is signed is read back as it
/// was, and that no change of a signed marker gives another verdict.
pub fn check(input: &[u8]) {
    let files = Files::new();
    if let Ok(verdict) = files.read(input, ID) {
        assert_eq!(verdict.id, ID);
        let text = std::str::from_utf8(input).expect("a marker that was read is UTF-8");
        // A lone surrogate is signed as the escape that stands there, and this judgement writes none.
        if !text.to_ascii_lowercase().contains("\\ud") {
            let marker: Value = serde_json::from_str(text).expect("a marker that was read is JSON");
            assert_eq!(marker["alg"], "hmac-sha256-v1");
            assert_eq!(marker["signature"], signature(&verdict).as_str());
        }
        check_gate(&verdict);
    }
    if let Ok(verdict) = serde_json::from_slice::<Verdict>(input) {
        check_signed(&files, &verdict, input.len());
        check_gate(&verdict);
    }
}

/// Signs as the description says it, with nothing of the daemon.
fn signature(verdict: &Verdict) -> String {
    let text = |value: &str| Value::from(value).to_string();
    let content = format!(
        r#"{{"head":{},"ready":{},"confidence":{},"blockers":{}}}"#,
        text(&verdict.head),
        verdict.ready,
        ryu_js::Buffer::new().format(verdict.confidence),
        Value::from(verdict.blockers.clone()),
    );
    let signed = format!(
        r#"{{"markerId":{},"approvedAt":{},"approvedBy":{},"reportContentHash":"{}"}}"#,
        text(&format!("solution-verdict-{}", verdict.id)),
        text(&verdict.timestamp),
        text(&verdict.source),
        hex::encode(Sha256::digest(content)),
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(&key()).expect("any key");
    mac.update(signed.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn check_signed(files: &Files, verdict: &Verdict, seed: usize) {
    let key = signing::read_key(&files.key()).expect("the key");
    write_marker(&files.marker(), verdict, &key).expect("a written marker");
    let text = fs::read(files.marker()).expect("the marker");
    assert_eq!(&files.read(&text, &verdict.id).expect("what was signed verifies"), verdict);
    let marker: Value = serde_json::from_slice(&text).expect("a marker is JSON");
    assert_eq!(marker["signature"], signature(verdict).as_str());
    let other = format!("{}x", verdict.id);
    assert!(matches!(files.read(&text, &other), Err(MarkerError::Forged(_))));
    for step in 0..8 {
        let (mut changed, at) = (text.clone(), (seed * 31 + step * 97) % text.len());
        changed[at] = changed[at].wrapping_add(u8::try_from(step).unwrap_or_default() + 1);
        // A space or a key beside the verdict may change; the verdict may not.
        if let Ok(found) = files.read(&changed, &verdict.id) {
            assert_eq!(&found, verdict, "byte {at}");
        }
    }
}

fn check_gate(verdict: &Verdict) {
    let clear = verdict.ready && verdict.blockers.is_empty();
    let code = |head| gate::judge(verdict, &head).0;
    assert_eq!(code(Ok(verdict.head.clone())) == GateCode::Ready, clear);
    assert_ne!(code(Ok(format!("{}0", verdict.head))), GateCode::Ready);
    assert_ne!(code(Err(RepositoryError::NoDirectory(PathBuf::from("/nowhere")))), GateCode::Ready);
}
