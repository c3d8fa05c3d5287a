//! Which format a host's file has, and what can be asked of a text in it.
//!
//! The one place that chooses between `json` and `toml`, so that nobody else asks which it is.

use grounding_proto::environment::CLIENT_VARIABLES;

use super::entry::{Edit, EditError, Registration};
use super::json::{self, Place};
use super::toml;

/// The format of a host's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments where the host takes them.
    Json(Place),
    /// Codex's TOML; an entry passes on `CLIENT_VARIABLES`.
    Codex,
}

impl Format {
    /// Returns what stands under our name in a text.
    ///
    /// # Errors
    /// When the text can't be parsed, or something else stands where our entry belongs.
    pub fn read(self, text: &str) -> Result<Registration, EditError> {
        match self {
            Self::Json(place) => json::read(text, place),
            Self::Codex => toml::read(text, CLIENT_VARIABLES),
        }
    }

    /// Returns the text with the change made; a text that needs none comes back as it is.
    ///
    /// # Errors
    /// When the text can't be parsed, or the change must not be made.
    pub fn edit(self, text: &str, edit: Edit<'_>) -> Result<String, EditError> {
        match self {
            Self::Json(place) => json::edit(text, place, edit),
            Self::Codex => toml::edit(text, CLIENT_VARIABLES, edit),
        }
    }

    /// Returns whether our entry in a text is there and switched off.
    #[must_use]
    pub fn is_switched_off(self, text: &str) -> bool {
        match self {
            Self::Json(place) => json::is_switched_off(text, place),
            Self::Codex => toml::is_switched_off(text),
        }
    }

    /// Returns whether a text has a table of servers; in TOML it needs none of its own.
    ///
    /// # Errors
    /// When the text can't be parsed.
    pub fn has_servers(self, text: &str) -> Result<bool, EditError> {
        match self {
            Self::Json(place) => json::has_servers(text, place),
            Self::Codex => Ok(true),
        }
    }
}
