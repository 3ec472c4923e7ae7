//! Follows a log: from one verified tree to the next by its hash tiles, then
//! the promises, the entries and the issuers in it.

mod consistency;
mod entries;
mod inclusion;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lucarne_ct::Fingerprint;
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};

use self::consistency::{ExtendedTree, entry_leaves, extend, load_edge};
use super::checks::{self, CheckSink, Finding};
use super::fetch::{self, Fetch, FetchError};
use super::tile_cache::{TileCache, TileHashes, parse_hash_tile};
use super::tree_heads::TreeHead;

pub(crate) use self::consistency::root_at;
pub(crate) use self::entries::issuer;

/// The number of tiles of leaf hashes that are kept: 8 kB each.
const RECENT: usize = 128;
/// The number of tiles that are asked for at a time.
const TOGETHER: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Monitor {
    tile_cache: Arc<TileCache>,
    /// The level 0 tiles of the last [`RECENT`] × 256 leaves, as wide as they were seen.
    recent: BTreeMap<u64, TileHashes>,
    /// Hash tiles above level 0 that became full and are still to be compared
    /// with those that are served.
    above: VecDeque<(Tile, Hash)>,
    /// The first data tile that has not been checked.
    unread: u64,
    /// The size at the last look: data tiles up to it have been published for so long
    /// that answers to what is in them have come.
    ripe: u64,
    /// The timestamp of the checkpoint that the verified tree is of.
    timestamp: u64,
    /// `true` if data tiles and issuers are checked at all.
    entries: bool,
    issuers: BTreeSet<Fingerprint>,
    unseen: VecDeque<Fingerprint>,
    rejected: Option<TreeHead>,
    /// The counts of what was checked.
    pub seen: MonitorCounts,
}

/// Counts of what a monitor has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts {
    /// The size at which it began.
    pub first: u64,
    /// Leaves appended since.
    pub leaves: u64,
    /// Data tiles.
    pub data_tiles: u64,
    /// Entries in them.
    pub entries: u64,
    /// Certificates at `issuer/`.
    pub issuers: u64,
}

impl Monitor {
    /// Begins at `head`: its right edge, read from tiles, must have its root.
    /// With `entries`, data tiles and issuers are checked from there on.
    ///
    /// # Errors
    /// Tiles that cannot be had; `tile_consistent`.
    pub async fn start<F: Fetch>(
        tile_cache: Arc<TileCache>,
        fetch: &mut F,
        head: &TreeHead,
        entries: bool,
    ) -> Result<Self, FetchError> {
        let edge = load_edge(fetch, head.size).await?;
        if edge.root() != head.root {
            let detail = format!(
                "the tiles of the tree of size {} do not lead to its root",
                head.size
            );
            return Err(Finding::new(checks::TILE_CONSISTENT, detail).into());
        }
        tile_cache.advance(edge);
        Ok(Self {
            tile_cache,
            recent: BTreeMap::new(),
            above: VecDeque::new(),
            unread: head.size / TILE_WIDTH,
            ripe: head.size,
            timestamp: head.timestamp,
            entries,
            issuers: BTreeSet::new(),
            unseen: VecDeque::new(),
            rejected: None,
            seen: MonitorCounts {
                first: head.size,
                ..MonitorCounts::default()
            },
        })
    }

