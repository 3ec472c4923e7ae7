//! The loop that turns pooled entries into published rounds.
//!
//! ```text
//! seal → prepare (encode, verify) → stage → sign → commit
//!      → publish tiles → publish checkpoint → answer → index
//! ```
//!
//! Each step is a [`Phase`]. `phase.rs` defines their order, and the model (`model.rs`) has the
//! same order.
//!
//! State after a crash, at each arrow:
//! - before *stage* returns: the round never happened. Recovery drops a torn journal tail. No
//!   client has a response.
//! - between *stage* and *commit*: the journal has a record that no signed head covers. The next
//!   start skips the record. No client has a response.
//! - after *commit*: the round happened. The next start publishes it from the journal. No client
//!   has a response, but a client that retries gets the same index, because the dedup index
//!   catches up before the log accepts submissions.
//! - after *publish*: only now do the waiting clients get their responses.
//!
//! Tiles are not synced one by one. The journal keeps them until `settle` has synced all of
//! storage. Only then is the journal cut.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, Identity};
use lucarne_signer::Head;
use lucarne_storage::guards::Guard;
use lucarne_storage::{Asset, AssetKind, Assets, LockError};
use lucarne_tlog::{Hash, data_tiles_between, tiles_between};
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use crate::error::Fatal;
use crate::index::dedup::{LeafPosition, TreeHead};
use crate::read::proofs;
use crate::recovery::recover::Recovered;
use crate::recovery::session::Session;
use crate::sequence::clock_jump::TOLERATED_MS;
use crate::sequence::phase::{Phase, Progress};
use crate::sequence::round::{Round, issuer_asset, new_issuers, tile_assets};
use crate::sequence::signer::Signer;
use crate::sequence::term::Term;
use crate::sequence::tree::Tree;
use crate::sequence::tree_head;
use crate::sequence::verify::Verified;
use crate::shared::{Shared, milliseconds};
use crate::submit::pool::{SealedRound, Sequenced};
use crate::submit::promises::Promised;
use crate::submit::sct_signatures;

/// Storage is settled after the bytes staged and published reach `journal_bytes` divided by this
/// number: storage is synced, the journal is cut, and superseded partial tiles are removed.
const SETTLE_AT: u64 = 8;

/// Upper bound of these bytes for storage on a disk. A restart reads the journal into memory and
/// publishes its rounds again.
const SETTLE_BYTES: u64 = 32 << 20;

/// Rounds after which storage on a disk is settled, however small they are, because publishing a
/// round again writes several files.
const SETTLE_ROUNDS: u32 = 256;

/// Rounds after which the journal is cut if that costs little. So the work of a restart does not
/// grow with the uptime of the log.
const CUT_ROUNDS: u32 = 16;

/// The longest wait for the disk of the dedup index.
const INDEX_PATIENCE: Duration = Duration::from_secs(10);

/// Entries before the settled tree whose superseded partial tiles are removed when a log is opened,
/// because a crash may have come between settling and removing them.
const SWEEP_BACK: u64 = 1 << 16;

/// Rounds that may wait for the dedup index before sequencing waits for it.
const MAX_UNINDEXED_ROUNDS: usize = 64;

struct Indexing {
    entries: Vec<(Identity, LeafPosition)>,
    head: TreeHead,
}

/// The sequencer of one opening of a log.
pub(crate) struct Sequencer {
    log: Arc<Shared>,
    session: Arc<Session>,
    tree: Arc<Tree>,
    /// The checkpoint in the lock, byte for byte.
    committed: Bytes,
    committed_at: Instant,
    known_issuers: HashSet<Fingerprint>,
    to_index: mpsc::Sender<Indexing>,
    indexer: JoinHandle<Result<(), Fatal>>,
    /// Bytes staged and published since storage was last settled: the content of the journal, and
    /// the superseded partial tiles.
    unsettled_bytes: u64,
    /// Rounds since the journal was last cut.
    unsettled_rounds: u32,
    /// Tree size: superseded partial tiles of smaller trees have been removed.
    swept: u64,
    settling: Option<JoinHandle<Result<u64, Fatal>>>,
    progress: Progress,
    /// The lease, if the log has several instances.
    term: Option<Arc<Term>>,
}

