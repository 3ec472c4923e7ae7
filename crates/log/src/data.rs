//! The data of a log: trees, rounds and checkpoints, in memory and as bytes.
//!
//! ```text
//! tree → round → verify → record
//!           └→ tree_head → verified_checkpoint
//! ```
//!
//! A `round` leads from one `tree` to the next. `verify` computes the root of the round a second
//! time, and `record` is the form of the round in the journal. `tree_head` is signed, and read back
//! as a `verified_checkpoint`; witnesses add `cosignatures`. `gzip` and `names_tile` are the
//! encodings of tiles, and `stored_file` is a file with its encoding.

pub(crate) mod cosignatures;
pub(crate) mod gzip;
pub(crate) mod names_tile;
pub(crate) mod record;
pub(crate) mod round;
pub(crate) mod stored_file;
pub(crate) mod tree;
pub(crate) mod tree_head;
pub(crate) mod verified_checkpoint;
pub(crate) mod verify;
