//! The solution gate (SPEC 6): from a preflight run to a signed verdict, and from a verdict to allow or deny.
//!
//! Reading order: `repository` (what git says), `preflight` (which program, what it answered), `diagnostics` (what is
//! said of the run), `signing` and `verdict` (the marker), `gate`, `verify`. Running an attempt and looking it up is the
//! `attempt` module's. Whatever is uncertain about a verdict means that there is no marker.

pub mod bounds;
pub mod diagnostics;
pub mod gate;
pub mod preflight;
pub mod repository;
pub mod signing;
pub mod verdict;
pub mod verify;
