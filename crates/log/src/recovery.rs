//! The start of a log: from lock, journal and storage to a tree that may be sequenced.
//!
//! ```text
//! lock, journal, storage → recover → known_checkpoints → opening → (index) → (sequencer)
//! ```
//!
//! `recover` finds the newest tree in lock, journal and storage. The last tree head of a separate
//! signer may be newer (`signed_ahead`), and so may the checkpoints of external sources
//! (`known_checkpoints`). Damaged tiles at the right edge are written again by `replace_damaged`.
//! `opening` recovers a running log. `foreign_log` and `sunlight` read logs that other software has
//! written.

pub(crate) mod foreign_log;
pub(crate) mod known_checkpoints;
mod opening;
pub(crate) mod recover;
pub(crate) mod replace_damaged;
pub(crate) mod signed_ahead;
pub(crate) mod sunlight;
