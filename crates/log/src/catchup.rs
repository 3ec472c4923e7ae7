//! Brings the dedup index up to date from the log's own data tiles, and keeps
//! an index of another history from being used.
//!
//! Nothing is taken over that the signed root does not vouch for: a data tile
//! must hash to what the tree has in its place. Of one that does not, those
//! entries are taken whose own hashes are right; the rest are gaps (`gaps.rs`),
//! which are looked at again until the tile has been mended.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use futures_util::{TryStreamExt, pin_mut};
use lucarne_ct::{Identity, TileLeafRef};
use lucarne_storage::guards::Guard;
use lucarne_storage::{Assets, Lock};
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile, leaf_hash, tile_root};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::compress::gunzip;
use crate::damaged::Damaged;
use crate::dedup::{Dedup, LeafPosition, TreeHead, last_seen};
use crate::gaps::Gap;
use crate::read_ahead::read_ahead;
use crate::read_cache::read_cache;
use crate::shared::Shared;
use crate::tree::Tree;
use crate::verified_tiles::VerifiedTiles;
use crate::{Fatal, LogConfig, ReadError, stored};

/// Data tiles unpacked and hashed at once. (Readers have turns of their own, so
/// that an index whose disk hangs keeps none from them.)
const UNPACKING: usize = 4;

/// Bytes of tiles that an examination keeps.
const KEPT: u64 = 1 << 20;

/// The interval at which entries that are not known are looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The entries of the signed tree, as storage has them.
struct Source<'a> {
    assets: &'a dyn Assets,
    verified: &'a VerifiedTiles,
    tree: &'a Tree,
    unpacking: Arc<Semaphore>,
}

/// The entries that storage has of one data tile.
#[derive(Default)]
struct Found {
    /// Entries that are in the tree, in order.
    entries: Vec<(Identity, LeafPosition)>,
    /// Those that are not here.
    gaps: Vec<Gap>,
    /// The entry after the last one.
    end: u64,
    /// The number of bytes that were read for it.
    read: usize,
}

/// Opens the index of the log whose signed tree this is, and adds what it
/// lacks. An index that cannot be read is set aside and made anew; so is one
/// that has failed while the log ran.
///
/// # Errors
/// If the index is of another history than the tree, or cannot be opened, or
/// storage does not answer.
pub(crate) async fn open(log: &Shared, tree: &Tree) -> Result<Dedup, Fatal> {
    bring_up(log, tree).await.map(|(dedup, _)| dedup)
}

/// The same, with the number of entries that the index knew before.
///
/// # Errors
/// As [`open`].
pub(crate) async fn bring_up(log: &Shared, tree: &Tree) -> Result<(Dedup, u64), Fatal> {
    let path = &log.config.cache;
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    let dedup = usable(log, &source).await?;
    let from = dedup.indexed();
    let (size, mut next) = (tree.size(), from);
    if next < size {
        tracing::info!(from = next, to = size, path = %path.display(), "dedup index: catching up");
    }
    let dedup = Arc::new(dedup);
    let tiles = (next / TILE_WIDTH..size.div_ceil(TILE_WIDTH)).map(|tile| source.read(tile));
    let tiles = read_ahead(tiles, |found| found.as_ref().map_or(0, |found| found.read));
    pin_mut!(tiles);
    let mut unbounded = Vec::new();
    let mut coming = tiles.try_next().await?;
    while let Some(found) = coming {
        if let Some(gap) = found.gaps.first() {
            tracing::warn!(
                "{}/{} is not what was signed, or cannot be read: put it back from a copy. \
                 Submissions that may be among its entries are refused until then",
                log.assets.location(),
                gap.tile()
            );
        }
        // The way to the store is not idle meanwhile.
        let adding = add(&dedup, found, &mut next, &mut unbounded, tree);
        let (added, read) = join(adding, tiles.try_next()).await;
        added?;
        coming = read?;
        if next.is_multiple_of(1 << 20) {
            tracing::info!(indexed = next, of = size, "dedup index: catching up");
        }
    }
    let dedup = Arc::into_inner(dedup).ok_or_else(|| failed(path, &"still in use"))?;
    Ok((dedup, from))
}

