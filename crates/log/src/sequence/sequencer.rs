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
//! - after *commit*: the round happened. The next start publishes the round from the journal. No
//!   client has a response, but a client that retries gets the same index, because the dedup index
//!   catches up before the log accepts submissions.
//! - after *publish*: the waiting clients get their responses.
//!
//! Tiles are not synced one by one. The journal keeps the rounds until `settle` has synced all of
//! storage and cuts the journal.
//!
//! `sequencer` has the loop. `steps` has the steps of a round, `indexing` adds published rounds to
//! the dedup index, and `settling` syncs storage and cuts the journal.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use self::indexing::{INDEX_TIMEOUT, Indexing, MAX_UNINDEXED_ROUNDS, index};
use self::settling::{SETTLE_AT, SWEEP_BACK};
use crate::data::tree::Tree;
use crate::error::Fatal;
use crate::index::log_index::is_silent;
use crate::recovery::recover::Recovered;
use crate::sequence::cosigning::Cosigning;
use crate::sequence::phase::{Phase, Progress};
use crate::sequence::term::Term;
use crate::shared::Shared;
use crate::status::clock_jump::next_timestamp;
use crate::submit::session::Session;

mod indexing;
mod settling;
mod steps;

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
    /// Tree size up to which superseded partial tiles have been removed.
    swept: u64,
    settling: Option<JoinHandle<Result<u64, Fatal>>>,
    progress: Progress,
    cosigning: Option<Cosigning>,
    /// The term of this leader; `None` if the log has only one instance.
    term: Option<Arc<Term>>,
}

impl Sequencer {
    pub(crate) fn new(
        log: Arc<Shared>,
        session: Arc<Session>,
        recovered: Recovered,
        term: Option<Arc<Term>>,
    ) -> Self {
        // The published checkpoint may have cosignatures that the committed one does not have.
        let tree = Arc::new(recovered.tree);
        log.show(&tree, &recovered.published);
        let (to_index, rounds) = mpsc::channel(MAX_UNINDEXED_ROUNDS);
        let indexer = tokio::spawn(index(log.clone(), session.clone(), rounds));
        Sequencer {
            tree,
            committed: recovered.committed,
            committed_at: Instant::now(),
            known_issuers: HashSet::new(),
            to_index,
            indexer,
            // With this value, the first round settles the existing content of the journal.
            unsettled_bytes: log.config.rounds.journal_bytes / SETTLE_AT,
            unsettled_rounds: 0,
            swept: recovered.base.saturating_sub(SWEEP_BACK),
            settling: None,
            progress: Progress::NONE,
            cosigning: Cosigning::start(&log),
            term,
            log,
            session,
        }
    }

    /// Enters the next step. The model explores only this order of steps.
    fn enter(&mut self, phase: Phase) {
        self.log.status.beat();
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
        let is_overtaken = result.as_ref().is_err_and(Fatal::is_overtaken);
        if let Some(term) = self.term.as_ref().filter(|_| !is_overtaken) {
            // This process signs nothing more, so another instance may take the lease at once, even
            // if the index or its disk delays the end.
            term.release().await;
        }
        let result = match result {
            Ok(()) => self.settle_all().await,
            Err(fatal) => Err(fatal),
        };
        drop(self.to_index);
        // A hung disk delays the end only by the timeout. Records that the index loses are
        // recovered from the tiles, and the index is not opened again before this task has released
        // the index.
        let indexed = match timeout(INDEX_TIMEOUT, self.indexer).await {
            Ok(indexed) => joined(indexed),
            Err(_) => return result.and(Err(is_silent(&self.log.config))),
        };
        let session = self.session.clone();
        let flushed = spawn_blocking(move || session.dedup.flush());
        let flushed = match timeout(INDEX_TIMEOUT, flushed).await {
            Ok(flushed) => joined(flushed),
            Err(_) => Err(is_silent(&self.log.config)),
        };
        if let Some(settling) = self.settling {
            // The task may still run after the timeout: storage starts no other operation before
            // settling has ended.
            let _ = timeout(INDEX_TIMEOUT, settling).await;
        }
        result.and(indexed).and(flushed)
    }