impl Sequencer {
    pub(crate) fn new(
        log: Arc<Shared>,
        session: Arc<Session>,
        recovered: Recovered,
        term: Option<Arc<Term>>,
    ) -> Self {
        let (to_index, rounds) = mpsc::channel(MAX_UNINDEXED_ROUNDS);
        let indexer = tokio::spawn(index(log.clone(), session.clone(), rounds));
        Sequencer {
            tree: Arc::new(recovered.tree),
            committed: recovered.committed,
            committed_at: Instant::now(),
            known_issuers: HashSet::new(),
            to_index,
            indexer,
            // The existing content of the journal is settled first.
            unsettled_bytes: log.config.journal_bytes / SETTLE_AT,
            unsettled_rounds: 0,
            swept: recovered.base.saturating_sub(SWEEP_BACK),
            settling: None,
            progress: Progress::NONE,
            term,
            log,
            session,
        }
    }

    /// Enters the next step. The model explores only this order of steps.
    fn enter(&mut self, phase: Phase) {
        self.log.beat();
        let next = self.progress.enter(phase);
        debug_assert!(next.is_some(), "{phase:?} after {:?}", self.progress);
        self.progress = next.unwrap_or(self.progress);
    }

    /// Sequences until the pool is closed and empty. `proven` is called after the log has signed
    /// and published: a log that cannot do so fails before it accepts submissions. In all cases,
    /// every waiting submission gets a result, and no task continues afterwards.
    pub(crate) async fn run(mut self, proven: impl FnOnce() + Send) -> Result<(), Fatal> {
        let result = self.rounds(proven).await;
        if result.is_err() {
            let (log, phase) = (&self.log.config.shortname, self.progress.phase());
            tracing::debug!(log, ?phase, "sequencing failed");
        }
        self.session.pool.abandon();
        if let (Ok(()), Some(term)) = (&result, &self.term) {
            // Nothing more is signed here: another instance may take the lease at once.
            term.release().await;
        }
        let result = match result {
            Ok(()) => self.settle_all().await,
            Err(fatal) => Err(fatal),
        };
        drop(self.to_index);
        // A hung disk is not waited for: lost records of the index are recovered from the tiles,
        // and the index is not opened again until this task has released it.
        let indexed = match timeout(INDEX_PATIENCE, self.indexer).await {
            Ok(indexed) => joined(indexed),
            Err(_) => return result.and(Err(self.log.index_is_silent())),
        };
        let session = self.session.clone();
        let flushed = spawn_blocking(move || session.dedup.flush());
        let flushed = match timeout(INDEX_PATIENCE, flushed).await {
            Ok(flushed) => joined(flushed),
            Err(_) => Err(self.log.index_is_silent()),
        };
        if let Some(settling) = self.settling {
            // Settling belongs to storage, which starts nothing else before it ends.
            let _ = timeout(INDEX_PATIENCE, settling).await;
        }
        result.and(indexed).and(flushed)
    }

    async fn rounds(&mut self, proven: impl FnOnce() + Send) -> Result<(), Fatal> {
        let mut proven = Some(proven);
        self.show();
        loop {
            if self.log.config.retired(self.log.now_ms()) {
                self.session.pool.close();
            }
            let closed = self.session.pool.is_closed();
            let next = Instant::now() + self.log.config.period;
            self.round().await?;
            if let Some(proven) = proven.take() {
                proven();
            }
            self.settle_if_due().await?;
            if closed {
                return self.closed();
            }
            self.wait(next).await;
            if self.to_index.is_closed() {
                // The indexer has failed; `run` returns the error.
                return Ok(());
            }
        }
    }

