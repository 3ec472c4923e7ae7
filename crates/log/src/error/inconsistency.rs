//! Contradictions between lock, journal, storage, signer and index, as data.
//!
//! Each variant has the values of its text as fields, so that callers and tests can match the
//! values. Underlying errors are fields, not sources: the text of a contradiction already contains
//! them, and a report with all sources would repeat them.

mod index;
mod journal;
mod lock;
mod signer;
mod storage;

pub use self::index::{IndexInconsistency, IndexSeen};
pub use self::journal::{BundleError, JournalInconsistency, ReplayError};
pub use self::lock::{LockEvidence, LockInconsistency, SignedTime};
pub use self::signer::SignerInconsistency;
pub use self::storage::{HistoryError, StorageInconsistency, TreeError};

/// A contradiction between lock, journal and storage, by the part that shows it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// The lock is wrong or old, or another process uses the key.
    #[error(transparent)]
    Lock(LockInconsistency),
    /// The journal does not lead to the signed tree.
    #[error(transparent)]
    Journal(JournalInconsistency),
    /// Storage does not have the signed tree.
    #[error(transparent)]
    Storage(StorageInconsistency),
    /// The separate signer has signed another tree.
    #[error(transparent)]
    Signer(SignerInconsistency),
    /// The dedup index belongs to another history.
    #[error(transparent)]
    Index(IndexInconsistency),
}
