//! The verified tree: its right edge, its most recent leaf hashes, and the time of its checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use lucarne_tlog::{Hash, RightEdge, TILE_WIDTH};

use crate::ct::checks::{self, CheckSink};
use crate::ct::fetch::{Fetch, FetchError};
use crate::ct::tile_cache::{TileCache, TileHashes};

/// Number of tiles of leaf hashes that are kept: 8 KiB each.
const RECENT: usize = 128;

/// The verified tree.
#[derive(Debug)]
pub(super) struct VerifiedTree {
    tile_cache: Arc<TileCache>,
    /// Level 0 tiles of the last [`RECENT`] × 256 leaves, in the width of the last poll.
    recent: BTreeMap<u64, TileHashes>,
    /// Timestamp of the verified tree's checkpoint.
    timestamp: u64,
}

impl VerifiedTree {
    pub(super) fn new(tile_cache: Arc<TileCache>, timestamp: u64) -> Self {
        Self {
            tile_cache,
            recent: BTreeMap::new(),
            timestamp,
        }
    }

    pub(super) fn edge(&self) -> Arc<RightEdge> {
        self.tile_cache.edge()
    }

    pub(super) fn size(&self) -> u64 {
        self.edge().size()
    }

    /// Extends the tree from `old` by `leaves` to `edge`, which a checkpoint with this timestamp
    /// has signed.
    pub(super) fn extend(
        &mut self,
        edge: RightEdge,
        old: &RightEdge,
        leaves: &[Hash],
        timestamp: u64,
    ) {
        self.timestamp = timestamp;
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
        self.tile_cache.advance(edge);
    }

    /// Returns the tree's leaf hashes for the data tile at `index`.
    pub(super) async fn hashes<F: Fetch>(
        &self,
        fetch: &mut F,
        index: u64,
    ) -> Result<TileHashes, FetchError> {
        match self.recent.get(&index) {
            Some(hashes) => Ok(Arc::clone(hashes)),
            None => self.tile_cache.hashes(fetch, 0, index).await,
        }
    }

    /// Checks that the checkpoint of the verified tree is as new as the data that it covers.
    pub(super) fn not_older(
        &self,
        timestamp: u64,
        what: impl Fn() -> String,
        sink: &dyn CheckSink,
    ) {
        let outcome = if timestamp <= self.timestamp {
            Ok(())
        } else {
            Err(format!(
                "the checkpoint of size {} is from {}, and covers {} from {timestamp}",
                self.size(),
                self.timestamp,
                what()
            ))
        };
        sink.check(checks::CHECKPOINT_TIMESTAMP, outcome);
    }
}
