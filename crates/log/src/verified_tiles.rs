//! Tiles that are verified against the tree before a reader receives them.
//!
//! The right edge in memory gives the signed root. All other tiles are reached from it: the root
//! over a full hash tile is an entry of the tile above, and the leaf hashes of a data tile's
//! entries are the hash tile of level 0. Until the bytes from storage match, they are only a hint.
//! If they do not match, they are read again from the store, without caches. If they still do not
//! match, the file is damaged.
//!
//! The tree does not sign the precertificates and the issuer fingerprints in a data tile. The
//! checksum of the gzip stream covers them. A tile that other software stored uncompressed has no
//! checksum: the scrubber verifies its entries, and condemns the bytes if they are wrong.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lucarne_ct::{Fingerprint, TileLeafError};
use lucarne_storage::{Assets, Encoding, ForReader};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::xxh3_128;

use crate::compress::{gunzip, is_gzip};
use crate::damaged::Damaged;
use crate::read_cache::{CacheKey, FileId, ReadCache, StoredFile};
use crate::single_flight::SingleFlight;
use crate::{ReadError, stored};

/// Data tiles of one log that are decompressed and hashed at the same time.
const CHECKING: usize = 4;

/// The tiles of one log in storage. Each is verified when it is read.
///
/// Clones share the cache.
#[derive(Clone)]
pub(crate) struct VerifiedTiles(Arc<Inner>);

struct Inner {
    assets: Arc<dyn Assets>,
    source: Source,
    cache: ReadCache,
    /// The reads in flight. Concurrent readers of the same tile share one read.
    fetches: SingleFlight<Tile, Result<StoredFile, ReadError>>,
    checking: Arc<Semaphore>,
    damaged: Damaged,
}

/// The origin of the bytes of a first attempt to read a file. A second attempt always reads the
/// store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The caches of the store, which readers use, or the store.
    Caches,
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
    /// Uncompressed; of a data tile, only the requested entries.
    plain: Bytes,
}

/// The content of a file as far as it is known before reading.
#[derive(Clone)]
enum Expected {
    /// A full hash tile with this root.
    Root(Hash),
    /// A partial hash tile.
    Hashes(Bytes),
    /// A data tile whose entries have these concatenated leaf hashes. A `wider` tile begins with
    /// these entries.
    Entries { leaves: Bytes, wider: bool },
    /// The certificate with this fingerprint.
    Certificate(Fingerprint),
}