async fn anew(log: &Shared) -> Result<Dedup, Fatal> {
    let (path, owner) = (log.config.cache.clone(), log.config.key.log_id());
    let made = spawn_blocking(move || Dedup::rebuild(&path, owner)).await;
    let made = made.map_err(|error| failed(&log.config.cache, &error))??;
    log.index_failed.store(false, Ordering::SeqCst);
    Ok(made)
}

/// The index as it is, if it is one of this history of the log and has not
/// failed. What it has seen is held against the log in any case, before it is
/// set aside.
async fn usable(log: &Shared, source: &Source<'_>) -> Result<Dedup, Fatal> {
    let problem = match judged(&log.config, &*log.lock, source).await? {
        Ok(dedup) if !log.index_failed.load(Ordering::SeqCst) => return Ok(dedup),
        Ok(dedup) => {
            close(dedup).await;
            "it has failed while the log ran".to_owned()
        }
        Err(problem) => problem,
    };
    let path = log.config.cache.display();
    tracing::warn!(%path, problem, "the dedup index cannot be used");
    anew(log).await
}

/// To close an index asks its disk.
async fn close(dedup: Dedup) {
    let _ = spawn_blocking(move || drop(dedup)).await;
}

/// Holds the index, if there is one, against the log of `signed` entries, of
/// which storage has the tree; makes none. An index of more than storage has can
/// be told from one of another history only once the journal has been published.
///
/// # Errors
/// As [`open`].
pub(crate) async fn examine(
    config: &LogConfig,
    lock: &dyn Lock,
    assets: Arc<dyn Assets>,
    tree: &Tree,
    signed: u64,
) -> Result<(), Fatal> {
    let (path, owner) = (config.cache.clone(), config.key.log_id());
    let looked = spawn_blocking(move || Dedup::look(&path, owner)).await;
    let seen = match looked.map_err(|error| failed(&config.cache, &error))? {
        Ok(Some(seen)) => seen,
        Ok(None) | Err(Fatal::Dedup { damaged: true, .. }) => return Ok(()),
        Err(fatal) => return Err(fatal),
    };
    if seen > signed {
        return Err(rolled_back(config, lock, seen, signed));
    }
    if seen > tree.size() {
        return Ok(());
    }
    let verified = VerifiedTiles::new(assets.clone(), read_cache(KEPT), Damaged::default());
    let source = Source::new(&*assets, &verified, tree);
    judged(config, lock, &source).await.map(drop)
}

/// The index, if it is one of this history of the log; or why it is to be made
/// anew.
async fn judged(
    config: &LogConfig,
    lock: &dyn Lock,
    source: &Source<'_>,
) -> Result<Result<Dedup, String>, Fatal> {
    let (path, owner) = (config.cache.clone(), config.key.log_id());
    let opened = spawn_blocking(move || {
        let opened = Dedup::open(&path, owner);
        let seen = opened.is_err().then(|| last_seen(&path));
        (opened, seen.flatten())
    });
    let (opened, seen) = opened
        .await
        .map_err(|error| failed(&config.cache, &error))?;
    match opened {
        Ok(dedup) => {
            match dedup.unbound {
                Some(seen) => not_behind(config, lock, seen, source.tree)?,
                None => same_history(config, lock, dedup.anchor().head, source).await?,
            }
            let Some(problem) = dedup.unusable() else {
                return Ok(Ok(dedup));
            };
            close(dedup).await;
            Ok(Err(problem.to_owned()))
        }
        Err(Fatal::Dedup {
            problem,
            damaged: true,
            ..
        }) => {
            if let Some(head) = seen {
                same_history(config, lock, head, source).await?;
            }
            Ok(Err(problem))
        }
        Err(fatal) => Err(fatal),
    }
}

