//! The forms of a data tile that are computed when a client requests them.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_storage::Encoding;
use lucarne_tlog::{Level, RightEdge, TILE_WIDTH, Tile};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Reader;
use crate::data::gzip::gzip;
use crate::data::names_tile::names_tile;
use crate::data::stored_file::StoredFile;
use crate::error::ReadError;
use crate::read::feed::{self, TileEvents};
use crate::read::read_cache::{CacheKey, FileId};

/// Maximum number of tiles that wait to be transcoded. Beyond that, readers receive gzip.
const MAX_TRANSCODING: usize = 8;

impl Reader {
    /// Returns a partial data tile in gzip, and caches the compressed bytes. If one client requests
    /// a superseded width, other clients usually do as well.
    pub(super) async fn packed(&self, tile: Tile, plain: Bytes) -> Result<StoredFile, ReadError> {
        let key = CacheKey::File(FileId::Tile(tile));
        if let Some(stored) = self.cache.get(&key) {
            return Ok(StoredFile {
                plain: Some(plain),
                ..stored
            });
        }
        let (cache, unpacked) = (self.cache.clone(), plain.clone());
        let packing = aside(self.packing.clone(), move || {
            let packed = gzip(&unpacked).map_err(ReadError::coding)?;
            let stored = StoredFile::new(packed, Encoding::Gzip);
            cache.insert(key, stored.clone());
            Ok(stored)
        });
        Ok(StoredFile {
            plain: Some(plain),
            ..self.packs.join(tile, packing).await?
        })
    }

    /// Returns the names tile of a data tile, generated from the entries, and caches the names
    /// tile.
    pub(crate) async fn names(&self, tile: Tile) -> Result<Option<StoredFile>, ReadError> {
        let key = CacheKey::Names(tile);
        if let Some(stored) = self.cache.get(&key) {
            return Ok(Some(stored));
        }
        let Some(data) = self.tile(tile).await? else {
            return Ok(None);
        };
        let cache = self.cache.clone();
        let making = aside(self.packing.clone(), move || {
            let names = data.unpacked().and_then(|entries| names_tile(&entries));
            let names = names.map_err(ReadError::coding)?;
            let stored = StoredFile::new(names, Encoding::Gzip);
            cache.insert(key, stored.clone());
            Ok(stored)
        });
        self.names.join(tile, making).await.map(Some)
    }

    /// Returns the events of the entries from this index to the end of their data tile or of the
    /// tree, and the index after them. Returns `None` if the tree ends at `from`.
    pub(crate) async fn feed(&self, from: u64) -> Result<Option<(Bytes, u64)>, ReadError> {
        let size = self.published().map_or(0, |published| published.size);
        let tile = Tile::widest(Level::Data, from / TILE_WIDTH, size);
        let Some(tile) = tile.filter(|tile| from < tile.end_leaf()) else {
            return Ok(None);
        };
        let events = self.tile_events(tile).await?;
        let before = (from - tile.start_leaf()) as u16;
        Ok(events.map(|events| (feed::after(&events, before), tile.end_leaf())))
    }

    async fn tile_events(&self, tile: Tile) -> Result<Option<Bytes>, ReadError> {
        let key = CacheKey::Events(tile);
        let newest = self.newest.lock().get(tile);
        if let Some(events) = newest.or_else(|| Some(self.cache.get(&key)?.bytes)) {
            return Ok(Some(events));
        }
        let Some(data) = self.tile(tile).await? else {
            return Ok(None);
        };
        let (newest, cache) = (self.newest.clone(), self.cache.clone());
        let making = aside(self.packing.clone(), move || {
            let entries = data.unpacked().map_err(ReadError::coding)?;
            let before = newest.lock().clone();
            let events = if before.is_before(tile) {
                let mut grown = before;
                let events = grown.grow(tile, &entries).map_err(ReadError::coding)?;
                *newest.lock() = grown;
                events
            } else {
                TileEvents::default()
                    .grow(tile, &entries)
                    .map_err(ReadError::coding)?
            };
            if tile.is_full() {
                cache.insert(key, StoredFile::identity(events.clone()));
            }
            Ok(events)
        });
        self.events.join(tile, making).await.map(Some)
    }

    /// Returns a full data tile in zstd if the cache has it. Otherwise returns `None`, and starts
    /// the compression.
    pub(crate) fn zstd(&self, tile: Tile) -> Option<Bytes> {
        if !tile.is_full() || tile.level() != Level::Data {
            return None;
        }
        if let Some(stored) = self.cache.get(&CacheKey::Zstd(tile)) {
            return Some(stored.bytes);
        }
        let view = self.view.load();
        let view = view.as_ref()?;
        let edge = match &view.tree {
            Some(tree) => &tree.edge,
            None => view.read.get()?,
        };
        if tile.covered_by(edge.size()) {
            self.transcode(edge.clone(), tile);
        }
        None
    }

    fn transcode(&self, edge: Arc<RightEdge>, tile: Tile) {
        {
            let mut waiting = self.transcoding.lock();
            if waiting.len() >= MAX_TRANSCODING || !waiting.insert(tile) {
                return;
            }
        }
        let (tiles, cache) = (self.tiles.clone(), self.cache.clone());
        let transcoding = self.transcoding.clone();
        tokio::spawn(async move {
            if let Ok(full) = tiles.full(&edge, tile).await {
                let packing = move || {
                    let plain = full.unpacked()?;
                    zstd::bulk::compress(&plain, zstd::DEFAULT_COMPRESSION_LEVEL)
                };
                if let Ok(Ok(packed)) = spawn_blocking(packing).await {
                    cache.insert(CacheKey::Zstd(tile), StoredFile::identity(packed.into()));
                }
            }
            transcoding.lock().remove(&tile);
        });
    }
}

/// Compresses or decompresses on a blocking thread, bounded by the permits.
pub(super) async fn aside<T: Send + 'static>(
    permits: Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    // The semaphore is never closed.
    let permit = permits.acquire_owned().await;
    let working = spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    working.await?
}
