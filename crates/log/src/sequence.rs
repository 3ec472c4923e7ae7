//! Rounds: from waiting entries to a signed and published tree.
//!
//! ```text
//! pool → round → verify → record → tree_head → lock → publish
//! ```
//!
//! The `sequencer` runs a round in the order of `phase`, from one `tree` to the next. `clock` gives
//! the timestamp, unless the clock has jumped forward (`clock_jump`). With several instances, the
//! sequencer runs during a `term`.

pub(crate) mod clock;
pub(crate) mod clock_jump;
pub(crate) mod phase;
pub(crate) mod record;
pub(crate) mod round;
pub(crate) mod sequencer;
pub(crate) mod signer;
pub(crate) mod term;
pub(crate) mod tree;
pub(crate) mod tree_head;
pub(crate) mod verified_checkpoint;
pub(crate) mod verify;
