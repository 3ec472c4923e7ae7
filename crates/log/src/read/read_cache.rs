//! The cache of files that readers requested, in memory and as stored.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_storage::{Encoding, OpenFile};
use lucarne_tlog::Tile;
use moka::sync::Cache;
use xxhash_rust::xxh3::xxh3_128;

use crate::read::compress::gunzip;

/// A tile or issuer as it is stored.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// The stored bytes.
    pub bytes: Bytes,
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// The file with exactly these bytes, if sending from the file is faster.
    pub file: Option<Arc<OpenFile>>,
    /// The decoded bytes, if they are in memory.
    pub plain: Option<Bytes>,
    /// A checksum of the stored bytes (XXH3), which identifies them.
    pub sum: u128,
}

impl StoredFile {
    /// Creates a file from bytes in this encoding.
    pub(crate) fn new(bytes: Bytes, encoding: Encoding) -> Self {
        StoredFile {
            sum: xxh3_128(&bytes),
            bytes,
            encoding,
            file: None,
            plain: None,
        }
    }

    /// Creates a file from bytes that are not encoded.
    pub(crate) fn identity(bytes: Bytes) -> Self {
        Self::new(bytes, Encoding::Identity)
    }

    /// Returns the decoded bytes.
    ///
    /// # Errors
    /// If the bytes cannot be decoded. This is unlikely, because the bytes could be decoded when
    /// they were read.
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
    /// Returns the path of the file in storage.
    pub(crate) fn path(self) -> String {
        match self {
            FileId::Tile(tile) => tile.path(),
            FileId::Issuer(fingerprint) => format!("issuer/{fingerprint}"),
        }
    }

    /// Parses a path in storage; returns `None` if the file is neither a tile nor an issuer.
    pub(crate) fn parse(path: &str) -> Option<FileId> {
        match path.strip_prefix("issuer/") {
            Some(name) => name.parse().ok().map(FileId::Issuer),
            None => Tile::parse(path).ok().map(FileId::Tile),
        }
    }
}

/// A key of the cache.
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

/// A cache of verified files, bounded in bytes.
pub(crate) type ReadCache = Cache<CacheKey, StoredFile>;

/// Creates an empty cache of at most `most_bytes`.
pub(crate) fn read_cache(most_bytes: u64) -> ReadCache {
    Cache::builder()
        .max_capacity(most_bytes)
        .weigher(|_, stored: &StoredFile| stored.bytes.len() as u32 + 128)
        .build()
}