    async fn rounds(&mut self, proven: impl FnOnce() + Send) -> Result<(), Fatal> {
        let mut proven = Some(proven);
        loop {
            if self.log.config.retired(self.log.status.now_ms()) {
                self.session.pool.close();
            }
            let closed = self.session.pool.is_closed();
            let next = Instant::now() + self.log.config.rounds.period;
            self.round().await?;
            if let Some(proven) = proven.take() {
                proven();
            }
            self.settle_if_due().await?;
            if closed {
                if self.log.config.retired(self.log.status.now_ms())
                    && let Some(cosigning) = &mut self.cosigning
                {
                    // No later checkpoint will be cosigned in place of this one.
                    cosigning.conclude().await;
                }
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
    /// `next`, unless the pool closes. Publishes cosignatures in the meantime.
    async fn wait(&mut self, next: Instant) {
        let (log, pool) = (&self.log, &self.session.pool);
        let (to_index, cosigning) = (&self.to_index, &mut self.cosigning);
        let stale = self.committed_at + log.config.rounds.max_checkpoint_age;
        let waiting = async {
            tokio::select! {
                () = pool.arrival() => {}
                () = log.status.beat_until(stale.max(next)) => {}
                () = to_index.closed() => return,
            }
            tokio::select! {
                () = log.status.beat_until(next) => {}
                () = pool.closing() => {}
            }
        };
        match cosigning {
            None => waiting.await,
            Some(cosigning) => tokio::select! {
                () = waiting => {}
                never = cosigning.collect(next) => match never {},
            },
        }
    }

    async fn round(&mut self) -> Result<(), Fatal> {
        let timestamp_ms = self.next_timestamp().await?;
        let full = self.unsettled_bytes >= self.log.config.rounds.journal_bytes;
        let stalled = full && self.settling.is_some();
        self.log.status.set_stalled(stalled);
        if stalled {
            // A hung disk must not let the journal grow without bound, and submissions must not
            // wait for the disk.
            self.session.pool.turn_away();
            return if self.committed_at.elapsed() >= self.log.config.rounds.max_checkpoint_age {
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
        let period = self.log.config.rounds.period;
        self.log.metrics.total.observe(took.as_secs_f64());
        self.log.metrics.round_entries.observe(count as f64);
        self.session.pool.note_round(count, took, period);
        self.log.status.recent.lock().note_round(count, took);
        self.log.submissions.note_pool(&self.session.pool);
        match &self.term {
            Some(term) => term.note_round(took).await,
            None => Ok(()),
        }
    }

    /// Returns the next timestamp. Timestamps never decrease, even if the clock does, and do not
    /// follow a clock that jumps ahead. A clock far behind is an error, because SCTs would lie in
    /// the future.
    async fn next_timestamp(&self) -> Result<u64, Fatal> {
        let (clock, jumps) = (&self.log.config.clock, &self.log.status.jumps);
        let now = (clock.now_ms(), std::time::Instant::now());
        let (signed_ms, confirmed) = (self.tree.timestamp_ms, clock.is_confirmed());
        let next = next_timestamp(now.0, signed_ms)?;
        let known_ms = jumps.known_ms(now, signed_ms, confirmed);
        self.log.confirm_clock(now, known_ms).await?;
        jumps.trust(now, signed_ms, confirmed)?;
        Ok(next)
    }
}

fn joined<T>(result: Result<Result<T, Fatal>, tokio::task::JoinError>) -> Result<T, Fatal> {
    result.map_err(panicked)?
}

fn panicked(error: tokio::task::JoinError) -> Fatal {
    Fatal::Internal(error.to_string())
}
