//! Audit of data tiles with their entries, of tiles above level 0, and of issuers.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;

use bytes::Bytes;
use futures_util::StreamExt;
use lucarne_ct::Fingerprint;
use lucarne_ctread::{Source, issuer, read_ahead};
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile, tile_root};
use parking_lot::Mutex;

use super::MonitorCounts;
use super::monitored_tree::MonitoredTree;
use crate::ct::checks::{self, CheckSink, Finding};
use crate::ct::entries;
use crate::ct::fetch::{self, FetchError};
use crate::ct::pending_scts::PendingScts;

/// Number of data tiles that are checked between two polls of the checkpoint.
const AT_ONCE: u64 = 128;
/// Number of data tiles that are read again if a later read fails.
const TOGETHER: u64 = 16;

/// Audit of entries, upper tiles and issuers.
#[derive(Debug)]
pub(super) struct EntryAudit {
    /// Whether data tiles and issuers are checked.
    enabled: bool,
    /// New full hash tiles above level 0 that are not yet compared with the served tiles.
    above: VecDeque<(Tile, Hash)>,
    /// First data tile that has not been checked.
    unread: u64,
    /// Size of the tree at the last poll. The responses to all submissions below this size have
    /// arrived since then.
    ripe: u64,
    issuers: BTreeSet<Fingerprint>,
    unseen: VecDeque<Fingerprint>,
}

impl EntryAudit {
    /// Creates an audit that starts at a tree of `size`, if `enabled`.
    pub(super) fn new(enabled: bool, size: u64) -> Self {
        Self {
            enabled,
            above: VecDeque::new(),
            unread: size / TILE_WIDTH,
            ripe: size,
            issuers: BTreeSet::new(),
            unseen: VecDeque::new(),
        }
    }

    /// Adds new full hash tiles above level 0.
    pub(super) fn add_full_tiles(&mut self, tiles: impl IntoIterator<Item = (Tile, Hash)>) {
        self.above.extend(tiles);
    }

    /// Checks new full data tiles, the hash tiles above level 0, and the issuers that the entries
    /// name; with `all`, also the partial data tile at the end. Entries among `pending_scts` are
    /// compared completely with the submission.
    ///
    /// # Errors
    /// If the log does not respond: the remaining tiles are checked next time.
    pub(super) async fn read(
        &mut self,
        tree: &MonitoredTree,
        source: &dyn Source,
        pending_scts: &Mutex<PendingScts>,
        all: bool,
        seen: &mut MonitorCounts,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        if !self.enabled {
            return Ok(());
        }
        let size = tree.size();
        // Limits the number of tiles, so that polls of the checkpoint are not delayed.
        let ripe = std::mem::replace(&mut self.ripe, size);
        let stop = if all {
            size / TILE_WIDTH
        } else {
            (ripe / TILE_WIDTH).min(self.unread + AT_ONCE)
        };
        while self.unread < stop {
            let end = (self.unread + TOGETHER).min(stop);
            let tiles: Vec<u64> = (self.unread..end).collect();
            self.read_data(tree, source, pending_scts, &tiles, seen, sink)
                .await?;
            self.unread = end;
        }
        let again = pending_scts.lock().unread_tiles(self.unread);
        let again: Vec<u64> = again.into_iter().take(TOGETHER as usize).collect();
        self.read_data(tree, source, pending_scts, &again, seen, sink)
            .await?;
        if all && !size.is_multiple_of(TILE_WIDTH) {
            let last = size / TILE_WIDTH;
            self.read_data(tree, source, pending_scts, &[last], seen, sink)
                .await?;
        }
        self.read_above(source, sink).await?;
        self.read_issuers(source, seen, sink).await
    }

    async fn read_data(
        &mut self,
        tree: &MonitoredTree,
        source: &dyn Source,
        pending_scts: &Mutex<PendingScts>,
        indexes: &[u64],
        seen: &mut MonitorCounts,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        let tiles = indexes
            .iter()
            .filter_map(|index| Tile::widest(Level::Data, *index, tree.size()));
        // Both reads are parts of one future, because a read that is not polled keeps a connection.
        let reads = tiles.map(async |tile| {
            let bytes = fetch::tile(source, tile).await?;
            let hashes = tree.tiles.hashes(source, 0, tile.index()).await?;
            Ok((tile, bytes, hashes))
        });
        let length = |read: &Result<(_, Bytes, _), _>| read.as_ref().map_or(0, |read| read.1.len());
        let mut reads = pin!(read_ahead(reads, length));
        while let Some(read) = reads.next().await {
            let (tile, bytes, hashes) = match read {
                Ok(read) => read,
                Err(FetchError::Faulty(finding)) => {
                    sink.failed(finding);
                    continue;
                }
                Err(unreachable) => return Err(unreachable),
            };
            sink.passed(checks::TILE_SERVED);
            let range = tile.start_leaf()..tile.end_leaf();
            let extra_data = pending_scts.lock().take_unread(range);
            let Some(entries) = entries::verify(tile, &bytes, &hashes, sink) else {
                continue;
            };
            entries::compare_submitted(tile, &bytes, &extra_data, sink);
            tree.not_older(entries.newest, || format!("an entry of {tile}"), sink);
            seen.data_tiles += 1;
            seen.entries += entries.leaves.len() as u64;
            for fingerprint in entries.fingerprints {
                if self.issuers.insert(fingerprint) {
                    self.unseen.push_back(fingerprint);
                }
            }
        }
        Ok(())
    }

    async fn read_above(
        &mut self,
        source: &dyn Source,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        while let Some((tile, root)) = self.above.front().copied() {
            match fetch::get(source, &tile.path()).await {
                Ok(bytes) if tile_root(&bytes) == Some(root) => {
                    sink.passed(checks::TILE_CONSISTENT);
                }
                Ok(_) => {
                    let detail = format!("{tile}: the hashes differ from the tree");
                    sink.failed(Finding::new(checks::TILE_CONSISTENT, detail));
                }
                Err(FetchError::Faulty(finding)) => sink.failed(finding),
                Err(unreachable) => return Err(unreachable),
            }
            self.above.pop_front();
        }
        Ok(())
    }

    async fn read_issuers(
        &mut self,
        source: &dyn Source,
        seen: &mut MonitorCounts,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        while let Some(fingerprint) = self.unseen.front().copied() {
            match issuer(source, fingerprint).await.map_err(FetchError::from) {
                Ok(_) => {
                    seen.issuers += 1;
                    sink.passed(checks::ISSUER_SERVED);
                    sink.passed(checks::ISSUER_HASH);
                }
                Err(FetchError::Faulty(finding)) => sink.failed(finding),
                Err(unreachable) => return Err(unreachable),
            }
            self.unseen.pop_front();
        }
        Ok(())
    }
}