    /// Returns the failure of the pool, after the pool is closed and its entries are published.
    fn closed(&self) -> Result<(), Fatal> {
        match self.session.pool.take_failure() {
            None => Ok(()),
            Some(fatal) => Err(fatal),
        }
    }

    /// Waits until the pool has an entry or the checkpoint becomes stale, and in any case until
    /// `next`, unless the pool closes.
    async fn wait(&mut self, next: Instant) {
        let stale = self.committed_at + self.log.config.checkpoint_interval;
        tokio::select! {
            () = self.session.pool.arrival() => {}
            () = self.log.beat_until(stale.max(next)) => {}
            () = self.to_index.closed() => return,
        }
        tokio::select! {
            () = self.log.beat_until(next) => {}
            () = self.session.pool.closing() => {}
        }
    }

    async fn round(&mut self) -> Result<(), Fatal> {
        let timestamp_ms = self.next_timestamp()?;
        let full = self.unsettled_bytes >= self.log.config.journal_bytes;
        let stalled = full && self.settling.is_some();
        self.log.stalled.store(stalled, Ordering::SeqCst);
        if stalled {
            // A hung disk must not let the journal grow without bound, and submissions must not
            // wait for the disk.
            self.session.pool.turn_away();
            return if self.committed_at.elapsed() >= self.log.config.checkpoint_interval {
                self.resign(timestamp_ms).await
            } else {
                Ok(())
            };
        }
        let started = Instant::now();
        self.enter(Phase::Seal);
        let sealed = self.session.pool.seal();
        if sealed.entries.is_empty() {
            return self.resign(timestamp_ms).await;
        }
        let count = sealed.entries.len();
        self.sequence(sealed, timestamp_ms, started).await?;
        let took = started.elapsed();
        let period = self.log.config.period;
        self.log.metrics.total.observe(took.as_secs_f64());
        self.log.metrics.round_entries.observe(count as f64);
        self.session.pool.note_round(count, took, period);
        self.log.recent.lock().note_round(count, took);
        self.log.note_pool(&self.session.pool);
        Ok(())
    }

    /// Sequences a sealed round, from encoding to the dedup index.
    async fn sequence(
        &mut self,
        sealed: SealedRound,
        timestamp_ms: u64,
        started: Instant,
    ) -> Result<(), Fatal> {
        self.enter(Phase::Prepare);
        let (verified, proof) = self.prepare(&sealed, timestamp_ms).await?;
        let prepared = lap(started, &self.log.metrics.prepare);
        let Round {
            step,
            record,
            tiles,
            issuers,
            leaves,
            mut tree,
        } = verified.into_round();
        let first_index = step.old_size;

        // Compression uses the processor while the journal uses the disk.
        let compressed = spawn_blocking(move || {
            let assets = tile_assets(tiles, &mut tree)?;
            Ok::<_, Fatal>((assets, tree))
        });
        self.enter(Phase::Stage);
        self.unsettled_bytes += record.len() as u64;
        self.unsettled_rounds += 1;
        self.log.assets.stage(step.new_size, record).await?;
        let (mut batch, tree) = compressed.await.map_err(panicked)??;
        batch.extend(issuers.iter().map(|i| issuer_asset(&i.fingerprint, &i.der)));
        let staged = lap(prepared, &self.log.metrics.stage);
        if !Guard::CommitFirst.stands() {
            self.log.assets.publish(batch.clone()).await?;
        }
        self.commit(&tree, timestamp_ms, proof).await?;
        let before = std::mem::replace(&mut self.tree, Arc::new(tree));
        let committed = lap(staged, &self.log.metrics.commit);
        let sequenced = Sequenced {
            first_index,
            timestamp_ms,
        };
        if !Guard::AnswerLast.stands() {
            sealed.outcome.decide(Ok(sequenced));
        }
        if !Guard::IndexLast.stands() {
            self.index(&sealed, sequenced).await?;
        }

        // The point of no return has passed: from here on, recovery from any failure publishes
        // the round.
        let published: usize = batch.iter().map(|asset| asset.bytes.len()).sum();
        self.unsettled_bytes += published as u64;
        let files = batch.len();
        self.enter(Phase::PublishTiles);
        self.log.assets.publish(batch).await?;
        tracing::debug!(
            log = self.log.config.shortname,
            files,
            bytes = published,
            "published"
        );
        self.log
            .reader
            .issuers_published(issuers.iter().map(|i| i.fingerprint));
        self.publish_checkpoint().await?;
        let done = lap(committed, &self.log.metrics.publish);
        self.tell(
            &sealed,
            published,
            [started, prepared, staged, committed, done],
        );

        if let Signer::Apart(client) = &self.log.config.key {
            let round = Promised {
                entries: sealed.entries.clone(),
                hashes: leaves,
                before: before.frontier.clone(),
                timestamp_ms,
            };
            sct_signatures::promise(&self.log, client, round).await;
        }
        self.enter(Phase::Answer);
        sealed.outcome.decide(Ok(sequenced));
        self.log.note_waits(&sealed);
        self.known_issuers
            .extend(issuers.iter().map(|i| i.fingerprint));
        self.enter(Phase::Index);
        if Guard::IndexLast.stands() {
            self.index(&sealed, sequenced).await
        } else {
            Ok(())
        }
    }

