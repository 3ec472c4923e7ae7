//! The read path: tiles by name, from the right edge in memory, from a bounded cache, or from
//! storage. No tile is served before its checkpoint is published. `encodings` has the other forms
//! of data tiles: gzip, zstd, names and events.

mod encodings;
mod newest_issuer;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_storage::{Assets, ReadAssets};
use lucarne_tlog::{Hash, Level, RightEdge, Tile};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use self::encodings::aside;
use self::newest_issuer::LastLook;
use crate::data::stored_file::StoredFile;
use crate::data::tree::Tree;
use crate::error::{ReadError, ReadFailure};
use crate::read::damaged_files::DamagedFiles;
use crate::read::edge;
use crate::read::feed::TileEvents;
use crate::read::negative_cache::NegativeCache;
use crate::read::read_cache::{CacheKey, FileId, ReadCache, read_cache};
use crate::read::single_flight::SingleFlight;
use crate::read::verified_tiles::VerifiedTiles;
use crate::status::metrics::ReadCounters;
use crate::status::state::Published;

/// The view of readers: a checkpoint, and the tree that the checkpoint signs.
#[derive(Clone)]
struct View {
    published: Arc<Published>,
    /// The rightmost tile of each level and of the data, if they are in memory.
    tree: Option<Arc<Tree>>,
    /// The rightmost hash tiles from storage, if the tree is not in memory.
    read: OnceLock<Arc<RightEdge>>,
}

/// The read path of one log.
pub(crate) struct Reader {
    assets: Arc<dyn Assets>,
    view: ArcSwapOption<View>,
    /// A newer published checkpoint than the one of `view`, which this process has not followed
    /// yet. Its tiles are read from storage.
    ahead: ArcSwapOption<View>,
    cache: ReadCache,
    tiles: VerifiedTiles,
    /// The issuers that are being read.
    issuers: SingleFlight<Fingerprint, Result<Option<StoredFile>, ReadError>>,
    /// The right edges that are being read, by size of the tree.
    edges: SingleFlight<u64, Result<Arc<RightEdge>, ReadError>>,
    /// Issuers that are known to be missing from storage.
    absent: Arc<NegativeCache>,
    /// The last time that storage had an issuer of the newest entries.
    last_look: LastLook,
    counters: ReadCounters,
    /// The size of the published tree, for tasks that wait for a change.
    grown: watch::Sender<u64>,
    transcoding: Arc<Mutex<HashSet<Tile>>>,
    packing: Arc<Semaphore>,
    /// The names tiles that are being generated, by data tile.
    names: SingleFlight<Tile, Result<StoredFile, ReadError>>,
    /// The events of the newest data tile.
    newest: Arc<Mutex<TileEvents>>,
    /// The events that are being generated, by data tile.
    events: SingleFlight<Tile, Result<Bytes, ReadError>>,
    /// The partial data tiles that are being compressed.
    packs: SingleFlight<Tile, Result<StoredFile, ReadError>>,
}

/// Maximum number of partial data tiles that are cut and compressed concurrently.
const PACKING: usize = 2;

impl Reader {
    pub(crate) fn new(
        assets: ReadAssets,
        cache_bytes: u64,
        counters: ReadCounters,
        damaged: DamagedFiles,
    ) -> Self {
        let cache = read_cache(cache_bytes);
        Reader {
            assets: assets.store().clone(),
            tiles: VerifiedTiles::new(assets, cache.clone(), damaged),
            view: ArcSwapOption::empty(),
            ahead: ArcSwapOption::empty(),
            cache,
            issuers: SingleFlight::default(),
            edges: SingleFlight::default(),
            absent: Arc::default(),
            last_look: LastLook::default(),
            counters,
            grown: watch::Sender::new(0),
            transcoding: Arc::default(),
            packing: Arc::new(Semaphore::new(PACKING)),
            names: SingleFlight::default(),
            newest: Arc::default(),
            events: SingleFlight::default(),
            packs: SingleFlight::default(),
        }
    }

    /// Shows this checkpoint to readers, with the tree that the checkpoint signs.
    pub(crate) fn publish(&self, published: Published, tree: Option<Arc<Tree>>) {
        self.view.store(Some(Arc::new(View::new(published, tree))));
        self.note_growth();
    }

