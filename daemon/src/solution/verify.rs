//! `groundingd verify`: what stands of a verdict, fact by fact (SPEC 6): its signature, and how it relates to HEAD now.
//!
//! It judges the signature alone and decides nothing: whether a solution may be called done is the gate's to say. Needs no
//! daemon, and never writes.

use std::fmt::{self, Write};

use grounding_proto::solution::{GateCode, Verdict, Worktree};
use grounding_proto::text::printable;
use serde::Serialize;

use super::gate::{self, GateRequest};
use super::verdict;
use crate::error::describe;
use crate::store::FileKey;

/// What stands of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The id asked for.
    pub id: String,
    /// Whether the marker is one that was signed for the id.
    pub signature: Signature,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The verdict; null unless the signature is right.
    pub verdict: Option<Verdict>,
    /// The commit that the verdict speaks of; null unless the signature is right.
    pub head: Option<String>,
    /// The repository's HEAD now.
    pub current_head: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_error: Option<String>,
    /// Whether the verdict speaks of HEAD; null unless both are known.
    pub head_matches: Option<bool>,
    /// Whether tracked files differ from HEAD now.
    pub worktree: Worktree,
    /// The repository.
    pub repo_path: String,
    /// Where the marker is, or would be; null when the id can't name one.
    pub marker_path: Option<String>,
    /// Where the signing key is.
    pub key_path: String,
}

/// What a look at a marker's signature came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// It was signed for this id, and nothing signed was changed.
    Ok,
    /// It is missing or wrong, or the marker names another id.
    Forged,
    /// There is no marker.
    NoVerdict,
    /// The marker can't be read as one.
    InvalidMarker,
    /// The key can't be used.
    KeyUnavailable,
    /// The id can't name a verdict.
    InvalidId,
}

/// Looks at the verdict of an id.
pub async fn verify(request: GateRequest<'_>) -> Verification {
    let tree = gate::look_at_tree(request).await;
    let marker = FileKey::of(request.id).map(|key| verdict::marker_path(request.verdict_dir, &key));
    let (signature, error, verdict) = match &marker {
        None => (Signature::InvalidId, Some(format!("\"{}\" can't name a verdict", request.id)), None),
        Some(marker) => match verdict::read_marker(marker, request.id, request.signing_key) {
            Ok(verdict) => (Signature::Ok, None, Some(verdict)),
            Err(error) => (signature_of(gate::deny_code(&error)), Some(describe(&error)), None),
        },
    };
    let head = verdict.as_ref().map(|verdict| verdict.head.clone());
    let (current_head, head_error) = match tree.head {
        Ok(head) => (Some(head), None),
        Err(error) => (None, Some(describe(&error))),
    };
    Verification {
        id: request.id.to_owned(),
        signature,
        error,
        head_matches: head.as_ref().zip(current_head.as_ref()).map(|(head, current)| head == current),
        verdict,
        head,
        current_head,
        head_error,
        worktree: tree.worktree,
        repo_path: request.repo_path.display().to_string(),
        marker_path: marker.map(|marker| marker.display().to_string()),
        key_path: request.signing_key.display().to_string(),
    }
}

fn signature_of(code: GateCode) -> Signature {
    match code {
        GateCode::NoVerdict => Signature::NoVerdict,
        GateCode::InvalidMarker => Signature::InvalidMarker,
        GateCode::KeyUnavailable => Signature::KeyUnavailable,
        GateCode::InvalidId => Signature::InvalidId,
        GateCode::Forged | GateCode::Ready | GateCode::NotReady | GateCode::HeadUnresolved | GateCode::StaleHead => {
            Signature::Forged
        }
    }
}

/// A line a fact, for people; control characters of files and ids do not reach the terminal.
impl fmt::Display for Verification {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let because = |error: &Option<String>| error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let signature = word(serde_json::to_value(self.signature).unwrap_or_default());
        let head = match (&self.head, self.head_matches) {
            (Some(head), Some(true)) => format!("{head} (HEAD now)"),
            (Some(head), Some(false)) => format!("{head} (not HEAD any more)"),
            (Some(head), None) => head.clone(),
            (None, _) => unknown(),
        };
        let ready = self.verdict.as_ref().map_or_else(unknown, |verdict| {
            format!("{}, confidence {}, {} blockers", verdict.ready, verdict.confidence, verdict.blockers.len())
        });
        let evaluated = self
            .verdict
            .as_ref()
            .map_or_else(unknown, |verdict| format!("{} by {}", verdict.timestamp, verdict.source));
        let facts = [
            ("id", self.id.clone()),
            ("signature", format!("{signature}{}", because(&self.error))),
            ("ready", ready),
            ("evaluated", evaluated),
            ("head", head),
            ("current head", self.current_head.clone().unwrap_or_else(unknown) + &because(&self.head_error)),
            ("worktree", word(serde_json::to_value(self.worktree).unwrap_or_default())),
            ("repository", self.repo_path.clone()),
            ("marker", self.marker_path.clone().unwrap_or_else(|| "none".to_owned())),
            ("key", self.key_path.clone()),
        ];
        for (index, (name, fact)) in facts.iter().enumerate() {
            if index > 0 {
                formatter.write_char('\n')?;
            }
            write!(formatter, "{name:<14}{}", printable(fact))?;
        }
        Ok(())
    }
}
