//! Monitor of a log: extends the verified tree by hash tiles, then checks the promises, entries and
//! issuers in the tree.

mod consistency;
mod entry_audit;
mod inclusion;
mod monitored_tree;

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt;
use lucarne_ctread::{Problem, ReadError, Source, VerifiedTree, hashes, load_edge, read_ahead};
use lucarne_tlog::{Hash, Level, LoadError, MAX_TREE_SIZE, RightEdge, tiles_between};
use parking_lot::Mutex;

use self::consistency::{ExtendedTree, entry_leaves, extend};
use self::entry_audit::EntryAudit;
use self::monitored_tree::MonitoredTree;
use super::checks::{self, CheckSink, Finding};
use super::fetch::{self, FetchError};
use super::pending_scts::PendingScts;
use super::tree_heads::TreeHead;

pub(crate) use self::consistency::Inconsistency;

/// Monitor of a log.
#[derive(Debug)]
pub struct Monitor {
    tree: MonitoredTree,
    entries: EntryAudit,
    rejected: Option<TreeHead>,
    /// Counts of the checked objects.
    pub seen: MonitorCounts,
}

/// Counts of the objects that a monitor has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts {
    /// Size of the first tree.
    pub first: u64,
    /// Number of leaves that the verified tree has gained since then.
    pub leaves: u64,
    /// Number of checked data tiles.
    pub data_tiles: u64,
    /// Number of entries in these data tiles.
    pub entries: u64,
    /// Number of checked certificates at `issuer/`.
    pub issuers: u64,
}

impl Monitor {
    /// Starts at `head`: reads the right edge of the tree from tiles, which must lead to the root
    /// of `head`. With `entries`, all later data tiles and issuers are checked.
    ///
    /// # Errors
    /// If tiles are unavailable; the finding `tile_consistent` if the tiles are wrong.
    pub async fn start(
        tiles: Arc<VerifiedTree>,
        source: &dyn Source,
        head: &TreeHead,
        entries: bool,
    ) -> Result<Self, FetchError> {
        let edge = load_edge(source, head.size).await?;
        if edge.root() != head.root {
            let detail = format!(
                "the tiles of the tree of size {} do not lead to its root",
                head.size
            );
            return Err(Finding::new(checks::TILE_CONSISTENT, detail).into());
        }
        tiles.advance(edge);
        Ok(Self {
            tree: MonitoredTree::new(tiles, head.timestamp),
            entries: EntryAudit::new(entries, head.size),
            rejected: None,
            seen: MonitorCounts {
                first: head.size,
                ..MonitorCounts::default()
            },
        })
    }