fn not_behind(config: &LogConfig, lock: &dyn Lock, seen: u64, tree: &Tree) -> Result<(), Fatal> {
    match seen > tree.size() {
        true => Err(rolled_back(config, lock, seen, tree.size())),
        false => Ok(()),
    }
}

/// The index notes a tree only after it was committed. A log that has fewer
/// entries has lost some.
fn rolled_back(config: &LogConfig, lock: &dyn Lock, seen: u64, size: u64) -> Fatal {
    let path = config.cache.display();
    Fatal::Inconsistent(format!(
        "the dedup index in {path} has seen {seen} entries of this log, the lock {} only knows \
         {size}. Lock and storage were rolled back, or the index is of a copy of this log that \
         went on. Put the newest lock and storage back; never go on with older ones: that signs a \
         fork. Only if it is certain that nothing beyond the {size} entries was ever signed for, \
         move {path} away, and it is rebuilt. Nothing is signed until then",
        lock.location(),
    ))
}

/// The signed tree must begin with the one that was indexed.
async fn same_history(
    config: &LogConfig,
    lock: &dyn Lock,
    indexed: TreeHead,
    source: &Source<'_>,
) -> Result<(), Fatal> {
    not_behind(config, lock, indexed.size, source.tree)?;
    let path = config.cache.display();
    let root = source
        .verified
        .root_at(&source.tree.edge, indexed.size)
        .await;
    let root = root.map_err(|error| match error {
        ReadError::Unavailable(problem) | ReadError::Storage(problem) => Fatal::Away(problem),
        error => Fatal::Inconsistent(format!(
            "whether the dedup index in {path} is of this log's history cannot be told: {error} \
             (in {}). Put that tile back from a copy; nothing is signed until then",
            source.assets.location()
        )),
    })?;
    if root == indexed.root {
        return Ok(());
    }
    Err(Fatal::Inconsistent(format!(
        "the dedup index in {path} was made from another history of this log: its {} entries had \
         the root {}, and those that the lock {} has signed have {root}. Either lock and storage \
         were restored or swapped: put the newest ones back, for what was signed since would be \
         forked. Or the cache came from elsewhere: if that is certain, move {path} away, and it is \
         rebuilt. Nothing is signed until then",
        indexed.size,
        indexed.root,
        lock.location(),
    )))
}

/// Adds what was found to the index. A gap is noted before the index passes it;
/// how old its entries are, as soon as the entry after it is known.
async fn add(
    dedup: &Arc<Dedup>,
    found: Found,
    next: &mut u64,
    unbounded: &mut Vec<Gap>,
    tree: &Tree,
) -> Result<(), Fatal> {
    let Found {
        mut entries,
        mut gaps,
        end,
        ..
    } = found;
    entries.retain(|(_, place)| place.index >= *next);
    gaps.iter_mut()
        .for_each(|gap| gap.first = gap.first.max(*next));
    gaps.retain(|gap| gap.first < gap.end);
    let (index, head) = (dedup.clone(), tree.head());
    if let Some((_, first)) = entries.first() {
        for mut gap in unbounded.drain(..) {
            gap.latest_ms = first.timestamp_ms;
            gaps.push(gap);
        }
    }
    unbounded.extend(gaps.iter().filter(|gap| gap.latest_ms == u64::MAX));
    *next = end;
    let added = spawn_blocking(move || {
        if !gaps.is_empty() {
            index.mend(&[], &[], &gaps)?;
        }
        index.extend(entries.into_iter(), end, head)
    });
    added
        .await
        .map_err(|error| Fatal::Internal(error.to_string()))?
}