/// The difference between a file and its expected content.
#[derive(Debug, thiserror::Error)]
enum Unexpected {
    #[error("the hashes do not match the signed root")]
    Root,
    #[error("expected 8192 bytes, found {0}")]
    Length(usize),
    #[error("gzip: {0}")]
    Gzip(#[source] std::io::Error),
    #[error("the SHA-256 does not match the file name")]
    Certificate,
    #[error("entry {0} does not match its leaf hash in the tree")]
    Foreign(usize),
    #[error("entry {0}: {1}")]
    Entry(usize, #[source] TileLeafError),
    #[error("expected {due} entries, found {found}")]
    Entries { found: usize, due: usize },
    #[error("{0} extra bytes after its last entry")]
    Extra(usize),
    /// The hashes agree, but the scrubber has condemned the bytes.
    #[error("{0}")]
    Condemned(String),
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

impl Expected {
    /// Returns the uncompressed file, or its fault.
    fn check(&self, stored: Bytes) -> Result<Bytes, Unexpected> {
        match self {
            Expected::Root(root) => match tile_root(&stored) {
                Some(found) if found == *root => Ok(stored),
                Some(_) => Err(Unexpected::Root),
                None => Err(Unexpected::Length(stored.len())),
            },
            Expected::Hashes(hashes) => {
                if stored == hashes {
                    Ok(stored)
                } else {
                    Err(Unexpected::Root)
                }
            }
            Expected::Entries { leaves, wider } => {
                let plain = gunzip(stored).map_err(Unexpected::Gzip)?;
                begins_with(plain, leaves, *wider)
            }
            Expected::Certificate(fingerprint) => match Fingerprint::of(&stored) {
                found if found == *fingerprint => Ok(stored),
                _ => Err(Unexpected::Certificate),
            },
        }
    }
}

/// Returns the entries with these leaf hashes, if the tile begins with them.
fn begins_with(plain: Bytes, leaves: &[u8], wider: bool) -> Result<Bytes, Unexpected> {
    let (due, _) = leaves.as_chunks::<{ Hash::LENGTH }>();
    let mut entries = stored::Leaves::of(&plain);
    for (n, due) in due.iter().enumerate() {
        match entries.next() {
            Some(Ok(found)) if found.0 == *due => {}
            Some(Ok(_)) => return Err(Unexpected::Foreign(n)),
            Some(Err(error)) => return Err(Unexpected::Entry(n, error)),
            None => {
                return Err(Unexpected::Entries {
                    found: n,
                    due: due.len(),
                });
            }
        }
    }
    let end = entries.end();
    match plain.len() - end {
        extra if extra > 0 && !wider => Err(Unexpected::Extra(extra)),
        _ => Ok(plain.slice(..end)),
    }
}

impl VerifiedTiles {
    /// Creates a reader of the tiles in `assets` and its caches. Full tiles are kept in `cache`.
    pub(crate) fn new(assets: Arc<dyn Assets>, cache: ReadCache, damaged: Damaged) -> Self {
        Self::with_source(Source::Caches, assets, cache, damaged)
    }

    /// Creates a reader of the tiles that the store itself has, past the caches of `assets`: they
    /// may have tiles that the store has lost.
    pub(crate) fn past_caches(assets: Arc<dyn Assets>, cache: ReadCache, damaged: Damaged) -> Self {
        Self::with_source(Source::Store, assets, cache, damaged)
    }

    fn with_source(
        source: Source,
        assets: Arc<dyn Assets>,
        cache: ReadCache,
        damaged: Damaged,
    ) -> Self {
        VerifiedTiles(Arc::new(Inner {
            assets,
            source,
            cache,
            fetches: SingleFlight::default(),
            checking: Arc::new(Semaphore::new(CHECKING)),
            damaged,
        }))
    }

    /// Returns the files that were found damaged and have not been found intact since.
    pub(crate) fn damaged(&self) -> &Damaged {
        &self.0.damaged
    }

    /// Returns a full tile of the tree with this right edge, as stored, and keeps it.
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

    /// Returns the uncompressed entries of a data tile of any width, from the narrowest stored tile
    /// with these entries. They are not kept.
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
        for candidate in stored::candidates(&*self.0.assets, tile).await? {
            let expected = Expected::Entries {
                leaves: leaves.clone(),
                wider: candidate != tile,
            };
            match self
                .fetch(FileId::Tile(candidate), expected, self.0.source)
                .await
            {
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
        if tile.full().covered_by(edge.size()) && self.0.assets.get(&file.path()).await?.is_none() {
            // The full tile has replaced the partial one.
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

    /// Reads a file that entries need from the store itself, and verifies it.
    ///
    /// # Errors
    /// As [`full`](Self::full).
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

    /// Returns the certificate with this fingerprint, if it exists. It is not kept.
    ///
    /// # Errors
    /// If it is damaged, or storage fails.
    pub(crate) async fn issuer(&self, of: &Fingerprint) -> Result<Option<Bytes>, ReadError> {
        let file = FileId::Issuer(*of);
        let expected = Expected::Certificate(*of);
        let found = self.fetch(file, expected, self.0.source).await?;
        if let Some(found) = &found {
            self.0
                .assets
                .keep_for_readers(&file.path(), &found.stored.bytes);
        }
        Ok(found.map(|found| found.plain))
    }

    /// Reads a full tile. Boxed, because it may have to read the tile above first.
    fn read(
        self,
        edge: Arc<RightEdge>,
        tile: Tile,
    ) -> BoxFuture<'static, Result<StoredFile, ReadError>> {
        async move {
            let expected = self.expected(&edge, tile).await?;
            let key = FileId::Tile(tile);
            let found = self.fetch(key, expected, self.0.source).await?;
            let ForReader { bytes, file, .. } = found.ok_or_else(|| self.missing(key))?.stored;
            self.0.assets.keep_for_readers(&key.path(), &bytes);
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
        earlier
            .map(|edge| edge.root())
            .map_err(|error| ReadError::Storage(error.to_string()))
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
        let no_tile = || ReadError::Storage(format!("no tile of level {level} holds {position}"));
        let tile = Tile::new(Level::Hashes(level), index, offset as u16 + 1).ok_or_else(no_tile)?;
        let hashes = self.hashes(edge, tile).await?;
        hashes.last_chunk().copied().map(Hash).ok_or_else(no_tile)
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
                (Attempt::First, Source::Caches) => assets.get_for_reader(&path).await,
                _ => assets.get(&path).await.map(|it| it.map(ForReader::from)),
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
                "the stored bytes differ from those that the log wrote"
            );
            assets.forget_for_readers(&path).await;
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

    /// Decompresses and hashes data tiles on a blocking thread.
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
        let problem = "is missing, although a checkpoint covers it".into();
        self.0.damaged.name(file, problem)
    }
}

fn beyond(edge: &RightEdge, tile: Tile) -> ReadError {
    ReadError::Storage(format!(
        "{} is beyond the {} entries of the tree",
        tile.path(),
        edge.size()
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use lucarne_ct::{Entry, SignedEntry, TileLeaf};
    use lucarne_storage::{CachedAssets, MemoryAssets};
    use lucarne_testkit::until;

    use super::*;
    use crate::gzip::gzip;
    use crate::read_cache::read_cache;

    /// Hash tiles up to level 2, and the entries of the first data tile.
    struct Forest {
        assets: MemoryAssets,
        edge: Arc<RightEdge>,
        entries: Bytes,
    }

    impl Forest {
        fn new() -> Forest {
            let entries = Bytes::from((0..256).flat_map(entry).collect::<Vec<u8>>());
            let (mut leaves, _) = stored::leaves(&entries).unwrap();
            leaves.extend(
                (256..65_536 + 300).map(|n: u64| lucarne_tlog::leaf_hash(&n.to_be_bytes())),
            );
            let (assets, mut edge) = (MemoryAssets::new(), RightEdge::new());
            for (tile, bytes) in edge.append(&leaves) {
                assets.tamper(&tile.path(), Some(bytes.into()));
            }
            let packed = gzip(&entries).unwrap();
            assets.tamper("tile/data/000", Some(packed));
            let edge = Arc::new(edge);
            Forest {
                assets,
                edge,
                entries,
            }
        }

        /// Returns the tiles with an empty cache.
        fn tiles(&self) -> VerifiedTiles {
            verified(Arc::new(self.assets.clone()))
        }

        fn stored(&self, path: &str) -> Bytes {
            let get = self.assets.get(path);
            get.now_or_never().unwrap().unwrap().unwrap()
        }
    }

    /// Creates tiles whose damaged files are read again at once.
    fn verified(assets: Arc<dyn Assets>) -> VerifiedTiles {
        VerifiedTiles::new(assets, read_cache(1 << 20), Damaged::default())
    }

    /// Returns an entry in the format of data tiles; it differs for each index.
    pub(crate) fn entry(index: u64) -> Vec<u8> {
        let certificate = Bytes::from(index.to_be_bytes().repeat(10));
        let signed = SignedEntry::X509 { certificate };
        let entry = Entry {
            identity: signed.identity(),
            signed,
            precertificate: None,
            issuers: Arc::from([]),
        };
        let mut leaf = Vec::new();
        TileLeaf::encode(7, &entry, index, &mut leaf);
        leaf
    }

    fn tile(path: &str) -> Tile {
        Tile::parse(path).unwrap()
    }

    /// Returns the bytes with a flipped bit in the middle, cut in half, and emptied.
    fn damages(bytes: &Bytes) -> [Bytes; 3] {
        let mut flipped = bytes.to_vec();
        flipped[bytes.len() / 2] ^= 1;
        [flipped.into(), bytes.slice(..bytes.len() / 2), Bytes::new()]
    }

    #[tokio::test]
    async fn what_does_not_fit_the_tree_is_not_given_out() {
        let forest = Forest::new();
        for (path, leads_to) in [
            ("tile/0/000", "tile/0/000"),
            ("tile/0/255", "tile/0/255"),
            ("tile/1/000", "tile/0/000"),
            ("tile/1/000", "tile/data/000"),
            ("tile/0/000", "tile/data/000"),
            ("tile/data/000", "tile/data/000"),
        ] {
            let good = forest.stored(path);
            for bad in damages(&good) {
                forest.assets.tamper(path, Some(bad));
                let tiles = forest.tiles();
                let error = tiles.full(&forest.edge, tile(leads_to)).await.unwrap_err();
                let error = error.to_string();
                assert!(error.starts_with(path), "on the way to {leads_to}: {error}");
                assert!(tiles.damaged().in_words().unwrap().starts_with(path));
                forest.assets.tamper(path, Some(good.clone()));
                let stored = tiles.full(&forest.edge, tile(leads_to)).await.unwrap();
                assert_eq!(stored.bytes, forest.stored(leads_to));
                assert_eq!(tiles.damaged().in_words(), None);
            }
        }
    }

    #[tokio::test]
    async fn another_tile_of_the_log_is_not_taken_for_the_one_asked_for() {
        let forest = Forest::new();
        let other = forest.stored("tile/0/001");
        forest.assets.tamper("tile/0/000", Some(other));
        let tiles = forest.tiles();
        assert!(tiles.full(&forest.edge, tile("tile/0/000")).await.is_err());
        assert!(tiles.full(&forest.edge, tile("tile/0/001")).await.is_ok());
    }

    #[tokio::test]
    async fn leaf_hashes_come_from_tiles_and_from_the_edge() {
        let forest = Forest::new();
        let tiles = forest.tiles();
        let (leaves, _) = stored::leaves(&forest.entries).unwrap();
        assert_eq!(tiles.leaf_hash(&forest.edge, 17).await.unwrap(), leaves[17]);
        for index in [256, 65_535, 65_536, 65_835] {
            let leaf = lucarne_tlog::leaf_hash(&u64::to_be_bytes(index));
            assert_eq!(tiles.leaf_hash(&forest.edge, index).await.unwrap(), leaf);
        }
        assert!(tiles.leaf_hash(&forest.edge, 65_836).await.is_err());
    }

    #[tokio::test]
    async fn entries_come_plain_or_packed_and_from_wider_tiles() {
        let forest = Forest::new();
        let (assets, tiles) = (&forest.assets, forest.tiles());
        let all = tiles.entries(&forest.edge, tile("tile/data/000"));
        assert_eq!(all.await.unwrap(), forest.entries);
        let seven = forest.entries.slice(..7 * entry(0).len());
        let partial = tile("tile/data/000.p/7");
        assert_eq!(tiles.entries(&forest.edge, partial).await.unwrap(), seven);
        for stored in [seven.clone(), gzip(&seven).unwrap()] {
            assets.tamper("tile/data/000.p/7", Some(stored));
            assert_eq!(tiles.entries(&forest.edge, partial).await.unwrap(), seven);
        }
        // A wrong candidate is skipped in favour of a correct one.
        assets.tamper("tile/data/000.p/7", Some(forest.entries.clone()));
        assert_eq!(tiles.entries(&forest.edge, partial).await.unwrap(), seven);
        assert!(tiles.damaged().in_words().unwrap().contains("000.p/7: "));
        assets.tamper("tile/data/000", Some(forest.entries.clone()));
        let all = tiles.entries(&forest.edge, tile("tile/data/000"));
        assert_eq!(all.await.unwrap(), forest.entries);
        let more = [&forest.entries[..], b"more"].concat();
        assets.tamper("tile/data/000", Some(more.into()));
        let all = tiles.entries(&forest.edge, tile("tile/data/000"));
        let error = all.await.unwrap_err().to_string();
        assert!(
            error.contains("4 extra bytes after its last entry"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_cache_that_has_something_else_is_told_and_the_store_asked() {
        let forest = Forest::new();
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(forest.assets.clone());
        let cached = CachedAssets::new(store, directory.path(), 1 << 20, Arc::new(()));
        let cached: Arc<dyn Assets> = Arc::new(cached);
        let path = "tile/0/000";
        let good = forest.stored(path);
        let keeps = async |bytes: &Bytes, does: bool| {
            // The cache is written in the background.
            until("the cache holds what it should", || {
                files(directory.path()).contains(&bytes.to_vec()) == does
            })
            .await;
        };
        let [bad, ..] = damages(&good);
        cached.keep_for_readers(path, &bad);
        keeps(&bad, true).await;
        let tiles = verified(cached.clone());
        let stored = tiles.full(&forest.edge, tile(path)).await.unwrap();
        assert_eq!(
            (stored.bytes, tiles.damaged().in_words()),
            (good.clone(), None)
        );
        keeps(&good, true).await;
        keeps(&bad, false).await;
        // Wrong bytes from the store are not kept at all.
        cached.forget_for_readers(path).await;
        keeps(&good, false).await;
        forest.assets.tamper(path, Some(bad.clone()));
        let tiles = verified(cached);
        assert!(tiles.full(&forest.edge, tile(path)).await.is_err());
        keeps(&bad, false).await;
    }

    /// Returns the files in the cache, without their checksums.
    fn files(directory: &std::path::Path) -> Vec<Vec<u8>> {
        let list = |path| {
            std::fs::read_dir(path)
                .unwrap()
                .map(|file| file.unwrap().path())
        };
        let files = list(directory.to_owned()).flat_map(list);
        let files = files.filter_map(|file| std::fs::read(file).ok());
        files
            .filter_map(|file| Some(file.get(16..)?.to_vec()))
            .collect()
    }

    #[tokio::test]
    async fn issuers_are_what_their_name_says() {
        let forest = Forest::new();
        let der = Bytes::from_static(b"a certificate");
        let of = Fingerprint::of(&der);
        let path = format!("issuer/{of}");
        assert_eq!(forest.tiles().issuer(&of).await.unwrap(), None);
        forest.assets.tamper(&path, Some(der.clone()));
        assert_eq!(forest.tiles().issuer(&of).await.unwrap(), Some(der.clone()));
        for bad in damages(&der) {
            forest.assets.tamper(&path, Some(bad));
            let error = forest.tiles().issuer(&of).await.unwrap_err().to_string();
            assert!(error.starts_with(&path), "{error}");
        }
    }
}