    /// The size up to which the tree is verified.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tile_cache.edge().size()
    }

    /// Extends the verified tree to `head` by its tiles, and compares the roots
    /// of `between` (sizes on the way, smallest first) in passing.
    ///
    /// # Errors
    /// No answer. Everything else is a verdict: `checkpoint_consistent` if the
    /// log's own entries lead to another root, `tile_consistent` if only its
    /// hash tiles do.
    pub async fn advance<F: Fetch>(
        &mut self,
        fetch: &mut F,
        head: &TreeHead,
        between: &[(u64, Hash)],
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        let edge = self.tile_cache.edge();
        if head.size <= edge.size() || self.rejected == Some(*head) {
            return Ok(());
        }
        let leaves = match self.leaves(fetch, &edge, head.size, sink).await {
            Ok(leaves) => leaves,
            Err(FetchError::Faulty(finding)) => {
                sink.failed(finding);
                return Ok(());
            }
            Err(unreachable) => return Err(unreachable),
        };
        sink.passed(checks::TILE_SERVED);
        match extend(&edge, &leaves, head, between) {
            Ok(grown) => {
                sink.passed(checks::TILE_CONSISTENT);
                sink.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, &edge, &leaves, head);
            }
            Err(detail) => {
                let inquiry = self.inquire(fetch, &edge, head, between, &leaves, detail);
                self.judge(inquiry.await?, &edge, head, sink);
            }
        }
        Ok(())
    }

    /// The leaf hashes from the verified size to `size`, from tiles of level 0.
    async fn leaves<F: Fetch>(
        &self,
        fetch: &mut F,
        edge: &RightEdge,
        size: u64,
        sink: &dyn CheckSink,
    ) -> Result<Vec<Hash>, FetchError> {
        let tiles: Vec<Tile> = (edge.size() / TILE_WIDTH..size.div_ceil(TILE_WIDTH))
            .filter_map(|index| Tile::widest(Level::Hashes(0), index, size))
            .collect();
        let known = edge.partial(0);
        let mut leaves = Vec::with_capacity((size - edge.size()) as usize);
        for group in tiles.chunks(TOGETHER) {
            let paths: Vec<String> = group.iter().map(Tile::path).collect();
            for (tile, answer) in group.iter().zip(fetch.get_all(&paths).await) {
                let bytes = fetch::resolve(fetch, tile, Some(answer)).await?;
                let hashes = parse_hash_tile(tile, &bytes)?;
                sink.passed(checks::TILE_WELLFORMED);
                if tile.start_leaf() >= edge.size() {
                    leaves.extend(hashes);
                    continue;
                }
                let (old, new) = hashes.split_at(known.len().min(hashes.len()));
                if old != known {
                    let detail = format!("{tile}: hashes that were published before have changed");
                    sink.failed(Finding::new(checks::TILE_CONSISTENT, detail));
                }
                leaves.extend_from_slice(new);
            }
        }
        Ok(leaves)
    }

    /// The hash tiles do not lead to the root: do the entries?
    async fn inquire<F: Fetch>(
        &self,
        fetch: &mut F,
        edge: &RightEdge,
        head: &TreeHead,
        between: &[(u64, Hash)],
        tiles_say: &[Hash],
        detail: String,
    ) -> Result<Inquiry, FetchError> {
        let leaves = match entry_leaves(fetch, edge.size(), head.size).await {
            Ok(leaves) => leaves,
            Err(FetchError::Faulty(_)) => return Ok(Inquiry::Inconsistent(detail)),
            Err(unreachable) => return Err(unreachable),
        };
        Ok(match extend(edge, &leaves, head, between) {
            Ok(grown) => {
                let at = leaves.iter().zip(tiles_say).position(|(a, b)| a != b);
                let index = edge.size() + at.unwrap_or(0) as u64;
                let detail =
                    format!("the hash tile's leaf {index} is not the one in the signed tree");
                Inquiry::WrongTile(grown, leaves, detail)
            }
            Err(_) => Inquiry::Inconsistent(detail),
        })
    }

    fn judge(&mut self, inquiry: Inquiry, edge: &RightEdge, head: &TreeHead, sink: &dyn CheckSink) {
        match inquiry {
            Inquiry::WrongTile(grown, leaves, detail) => {
                sink.failed(Finding::new(checks::TILE_CONSISTENT, detail));
                sink.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, edge, &leaves, head);
            }
            Inquiry::Inconsistent(detail) => {
                self.rejected = Some(*head);
                sink.failed(Finding::new(checks::CHECKPOINT_CONSISTENT, detail));
            }
        }
    }

    fn accept(&mut self, grown: ExtendedTree, old: &RightEdge, leaves: &[Hash], head: &TreeHead) {
        self.timestamp = head.timestamp;
        let mut first = old.size();
        let mut rest = leaves;
        while !rest.is_empty() {
            let index = first / TILE_WIDTH;
            let room = (TILE_WIDTH - first % TILE_WIDTH) as usize;
            let (new, after) = rest.split_at(room.min(rest.len()));
            let mut hashes = match first % TILE_WIDTH {
                0 => Vec::with_capacity(new.len()),
                _ => old.partial(0).to_vec(),
            };
            hashes.extend_from_slice(new);
            self.recent.insert(index, hashes.into());
            (first, rest) = (first + new.len() as u64, after);
        }
        while self.recent.len() > RECENT {
            self.recent.pop_first();
        }
        self.above.extend(grown.above);
        self.seen.leaves += leaves.len() as u64;
        self.tile_cache.advance(grown.edge);
    }

    /// Forgets that a head was rejected, so that it is tried again.
    pub fn reconsider(&mut self) {
        self.rejected = None;
    }

    /// The tree's leaf hashes under the data tile at `index`.
    async fn hashes<F: Fetch>(&self, fetch: &mut F, index: u64) -> Result<TileHashes, FetchError> {
        match self.recent.get(&index) {
            Some(hashes) => Ok(Arc::clone(hashes)),
            None => self.tile_cache.hashes(fetch, 0, index).await,
        }
    }

    /// Checks that the verified tree's checkpoint is as new as what it covers.
    fn not_older(&self, timestamp: u64, what: impl Fn() -> String, sink: &dyn CheckSink) {
        let outcome = match timestamp <= self.timestamp {
            true => Ok(()),
            false => Err(format!(
                "the checkpoint of size {} is from {}, and covers {} from {timestamp}",
                self.size(),
                self.timestamp,
                what()
            )),
        };
        sink.check(checks::CHECKPOINT_TIMESTAMP, outcome);
    }
}

enum Inquiry {
    /// The entries lead to the root, the hash tiles do not.
    WrongTile(ExtendedTree, Vec<Hash>, String),
    /// Neither does.
    Inconsistent(String),
}