/// Looks for what the index does not know, again and again.
pub(crate) async fn repair(log: &Shared, dedup: &Arc<Dedup>) -> Infallible {
    loop {
        // The pace of looking: nothing tells when an operator has put a tile back.
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(tree) = log.reader.tree() else {
            continue;
        };
        let source = Source::new(&*log.assets, log.reader.tiles(), &tree);
        let gaps = dedup.gaps.all();
        for of_tile in gaps.chunk_by(|a, b| a.first / TILE_WIDTH == b.first / TILE_WIDTH) {
            if let Err(error) = mend(dedup, &source, of_tile).await {
                tracing::warn!(log = log.config.shortname, %error, "dedup index: not mended");
            }
        }
        log.note_gaps(dedup);
    }
}

/// Reads the tile of these gaps again.
async fn mend(dedup: &Arc<Dedup>, source: &Source<'_>, gaps: &[Gap]) -> Result<(), Fatal> {
    let Some(tile) = gaps.first().map(|gap| gap.first / TILE_WIDTH) else {
        return Ok(());
    };
    let found = source.read(tile).await?;
    let within = |index: u64| {
        gaps.iter()
            .find(|gap| (gap.first..gap.end).contains(&index))
    };
    let mut entries = found.entries;
    entries.retain(|(_, place)| within(place.index).is_some());
    if entries.is_empty() {
        return Ok(());
    }
    let mut left = found.gaps;
    left.retain(|gap| within(gap.first).is_some());
    for gap in &mut left {
        let bound = gaps.iter().map(|gap| gap.latest_ms).max();
        gap.latest_ms = gap.latest_ms.min(bound.unwrap_or(u64::MAX));
    }
    tracing::info!(tile, entries = entries.len(), "dedup index: mended");
    // A disk that hangs takes this thread and no other: the next is begun after
    // it, and the index is not opened again before it has let go of it.
    let (index, gaps) = (dedup.clone(), gaps.to_vec());
    let mended = spawn_blocking(move || index.mend(&entries, &gaps, &left));
    mended
        .await
        .map_err(|error| Fatal::Internal(error.to_string()))?
}

impl<'a> Source<'a> {
    fn new(assets: &'a dyn Assets, verified: &'a VerifiedTiles, tree: &'a Tree) -> Self {
        Source {
            assets,
            verified,
            tree,
            unpacking: Arc::new(Semaphore::new(UNPACKING)),
        }
    }

    /// Returns what storage has of data tile number `index`.
    async fn read(&self, index: u64) -> Result<Found, Fatal> {
        let first = index * TILE_WIDTH;
        if index == self.tree.size() / TILE_WIDTH {
            // The partial tile at the right edge was verified when it was loaded.
            let leaves = Leaf::read_all(&self.tree.data.bytes, first);
            return Ok(Found::of(leaves, first, self.tree.size(), |_, _| true));
        }
        let Some(tile) = Tile::new(Level::Data, index, TILE_WIDTH as u16) else {
            return Err(Fatal::Internal(format!("no data tile has number {index}")));
        };
        let root = self.verified.entry(&self.tree.edge, 1, index).await;
        let (mut readable, mut read) = (Vec::new(), 0);
        if let Some(root) = known(root)? {
            for again in [false, true] {
                let (leaves, bytes) = self.leaves(tile, again).await?;
                read += bytes;
                let whole = leaves.len() as u64 == TILE_WIDTH && root_of(&leaves) == Some(root);
                if whole || !Guard::VouchedRebuild.stands() {
                    let found = Found::of(leaves, first, tile.end_leaf(), |_, _| true);
                    return Ok(Found { read, ..found });
                }
                if leaves.len() > readable.len() {
                    readable = leaves;
                }
            }
        }
        let hashes = match Tile::new(Level::Hashes(0), index, TILE_WIDTH as u16) {
            Some(hashes) => known(self.verified.hashes(&self.tree.edge, hashes).await)?,
            None => None,
        };
        let hashes = hashes.unwrap_or_default();
        let found = Found::of(readable, first, tile.end_leaf(), |n, hash| {
            let at = n * Hash::LENGTH;
            hashes.get(at..at + Hash::LENGTH) == Some(&hash.0)
        });
        Ok(Found { read, ..found })
    }

