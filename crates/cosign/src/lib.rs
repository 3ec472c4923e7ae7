//! A witness cosigns the checkpoints of other logs if they are append-only. A mirror also stores
//! their entries.
//!
//! ```text
//! request → signature of the log → recorded checkpoint → consistency → cosign → record → response
//! ```
//!
//! | module | concept | specification |
//! |---|---|---|
//! | [`request`] | the bodies of requests | C2SP tlog-witness |
//! | [`logs`] | the logs that the witness knows, and their keys | C2SP tlog-witness |
//! | [`list`] | log lists | `logs/v0` of witness networks, log list v3 |
//! | [`witness`] | the checks, the record of each origin, and the cosignatures | C2SP tlog-witness |
//! | [`memory`] | the logs of earlier lists | |
//! | [`mirror`] | the stored copies of logs, and the cosignatures of a mirror | C2SP tlog-mirror |
//! | [`evidence`] | checkpoints that contradict the recorded checkpoint | |
//!
//! The record of an origin is one value in a [`Lock`](lucarne_storage::Lock). Its key is a hash of
//! the public key of the witness and of the origin. A cosignature leaves the witness after the
//! record was compared and swapped. Two processes with one lock therefore never cosign two
//! histories of a log.

pub mod evidence;
pub mod list;
pub mod logs;
pub mod memory;
pub mod mirror;
pub mod request;
pub mod witness;

pub use evidence::Contradiction;
pub use list::{InvalidList, LogList};
pub use logs::{InvalidKey, ListedLog, LogKeys, TrustedKey};
pub use memory::MemoryError;
pub use mirror::Mirror;
pub use request::{AddCheckpoint, Malformed, SignSubtree};
pub use witness::{InvalidWitness, Refusal, Skipped, Witness};
