//! The differences that stop a round before it is signed.

use lucarne_ct::{DerError, TileLeafError};
use lucarne_tlog::Hash;

use crate::record::RecordError;

/// The difference between a round and what it should be.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The record is none.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record is another round's.
    #[error("the record's header differs")]
    Header,
    /// The tree has changed since it was signed.
    #[error("the tree before the round no longer has the root that was signed")]
    Before,
    /// The round leads to another size.
    #[error("the size differs")]
    Size,
    /// The two ways to the root lead to two.
    #[error("the root by tiles is {tiles}, by leaves {leaves}")]
    Root {
        /// By the tiles.
        tiles: Hash,
        /// By the frontier.
        leaves: Hash,
    },
    /// An entry is not what was submitted.
    #[error("entry {index}: {problem}")]
    Entry {
        /// Its index.
        index: u64,
        /// The problem with it.
        problem: EntryError,
    },
    /// So many bytes follow the entries.
    #[error("{0} bytes after the last entry")]
    Extra(usize),
    /// There are tiles of a level that has none.
    #[error("tiles of level {0} that nothing asks for")]
    ExtraTiles(u8),
    /// A hash is not in its tile.
    #[error("hash {position} of level {level} is not in its tile")]
    Hash {
        /// Its place in its level.
        position: u64,
        /// Its level.
        level: u8,
    },
    /// A tile that should be full is not.
    #[error("tile {index} of level {level} is not whole")]
    NotWhole {
        /// Its index.
        index: u64,
        /// Its level.
        level: u8,
    },
    /// The data tile of this path has something else.
    #[error("{0} is not what was staged")]
    Data(String),
    /// Entries are in no data tile.
    #[error("the data tiles do not hold all that was staged")]
    MissingData,
    /// A data tile cannot be compressed.
    #[error("{path}: compression: {error}")]
    Compression {
        /// The tile's path.
        path: String,
        /// The problem.
        #[source]
        error: std::io::Error,
    },
}

/// The difference between an entry and what was submitted.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// It cannot be read back.
    #[error(transparent)]
    Leaf(#[from] TileLeafError),
    /// It has this index.
    #[error("carries index {0}")]
    Index(u64),
    /// It has another time.
    #[error("carries another timestamp")]
    Timestamp,
    /// Another certificate would be logged.
    #[error("is not what was submitted")]
    Identity,
    /// Its precertificate is another.
    #[error("the precertificate is not what was submitted")]
    Precertificate,
    /// Its chain is another.
    #[error("the chain is not what was submitted")]
    Chain,
    /// Its certificate, or its issuer's, cannot be read.
    #[error(transparent)]
    Certificate(#[from] DerError),
    /// A precertificate that nobody issued.
    #[error("no issuer")]
    NoIssuer,
    /// The entry does not come from the precertificate.
    #[error("the TBSCertificate is not that of its precertificate")]
    Tbs,
}
