//! placeholder

/// What a session's ledger proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// At least one fact is recorded.
    pub facts: bool,
    /// At least one alternative was ruled out.
    pub rejected: bool,
}
