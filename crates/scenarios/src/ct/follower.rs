//! Follows a log: from one verified tree to the next by its hash tiles, then
//! the promises, the entries and the issuers in it.

mod growth;
mod reading;
mod settling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lucarne_ct::Fingerprint;
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};

use self::growth::{Grown, entry_leaves, extend, load_edge};
use super::checks::{self, Finding, Verdicts};
use super::fetch::{self, Fetch, Trouble};
use super::heads::Head;
use super::spine::{Row, Spine, read_row};

pub(crate) use self::growth::root_at;
pub(crate) use self::reading::issuer;

/// How many tiles of leaf hashes are kept: 8 kB each.
const RECENT: usize = 128;
/// How many tiles are asked for at a time.
const TOGETHER: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Follower {
    spine: Arc<Spine>,
    /// The level 0 tiles of the last [`RECENT`] × 256 leaves, as wide as they were seen.
    recent: BTreeMap<u64, Row>,
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
    /// Whether data tiles and issuers are checked at all.
    entries: bool,
    issuers: BTreeSet<Fingerprint>,
    unseen: VecDeque<Fingerprint>,
    rejected: Option<Head>,
    /// What was checked.
    pub seen: Seen,
}

/// Counts of what a follower has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
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

impl Follower {
    /// Begins at `head`: its right edge, read from tiles, must have its root.
    /// With `entries`, data tiles and issuers are checked from there on.
    ///
    /// # Errors
    /// Tiles that cannot be had; `tile_consistent`.
    pub async fn start<F: Fetch>(
        spine: Arc<Spine>,
        fetch: &mut F,
        head: &Head,
        entries: bool,
    ) -> Result<Self, Trouble> {
        let edge = load_edge(fetch, head.size).await?;
        if edge.root() != head.root {
            let detail = format!(
                "the tiles of the tree of size {} do not lead to its root",
                head.size
            );
            return Err(Finding::new(checks::TILE_CONSISTENT, detail).into());
        }
        spine.advance(edge);
        Ok(Self {
            spine,
            recent: BTreeMap::new(),
            above: VecDeque::new(),
            unread: head.size / TILE_WIDTH,
            ripe: head.size,
            timestamp: head.timestamp,
            entries,
            issuers: BTreeSet::new(),
            unseen: VecDeque::new(),
            rejected: None,
            seen: Seen {
                first: head.size,
                ..Seen::default()
            },
        })
    }

