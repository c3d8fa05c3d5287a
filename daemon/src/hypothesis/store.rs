//! The file of a session's hypotheses: `{session, hypotheses: [row]}` (SPEC 3a).
//!
//! Rows stay JSON, so that keys of other programs survive. A malformed row is counted and kept; it must never be
//! answered, changed or dropped.

use std::path::Path;

use grounding_proto::hypothesis::HypothesisCounts;
use serde_json::{Map, Value, json};

use crate::store::{self, StoreError};

/// The content of a store's file.
#[derive(Debug)]
pub(super) struct Hypotheses {
    file: Map<String, Value>,
}

impl Hypotheses {
    /// Returns an empty store of a session.
    pub(super) fn of(session: &str) -> Self {
        let mut file = Map::new();
        file.insert("session".to_owned(), session.into());
        file.insert("hypotheses".to_owned(), json!([]));
        Self { file }
    }

    /// Reads a store; returns nothing when there is none.
    ///
    /// # Errors
    /// When the file can't be read or is no store.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        match store::read_object(path)? {
            None => Ok(None),
            Some(file) if file.get("hypotheses").is_some_and(Value::is_array) => Ok(Some(Self { file })),
            Some(_) => Err(StoreError::unusable(path, "is no hypothesis store: `hypotheses` is not an array")),
        }
    }

    /// Returns the store as its file holds it.
    pub(super) fn to_text(&self) -> String {
        crate::json::pretty(&Value::Object(self.file.clone()))
    }

    /// Returns the well-formed rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Value> {
        self.all().iter().filter(|row| is_well_formed(row))
    }

    /// Returns the row of an id.
    pub(super) fn row_mut(&mut self, id: &str) -> Option<&mut Value> {
        self.all_mut().iter_mut().find(|row| row["id"] == id && is_well_formed(row))
    }

    /// Returns whether any row, a malformed one too, has an id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.all().iter().any(|row| row["id"] == id)
    }

    /// Appends a row.
    pub(super) fn push(&mut self, row: Value) {
        self.all_mut().push(row);
    }

    /// Returns the number of malformed rows, or nothing when there are none.
    pub(super) fn malformed_rows(&self) -> Option<u64> {
        let malformed = self.all().len() - self.rows().count();
        (malformed > 0).then_some(malformed as u64)
    }

    /// Counts the well-formed rows.
    pub(super) fn counts(&self) -> HypothesisCounts {
        let mut counts = HypothesisCounts::default();
        for row in self.rows() {
            counts.total += 1;
            match row["status"].as_str() {
                Some("supported") => counts.supported += 1,
                Some("rejected") => counts.rejected += 1,
                _ => counts.unverified += 1,
            }
            counts.pending_checks += pending_checks(row) as u64;
        }
        counts
    }

    fn all(&self) -> &[Value] {
        self.file.get("hypotheses").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn all_mut(&mut self) -> &mut Vec<Value> {
        match self.file.get_mut("hypotheses") {
            Some(Value::Array(rows)) => rows,
            _ => unreachable!("every constructor makes sure of the array"),
        }
    }
}

/// Returns the number of a row's unfinished checks.
pub(super) fn pending_checks(row: &Value) -> usize {
    let checks = row["required_checks"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    checks.iter().filter(|check| check["done"] != true).count()
}

/// Returns whether a row has everything that the verbs rely on.
fn is_well_formed(row: &Value) -> bool {
    let is_check = |check: &Value| check["description"].is_string() && check["done"].is_boolean();
    row.is_object()
        && row["id"].is_string()
        && row["text"].is_string()
        && matches!(row["status"].as_str(), Some("unverified" | "supported" | "rejected"))
        && row["evidence"].as_array().is_some_and(|evidence| evidence.iter().all(Value::is_object))
        && row["required_checks"].as_array().is_some_and(|checks| checks.iter().all(is_check))
}
