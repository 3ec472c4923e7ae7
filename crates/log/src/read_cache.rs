//! The cache of what readers asked for, in memory as it is stored.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_storage::{Encoding, OpenFile};
use lucarne_tlog::Tile;
use moka::sync::Cache;
use xxhash_rust::xxh3::xxh3_128;

use crate::compress::gunzip;

/// A tile or issuer as it is stored.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// The stored bytes.
    pub bytes: Bytes,
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// The file with exactly these bytes, if it is worth sending from there.
    pub file: Option<Arc<OpenFile>>,
    /// The bytes without their encoding, if they are at hand.
    pub plain: Option<Bytes>,
    /// A sum of the stored bytes (XXH3), which tells them from any others.
    pub sum: u128,
}

impl StoredFile {
    /// Bytes in this encoding.
    pub(crate) fn new(bytes: Bytes, encoding: Encoding) -> Self {
        StoredFile {
            sum: xxh3_128(&bytes),
            bytes,
            encoding,
            file: None,
            plain: None,
        }
    }

    /// Bytes that are not encoded.
    pub(crate) fn identity(bytes: Bytes) -> Self {
        Self::new(bytes, Encoding::Identity)
    }

    /// The bytes without their encoding.
    ///
    /// # Errors
    /// If they are not what the encoding makes: they were, when they were read.
    pub fn unpacked(&self) -> std::io::Result<Bytes> {
        match (&self.plain, self.encoding) {
            (Some(plain), _) => Ok(plain.clone()),
            (None, Encoding::Identity) => Ok(self.bytes.clone()),
            (None, Encoding::Gzip) => gunzip(self.bytes.clone()),
        }
    }
}

/// A file of a log that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileId {
    Tile(Tile),
    Issuer(Fingerprint),
}

impl FileId {
    /// Its path in storage.
    pub(crate) fn path(self) -> String {
        match self {
            FileId::Tile(tile) => tile.path(),
            FileId::Issuer(fingerprint) => format!("issuer/{fingerprint}"),
        }
    }

    /// The file at a path in storage; `None` if it is neither tile nor issuer.
    pub(crate) fn parse(path: &str) -> Option<FileId> {
        match path.strip_prefix("issuer/") {
            Some(name) => name.parse().ok().map(FileId::Issuer),
            None => Tile::parse(path).ok().map(FileId::Tile),
        }
    }
}

/// The key of what is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CacheKey {
    /// A file as it is stored.
    File(FileId),
    /// A data tile in zstd.
    Zstd(Tile),
    /// The names tile of a data tile.
    Names(Tile),
    /// The events of a full data tile.
    Events(Tile),
}

/// A cache, bounded in bytes, of what has been verified.
pub(crate) type ReadCache = Cache<CacheKey, StoredFile>;

/// An empty cache of at most so many bytes.
pub(crate) fn read_cache(most_bytes: u64) -> ReadCache {
    Cache::builder()
        .max_capacity(most_bytes)
        .weigher(|_, stored: &StoredFile| stored.bytes.len() as u32 + 128)
        .build()
}
