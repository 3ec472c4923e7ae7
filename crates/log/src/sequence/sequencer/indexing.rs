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
        // A failed indexer accepts nothing more; `rounds` detects that.
        let sent = self.to_index.send(Indexing { entries, head });
        match timeout(INDEX_TIMEOUT, sent).await {
            Ok(_) => Ok(()),
            Err(_) => Err(is_silent(&self.log.config)),
        }
    }
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
