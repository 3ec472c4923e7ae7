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
    /// A recorded index and timestamp of an entry are not 16 bytes long.
    #[error("a value is not 16 bytes long")]
    Value,
    /// An earlier table could not be written, so no later table may follow.
    #[error("the last table could not be written")]
    Table,
    /// The database failed. The variant has the text of the error, because the error itself is
    /// neither `Clone` nor part of the API.
    #[error("{0}")]
    Database(String),
}
