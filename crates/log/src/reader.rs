//! The read path: tiles by name, from the right edge in memory, from a bounded
//! cache, from storage. Nothing is served before its checkpoint.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_storage::{Assets, Encoding, OpenFile};
use lucarne_tlog::{Hash, Level, Tile};
use moka::sync::Cache;
use parking_lot::Mutex;

use crate::compress::{gunzip, is_gzip, zstd};
use crate::flights::Flights;
use crate::metrics::ReadCounters;
use crate::tree::Tree;
use crate::{Published, ReadError, stored};

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

/// What readers may see: a checkpoint, and the right edge that belongs to it.
struct View {
    published: Arc<Published>,
    /// The rightmost tile of each level and of the data, if it is in memory.
    edge: Option<Arc<Tree>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Tile(Tile),
    Zstd(Tile),
    Issuer(Fingerprint),
}

/// The read path of one log.
pub(crate) struct Reader {
    assets: Arc<dyn Assets>,
    view: ArcSwapOption<View>,
    cache: Cache<Key, Stored>,
    /// What is being fetched: those who ask for it meanwhile wait for it.
    flights: Flights<Key, Result<Option<Stored>, ReadError>>,
    counters: ReadCounters,
    transcoding: Arc<Mutex<HashSet<Tile>>>,
}

/// Smaller files, which is all but data tiles, are not kept open: to copy them
/// costs no more than another call into the kernel.
const WORTH_SENDING: usize = 32 << 10;

/// Most tiles that wait to be transcoded: beyond, readers are served gzip.
const MAX_TRANSCODING: usize = 8;

impl Reader {
    pub(crate) fn new(assets: Arc<dyn Assets>, cache_bytes: u64, counters: ReadCounters) -> Self {
        Reader {
            assets,
            view: ArcSwapOption::empty(),
            cache: Cache::builder()
                .max_capacity(cache_bytes)
                .weigher(|_, stored: &Stored| stored.bytes.len() as u32 + 128)
                .build(),
            flights: Flights::default(),
            counters,
            transcoding: Arc::default(),
        }
    }

    /// Lets readers see this checkpoint, and the tree that it signs.
    pub(crate) fn publish(&self, published: Published, edge: Option<Arc<Tree>>) {
        self.view.store(Some(Arc::new(View {
            published: Arc::new(published),
            edge,
        })));
    }

    pub(crate) fn published(&self) -> Option<Arc<Published>> {
        self.view.load().as_ref().map(|view| view.published.clone())
    }

    pub(crate) async fn tile(&self, tile: Tile) -> Result<Option<Stored>, ReadError> {
        let (size, recovered) = {
            let view = self.view.load();
            let Some(view) = view.as_ref() else {
                return Ok(None);
            };
            if !tile.covered_by(view.published.size) {
                return Ok(None);
            }
            if let Some(bytes) = view.edge.as_ref().and_then(|edge| from_edge(edge, tile)) {
                self.counters.edge.inc();
                return Ok(Some(identity(bytes)));
            }
            (view.published.size, view.edge.is_some())
        };
        if tile.is_full() {
            return self.full(tile, recovered).await.map(Some);
        }
        // A partial tile is what a full one begins with: that can be kept.
        let full = tile.full();
        if full.covered_by(size)
            && let Ok(stored) = self.full(full, recovered).await
        {
            return Ok(Some(identity(cut(tile, stored.bytes)?)));
        }
        self.counters.storage.inc();
        let assets = self.assets.clone();
        let fetch = async move { Ok(stored::tile(&*assets, tile).await?.map(identity)) };
        self.flights.join(Key::Tile(tile), fetch).await
    }

    /// Before the log has `recovered`, a power cut may have left a torn tile,
    /// which the journal will mend: one like that is neither served nor kept.
    async fn full(&self, tile: Tile, recovered: bool) -> Result<Stored, ReadError> {
        let key = Key::Tile(tile);
        if let Some(stored) = self.cached(key) {
            return Ok(stored);
        }
        let (assets, cache) = (self.assets.clone(), self.cache.clone());
        let fetch = async move {
            let Some(bytes) = assets.get_for_reader(&tile.path()).await? else {
                return Err(ReadError::Damaged {
                    path: tile.path(),
                    problem: "is missing, although a checkpoint covers it".into(),
                });
            };
            let encoding = match tile.level() {
                Level::Data if is_gzip(&bytes) => Encoding::Gzip,
                _ => Encoding::Identity,
            };
            if !recovered {
                whole(tile, bytes.clone())?;
            }
            let file = file(&*assets, tile, &bytes).await;
            let stored = Stored {
                bytes,
                encoding,
                file,
            };
            cache.insert(key, stored.clone());
            Ok(Some(stored))
        };
        let stored = self.flights.join(key, fetch).await?;
        stored.ok_or_else(|| ReadError::Storage(format!("{} is not there", tile.path())))
    }

    /// What is in memory; if it is not, storage will be asked.
    fn cached(&self, key: Key) -> Option<Stored> {
        let found = self.cache.get(&key);
        match found {
            Some(_) => self.counters.memory.inc(),
            None => self.counters.storage.inc(),
        };
        found
    }