    /// Logs one line about a published round. `laps` are the ends of its phases; `bytes` counts the
    /// published files except the checkpoint.
    fn tell(&self, sealed: &SealedRound, bytes: usize, laps: [Instant; 5]) {
        let phase = |n: usize| milliseconds(laps[n + 1] - laps[n]);
        let entries = sealed.entries.len();
        tracing::info!(
            log = self.log.config.shortname,
            entries,
            old = entries - sealed.fresh,
            size = self.tree.size(),
            bytes,
            prepare_ms = phase(0),
            stage_ms = phase(1),
            commit_ms = phase(2),
            publish_ms = phase(3),
            "round"
        );
    }

    /// Encodes and verifies a round. If the signer requires it, proves that the tree grows from the
    /// tree before the round.
    async fn prepare(
        &self,
        sealed: &SealedRound,
        timestamp_ms: u64,
    ) -> Result<(Verified, Vec<Hash>), Fatal> {
        let wants_proof = self.log.config.key.wants_proof();
        let tree = self.tree.clone();
        let entries = sealed.entries.clone();
        let issuers = new_issuers(&entries, &self.known_issuers);
        spawn_blocking(move || {
            let round = Round::encode(&tree, &entries, issuers, timestamp_ms);
            let proof = if wants_proof {
                proofs::of_round(&round.tiles, &round.tree.edge, tree.size())
            } else {
                Ok(Vec::new())
            };
            let proof = proof.map_err(|error| Fatal::Internal(error.to_string()))?;
            Ok((Verified::check(&tree, &entries, round)?, proof))
        })
        .await
        .map_err(panicked)?
    }

    /// Signs the tree and swaps the checkpoint into the lock. `proof` is the consistency proof from
    /// the tree in the lock. After an error, the swap may have happened: only the lock shows that.
    async fn commit(
        &mut self,
        tree: &Tree,
        timestamp_ms: u64,
        proof: Vec<Hash>,
    ) -> Result<(), Fatal> {
        // Nothing is signed if another process publishes this log, even with another lock.
        self.log.assets.confirm_published().await?;
        self.enter(Phase::Sign);
        let config = &self.log.config;
        let head = Head {
            size: tree.size(),
            root: tree.root,
            timestamp_ms,
        };
        let note = tree_head::sign(config, head, proof).await?.note;
        let log_id = config.key.log_id();
        if let Some(term) = &self.term {
            term.confirm().await?;
        }
        self.enter(Phase::Commit);
        let at = Instant::now();
        let swap = self.log.lock.replace(&log_id.0, &self.committed, &note);
        match swap.await {
            Err(LockError::Conflict { .. }) if !Guard::Swap.stands() => {}
            swapped => swapped?,
        }
        self.committed = note;
        self.committed_at = Instant::now();
        if let Some(term) = &self.term {
            term.committed(at);
        }
        Ok(())
    }

