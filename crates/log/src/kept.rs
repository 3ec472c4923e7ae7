//! What readers asked for, kept in memory as it is stored.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_storage::{Encoding, OpenFile};
use lucarne_tlog::Tile;
use moka::sync::Cache;

/// A tile or issuer as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The stored bytes.
    pub bytes: Bytes,
    /// How they are encoded.
    pub encoding: Encoding,
    /// The file with exactly these bytes, if it is worth sending from there.
    pub file: Option<Arc<OpenFile>>,
}

impl Stored {
    /// Bytes that are not encoded.
    pub(crate) fn identity(bytes: Bytes) -> Self {
        Stored {
            bytes,
            encoding: Encoding::Identity,
            file: None,
        }
    }
}

/// A file of a log that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum File {
    Tile(Tile),
    Issuer(Fingerprint),
}

impl File {
    /// Its path in storage.
    pub(crate) fn path(self) -> String {
        match self {
            File::Tile(tile) => tile.path(),
            File::Issuer(fingerprint) => format!("issuer/{fingerprint}"),
        }
    }
}

/// What is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A file as it is stored.
    File(File),
    /// A data tile in zstd.
    Zstd(Tile),
}

/// A cache, bounded in bytes, of what has been verified.
pub(crate) type Kept = Cache<Key, Stored>;

/// An empty cache of at most so many bytes.
pub(crate) fn kept(most_bytes: u64) -> Kept {
    Cache::builder()
        .max_capacity(most_bytes)
        .weigher(|_, stored: &Stored| stored.bytes.len() as u32 + 128)
        .build()
}
