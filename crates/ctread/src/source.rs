//! Sources of a log's files (a directory, a bucket, a URL, or the caller's own), and the reasons
//! why a file cannot be used.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::{CheckpointError, Fingerprint, TileLeafError};
use lucarne_tlog::{Hash, LoadError, Tile};
use lucarne_x509::text::counted;

/// Read access to the public files of a log.
#[async_trait]
pub trait Source: Send + Sync {
    /// Returns the bytes of a file exactly as stored or served, or `None` if the file does not
    /// exist.
    ///
    /// # Errors
    /// If it is unknown whether the file exists, or if the file cannot be read.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError>;
}

/// The reason why a file of a log cannot be read. The file may exist. Clones share the reason.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The source responded without the file, for example with a status that a store also uses for
    /// missing files.
    #[error(transparent)]
    Refused(Arc<dyn Error + Send + Sync>),
    /// The source failed, or did not respond.
    #[error(transparent)]
    Unavailable(Arc<dyn Error + Send + Sync>),
}

impl SourceError {
    /// Returns the error of a source that failed for this reason.
    pub fn unavailable(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        SourceError::Unavailable(reason.into().into())
    }

    /// Returns the reason, if it has this type.
    pub fn reason<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            SourceError::Refused(reason) | SourceError::Unavailable(reason) => {
                reason.downcast_ref()
            }
        }
    }
}

/// A file of a log that cannot be read, or that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ReadError {
    /// Path of the file below the monitoring prefix.
    pub path: String,
    /// The reason.
    pub problem: Problem,
}

/// The problem with a file of a log.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file does not exist. If the file is a partial tile, the full tile does not exist either.
    #[error("is missing")]
    Missing,
    /// The source cannot read the file.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The checkpoint is not a checkpoint of the log.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint is of a tree that is smaller than the verified tree.
    #[error("the log went back from size {verified} to size {size}")]
    Smaller {
        /// Size of the verified tree.
        verified: u64,
        /// Size in the checkpoint.
        size: u64,
    },
    /// The tiles of the tree do not lead to a signed root.
    #[error("the tiles of the tree of size {size} do not lead to its root {root}")]
    Root {
        /// Size of the tree.
        size: u64,
        /// The signed root of this size.
        root: Hash,
    },
    /// The tree is larger than any static CT log.
    #[error(transparent)]
    Size(LoadError<Infallible>),
    /// Decompression of a tile failed.
    #[error("gzip: {0}")]
    Gzip(#[source] io::Error),
    /// The length of the file differs from the length that the tile's width requires.
    #[error("expected {}, found {found}", counted(*.due, "byte"))]
    Length {
        /// Length of the file in bytes.
        found: usize,
        /// Required length in bytes.
        due: usize,
    },
    /// The hashes of a tile differ from the tile above it.
    #[error("the hashes do not lead to the tile above it")]
    Hashes,
    /// The verified tree has no such tile.
    #[error("is not a tile of the verified tree")]
    Beyond,
    /// The bytes of an entry are invalid.
    #[error("entry {index}: {source}")]
    Entry {
        /// Index of the entry.
        index: u64,
        /// The difference from the format of an entry.
        source: TileLeafError,
    },
    /// Bytes follow the last entry of a data tile.
    #[error("{} after the last entry", counted(*.0, "byte"))]
    Rest(usize),
    /// The index in the entry differs from the position of the entry in the log.
    #[error("entry {index} contains the index {found}")]
    Index {
        /// Position of the entry in the log.
        index: u64,
        /// Index in the entry.
        found: u64,
    },
    /// The hash of the entry with this index differs from the hash in the tree.
    #[error("entry {0} does not hash to the tree's leaf")]
    Leaf(u64),
    /// The certificate has this fingerprint, and not the fingerprint in the name of its file.
    #[error("the served certificate hashes to {0}")]
    Issuer(Fingerprint),
}

impl ReadError {
    /// Returns the error for a problem with the file at `path`.
    pub fn new(path: impl Into<String>, problem: impl Into<Problem>) -> Self {
        let (path, problem) = (path.into(), problem.into());
        ReadError { path, problem }
    }

    pub(crate) fn of(tile: Tile, problem: impl Into<Problem>) -> Self {
        Self::new(tile.path(), problem)
    }
}
