//! The cache of files that readers requested, in memory and as stored.

use lucarne_ct::Fingerprint;
use lucarne_tlog::Tile;
use moka::sync::Cache;

use crate::data::stored_file::StoredFile;

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