    /// Shows a checkpoint that another process has published to readers, if it is newer than the
    /// checkpoint that they see. Returns whether it is.
    pub(crate) fn show_ahead(&self, published: Published) -> bool {
        let is_newer = self.published().is_none_or(|seen| {
            // Following reports another tree of the same size.
            let is_fork = seen.size == published.size && seen.root != published.root;
            age(&seen) < age(&published) && !is_fork
        });
        let view = self.view.load_full();
        if let Some(view) = view.filter(|_| is_newer)
            && (view.published.size, view.published.root) == (published.size, published.root)
            && view.published.timestamp_ms == published.timestamp_ms
        {
            // The checkpoint of this view with more cosignatures: the tree stays in memory.
            self.show_amended(&view.published.checkpoint, &published.checkpoint);
        } else if is_newer {
            self.ahead.store(Some(Arc::new(View::new(published, None))));
            // The other process may have published any issuer.
            self.absent.forget();
            self.note_growth();
        }
        is_newer
    }

    /// Shows the checkpoint `new` to readers that see `old`, the same checkpoint without some of
    /// the signatures.
    pub(crate) fn show_amended(&self, old: &Bytes, new: &Bytes) {
        self.view.rcu(|view| {
            let mut view = view.clone();
            if let Some(seen) = &mut view
                && seen.published.checkpoint == *old
            {
                let seen = Arc::make_mut(seen);
                Arc::make_mut(&mut seen.published).checkpoint = new.clone();
            }
            view
        });
    }

    fn note_growth(&self) {
        let size = self.published().map_or(0, |published| published.size);
        self.grown
            .send_if_modified(|known| std::mem::replace(known, size) != size);
    }

    /// Shows no checkpoint to readers until the next [`publish`](Self::publish).
    pub(crate) fn withdraw(&self) {
        self.view.store(None);
    }

    /// Returns a receiver of the size of the published tree; 0 means that nothing is published yet.
    pub(crate) fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Returns the newest checkpoint that readers see.
    pub(crate) fn published(&self) -> Option<Arc<Published>> {
        let (view, ahead) = (self.view.load(), self.ahead.load());
        let view = newer(view.as_ref(), ahead.as_ref())?;
        Some(view.published.clone())
    }

    /// Returns the tiles in storage. Each tile is verified when it is read.
    pub(crate) fn tiles(&self) -> &VerifiedTiles {
        &self.tiles
    }

    /// Returns the tree of the published checkpoint; `None` until a session has recovered the tree.
    pub(crate) fn tree(&self) -> Option<Arc<Tree>> {
        self.view.load().as_ref()?.tree.clone()
    }

    pub(crate) async fn tile(&self, tile: Tile) -> Result<Option<StoredFile>, ReadError> {
        let (edge, view) = {
            let (view, ahead) = (self.view.load(), self.ahead.load());
            let mut views = [&view, &ahead].into_iter().filter_map(|view| view.as_ref());
            let Some(view) = views.find(|view| tile.covered_by(view.published.size)) else {
                return Ok(None);
            };
            let edge = view.tree.as_ref().and_then(|tree| from_edge(tree, tile));
            if edge.is_some() {
                self.counters.edge.inc();
            } else if let Some(stored) = self.cache.get(&CacheKey::File(FileId::Tile(tile))) {
                self.counters.memory.inc();
                return Ok(Some(stored));
            }
            (edge, view.clone())
        };
        match edge {
            Some(Edge::Ready(stored)) => Ok(Some(stored)),
            Some(Edge::Entries(plain)) => self.packed(tile, plain).await.map(Some),
            None => self.fetch_tile(tile, &view).await.map(Some),
        }
    }

    async fn fetch_tile(&self, tile: Tile, view: &Arc<View>) -> Result<StoredFile, ReadError> {
        self.counters.storage.inc();
        let edge = self.edge(view).await?;
        if tile.is_full() {
            return self.tiles.full(&edge, tile).await;
        }
        if let Level::Hashes(_) = tile.level() {
            return self
                .tiles
                .hashes(&edge, tile)
                .await
                .map(StoredFile::identity);
        }
        if !tile.full().covered_by(edge.size()) {
            let entries = self.tiles.entries(&edge, tile).await?;
            return self.packed(tile, entries).await;
        }
        // A partial tile is a prefix of the full tile, which may be in memory.
        let full = self.tiles.full(&edge, tile.full()).await?;
        let entries = aside(self.packing.clone(), move || cut(tile, &full)).await?;
        self.packed(tile, entries).await
    }

