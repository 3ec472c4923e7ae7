//! A witness: cosigns the checkpoints of other logs if they are append-only.
//!
//! ```text
//! request → signature of the log → recorded checkpoint → consistency → cosign → record → response
//! ```
//!
//! | module | concept | specification |
//! |---|---|---|
//! | [`request`] | the bodies of requests | C2SP tlog-witness |
//! | [`logs`] | the logs that the witness knows, and their keys | C2SP tlog-witness |
//! | [`witness`] | the checks, the record of each origin, and the cosignatures | C2SP tlog-witness |
//! | [`evidence`] | checkpoints that contradict the recorded checkpoint | |
//!
//! The record of an origin is one value in a [`Lock`](lucarne_storage::Lock), with the hash of the
//! origin as its key. A cosignature leaves the witness after the record was compared and swapped.
//! Two processes with one lock therefore never cosign two histories of a log.

pub mod evidence;
pub mod logs;
pub mod request;
pub mod witness;

pub use logs::{LogKeys, TrustedKey};
pub use request::{AddCheckpoint, Malformed, SignSubtree};
pub use witness::{InvalidWitness, Refusal, Witness};
