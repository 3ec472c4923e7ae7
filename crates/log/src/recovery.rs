//! The start of a log, and its restart after a failure.
//!
//! ```text
//! turn → supervise → recover → known_checkpoints → index → session → sequencer
//!            ↑                                                           │
//!            └───────────────────────── failure ─────────────────────────┘
//! ```
//!
//! `recover` finds the newest tree in lock, journal and storage. A tree head of a separate signer
//! may be newer (`signed_ahead`), and so may the checkpoints of `external_sources`. `foreign_log`
//! and `sunlight` read logs that other software has written. `inconsistency` has the contradictions
//! between lock, journal, storage, signer and index.

pub(crate) mod external_sources;
pub(crate) mod foreign_log;
pub(crate) mod inconsistency;
pub(crate) mod known_checkpoints;
pub(crate) mod recover;
pub(crate) mod session;
pub(crate) mod signed_ahead;
pub(crate) mod sunlight;
pub(crate) mod supervise;
pub(crate) mod turn;
