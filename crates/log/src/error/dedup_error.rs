//! The problem with a dedup index, as one error.

/// The problem with a dedup index. Cloneable, because the index returns its first failure again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DedupError {
    /// The disk of the index does not respond.
    #[error("the disk of the index does not respond")]
    Silent,
    /// Another process has the index open.
    #[error("another process has the index open, or this process still waits for the disk")]
    InUse,
    /// A write or a read failed in an earlier session.
    #[error("the disk failed to write or read the index")]
    Failed,
    /// The recorded anchor is invalid.
    #[error("the recorded tree is invalid")]
    Anchor,
    /// An earlier table could not be written, so no later table may follow.
    #[error("the last table could not be written")]
    Table,
    /// A read or write failed, or a table is damaged. The variant has the text of the error,
    /// because the error itself is not `Clone`.
    #[error("{0}")]
    Disk(String),
}
