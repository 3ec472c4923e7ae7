//! Tiles that are verified against the tree before a reader receives them.
//!
//! The right edge in memory gives the signed root. All other tiles are reached from the right edge:
//! the root over a full hash tile is an entry of the tile above, and the leaf hashes of a data
//! tile's entries are the hash tile of level 0. Bytes from storage are not used before they match.
//! A file that does not match is read again from the store, without caches. If the second bytes do
//! not match either, the file is damaged.
//!
//! The tree does not sign the precertificates and the issuer fingerprints in a data tile. The
//! checksum of the gzip stream covers them. A tile that other software stored uncompressed has no
//! checksum: the scrubber verifies its entries, and condemns the bytes if they are wrong.

mod expected;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lucarne_ct::Fingerprint;
use lucarne_storage::{AssetError, Assets, Encoding, ForReader, ReadAssets};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::xxh3_128;

use self::expected::{Expected, Unexpected};
use crate::data::stored_file::StoredFile;
use crate::error::{ReadError, ReadFailure};
use crate::read::damaged_files::DamagedFiles;
use crate::read::read_cache::{CacheKey, FileId, ReadCache};
use crate::read::single_flight::SingleFlight;
use crate::read::stored_tiles;
use lucarne_ctread::is_gzip;

/// Maximum number of data tiles of one log that are decompressed and hashed concurrently.
const CHECKING: usize = 4;

/// The tiles of one log in storage. Each tile is verified when it is read.
///
/// Clones share the cache.
#[derive(Clone)]
pub(crate) struct VerifiedTiles(Arc<Inner>);

struct Inner {
    assets: ReadAssets,
    cache: ReadCache,
    /// The reads in flight. Concurrent readers of the same tile share one read.
    fetches: SingleFlight<Tile, Result<StoredFile, ReadError>>,
    checking: Arc<Semaphore>,
    damaged: DamagedFiles,
}

/// The origin of the bytes of a first attempt to read a file. A second attempt always reads the
/// store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The cache of readers, if there is one, or the store.
    Cache,
    /// The store itself. A cache may have files that the store has lost.
    Store,
}

/// The attempts to read a file before it counts as damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    First,
    Second,
}

/// A file with the expected content.
struct Found {
    stored: ForReader,
    /// The uncompressed content. For a data tile, only the requested entries.
    plain: Bytes,
}

impl VerifiedTiles {
    /// Creates a reader of the tiles in `assets`. Full tiles are kept in `cache`.
    pub(crate) fn new(assets: ReadAssets, cache: ReadCache, damaged: DamagedFiles) -> Self {
        VerifiedTiles(Arc::new(Inner {
            assets,
            cache,
            fetches: SingleFlight::default(),
            checking: Arc::new(Semaphore::new(CHECKING)),
            damaged,
        }))
    }

    /// Creates a reader of the tiles that the store itself has, because a cache on disk may have
    /// tiles that the store has lost. Full tiles are kept in `cache`.
    pub(crate) fn of_store(
        store: Arc<dyn Assets>,
        cache: ReadCache,
        damaged: DamagedFiles,
    ) -> Self {
        Self::new(ReadAssets::uncached(store), cache, damaged)
    }

    /// Creates a reader of the same files that keeps full tiles in `cache`, and that has read no
    /// file yet.
    pub(crate) fn unread(&self, cache: ReadCache) -> Self {
        Self::new(self.0.assets.clone(), cache, DamagedFiles::default())
    }

    /// Returns the files that were found damaged and have not been found intact since.
    pub(crate) fn damaged(&self) -> &DamagedFiles {
        &self.0.damaged
    }

    /// Returns a full tile of the tree with this right edge, as stored, and keeps the tile in the
    /// cache.
    ///
    /// # Errors
    /// If the tile, or a tile that leads to it, is missing or damaged, or if storage fails.
    pub(crate) async fn full(
        &self,
        edge: &Arc<RightEdge>,
        tile: Tile,
    ) -> Result<StoredFile, ReadError> {
        if let Some(stored) = self.0.cache.get(&CacheKey::File(FileId::Tile(tile))) {
            return Ok(stored);
        }
        let reading = self.clone().read(edge.clone(), tile);
        self.0.fetches.join(tile, reading).await
    }

