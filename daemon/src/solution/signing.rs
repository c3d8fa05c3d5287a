//! The signing key and the signature of a verdict (SPEC 6).
//!
//! Shared bit for bit with the programs that verify our markers. A key is never followed through a symlink, never
//! logged, and never overwritten unless it is too short to be one.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::clock::Clock;
use crate::json;
use crate::store::{self, StoreError};

/// The one signature algorithm.
pub const ALGORITHM: &str = "hmac-sha256-v1";

const MIN_KEY_BYTES: usize = 32;
const MAX_KEY_BYTES: u64 = 1024 * 1024;
/// How long a key that is too short may be one that another program is still writing.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// A key of at least 32 bytes.
pub struct SigningKey(Vec<u8>);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SigningKey(..)")
    }
}

/// A signing key that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is none.
    #[error("there is no signing key at {}; solution_evaluate creates it", .0.display())]
    Absent(PathBuf),
    /// It has too few bytes.
    #[error("the signing key at {} has fewer than {MIN_KEY_BYTES} bytes", .0.display())]
    Short(PathBuf),
    /// Others may write it, and so sign what they like.
    #[error("the signing key at {} can be written by other users; make it yours with mode 0600, or remove it", .0.display())]
    Exposed(PathBuf),
    /// It can't be read or written.
    #[error("the signing key can't be used")]
    Store(#[from] StoreError),
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for a new signing key")]
    Random(#[source] getrandom::Error),
}

/// What is signed: the fields of a verdict, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Signable<'a> {
    /// The id.
    pub id: &'a str,
    /// The commit.
    pub head: &'a str,
    /// Whether it is ready.
    pub ready: bool,
    /// The confidence.
    pub confidence: f64,
    /// The blockers.
    pub blockers: &'a [String],
    /// When it was produced.
    pub timestamp: &'a str,
    /// Which program checked.
    pub source: &'a str,
}

/// Reads the key as it is.
///
/// # Errors
/// When it is absent, too short, a symlink, another user's to write, or can't be read.
pub fn read_key(path: &Path) -> Result<SigningKey, KeyError> {
    let file = store::open_regular(path)?.ok_or_else(|| KeyError::Absent(path.to_owned()))?;
    let metadata = file.metadata().map_err(StoreError::io("read", path))?;
    let trusted = metadata.uid() == rustix::process::geteuid().as_raw() || metadata.uid() == 0;
    if !trusted || metadata.mode() & 0o022 != 0 {
        return Err(KeyError::Exposed(path.to_owned()));
    }
    let bytes = store::read_opened(file, path, MAX_KEY_BYTES)?;
    if bytes.len() < MIN_KEY_BYTES { Err(KeyError::Short(path.to_owned())) } else { Ok(SigningKey(bytes)) }
}

/// Reads the key, creating it when it is absent and replacing it when it stays too short.
///
/// # Errors
/// As `read_key`, and when a new key can't be written.
pub fn read_or_create_key(path: &Path, clock: &dyn Clock) -> Result<SigningKey, KeyError> {
    let started = clock.monotonic();
    loop {
        match read_key(path) {
            // Whoever loses the race to create it reads the winner's in the next round.
            Err(KeyError::Absent(_)) => {
                store::create(path, &new_key()?)?;
            }
            Err(KeyError::Short(_)) if clock.monotonic() - started < PATIENCE => {
                std::thread::sleep(POLL);
            }
            Err(KeyError::Short(_)) => return replace_short_key(path, clock),
            settled => return settled,
        }
    }
}

/// Replaces a key that is too short, once, whoever asks at the same time.
fn replace_short_key(path: &Path, clock: &dyn Clock) -> Result<SigningKey, KeyError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    // A lock on the directory leaves no file behind that other programs would have to know.
    let lock = File::open(dir).map_err(StoreError::io("open", dir))?;
    let started = clock.monotonic();
    while let Err(error) = lock.try_lock() {
        if clock.monotonic() - started > PATIENCE {
            return Err(StoreError::io("lock", dir)(error.into()).into());
        }
        std::thread::sleep(POLL);
    }
    if matches!(read_key(path), Err(KeyError::Short(_))) {
        store::replace(path, &new_key()?)?;
    }
    read_key(path)
}

fn new_key() -> Result<[u8; MIN_KEY_BYTES], KeyError> {
    let mut key = [0; MIN_KEY_BYTES];
    getrandom::fill(&mut key).map_err(KeyError::Random)?;
    Ok(key)
}

/// Returns the signature in lower-case hex.
#[must_use]
pub fn sign(key: &SigningKey, verdict: Signable<'_>) -> String {
    hex::encode(mac(key, &signed_text(verdict, &json::compact(verdict.blockers))).finalize().into_bytes())
}