    /// Signs the same tree with a new timestamp, so that monitors see that an idle log works.
    async fn resign(&mut self, timestamp_ms: u64) -> Result<(), Fatal> {
        let mut tree = Tree::clone(&self.tree);
        tree.timestamp_ms = timestamp_ms;
        self.commit(&tree, timestamp_ms, Vec::new()).await?;
        self.tree = Arc::new(tree);
        self.publish_checkpoint().await
    }

    async fn publish_checkpoint(&mut self) -> Result<(), Fatal> {
        self.enter(Phase::PublishCheckpoint);
        let checkpoint = Asset::new("checkpoint", self.committed.clone(), AssetKind::Checkpoint);
        self.log.assets.publish(vec![checkpoint]).await?;
        tracing::debug!(
            log = self.log.config.shortname,
            size = self.tree.size(),
            "checkpoint published"
        );
        self.show();
        Ok(())
    }

    /// Shows the committed tree to readers of this process.
    fn show(&self) {
        self.log.show(&self.tree, &self.committed);
    }

    /// Returns the next timestamp. Timestamps never decrease, even if the clock does, and do not
    /// follow a clock that jumps ahead. A clock far behind is an error, because SCTs would lie in
    /// the future.
    fn next_timestamp(&self) -> Result<u64, Fatal> {
        let clock = &self.log.config.clock;
        let (now_ms, at) = (clock.now_ms(), std::time::Instant::now());
        let signed_ms = self.tree.timestamp_ms;
        let next = now_ms.max(signed_ms + 1);
        let behind_ms = next - now_ms;
        if behind_ms > TOLERATED_MS {
            return Err(Fatal::Clock { behind_ms });
        }
        let confirmed = clock.is_confirmed();
        self.log.jumps.trust(now_ms, at, signed_ms, confirmed)?;
        Ok(next)
    }

    /// Sends the round to the indexer, and waits for the indexer only if it is far behind.
    async fn index(&mut self, sealed: &SealedRound, sequenced: Sequenced) -> Result<(), Fatal> {
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
        match timeout(INDEX_PATIENCE, sent).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.log.index_is_silent()),
        }
    }

    /// Syncs storage concurrently with the rounds, and cuts the journal.
    async fn settle_if_due(&mut self) -> Result<(), Fatal> {
        if let Some(settling) = self.settling.take_if(|settling| settling.is_finished()) {
            self.swept = joined(settling.await)?;
        }
        let due = settle_due(
            self.unsettled_bytes,
            self.unsettled_rounds,
            self.log.config.journal_bytes,
            self.log.assets.publishes_durably(),
        );
        if let Some(due) = due
            && self.settling.is_none()
        {
            self.enter(Phase::Settle);
            self.unsettled_rounds = 0;
            if due == Due::All {
                self.unsettled_bytes = 0;
            }
            self.settling = Some(tokio::spawn(self.settle(due == Due::All)));
        }
        Ok(())
    }

    async fn settle_all(&mut self) -> Result<(), Fatal> {
        if let Some(settling) = self.settling.take() {
            self.swept = joined(settling.await)?;
        }
        self.enter(Phase::Settle);
        self.swept = self.settle(true).await?;
        Ok(())
    }

    /// Settles storage. If `sweep` is set, removes superseded partial tiles afterwards. Returns the
    /// tree size of the last complete removal. The future owns its data.
    fn settle(&self, sweep: bool) -> impl Future<Output = Result<u64, Fatal>> + Send + 'static {
        let log = self.log.clone();
        let (from, to) = (self.swept, self.tree.size());
        async move {
            log.settle(to).await?;
            if !sweep {
                return Ok(from);
            }
            match remove_superseded(&*log.assets, from, to).await {
                Ok(()) => Ok(to),
                Err(error) => {
                    log.neglect(&error);
                    Ok(from)
                }
            }
        }
    }
}

