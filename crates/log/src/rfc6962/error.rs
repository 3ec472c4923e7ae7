//! The reasons why a read of RFC 6962 got no answer.

use crate::ReadError;

/// The reasons why such a read got no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Rfc6962Error {
    /// Nothing is published yet.
    #[error("this log has not published a checkpoint yet")]
    NoTree,
    /// A size or an index is larger than the published tree has.
    #[error("{parameter} is {asked}, and the tree has {size} entries")]
    BeyondTree {
        /// The parameter's name in RFC 6962.
        parameter: &'static str,
        /// Its value.
        asked: u64,
        /// Entries of the published tree.
        size: u64,
    },
    /// Two parameters contradict each other.
    #[error("{larger} must not be less than {smaller}, and they are {} and {}", .values.1, .values.0)]
    Order {
        /// The name of the one that must not be larger.
        smaller: &'static str,
        /// The name of the other.
        larger: &'static str,
        /// Their values.
        values: (u64, u64),
    },
    /// No entry of the tree has this leaf hash.
    #[error("none of the first {size} entries has this leaf hash")]
    UnknownLeaf {
        /// Entries of the tree that was asked for.
        size: u64,
    },
    /// The index of leaf hashes is not there yet.
    #[error(
        "the index of leaf hashes has {indexed} of {size} entries, and this leaf is not among them: it is \
         being brought up to date"
    )]
    NotIndexed {
        /// Entries that it has.
        indexed: u64,
        /// Entries of the tree that was asked for.
        size: u64,
    },
    /// As many of these requests are under way as may be.
    #[error("the log is busy with other requests of this kind")]
    Busy,
    /// The tiles cannot be read, or are damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}
