//! Audit of data tiles with their entries, of tiles above level 0, and of issuers.

use std::collections::{BTreeSet, VecDeque};

use lucarne_ct::Fingerprint;
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile, tile_root};
use parking_lot::Mutex;

use super::verified_tree::VerifiedTree;
use super::{MonitorCounts, TOGETHER};
use crate::ct::checks::{self, CheckSink, Finding};
use crate::ct::entries;
use crate::ct::fetch::{self, Fetch, FetchError};
use crate::ct::pending_scts::PendingScts;

/// Number of data tiles that are checked between two polls of the checkpoint.
const AT_ONCE: u64 = 128;

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
    pub(super) async fn read<F: Fetch>(
        &mut self,
        tree: &VerifiedTree,
        fetch: &mut F,
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
            let end = (self.unread + TOGETHER as u64).min(stop);
            let tiles: Vec<u64> = (self.unread..end).collect();
            self.read_data(tree, fetch, pending_scts, &tiles, seen, sink)
                .await?;
            self.unread = end;
        }
        let again = pending_scts.lock().unread_tiles(self.unread);
        let again: Vec<u64> = again.into_iter().take(TOGETHER).collect();
        self.read_data(tree, fetch, pending_scts, &again, seen, sink)
            .await?;
        if all && !size.is_multiple_of(TILE_WIDTH) {
            let last = size / TILE_WIDTH;
            self.read_data(tree, fetch, pending_scts, &[last], seen, sink)
                .await?;
        }
        self.read_above(fetch, sink).await?;
        self.read_issuers(fetch, seen, sink).await
    }

    async fn read_data<F: Fetch>(
        &mut self,
        tree: &VerifiedTree,
        fetch: &mut F,
        pending_scts: &Mutex<PendingScts>,
        indexes: &[u64],
        seen: &mut MonitorCounts,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        let tiles: Vec<Tile> = indexes
            .iter()
            .filter_map(|index| Tile::widest(Level::Data, *index, tree.size()))
            .collect();
        let paths: Vec<String> = tiles.iter().map(Tile::path).collect();
        let answers = fetch.get_all(&paths).await;
        for (tile, answer) in tiles.iter().zip(answers) {
            let answer = fetch::resolve(fetch, tile, Some(answer)).await;
            let hashes = tree.hashes(fetch, tile.index()).await;
            let (bytes, hashes) = match (answer, hashes) {
                (Ok(bytes), Ok(hashes)) => (bytes, hashes),
                (Err(FetchError::Faulty(finding)), _) | (_, Err(FetchError::Faulty(finding))) => {
                    sink.failed(finding);
                    continue;
                }
                (Err(unreachable), _) | (_, Err(unreachable)) => return Err(unreachable),
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

    async fn read_above<F: Fetch>(
        &mut self,
        fetch: &mut F,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        while let Some((tile, root)) = self.above.front().copied() {
            match fetch.get(&tile.path()).await {
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

    async fn read_issuers<F: Fetch>(
        &mut self,
        fetch: &mut F,
        seen: &mut MonitorCounts,
        sink: &dyn CheckSink,
    ) -> Result<(), FetchError> {
        while let Some(fingerprint) = self.unseen.front().copied() {
            match issuer(fetch, fingerprint).await {
                Ok(()) => {
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

/// Fetches a certificate of a chain and compares its hash with its name.
pub(crate) async fn issuer<F: Fetch>(
    fetch: &mut F,
    fingerprint: Fingerprint,
) -> Result<(), FetchError> {
    let path = format!("issuer/{fingerprint}");
    let der = fetch.get(&path).await?;
    if Fingerprint::of(&der) == fingerprint {
        Ok(())
    } else {
        let found = Fingerprint::of(&der);
        let detail = format!("{path}: the served certificate hashes to {found}");
        Err(Finding::new(checks::ISSUER_HASH, detail).into())
    }
}
