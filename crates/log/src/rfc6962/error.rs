//! Errors of the read operations of RFC 6962.

use lucarne_x509::text::counted;

use crate::error::ReadError;

/// The reasons why a read operation of RFC 6962 failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Rfc6962Error {
    /// The log has not published a checkpoint yet.
    #[error("this log has not published a checkpoint yet")]
    NoTree,
    /// A size or an index is beyond the published tree.
    #[error(
        "{parameter} is {asked}, but the tree has only {size}",
        size = counted(*.size, "entry")
    )]
    BeyondTree {
        /// The parameter's name in RFC 6962.
        parameter: &'static str,
        /// The value of the parameter.
        asked: u64,
        /// Number of entries of the published tree.
        size: u64,
    },
    /// Two parameters are in the wrong order.
    #[error("{larger} must not be less than {smaller}; found {} and {}", .values.1, .values.0)]
    Order {
        /// The name of the parameter that must not be larger.
        smaller: &'static str,
        /// The name of the other parameter.
        larger: &'static str,
        /// The values of the two parameters.
        values: (u64, u64),
    },
    /// No entry of the tree has this leaf hash.
    #[error("the tree of {} has no entry with this leaf hash", counted(*.size, "entry"))]
    UnknownLeaf {
        /// Entries of the requested tree.
        size: u64,
    },
    /// The index of leaf hashes does not reach the requested tree yet.
    #[error(
        "the index of leaf hashes has {indexed} of {size}, and this leaf is not among \
         them: retry when the index is complete",
        size = counted(*.size, "entry")
    )]
    NotIndexed {
        /// Number of entries in the index.
        indexed: u64,
        /// Entries of the requested tree.
        size: u64,
    },
    /// The maximum number of concurrent requests of this kind is reached.
    #[error("the log is busy with other requests of this kind: retry later")]
    Busy,
    /// The tiles cannot be read, or are damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}