/// Returns whether the signature is the verdict's; `blockers` is their compact JSON as ECMAScript writes it.
#[must_use]
pub fn verify(key: &SigningKey, verdict: Signable<'_>, blockers: &str, signature: &str) -> bool {
    let lower = signature.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let Ok(bytes) = hex::decode(signature) else { return false };
    lower && mac(key, &signed_text(verdict, blockers)).verify_slice(&bytes).is_ok()
}

/// Writes a number as ECMAScript's `JSON.stringify` does.
#[must_use]
pub fn ecmascript_number(number: f64) -> String {
    ryu_js::Buffer::new().format_finite(number).to_owned()
}

/// A number as ECMAScript writes it, for a serializer that would write it otherwise.
#[expect(clippy::expect_used, reason = "ECMAScript writes finite numbers as JSON does")]
pub(super) fn raw_number(number: f64) -> Box<RawValue> {
    RawValue::from_string(ecmascript_number(number)).expect("a finite number is valid JSON")
}

#[expect(clippy::expect_used, reason = "HMAC is defined for keys of any length")]
fn mac(key: &SigningKey, text: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    mac
}

fn signed_text(verdict: Signable<'_>, blockers: &str) -> String {
    let content = format!(
        r#"{{"head":{},"ready":{},"confidence":{},"blockers":{blockers}}}"#,
        json::compact(verdict.head),
        verdict.ready,
        ecmascript_number(verdict.confidence),
    );
    format!(
        r#"{{"markerId":{},"approvedAt":{},"approvedBy":{},"reportContentHash":"{}"}}"#,
        json::compact(&format!("solution-verdict-{}", verdict.id)),
        json::compact(verdict.timestamp),
        json::compact(verdict.source),
        hex::encode(Sha256::digest(content)),
    )
}

#[cfg(test)]
mod tests {
    use grounding_proto::solution::Verdict;
    use serde_json::Value;

    use super::*;
    use crate::clock::{SystemClock, manual::ManualClock};

    pub(crate) fn signable(verdict: &Verdict) -> Signable<'_> {
        super::super::verdict::signable(verdict)
    }

    #[test]
    fn signatures_are_the_recorded_ones() {
        let fixture: Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/verdict-signing.json")).unwrap();
        let key = SigningKey(hex::decode(fixture["keyHex"].as_str().unwrap()).unwrap());
        let cases = fixture["cases"].as_array().unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let verdict: Verdict = serde_json::from_value(case["verdict"].clone()).unwrap();
            let signature = case["signature"].as_str().unwrap();
            assert_eq!(sign(&key, signable(&verdict)), signature, "{case}");
            assert!(verify(&key, signable(&verdict), &json::compact(&verdict.blockers), signature), "{case}");
            assert!(!verify(&key, signable(&verdict), &json::compact(&verdict.blockers), &signature.to_uppercase()));
        }
    }

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (0.9, "0.9"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-7, "1e-7"),
            (0.000_001, "0.000001"),
            (5e-324, "5e-324"),
            (1e21, "1e+21"),
        ] {
            assert_eq!(ecmascript_number(number), text);
        }
    }

    #[test]
    fn the_key_is_made_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("generated/.approval-signing.key");
        assert!(matches!(read_key(&path), Err(KeyError::Absent(_))));
        let clock = SystemClock::shared();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| read_or_create_key(&path, clock.as_ref()).unwrap().0)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| key == &keys[0] && key.len() == 32));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_short_key_is_replaced_once_its_time_is_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(read_key(&path), Err(KeyError::Short(_))));
        let clock = ManualClock::at("2026-01-01T00:00:00Z");
        let key = std::thread::scope(|scope| {
            let maker = scope.spawn(|| read_or_create_key(&path, clock.as_ref()).unwrap().0);
            while !maker.is_finished() {
                clock.advance(Duration::from_millis(100));
                std::thread::yield_now();
            }
            maker.join().unwrap()
        });
        assert_eq!(key, std::fs::read(&path).unwrap());
    }

    #[test]
    fn a_key_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, [7; 32]).unwrap();
        let permit =
            |mode| std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        permit(0o644);
        assert!(read_key(&path).is_ok());
        for mode in [0o666, 0o620, 0o602] {
            permit(mode);
            assert!(matches!(read_key(&path), Err(KeyError::Exposed(_))), "{mode:o}");
        }
    }

    #[test]
    fn a_symlinked_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, [7; 32]).unwrap();
        let link = dir.path().join("key");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(matches!(read_or_create_key(&link, SystemClock::shared().as_ref()), Err(KeyError::Store(_))));
    }
}
