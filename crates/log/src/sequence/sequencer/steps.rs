//! The steps of one round, from encoding to the responses.

use std::sync::Arc;

use lucarne_ct::Issuer;
use lucarne_signer::Head;
use lucarne_storage::{Asset, AssetKind};
use lucarne_tlog::Hash;
use prometheus_client::metrics::histogram::Histogram;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{Sequencer, panicked};
use crate::data::round::{Round, issuer_asset, new_issuers, tile_assets};
use crate::data::tree::Tree;
use crate::data::tree_head;
use crate::data::verify::Verified;
use crate::error::Fatal;
use crate::read::proofs;
use crate::sequence::phase::Phase;
use crate::shared::milliseconds;
use crate::submit::pool::{SealedRound, Sequenced};
use crate::submit::promises::Promised;

struct Staged {
    /// Index of the first entry.
    first_index: u64,
    /// The files of the round.
    batch: Vec<Asset>,
    /// The tree after the round.
    tree: Tree,
    /// The issuers that the round adds to storage.
    issuers: Vec<Arc<Issuer>>,
    /// The hashes of the leaves.
    leaves: Vec<Hash>,
}

impl Sequencer {
    /// Sequences a sealed round, from encoding to the dedup index.
    pub(super) async fn sequence(
        &mut self,
        sealed: SealedRound,
        timestamp_ms: u64,
        started: Instant,
    ) -> Result<(), Fatal> {
        self.enter(Phase::Prepare);
        let (verified, proof) = self.prepare(&sealed, timestamp_ms).await?;
        let prepared = lap(started, &self.log.metrics.prepare);
        let Staged {
            first_index,
            batch,
            tree,
            issuers,
            leaves,
        } = self.stage(verified).await?;
        let staged = lap(prepared, &self.log.metrics.stage);
        self.commit(&tree, timestamp_ms, proof).await?;
        let before = std::mem::replace(&mut self.tree, Arc::new(tree));
        let committed = lap(staged, &self.log.metrics.commit);
        let sequenced = Sequenced {
            first_index,
            timestamp_ms,
        };

        // The round is committed: recovery from any later failure publishes the round.
        let published = self.publish(batch, &issuers).await?;
        let done = lap(committed, &self.log.metrics.publish);
        self.tell(
            &sealed,
            published,
            [started, prepared, staged, committed, done],
        );

        self.answer(&sealed, sequenced, (&before, leaves)).await;
        self.known_issuers
            .extend(issuers.iter().map(|i| i.fingerprint));
        self.enter(Phase::Index);
        self.index(&sealed, sequenced).await
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

    /// Stages a verified round in the journal. Staging fails if another process publishes this log,
    /// even with another lock: nothing is signed then. Compression uses the processor while the
    /// journal uses the disk.
    async fn stage(&mut self, verified: Verified) -> Result<Staged, Fatal> {
        let Round {
            step,
            record,
            tiles,
            issuers,
            leaves,
            mut tree,
        } = verified.into_round();
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
        Ok(Staged {
            first_index: step.old_size,
            batch,
            tree,
            issuers,
            leaves,
        })
    }

    /// Signs the tree and swaps the checkpoint into the lock. `proof` is the consistency proof from
    /// the tree in the lock. After an error, only the lock shows whether the swap happened.
    async fn commit(
        &mut self,
        tree: &Tree,
        timestamp_ms: u64,
        proof: Vec<Hash>,
    ) -> Result<(), Fatal> {
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
        swap.await?;
        self.committed = note;
        self.committed_at = Instant::now();
        if let Some(term) = &self.term {
            term.committed(at);
        }
        Ok(())
    }

    /// Publishes the files of a committed round, then its checkpoint. Returns their bytes.
    async fn publish(
        &mut self,
        batch: Vec<Asset>,
        issuers: &[Arc<Issuer>],
    ) -> Result<usize, Fatal> {
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
        Ok(published)
    }

    async fn publish_checkpoint(&mut self) -> Result<(), Fatal> {
        self.enter(Phase::PublishCheckpoint);
        // Other instances may show the checkpoint before this process does.
        self.log.instance.set_newest_until(None);
        let checkpoint = Asset::new("checkpoint", self.committed.clone(), AssetKind::Checkpoint);
        self.log.assets.publish(vec![checkpoint]).await?;
        tracing::debug!(
            log = self.log.config.shortname,
            size = self.tree.size(),
            "checkpoint published"
        );
        self.show();
        if let Some(cosigning) = &mut self.cosigning {
            cosigning.propose(&self.tree, &self.committed);
        }
        if let Some(term) = &self.term {
            term.published();
        }
        Ok(())
    }

    /// Resolves the waiting submissions of a published round. A separate signer first gets the
    /// proof that it may sign their SCTs.
    async fn answer(
        &mut self,
        sealed: &SealedRound,
        sequenced: Sequenced,
        (before, leaves): (&Tree, Vec<Hash>),
    ) {
        let round = || Promised {
            entries: sealed.entries.clone(),
            hashes: leaves,
            before: before.frontier.clone(),
            timestamp_ms: sequenced.timestamp_ms,
        };
        self.log.submissions.scts.promise(round).await;
        self.enter(Phase::Answer);
        sealed.outcome.decide(Ok(sequenced));
        self.log.submissions.note_waits(sealed);
    }

    /// Logs one line about a published round, and keeps its times for traces. `laps` are the ends
    /// of its phases; `bytes` counts the published files except the checkpoint.
    fn tell(&self, sealed: &SealedRound, bytes: usize, laps: [Instant; 5]) {
        let phase = |n: usize| milliseconds(laps[n + 1] - laps[n]);
        let entries = sealed.entries.len();
        let size = self.tree.size();
        let times = laps.map(Instant::into_std);
        let rounds = &self.log.submissions.round_times;
        rounds.note(size - entries as u64, size, times);
        tracing::info!(
            log = self.log.config.shortname,
            entries,
            old = entries - sealed.fresh,
            size,
            bytes,
            prepare_ms = phase(0),
            stage_ms = phase(1),
            commit_ms = phase(2),
            publish_ms = phase(3),
            "round"
        );
    }

    /// Signs the same tree with a new timestamp, so that monitors see that an idle log works.
    pub(super) async fn resign(&mut self, timestamp_ms: u64) -> Result<(), Fatal> {
        // Nothing is signed if another process publishes this log, even with another lock.
        self.log.assets.confirm_published().await?;
        let mut tree = Tree::clone(&self.tree);
        tree.timestamp_ms = timestamp_ms;
        self.commit(&tree, timestamp_ms, Vec::new()).await?;
        self.tree = Arc::new(tree);
        self.publish_checkpoint().await
    }

    pub(super) fn show(&self) {
        self.log.show(&self.tree, &self.committed);
    }
}

/// Observes the time since `start`, and returns the current time.
fn lap(start: Instant, histogram: &Histogram) -> Instant {
    let now = Instant::now();
    histogram.observe(now.duration_since(start).as_secs_f64());
    now
}
