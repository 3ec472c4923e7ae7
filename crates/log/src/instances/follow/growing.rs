//! Growing: a follower extends its tree to the published checkpoint.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};
use lucarne_ct::{Identity, TileEntries, TileEntry};
use lucarne_signer::Head;
use lucarne_tlog::{Tile, data_tiles_between};
use tokio::task::spawn_blocking;

use super::{Follower, panicked};
use crate::data::tree::{Tree, TreeHead};
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::StorageInconsistency;
use crate::error::{Away, Fatal, FollowedTileError, ReadError};
use crate::index::dedup::LeafPosition;
use crate::read::stored_tiles;
use crate::recovery::recover;
use crate::shared::Shared;
use lucarne_ctread::read_ahead;

/// Maximum number of entries that a follower reads at once. The follower keeps 50 bytes of each
/// entry until the root is verified. An instance that is further behind reopens the log, which has
/// no such limit.
const MOST_AT_ONCE: u64 = 1 << 18;

impl Follower {
    /// Extends the tree to the published checkpoint. Returns `false` if the checkpoint is too far
    /// ahead.
    pub(super) async fn advance(&mut self) -> Result<bool, Fatal> {
        let log = self.log.clone();
        let Some(published) = recover::published(&log.config, &*log.assets).await? else {
            let storage = log.assets.location();
            return Err(Away::NoCheckpoint { storage }.into());
        };
        let (head, tree) = (published.head(), &self.tree);
        let forked = head.size == tree.size() && head.root != tree.root;
        if head.size < tree.size() || head.timestamp_ms < tree.timestamp_ms || forked {
            let seen = Head {
                size: tree.size(),
                root: tree.root,
                timestamp_ms: tree.timestamp_ms,
            };
            return Err(Fatal::from(StorageInconsistency::BehindFollower {
                storage: log.assets.location(),
                published: head,
                seen,
            }));
        }
        if head.size - tree.size() > MOST_AT_ONCE {
            return Ok(false);
        }
        let head = TreeHead {
            size: head.size,
            root: head.root,
        };
        let grown = grow(&log, tree.clone(), head).await?;
        self.take_up(grown, Some(published)).await?;
        Ok(true)
    }

    /// Takes over an extended tree: clients see the tree first, then the index gets the new
    /// entries.
    pub(super) async fn take_up(
        &mut self,
        (mut tree, entries): (Tree, Vec<(Identity, LeafPosition)>),
        published: Option<VerifiedCheckpoint>,
    ) -> Result<(), Fatal> {
        if let Some(published) = &published {
            tree.timestamp_ms = published.timestamp_ms;
        }
        let head = tree.head();
        self.tree = Arc::new(tree);
        if let Some(published) = published {
            self.show(published);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let shown = self.log.reader.tree();
        debug_assert!(shown.is_some_and(|shown| shown.size() >= head.size));
        let index = self.session.dedup.clone();
        let indexed = spawn_blocking(move || index.extend(entries.into_iter(), head.size, head));
        indexed.await.map_err(panicked)??;
        self.log
            .metrics
            .dedup_indexed
            .set(self.session.dedup.known() as i64);
        Ok(())
    }
}

/// Extends the tree to `head` with tiles from storage, and returns its new entries as well.
///
/// # Errors
/// [`Fatal::Away`] if tiles are missing or unreadable, or if their root is not the root of `head`.
pub(super) async fn grow(
    log: &Shared,
    tree: Arc<Tree>,
    head: TreeHead,
) -> Result<(Tree, Vec<(Identity, LeafPosition)>), Fatal> {
    let location = log.assets.location();
    let mut grown = Tree::clone(&tree);
    let mut entries = Vec::new();
    let reads = data_tiles_between(tree.size(), head.size)
        .map(|tile| async move { (tile, stored_tiles::tile(&*log.assets, tile).await) });
    let length = |(_, read): &(Tile, Result<Option<Bytes>, ReadError>)| match read {
        Ok(Some(bytes)) => bytes.len(),
        _ => 0,
    };
    let reads = read_ahead(reads, length);
    pin_mut!(reads);
    while let Some((tile, read)) = reads.next().await {
        let away = |problem| Away::Tile {
            storage: location.clone(),
            tile: tile.path(),
            problem,
        };
        let bytes = read.map_err(|error| away(FollowedTileError::Read(error)))?;
        let bytes = bytes.ok_or_else(|| away(FollowedTileError::Missing))?;
        let appended = spawn_blocking(move || append(grown, tile, &bytes));
        let appended = appended.await.map_err(panicked)?;
        let (with_tile, mut found) = appended.map_err(away)?;
        grown = with_tile;
        entries.append(&mut found);
    }
    if grown.head() == head {
        Ok((grown, entries))
    } else {
        Err(Fatal::from(Away::Tree {
            storage: location,
            expected: (head.size, head.root),
            found: (grown.size(), grown.root),
        }))
    }
}

/// Appends those entries of a data tile that the tree does not have.
fn append(
    mut tree: Tree,
    tile: Tile,
    bytes: &Bytes,
) -> Result<(Tree, Vec<(Identity, LeafPosition)>), FollowedTileError> {
    if !bytes.starts_with(&tree.data.bytes) {
        return Err(FollowedTileError::Foreign);
    }
    let fresh = bytes.slice(tree.data.bytes.len()..);
    let (first, mut buffer) = (tree.size(), Vec::new());
    let (mut hashes, mut ends, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let missing = tile.end_leaf().saturating_sub(first);
    for entry in TileEntries::all(&fresh, first).take(missing as usize) {
        let TileEntry { index, bytes, leaf } = entry?;
        let timestamp_ms = leaf.timestamp;
        let place = LeafPosition {
            index,
            timestamp_ms,
        };
        entries.push((leaf.identity(), place));
        hashes.push(leaf.leaf_hash(&mut buffer));
        ends.push(bytes.end as u32);
    }
    tree.append_leaves(&hashes);
    tree.append_data(first, &fresh, &ends);
    Ok((tree, entries))
}