    /// The entries of a full tile, as far as they can be read, and how many bytes
    /// it has. What does not fit is asked for `again`, of whoever else may have it.
    async fn leaves(&self, tile: Tile, again: bool) -> Result<(Vec<Leaf>, usize), Fatal> {
        let path = tile.path();
        let found = match again {
            false => self.assets.get(&path).await,
            true => {
                let found = self.assets.get_for_reader(&path).await;
                found.map(|found| found.map(|found| found.bytes))
            }
        };
        let bytes = stored::if_readable(found)?.unwrap_or_default();
        let (first, size) = (tile.start_leaf(), bytes.len());
        // The semaphore is never closed.
        let turn = self.unpacking.clone().acquire_owned().await;
        let read = spawn_blocking(move || {
            let _turn = turn;
            match gunzip(bytes) {
                Ok(plain) => Leaf::read_all(&plain, first),
                Err(_) => Vec::new(),
            }
        });
        let leaves = read.await;
        let leaves = leaves.map_err(|error| Fatal::Internal(error.to_string()))?;
        Ok((leaves, size))
    }
}

/// An entry of a data tile, not yet held against the tree.
struct Leaf {
    identity: Identity,
    place: LeafPosition,
    hash: Hash,
}

impl Leaf {
    /// The entries up to the first that cannot be read, at most those of a tile.
    fn read_all(mut bytes: &[u8], first: u64) -> Vec<Leaf> {
        let mut buffer = Vec::new();
        let mut leaves = Vec::with_capacity(TILE_WIDTH as usize);
        for index in first..first + TILE_WIDTH {
            if bytes.is_empty() {
                break;
            }
            let Ok(leaf) = TileLeafRef::read(&mut bytes) else {
                break;
            };
            buffer.clear();
            leaf.merkle_tree_leaf(&mut buffer);
            leaves.push(Leaf {
                identity: leaf.identity(),
                place: LeafPosition {
                    index,
                    timestamp_ms: leaf.timestamp,
                },
                hash: leaf_hash(&buffer),
            });
        }
        leaves
    }
}

impl Found {
    /// Entries from `first` up to `end`, of which `leaves` are those that could
    /// be read, and `in_tree` tells which of them are right.
    fn of(
        leaves: Vec<Leaf>,
        first: u64,
        end: u64,
        in_tree: impl Fn(usize, &Hash) -> bool,
    ) -> Found {
        let mut found = Found {
            end,
            ..Found::default()
        };
        let mut next = first;
        for (n, leaf) in leaves.into_iter().enumerate() {
            if in_tree(n, &leaf.hash) {
                found.gap(next, leaf.place.index, leaf.place.timestamp_ms);
                next = leaf.place.index + 1;
                found.entries.push((leaf.identity, leaf.place));
            }
        }
        found.gap(next, end, u64::MAX);
        found
    }

    fn gap(&mut self, first: u64, end: u64, latest_ms: u64) {
        if first < end {
            self.gaps.push(Gap {
                first,
                end,
                latest_ms,
            });
        }
    }
}

fn root_of(leaves: &[Leaf]) -> Option<Hash> {
    let hashes: Vec<u8> = leaves.iter().flat_map(|leaf| leaf.hash.0).collect();
    tile_root(&hashes)
}

/// Returns what storage has and the tree vouches for; `None` if it is damaged.
fn known<T>(read: Result<T, ReadError>) -> Result<Option<T>, Fatal> {
    match read {
        Ok(found) => Ok(Some(found)),
        // The reader has said it already.
        Err(ReadError::Damaged { .. }) => Ok(None),
        Err(error) => Err(Fatal::Away(error.to_string())),
    }
}

fn failed(path: &Path, problem: &dyn std::fmt::Display) -> Fatal {
    Fatal::Internal(format!("dedup index {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests;
