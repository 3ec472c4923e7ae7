//! The problem with a dedup index, as one error.

/// The problem with a dedup index. Cloneable, because the index returns its first failure again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DedupError {
    /// The disk of the index does not respond.
    #[error("its disk does not respond")]
    Silent,
    /// Another process has the index open.
    #[error("another process has it open, or this one still waits for its disk")]
    InUse,
    /// A write or a read failed in an earlier session.
    #[error("its disk has failed to write or read it")]
    Failed,
    /// The recorded anchor is invalid.
    #[error("the record of its tree is invalid")]
    Anchor,
    /// A recorded place is invalid.
    #[error("a value is not 16 bytes long")]
    Value,
    /// An earlier table is missing, so no later table may follow.
    #[error("the last table could not be written")]
    Table,
    /// The database failed. The variant has the text of the error, because the error itself is
    /// neither `Clone` nor part of the API.
    #[error("{0}")]
    Database(String),
}