    /// Returns the size of the verified tree.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Extends the verified tree to `head` by its tiles. Also compares the roots of earlier
    /// checkpoints: `between` has their sizes and roots, in ascending order.
    ///
    /// # Errors
    /// If the log does not respond. All other results go to `sink`: `checkpoint_consistent` if the
    /// log's own entries lead to another root, `tile_consistent` if only its hash tiles do.
    pub async fn advance(
        &mut self,
        source: &dyn Source,
        head: &TreeHead,
        between: &[(u64, Hash)],
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        let edge = self.tree.tiles.edge();
        if head.size <= edge.size() || self.rejected == Some(*head) {
            return Ok(());
        }
        let leaves = match self.leaves(source, &edge, head.size, sink).await {
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
                self.accept(grown, &leaves, head);
            }
            Err(error) => {
                let cause = self.inquire(source, &edge, head, between, &leaves, error);
                self.judge(cause.await?, head, sink);
            }
        }
        Ok(())
    }

    /// Returns the leaf hashes from the verified size to `size`, from tiles of level 0.
    async fn leaves(
        &self,
        source: &dyn Source,
        edge: &RightEdge,
        size: u64,
        sink: &dyn CheckSink,
    ) -> Result<Vec<Hash>, FetchError> {
        if size > MAX_TREE_SIZE {
            let problem = Problem::Size(LoadError::Size(size));
            return Err(ReadError::new("checkpoint", problem).into());
        }
        let tiles =
            tiles_between(edge.size(), size).take_while(|tile| tile.level() == Level::Hashes(0));
        let reads = tiles.map(async |tile| (tile, fetch::tile(source, tile).await));
        let length = |(_, read): &(_, Result<Bytes, _>)| read.as_ref().map_or(0, Bytes::len);
        let mut reads = pin!(read_ahead(reads, length));
        let known = edge.partial(0);
        // The size in the checkpoint may be wrong: memory is used only for served tiles.
        let mut leaves = Vec::new();
        while let Some((tile, read)) = reads.next().await {
            let hashes = hashes(&read?);
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
        Ok(leaves)
    }

    /// Checks whether the entries lead to the root, after the hash tiles did not.
    async fn inquire(
        &self,
        source: &dyn Source,
        edge: &RightEdge,
        head: &TreeHead,
        between: &[(u64, Hash)],
        tiles_say: &[Hash],
        error: Inconsistency,
    ) -> Result<Cause, FetchError> {
        let leaves = match entry_leaves(source, edge.size(), head.size).await {
            Ok(leaves) => leaves,
            Err(FetchError::Faulty(_)) => return Ok(Cause::Checkpoint(error)),
            Err(unreachable) => return Err(unreachable),
        };
        Ok(match extend(edge, &leaves, head, between) {
            Ok(grown) => {
                let at = leaves.iter().zip(tiles_say).position(|(a, b)| a != b);
                let index = edge.size() + at.unwrap_or(0) as u64;
                Cause::HashTile(grown, leaves, index)
            }
            Err(_) => Cause::Checkpoint(error),
        })
    }

    fn judge(&mut self, cause: Cause, head: &TreeHead, sink: &dyn CheckSink) {
        match cause {
            Cause::HashTile(grown, leaves, index) => {
                let detail = format!(
                    "the hash tile's leaf {index} differs from the leaf in the signed tree"
                );
                sink.failed(Finding::new(checks::TILE_CONSISTENT, detail));
                sink.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, &leaves, head);
            }
            Cause::Checkpoint(error) => {
                self.rejected = Some(*head);
                sink.failed(Finding::new(checks::CHECKPOINT_CONSISTENT, error));
            }
        }
    }

    fn accept(&mut self, grown: ExtendedTree, leaves: &[Hash], head: &TreeHead) {
        self.entries.add_full_tiles(grown.above);
        self.seen.leaves += leaves.len() as u64;
        self.tree.extend(grown.edge, leaves, head.timestamp);
    }

    /// Checks the promises that the verified tree covers. An entry that is neither at its index nor
    /// near it may still appear. The promise fails only if it is due at `now`, so the result does
    /// not depend on the speed of the monitor.
    ///
    /// # Errors
    /// If the log does not respond: the remaining promises stay open.
    pub async fn verify_inclusion(
        &self,
        source: &dyn Source,
        pending_scts: &Mutex<PendingScts>,
        now: Instant,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        inclusion::verify(&self.tree, source, pending_scts, now, sink).await
    }

    /// Checks new full data tiles, the hash tiles above level 0, and the issuers that the entries
    /// name; with `all`, also the partial data tile at the end. Entries among `pending_scts` are
    /// compared completely with the submission.
    ///
    /// # Errors
    /// If the log does not respond: the remaining tiles are checked next time.
    pub async fn read_entries(
        &mut self,
        source: &dyn Source,
        pending_scts: &Mutex<PendingScts>,
        all: bool,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        let (tree, seen) = (&self.tree, &mut self.seen);
        let read = self
            .entries
            .read(tree, source, pending_scts, all, seen, sink);
        read.await
    }

    /// Forgets the rejected tree head, so that the next poll checks it again.
    pub fn reconsider(&mut self) {
        self.rejected = None;
    }
}

/// The reasons why the hash tiles do not lead to the checkpoint.
enum Cause {
    /// The entries lead to the root, the hash tiles do not; with the index of the wrong leaf.
    HashTile(ExtendedTree, Vec<Hash>, u64),
    /// Neither entries nor hash tiles lead to the root.
    Checkpoint(Inconsistency),
}
