//! Adding published rounds to the dedup index.

use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::Identity;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::{Sequencer, panicked};
use crate::data::tree::TreeHead;
use crate::error::Fatal;
use crate::index::dedup::LeafPosition;
use crate::index::log_index::is_silent;
use crate::shared::Shared;
use crate::submit::pool::{SealedRound, Sequenced};
use crate::submit::session::Session;

/// Timeout of the sequencer's waits for the disk of the dedup index.
pub(super) const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of published rounds that wait for the dedup index. The sequencer waits for the
/// index if more rounds follow.
pub(super) const MAX_UNINDEXED_ROUNDS: usize = 64;

/// The entries of a published round, and its tree.
pub(super) struct Indexing {
    entries: Vec<(Identity, LeafPosition)>,
    head: TreeHead,
}

impl Sequencer {
    /// Sends the round to the indexer, and waits for the indexer only if it is far behind.
    pub(super) async fn index(
        &mut self,
        sealed: &SealedRound,
        sequenced: Sequenced,
    ) -> Result<(), Fatal> {
        let timestamp_ms = sequenced.timestamp_ms;
        let entries = (sequenced.first_index..)
            .zip(&sealed.entries)
            .map(|(index, entry)| {
                let place = LeafPosition {
                    index,
                    timestamp_ms,
                };
                (entry.identity, place)
            })
            .collect();
        let head = self.tree.head();
        let hangs = self.session.indexing().unwrap_or_default();
        if accepts(&self.to_index, Indexing { entries, head }, hangs).await {
            Ok(())
        } else {
            Err(is_silent(&self.log.config))
        }
    }
}

/// Sends a round to the indexer. Returns `false` if the indexer does not accept the round within
/// [`INDEX_TIMEOUT`]. The time for which a write `hangs` already counts, because submissions wait.
async fn accepts<T>(to_index: &mpsc::Sender<T>, round: T, hangs: Duration) -> bool {
    // A failed indexer accepts nothing more; `rounds` detects that.
    let sent = to_index.send(round);
    timeout(INDEX_TIMEOUT.saturating_sub(hangs), sent)
        .await
        .is_ok()
}

/// Adds published rounds to the dedup index, in order, and then removes them from memory.
pub(super) async fn index(
    log: Arc<Shared>,
    session: Arc<Session>,
    mut rounds: mpsc::Receiver<Indexing>,
) -> Result<(), Fatal> {
    while let Some(Indexing { entries, head }) = rounds.recv().await {
        let indexed = session.clone();
        session.note_indexing(Some(Instant::now()));
        spawn_blocking(move || indexed.dedup.extend(entries.into_iter(), head.size, head))
            .await
            .map_err(panicked)??;
        session.note_indexing(None);
        session.pool.forget_oldest();
        log.metrics.dedup_indexed.set(session.dedup.known() as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_round_does_not_wait_again_for_a_disk_that_hangs() {
        let (to_index, mut rounds) = mpsc::channel(1);
        assert!(accepts(&to_index, 1, Duration::ZERO).await);
        let begun = Instant::now();
        assert!(!accepts(&to_index, 2, INDEX_TIMEOUT).await);
        assert!(begun.elapsed() < INDEX_TIMEOUT);
        assert_eq!(rounds.recv().await, Some(1));
        assert!(
            accepts(&to_index, 3, INDEX_TIMEOUT).await,
            "there is room now"
        );
    }
}