    /// Returns the concatenated hashes of a hash tile of any width.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn hashes(
        &self,
        edge: &Arc<RightEdge>,
        tile: Tile,
    ) -> Result<Bytes, ReadError> {
        let length = usize::from(tile.width()) * Hash::LENGTH;
        let (level, beyond) = (tile.level(), || beyond(edge, tile));
        let hashes = match (level, Tile::rightmost_partial(level, edge.size())) {
            (Level::Hashes(level), Some(last)) if last.index() == tile.index() => {
                edge.partial(level).iter().flat_map(|hash| hash.0).collect()
            }
            _ if tile.full().covered_by(edge.size()) => self.full(edge, tile.full()).await?.bytes,
            _ => return Err(beyond()),
        };
        if hashes.len() >= length {
            Ok(hashes.slice(..length))
        } else {
            Err(beyond())
        }
    }

    /// Returns the hash of the leaf with this index.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn leaf_hash(
        &self,
        edge: &Arc<RightEdge>,
        index: u64,
    ) -> Result<Hash, ReadError> {
        self.entry(edge, 0, index).await
    }

    /// Returns the uncompressed entries of a data tile of any width, from this tile, the full tile
    /// or a wider partial tile. The entries are not cached.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn entries(
        &self,
        edge: &Arc<RightEdge>,
        tile: Tile,
    ) -> Result<Bytes, ReadError> {
        let leaves = self.leaves(edge, tile).await?;
        let mut problem = None;
        for candidate in stored_tiles::candidates(&**self.0.assets.store(), tile).await? {
            let expected = Expected::Entries {
                leaves: leaves.clone(),
                wider: candidate != tile,
            };
            let fetched = self.fetch(FileId::Tile(candidate), expected, Source::Cache);
            match fetched.await {
                Ok(Some(found)) => return Ok(found.plain),
                Ok(None) => {}
                Err(error @ ReadError::Damaged { .. }) => problem = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(problem.unwrap_or_else(|| self.missing(FileId::Tile(tile))))
    }

    /// Reads and verifies a partial tile whose hashes are in memory. Readers do not need the file,
    /// but a recovery does.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn partial(&self, edge: &Arc<RightEdge>, tile: Tile) -> Result<(), ReadError> {
        let file = FileId::Tile(tile);
        let store = self.0.assets.store();
        if tile.full().covered_by(edge.size()) && store.get(&file.path()).await?.is_none() {
            // The full tile has replaced the partial tile.
            self.0.damaged.forget(file);
            return Ok(());
        }
        let expected = match tile.level() {
            Level::Hashes(_) => Expected::Hashes(self.hashes(edge, tile).await?),
            Level::Data => Expected::Entries {
                leaves: self.leaves(edge, tile).await?,
                wider: false,
            },
        };
        let found = self.fetch(file, expected, Source::Store).await?;
        found.map(drop).ok_or_else(|| self.missing(file))
    }

    /// Reads a file from the store itself, and verifies the file. The tree must need the file.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn stored(
        &self,
        edge: &Arc<RightEdge>,
        file: FileId,
    ) -> Result<(), ReadError> {
        let expected = match file {
            FileId::Issuer(of) => Expected::Certificate(of),
            FileId::Tile(tile) if tile.is_full() => self.expected(edge, tile).await?,
            FileId::Tile(tile) => return self.partial(edge, tile).await,
        };
        let found = self.fetch(file, expected, Source::Store).await?;
        found.map(drop).ok_or_else(|| self.missing(file))
    }

    /// Returns the certificate with this fingerprint, if it exists. The certificate is not kept in
    /// memory.
    ///
    /// # Errors
    /// If the certificate is damaged, or storage fails.
    pub(crate) async fn issuer(&self, of: &Fingerprint) -> Result<Option<Bytes>, ReadError> {
        let file = FileId::Issuer(*of);
        let expected = Expected::Certificate(*of);
        let found = self.fetch(file, expected, Source::Cache).await?;
        if let Some(found) = &found {
            self.0.assets.keep(&file.path(), &found.stored.bytes);
        }
        Ok(found.map(|found| found.plain))
    }

    /// Returns the unverified bytes of a file, from the cache on disk if the cache has the file.
    pub(crate) async fn unverified(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        let found = self.0.assets.get(path).await?;
        Ok(found.map(|found| found.bytes))
    }

    /// Removes from the cache on disk a file that was replaced in the store.
    pub(crate) async fn replaced(&self, path: &str) {
        self.0.assets.forget(path).await;
    }

    /// Reads a full tile. The future is boxed, because the tile above may have to be read first.
    fn read(
        self,
        edge: Arc<RightEdge>,
        tile: Tile,
    ) -> BoxFuture<'static, Result<StoredFile, ReadError>> {
        async move {
            let expected = self.expected(&edge, tile).await?;
            let key = FileId::Tile(tile);
            let found = self.fetch(key, expected, Source::Cache).await?;
            let ForReader { bytes, file, .. } = found.ok_or_else(|| self.missing(key))?.stored;
            self.0.assets.keep(&key.path(), &bytes);
            let encoding = match tile.level() {
                Level::Data if is_gzip(&bytes) => Encoding::Gzip,
                _ => Encoding::Identity,
            };
            let stored = StoredFile {
                file: file.map(Arc::new),
                ..StoredFile::new(bytes, encoding)
            };
            self.0.cache.insert(CacheKey::File(key), stored.clone());
            Ok(stored)
        }
        .boxed()
    }

    /// Returns the content of a full tile as far as the tree above gives it.
    async fn expected(&self, edge: &Arc<RightEdge>, tile: Tile) -> Result<Expected, ReadError> {
        Ok(match tile.level() {
            Level::Data => Expected::Entries {
                leaves: self.leaves(edge, tile).await?,
                wider: false,
            },
            Level::Hashes(level) => {
                Expected::Root(self.entry(edge, level + 1, tile.index()).await?)
            }
        })
    }

    /// Returns the root of the tree when it had this size.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn root_at(
        &self,
        edge: &Arc<RightEdge>,
        size: u64,
    ) -> Result<Hash, ReadError> {
        let mut parts = Vec::new();
        for tile in RightEdge::tiles(size) {
            parts.push((tile, self.hashes(edge, tile).await?));
        }
        let earlier = RightEdge::load(size, |tile| {
            let part = parts.iter().find(|(part, _)| *part == tile);
            part.map(|(_, bytes)| bytes.to_vec()).ok_or("was not read")
        });
        earlier.map(|edge| edge.root()).map_err(ReadError::edge)
    }

    /// Returns the hash at `position` of a level of hash tiles.
    ///
    /// # Errors
    /// See [`full`](Self::full).
    pub(crate) async fn entry(
        &self,
        edge: &Arc<RightEdge>,
        level: u8,
        position: u64,
    ) -> Result<Hash, ReadError> {
        let (index, offset) = (position / TILE_WIDTH, position % TILE_WIDTH);
        let no_tile = || ReadFailure::NoHashTile { level, position };
        let tile = Tile::new(Level::Hashes(level), index, offset as u16 + 1).ok_or_else(no_tile)?;
        let hashes = self.hashes(edge, tile).await?;
        Ok(hashes.last_chunk().copied().map(Hash).ok_or_else(no_tile)?)
    }

    /// Returns the leaf hashes of the entries of a data tile.
    async fn leaves(&self, edge: &Arc<RightEdge>, data: Tile) -> Result<Bytes, ReadError> {
        let tile = Tile::new(Level::Hashes(0), data.index(), data.width());
        let tile = tile.ok_or_else(|| beyond(edge, data))?;
        self.hashes(edge, tile).await
    }

    /// Reads a file. A file with unexpected content is read again, from the store itself. Returns
    /// `None` if the file does not exist.
    async fn fetch(
        &self,
        file: FileId,
        expected: Expected,
        source: Source,
    ) -> Result<Option<Found>, ReadError> {
        let (assets, damaged) = (&self.0.assets, &self.0.damaged);
        if let Some(error) = damaged.just_now(file) {
            return Err(error);
        }
        let path = file.path();
        let mut problem = String::new();
        for attempt in [Attempt::First, Attempt::Second] {
            let stored = match (attempt, source) {
                (Attempt::First, Source::Cache) => assets.get(&path).await,
                _ => {
                    let stored = assets.store().get(&path).await;
                    stored.map(|stored| stored.map(ForReader::from))
                }
            };
            problem = match stored.map_err(ReadError::from) {
                Ok(None) => {
                    damaged.absent(file)?;
                    return Ok(None);
                }
                Ok(Some(stored)) => match self.check_uncondemned(file, &expected, stored).await {
                    Ok(found) => {
                        // A right copy in a cache does not show that the store has the file.
                        if !found.stored.is_cached {
                            damaged.forget(file);
                        }
                        return Ok(Some(found));
                    }
                    Err(unexpected) => unexpected.to_string(),
                },
                Err(ReadError::Damaged { problem, .. }) => problem,
                Err(error) => return Err(error),
            };
            damaged.count();
            tracing::warn!(
                path,
                problem,
                ?attempt,
                "the stored bytes differ from the bytes that the log wrote"
            );
            assets.forget(&path).await;
        }
        Err(damaged.name(file, problem))
    }

    /// Checks a file as [`check`](Self::check) does, and rejects bytes that the scrubber condemned.
    async fn check_uncondemned(
        &self,
        file: FileId,
        expected: &Expected,
        stored: ForReader,
    ) -> Result<Found, Unexpected> {
        let found = self.check(expected, stored).await?;
        let sum = || xxh3_128(&found.stored.bytes);
        match self.0.damaged.condemned(file, sum) {
            None => Ok(found),
            Some(problem) => Err(Unexpected::Condemned(problem)),
        }
    }

    /// Compares a file with the expected content. Data tiles are decompressed and hashed on a
    /// blocking thread.
    async fn check(&self, expected: &Expected, stored: ForReader) -> Result<Found, Unexpected> {
        let bytes = stored.bytes.clone();
        let plain = match expected {
            Expected::Entries { .. } => {
                // The semaphore is never closed.
                let permit = self.0.checking.clone().acquire_owned().await;
                let expected = expected.clone();
                let checking = spawn_blocking(move || {
                    let _permit = permit;
                    expected.check(bytes)
                });
                checking.await??
            }
            _ => expected.check(bytes)?,
        };
        Ok(Found { stored, plain })
    }

    fn missing(&self, file: FileId) -> ReadError {
        self.0.damaged.count();
        let problem = "is missing, although a checkpoint covers the file".into();
        self.0.damaged.name(file, problem)
    }
}

fn beyond(edge: &RightEdge, tile: Tile) -> ReadError {
    let failure = ReadFailure::Beyond {
        tile: tile.path(),
        size: edge.size(),
    };
    failure.into()
}