    /// Bytes of what is in memory, about.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cache.weighted_size()
    }

    /// The tile in zstd, if it is ready; if not, it is made ready.
    pub(crate) fn zstd(&self, tile: Tile) -> Option<Bytes> {
        if !tile.is_full() || tile.level() != Level::Data {
            return None;
        }
        if let Some(stored) = self.cache.get(&Key::Zstd(tile)) {
            return Some(stored.bytes);
        }
        let covered = self.published()?.size;
        if tile.covered_by(covered) {
            self.transcode(tile);
        }
        None
    }

    fn transcode(&self, tile: Tile) {
        {
            let mut waiting = self.transcoding.lock();
            if waiting.len() >= MAX_TRANSCODING || !waiting.insert(tile) {
                return;
            }
        }
        let (assets, cache) = (self.assets.clone(), self.cache.clone());
        let transcoding = self.transcoding.clone();
        tokio::spawn(async move {
            if let Ok(Some(plain)) = stored::tile(&*assets, tile).await {
                let packed = tokio::task::spawn_blocking(move || zstd(&plain)).await;
                if let Ok(Ok(packed)) = packed {
                    cache.insert(Key::Zstd(tile), identity(packed.into()));
                }
            }
            transcoding.lock().remove(&tile);
        });
    }

    pub(crate) async fn issuer(&self, of: &Fingerprint) -> Result<Option<Bytes>, ReadError> {
        let (of, key) = (*of, Key::Issuer(*of));
        if let Some(stored) = self.cached(key) {
            return Ok(Some(stored.bytes));
        }
        let (assets, cache) = (self.assets.clone(), self.cache.clone());
        let fetch = async move {
            let path = format!("issuer/{of}");
            let Some(bytes) = assets.get_for_reader(&path).await? else {
                return Ok(None);
            };
            if Fingerprint::of(&bytes) != of {
                let problem = "its SHA-256 is not the one that names it".into();
                return Err(ReadError::Damaged { path, problem });
            }
            let stored = identity(bytes);
            cache.insert(key, stored.clone());
            Ok(Some(stored))
        };
        let stored = self.flights.join(key, fetch).await?;
        Ok(stored.map(|stored| stored.bytes))
    }
}

/// The tile as a prefix of the rightmost one of its level, if that is where it is.
fn from_edge(tree: &Tree, tile: Tile) -> Option<Bytes> {
    let rightmost = Tile::rightmost_partial(tile.level(), tree.size())?;
    if tile.index() != rightmost.index() {
        return None;
    }
    match tile.level() {
        Level::Data => tree.data.prefix(tile.width()),
        Level::Hashes(level) => {
            let hashes = tree.edge.partial(level).get(..usize::from(tile.width()))?;
            let mut bytes = Vec::with_capacity(hashes.len() * Hash::LENGTH);
            hashes
                .iter()
                .for_each(|hash| bytes.extend_from_slice(&hash.0));
            Some(bytes.into())
        }
    }
}

fn cut(tile: Tile, full: Bytes) -> Result<Bytes, ReadError> {
    let damaged = |problem: String| ReadError::Damaged {
        path: tile.full().path(),
        problem,
    };
    let plain = gunzip(full).map_err(|error| damaged(error.to_string()))?;
    stored::prefix(tile, plain).map_err(damaged)
}

/// Tells a full tile from what a power cut leaves of one: it is cut, or some of
/// it is zero.
fn whole(tile: Tile, stored: Bytes) -> Result<(), ReadError> {
    let plain = cut(tile, stored)?;
    let is_zero = |hash: &[u8]| hash.iter().all(|byte| *byte == 0);
    match tile.level() {
        Level::Hashes(_) if plain.chunks(Hash::LENGTH).any(is_zero) => Err(ReadError::Damaged {
            path: tile.path(),
            problem: "has hashes of zeros".into(),
        }),
        _ => Ok(()),
    }
}

/// The file that holds the tile, where the server will send it: a full tile never changes.
async fn file(assets: &dyn Assets, tile: Tile, bytes: &Bytes) -> Option<Arc<OpenFile>> {
    if cfg!(not(target_os = "linux")) || bytes.len() < WORTH_SENDING {
        return None;
    }
    let file = assets.file(&tile.path(), bytes.len() as u64).await?;
    Some(Arc::new(file))
}

fn identity(bytes: Bytes) -> Stored {
    Stored {
        bytes,
        encoding: Encoding::Identity,
        file: None,
    }
}

#[cfg(test)]
mod tests {
    use lucarne_storage::MemoryAssets;
    use lucarne_tlog::EMPTY_ROOT;

    use super::*;

    #[tokio::test]
    async fn what_a_power_cut_left_of_a_tile_is_neither_served_nor_kept() {
        let assets = MemoryAssets::new();
        let reader = Reader::new(Arc::new(assets.clone()), 1 << 20, ReadCounters::default());
        let published = Published {
            size: 256,
            root: EMPTY_ROOT,
            timestamp_ms: 1,
            checkpoint: Bytes::new(),
            at: std::time::Instant::now(),
        };
        reader.publish(published, None);
        let tile = Tile::new(Level::Hashes(0), 0, 256).unwrap();
        for torn in [vec![], vec![7_u8; 4096], vec![0; 256 * Hash::LENGTH]] {
            assets.tamper(&tile.path(), Some(torn.into()));
            assert!(reader.tile(tile).await.is_err());
        }
        let mended = Bytes::from(vec![7_u8; 256 * Hash::LENGTH]);
        assets.tamper(&tile.path(), Some(mended.clone()));
        assert_eq!(reader.tile(tile).await.unwrap().unwrap().bytes, mended);
    }
}
