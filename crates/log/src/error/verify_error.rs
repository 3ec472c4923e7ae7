//! The differences that stop a round before it is signed.

use lucarne_ct::{DerError, TileLeafError};
use lucarne_tlog::Hash;
use lucarne_x509::text::counted;

use crate::error::record_error::RecordError;

/// The difference between a round and its expected content.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The record cannot be parsed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record belongs to another round.
    #[error("the header of the record does not match the round")]
    Header,
    /// The tree has changed since it was signed.
    #[error("the tree before the round no longer has the root that was signed")]
    Before,
    /// The number of entries in the record does not lead to the new size of the tree.
    #[error("the record does not end at the new size of the tree")]
    Size,
    /// The tiles and the frontier give different roots.
    #[error("the tiles have the root {tiles}, the leaves have the root {leaves}")]
    Root {
        /// Root that the tiles have.
        tiles: Hash,
        /// Root that the frontier computes from the leaves of the round.
        leaves: Hash,
    },
    /// An entry differs from the submission.
    #[error("entry {index}: {problem}")]
    Entry {
        /// Index of the entry.
        index: u64,
        /// The difference between the entry and the submission.
        problem: EntryError,
    },
    /// The record has this number of bytes after the last entry.
    #[error("the record has {} after the last entry", counted(*.0, "extra byte"))]
    Extra(usize),
    /// The round has tiles of a level that must not change.
    #[error("unexpected tiles of level {0}")]
    ExtraTiles(u8),
    /// A hash is not in its tile.
    #[error("hash {position} of level {level} is not in its tile")]
    Hash {
        /// Position in the level.
        position: u64,
        /// Level of the hash.
        level: u8,
    },
    /// A tile that must be full is partial or missing.
    #[error("tile {index} of level {level} is not full")]
    NotWhole {
        /// Index of the tile.
        index: u64,
        /// Level of the tile.
        level: u8,
    },
    /// The data tile with this path differs from the staged entries.
    #[error("{0} differs from the staged entries")]
    Data(String),
    /// Some entries are missing from the data tiles.
    #[error("entries that were staged are missing from the data tiles")]
    MissingData,
    /// A data tile cannot be compressed.
    #[error("{path}: compression failed: {error}")]
    Compression {
        /// Path of the tile.
        path: String,
        /// The error of the compression.
        #[source]
        error: std::io::Error,
    },
}

/// The difference between an entry and its submission.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The entry cannot be parsed.
    #[error(transparent)]
    Leaf(#[from] TileLeafError),
    /// The entry has this index, which is wrong.
    #[error("has the wrong index {0}")]
    Index(u64),
    /// The timestamp of the entry is wrong.
    #[error("the timestamp differs from the timestamp of the round")]
    Timestamp,
    /// The identity differs, so another certificate would be logged.
    #[error("differs from the submission")]
    Identity,
    /// The precertificate differs.
    #[error("the precertificate differs from the submission")]
    Precertificate,
    /// The chain differs.
    #[error("the chain differs from the submission")]
    Chain,
    /// The certificate of the entry or of its issuer cannot be parsed.
    #[error(transparent)]
    Certificate(#[from] DerError),
    /// The precertificate has no issuer.
    #[error("the precertificate has no issuer")]
    NoIssuer,
    /// The `TBSCertificate` is not derived from the precertificate.
    #[error("the TBSCertificate does not match the precertificate")]
    Tbs,
}
