//! The solution gate: evaluate, gate, verdict, signing, preflight, diagnostics, repository (SPEC 6).

pub mod repository;
