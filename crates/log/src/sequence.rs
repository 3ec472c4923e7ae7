//! Rounds: from waiting entries to a signed and published tree.
//!
//! ```text
//! pool → round → verify → record → tree_head → lock → publish
//! ```
//!
//! The `sequencer` runs a round in the order of `phase`. With several instances, the sequencer runs
//! during a `term`. Between two rounds, `cosigning` publishes the cosignatures of witnesses. The
//! trees, rounds and records are in `data`.

mod cosigning;
pub(crate) mod phase;
pub(crate) mod sequencer;
pub(crate) mod term;