/// The part of settling that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Only the journal is cut.
    Cut,
    /// Superseded partial tiles are removed as well.
    All,
}

/// Returns the required part of settling after these bytes and rounds, if the journal may have
/// `journal_bytes`. `durable` means that published files are already durable, so that cutting the
/// journal costs little.
fn settle_due(bytes: u64, rounds: u32, journal_bytes: u64, durable: bool) -> Option<Due> {
    let most = journal_bytes / SETTLE_AT;
    if durable && bytes >= most {
        Some(Due::All)
    } else if durable {
        (rounds >= CUT_ROUNDS).then_some(Due::Cut)
    } else {
        (bytes >= most.min(SETTLE_BYTES) || rounds >= SETTLE_ROUNDS).then_some(Due::All)
    }
}

/// Removes the partial tiles of tiles that have become full and durable.
async fn remove_superseded(
    assets: &dyn Assets,
    from: u64,
    to: u64,
) -> Result<(), lucarne_storage::AssetError> {
    let full: Vec<String> = tiles_between(from, to)
        .chain(data_tiles_between(from, to))
        .filter(lucarne_tlog::Tile::is_full)
        .flat_map(|tile| [Some(tile.path()), tile.names_path()])
        .flatten()
        .collect();
    assets.remove_partials(&full).await
}

/// Adds published rounds to the dedup index, in order, and then removes them from memory.
async fn index(
    log: Arc<Shared>,
    session: Arc<Session>,
    mut rounds: mpsc::Receiver<Indexing>,
) -> Result<(), Fatal> {
    while let Some(Indexing { entries, head }) = rounds.recv().await {
        let indexed = session.clone();
        spawn_blocking(move || indexed.dedup.extend(entries.into_iter(), head.size, head))
            .await
            .map_err(panicked)??;
        session.pool.forget_oldest();
        log.metrics.dedup_indexed.set(session.dedup.known() as i64);
    }
    Ok(())
}

fn joined<T>(result: Result<Result<T, Fatal>, tokio::task::JoinError>) -> Result<T, Fatal> {
    result.map_err(panicked)?
}

fn panicked(error: tokio::task::JoinError) -> Fatal {
    Fatal::Internal(error.to_string())
}
/// Observes the time since `start`, and returns the current time.
fn lap(start: Instant, histogram: &Histogram) -> Instant {
    let now = Instant::now();
    histogram.observe(now.duration_since(start).as_secs_f64());
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A restart publishes the rounds again that were not settled.
    #[test]
    fn what_a_restart_has_to_publish_is_bounded_in_bytes_and_in_rounds() {
        const MIB: u64 = 1 << 20;
        for (bytes, rounds, journal, durable, due) in [
            (31 * MIB, 255, 1024 * MIB, false, None),
            (32 * MIB, 1, 1024 * MIB, false, Some(Due::All)),
            (1000, 256, 1024 * MIB, false, Some(Due::All)),
            (MIB, 1, 8 * MIB, false, Some(Due::All)),
            (127 * MIB, 15, 1024 * MIB, true, None),
            (127 * MIB, 16, 1024 * MIB, true, Some(Due::Cut)),
            (128 * MIB, 1, 1024 * MIB, true, Some(Due::All)),
        ] {
            let found = settle_due(bytes, rounds, journal, durable);
            assert_eq!(found, due, "{bytes} bytes, {rounds} rounds, {durable}");
        }
    }
}