    /// The size up to which the tree is verified.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.spine.edge().size()
    }

    /// Extends the verified tree to `head` by its tiles, and compares the roots
    /// of `between` (sizes on the way, smallest first) in passing.
    ///
    /// # Errors
    /// No answer. Everything else is a verdict: `checkpoint_consistent` if the
    /// log's own entries lead to another root, `tile_consistent` if only its
    /// hash tiles do.
    pub async fn grow<F: Fetch>(
        &mut self,
        fetch: &mut F,
        head: &Head,
        between: &[(u64, Hash)],
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let edge = self.spine.edge();
        if head.size <= edge.size() || self.rejected == Some(*head) {
            return Ok(());
        }
        let leaves = match self.leaves(fetch, &edge, head.size, verdicts).await {
            Ok(leaves) => leaves,
            Err(Trouble::Found(finding)) => {
                verdicts.found(finding);
                return Ok(());
            }
            Err(unreachable) => return Err(unreachable),
        };
        verdicts.passed(checks::TILE_SERVED);
        match extend(&edge, &leaves, head, between) {
            Ok(grown) => {
                verdicts.passed(checks::TILE_CONSISTENT);
                verdicts.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, &edge, &leaves, head);
            }
            Err(detail) => {
                let inquiry = self.inquire(fetch, &edge, head, between, &leaves, detail);
                self.judge(inquiry.await?, &edge, head, verdicts);
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
        verdicts: &dyn Verdicts,
    ) -> Result<Vec<Hash>, Trouble> {
        let tiles: Vec<Tile> = (edge.size() / TILE_WIDTH..size.div_ceil(TILE_WIDTH))
            .filter_map(|index| Tile::widest(Level::Hashes(0), index, size))
            .collect();
        let known = edge.partial(0);
        let mut leaves = Vec::with_capacity((size - edge.size()) as usize);
        for group in tiles.chunks(TOGETHER) {
            let paths: Vec<String> = group.iter().map(Tile::path).collect();
            for (tile, answer) in group.iter().zip(fetch.get_all(&paths).await) {
                let bytes = fetch::resolve(fetch, tile, Some(answer)).await?;
                let row = read_row(tile, &bytes)?;
                verdicts.passed(checks::TILE_WELLFORMED);
                if tile.start_leaf() >= edge.size() {
                    leaves.extend(row);
                    continue;
                }
                let (old, new) = row.split_at(known.len().min(row.len()));
                if old != known {
                    let detail = format!("{tile}: hashes that were published before have changed");
                    verdicts.found(Finding::new(checks::TILE_CONSISTENT, detail));
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
        head: &Head,
        between: &[(u64, Hash)],
        tiles_say: &[Hash],
        detail: String,
    ) -> Result<Inquiry, Trouble> {
        let leaves = match entry_leaves(fetch, edge.size(), head.size).await {
            Ok(leaves) => leaves,
            Err(Trouble::Found(_)) => return Ok(Inquiry::Inconsistent(detail)),
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

    fn judge(&mut self, inquiry: Inquiry, edge: &RightEdge, head: &Head, verdicts: &dyn Verdicts) {
        match inquiry {
            Inquiry::WrongTile(grown, leaves, detail) => {
                verdicts.found(Finding::new(checks::TILE_CONSISTENT, detail));
                verdicts.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, edge, &leaves, head);
            }
            Inquiry::Inconsistent(detail) => {
                self.rejected = Some(*head);
                verdicts.found(Finding::new(checks::CHECKPOINT_CONSISTENT, detail));
            }
        }
    }

    fn accept(&mut self, grown: Grown, old: &RightEdge, leaves: &[Hash], head: &Head) {
        self.timestamp = head.timestamp;
        let mut first = old.size();
        let mut rest = leaves;
        while !rest.is_empty() {
            let index = first / TILE_WIDTH;
            let room = (TILE_WIDTH - first % TILE_WIDTH) as usize;
            let (new, after) = rest.split_at(room.min(rest.len()));
            let mut row = match first % TILE_WIDTH {
                0 => Vec::with_capacity(new.len()),
                _ => old.partial(0).to_vec(),
            };
            row.extend_from_slice(new);
            self.recent.insert(index, row.into());
            (first, rest) = (first + new.len() as u64, after);
        }
        while self.recent.len() > RECENT {
            self.recent.pop_first();
        }
        self.above.extend(grown.above);
        self.seen.leaves += leaves.len() as u64;
        self.spine.advance(grown.edge);
    }

    /// Forgets that a head was rejected, so that it is tried again.
    pub fn reconsider(&mut self) {
        self.rejected = None;
    }

    /// The tree's leaf hashes under the data tile at `index`.
    async fn row<F: Fetch>(&self, fetch: &mut F, index: u64) -> Result<Row, Trouble> {
        match self.recent.get(&index) {
            Some(row) => Ok(Arc::clone(row)),
            None => self.spine.row(fetch, 0, index).await,
        }
    }

    /// Whether the verified tree's checkpoint is as new as what it covers.
    fn not_older(&self, timestamp: u64, what: impl Fn() -> String, verdicts: &dyn Verdicts) {
        let outcome = match timestamp <= self.timestamp {
            true => Ok(()),
            false => Err(format!(
                "the checkpoint of size {} is from {}, and covers {} from {timestamp}",
                self.size(),
                self.timestamp,
                what()
            )),
        };
        verdicts.check(checks::CHECKPOINT_TIMESTAMP, outcome);
    }
}

enum Inquiry {
    /// The entries lead to the root, the hash tiles do not.
    WrongTile(Grown, Vec<Hash>, String),
    /// Neither does.
    Inconsistent(String),
}