    /// Returns the approximate number of bytes in memory.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cache.weighted_size()
    }

    /// Records that these issuers exist now.
    pub(crate) fn issuers_published(&self, issuers: impl ExactSizeIterator<Item = Fingerprint>) {
        self.absent.published(issuers);
    }

    /// Forgets the missing issuers: a recovery may have published any issuer.
    pub(crate) fn recovered(&self) {
        self.absent.forget();
    }

    pub(crate) async fn issuer(&self, of: &Fingerprint) -> Result<Option<StoredFile>, ReadError> {
        let (of, key) = (*of, CacheKey::File(FileId::Issuer(*of)));
        if let Some(stored) = self.cache.get(&key) {
            self.counters.memory.inc();
            return Ok(Some(stored));
        }
        if self.absent.contains(&of) {
            return self.keeps_issuers().await.map(|()| None);
        }
        self.counters.storage.inc();
        let (tiles, cache) = (self.tiles.clone(), self.cache.clone());
        let absent = self.absent.clone();
        let fetch = async move {
            let asked = absent.ask();
            let found = tiles.issuer(&of).await?.map(StoredFile::identity);
            match &found {
                Some(stored) => cache.insert(key, stored.clone()),
                None => absent.note(of, asked),
            }
            Ok(found)
        };
        let found = self.issuers.join(of, fetch).await?;
        if found.is_none() {
            self.keeps_issuers().await?;
        }
        Ok(found)
    }

    /// Reads some of the damaged files again, because they may be intact now.
    pub(crate) async fn look_again(&self) {
        let (oldest, view) = (self.tiles.damaged().oldest(), self.view.load_full());
        let Some(view) = view.filter(|_| !oldest.is_empty()) else {
            return;
        };
        let Ok(edge) = self.edge(&view).await else {
            return;
        };
        for file in oldest {
            // The read itself updates the list of damaged files.
            let _ = self.tiles.stored(&edge, file).await;
        }
    }

    /// Removes a file that was found damaged in storage from memory. Reports the file with
    /// `problem`, unless a second read, from the store itself, finds the file intact.
    pub(crate) async fn distrust(&self, file: FileId, problem: String) {
        self.cache.invalidate(&CacheKey::File(file));
        if let FileId::Tile(tile) = file {
            self.cache.invalidate(&CacheKey::Zstd(tile));
        }
        let looked = async {
            let view = self.view.load_full();
            let view = view.ok_or(ReadFailure::Unpublished)?;
            self.tiles.stored(&self.edge(&view).await?, file).await
        };
        if looked.await.is_err() {
            self.tiles.damaged().need(file, problem);
        }
    }

    /// Withholds a file from readers until its bytes have another checksum.
    pub(crate) async fn condemn(&self, file: FileId, sum: u128, problem: String) {
        self.tiles.damaged().condemn(file, sum, problem.clone());
        self.distrust(file, problem).await;
    }

    /// Returns the right edge of the published tree; `None` if nothing is published.
    pub(crate) async fn signed_edge(&self) -> Result<Option<Arc<RightEdge>>, ReadError> {
        let newest = {
            let (view, ahead) = (self.view.load(), self.ahead.load());
            newer(view.as_ref(), ahead.as_ref()).cloned()
        };
        match newest {
            Some(view) => self.edge(&view).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the right edge of the tree. Reads the edge from storage if no session has recovered
    /// the tree.
    async fn edge(&self, view: &Arc<View>) -> Result<Arc<RightEdge>, ReadError> {
        if let Some(tree) = &view.tree {
            return Ok(tree.edge.clone());
        }
        if let Some(edge) = view.read.get() {
            return Ok(edge.clone());
        }
        let (assets, read) = (self.assets.clone(), view.clone());
        let reading = async move {
            let edge = Arc::new(signed_edge(&*assets, &read.published).await?);
            Ok(read.read.get_or_init(|| edge).clone())
        };
        self.edges.join(view.published.size, reading).await
    }
}

impl View {
    fn new(published: Published, tree: Option<Arc<Tree>>) -> Self {
        View {
            published: Arc::new(published),
            tree,
            read: OnceLock::new(),
        }
    }
}

/// Returns the view with the newer checkpoint; `view` if both are equally new.
fn newer<'v>(view: Option<&'v Arc<View>>, ahead: Option<&'v Arc<View>>) -> Option<&'v Arc<View>> {
    // Of equal elements, `max_by_key` returns the last.
    let views = ahead.into_iter().chain(view);
    views.max_by_key(|view| age(&view.published))
}

/// Returns the order of published checkpoints. Of two notes with one tree head, the longer note has
/// more cosignatures.
fn age(published: &Published) -> (u64, u64, usize) {
    let length = published.checkpoint.len();
    (published.size, published.timestamp_ms, length)
}

/// Returns the right edge that the checkpoint signs, from its own tiles or from the tiles below.
async fn signed_edge(assets: &dyn Assets, published: &Published) -> Result<RightEdge, ReadError> {
    match edge::right_edge(assets, (published.size, published.root)).await {
        // The next start restores the damaged tiles.
        Ok((edge, _damaged)) => Ok(edge),
        Err(edge::Problem::Away(problem)) => Err(ReadError::Unavailable(problem)),
        Err(edge::Problem::Tiles { problem, files }) => Err(ReadError::Damaged {
            path: files.join(", "),
            problem: problem.to_string(),
        }),
    }
}

/// A tile that is in memory because the tile is the rightmost tile of its level, or a prefix of
/// that tile.
enum Edge {
    Ready(StoredFile),
    /// Entries that are not compressed yet.
    Entries(Bytes),
}

/// Returns the tile as a prefix of the rightmost tile of its level; `None` if the tile is to the
/// left of that tile.
fn from_edge(tree: &Tree, tile: Tile) -> Option<Edge> {
    let rightmost = Tile::rightmost_partial(tile.level(), tree.size())?;
    if tile.index() != rightmost.index() {
        return None;
    }
    match tile.level() {
        Level::Data => {
            let plain = tree.data.prefix(tile.width())?;
            match &tree.data.packed {
                Some(packed) if tile == rightmost => Some(Edge::Ready(StoredFile {
                    plain: Some(plain),
                    ..packed.clone()
                })),
                _ => Some(Edge::Entries(plain)),
            }
        }
        Level::Hashes(level) => {
            let hashes = tree.edge.partial(level).get(..usize::from(tile.width()))?;
            let mut bytes = Vec::with_capacity(hashes.len() * Hash::LENGTH);
            hashes
                .iter()
                .for_each(|hash| bytes.extend_from_slice(&hash.0));
            Some(Edge::Ready(StoredFile::identity(bytes.into())))
        }
    }
}

/// Cuts the entries of a partial data tile from the full tile.
fn cut(tile: Tile, full: &StoredFile) -> Result<Bytes, ReadError> {
    let damaged = |problem: String| ReadError::Damaged {
        path: tile.full().path(),
        problem,
    };
    let plain = full
        .unpacked()
        .map_err(|error| damaged(error.to_string()))?;
    lucarne_ctread::prefix(tile, plain).map_err(|error| damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lucarne_storage::MemoryAssets;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::status::metrics::Metrics;

    /// The store is empty: only the tree in memory has the right edge.
    #[tokio::test]
    async fn a_follower_keeps_its_tree_if_the_leader_adds_cosignatures() {
        let metrics = Metrics::register(&mut Registry::default());
        let (found, named) = metrics.damaged_of("log");
        let store = ReadAssets::uncached(Arc::new(MemoryAssets::new()));
        let damaged = DamagedFiles::new(found, named);
        let reader = Reader::new(store, 0, metrics.reads_of("log"), damaged);
        let mut tree = Tree::empty();
        tree.append_leaves(&[Hash([1; 32])]);
        let published = |note: &'static [u8], timestamp_ms| Published {
            size: 1,
            root: tree.root,
            timestamp_ms,
            checkpoint: Bytes::from_static(note),
            at: Instant::now(),
        };
        reader.publish(published(b"note", 7), Some(Arc::new(tree.clone())));
        assert!(!reader.show_ahead(published(b"note", 7)));
        assert!(reader.show_ahead(published(b"note and line", 7)));
        assert_eq!(reader.published().unwrap().checkpoint, "note and line");
        let edge = reader.signed_edge().await.unwrap().unwrap();
        assert_eq!(edge.root(), tree.root);
        assert!(reader.show_ahead(published(b"newer", 8)));
        assert_eq!(reader.published().unwrap().checkpoint, "newer");
        assert!(reader.signed_edge().await.is_err());
    }
}
