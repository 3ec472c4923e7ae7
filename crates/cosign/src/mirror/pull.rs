//! Copies of static CT logs, which the mirror reads itself.

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use lucarne_ct::{CheckpointVerifier, Fingerprint};
use lucarne_ctread::{Client, Problem, ReadError, Source, issuer};
use lucarne_storage::{Asset, AssetKind};
use lucarne_tlog::{Checkpoint, SignedNote};

use super::ticket::Target;
use super::{Mirror, MirroredLog, UploadRefusal};
use crate::request::AddCheckpoint;
use crate::witness::Refusal;

/// Time in seconds after which a checkpoint that has not changed is cosigned again.
const REFRESHED: u64 = 60;

/// A reader of a log that is mirrored.
pub struct Puller {
    client: Client,
    source: Arc<dyn Source>,
    /// Issuers that were written since the last failure.
    issuers: HashSet<Fingerprint>,
}

/// The reasons why a log is not copied.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// A file of the log cannot be used.
    #[error(transparent)]
    Source(#[from] ReadError),
    /// The copy cannot be written, or the checkpoint not be cosigned.
    #[error(transparent)]
    Mirror(#[from] UploadRefusal),
}

impl From<Refusal> for PullError {
    fn from(refusal: Refusal) -> Self {
        Self::Mirror(refusal.into())
    }
}

impl Puller {
    /// Creates a reader of the log with this key.
    pub fn new(source: Arc<dyn Source>, verifier: CheckpointVerifier) -> Self {
        let client = Client::new(Arc::clone(&source), verifier);
        let issuers = HashSet::new();
        Self {
            client,
            source,
            issuers,
        }
    }

    /// Copies the log up to its present checkpoint, and cosigns it. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// See [`PullError`]. The next call continues after the entries that are stored.
    pub async fn pull(
        &mut self,
        mirror: &Mirror,
        log: &MirroredLog,
        now: u64,
    ) -> Result<(), PullError> {
        let copied = self.copy(mirror, log, now).await;
        if copied.is_err() {
            // A failed sync may lose issuers that can still be read.
            self.issuers.clear();
        }
        copied
    }

    async fn copy(
        &mut self,
        mirror: &Mirror,
        log: &MirroredLog,
        now: u64,
    ) -> Result<(), PullError> {
        let next = self.start(mirror, log).await?;
        let target = self.checkpoint(mirror, log).await?;
        log.see(&target.checkpoint);
        let is_known = |size, time| target.checkpoint.size == size && time + REFRESHED > now;
        if log
            .published()
            .is_some_and(|published| is_known(published.size, published.time))
        {
            return Ok(());
        }
        let mut tiles = pin!(self.client.entries(next));
        while let Some(tile) = tiles.next().await {
            let tile = tile?;
            let missing = &tile.content.fingerprints;
            store_issuers(&mut self.issuers, &*self.source, log, missing).await?;
            let mut guard = log.state.lock().await;
            let state = mirror.loaded(log, &mut guard).await?;
            let start = tile.tile.start_leaf();
            if state.tree.size() != start.max(next) {
                return Err(Refusal::Busy.into());
            }
            let leaves = &tile.content.leaves[(start.max(next) - start) as usize..];
            if let Err(error) = mirror.append(log, state, tile.bytes(), leaves).await {
                *guard = None;
                return Err(error.into());
            }
        }
        let mut guard = log.state.lock().await;
        let state = mirror.loaded(log, &mut guard).await?;
        if let Err(error) = mirror.commit(log, state, &target, now).await {
            *guard = None;
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns the index of the next entry. The client verifies that the log extends the copy.
    async fn start(&mut self, mirror: &Mirror, log: &MirroredLog) -> Result<u64, UploadRefusal> {
        let mut state = log.state.lock().await;
        let is_current = match &*state {
            Some(loaded) => mirror.recorded(log, loaded).await.is_ok(),
            None => true,
        };
        if !is_current {
            *state = None;
        }
        let tree = &mirror.loaded(log, &mut state).await?.tree;
        // A tree beyond the copy may be a fork whose entries were not stored.
        if *self.client.tree().edge() != *tree.durable() {
            self.client.restart(tree.durable().clone());
        }
        Ok(tree.size())
    }

    /// Reads the checkpoint. A checkpoint that contradicts the copy is stored as evidence.
    async fn checkpoint(
        &mut self,
        mirror: &Mirror,
        log: &MirroredLog,
    ) -> Result<Target, PullError> {
        let error = match self.client.advance().await {
            Ok(_) => None,
            Err(error) if matches!(error.problem, Problem::Root { .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
        let unreadable = |why: String| Refusal::Record(log.origin.clone(), why);
        let note =
            SignedNote::parse(self.client.note()).map_err(|why| unreadable(why.to_string()))?;
        let checkpoint =
            Checkpoint::parse(&note.text).map_err(|why| unreadable(why.to_string()))?;
        let mut state = log.state.lock().await;
        let record = mirror.loaded(log, &mut state).await?.mirrored.as_ref();
        let (old, proof) = (
            record.map_or(0, |record| record.checkpoint.size),
            Vec::new(),
        );
        let request = AddCheckpoint {
            old,
            proof,
            note,
            checkpoint,
        };
        let lines = mirror.witness.trusted_signatures(&request)?;
        if let Some(error) = error {
            if let Some(record) = record
                && contradicts(&error, &request.checkpoint, &record.checkpoint)
            {
                let stored = mirror.witness.contradicts(&request, &lines, record);
                stored.await.map_err(Refusal::from)?;
            }
            return Err(error.into());
        }
        let AddCheckpoint {
            checkpoint, note, ..
        } = request;
        let note = SignedNote {
            text: note.text,
            signatures: lines,
        };
        Ok(Target { note, checkpoint })
    }
}

/// Returns whether a checkpoint is not an extension of the mirror checkpoint, whose root its tiles
/// should lead to.
fn contradicts(error: &ReadError, new: &Checkpoint, mirrored: &Checkpoint) -> bool {
    let is_at_mirrored =
        matches!(error.problem, Problem::Root { size, .. } if size == mirrored.size);
    is_at_mirrored && (new.size > mirrored.size || new.root != mirrored.root)
}

/// Writes the issuers of a data tile that were not written since the last failure. The entries of
/// the tile become durable after them: after a crash, the tile is read again with its issuers.
async fn store_issuers(
    stored: &mut HashSet<Fingerprint>,
    source: &dyn Source,
    log: &MirroredLog,
    fingerprints: &BTreeSet<Fingerprint>,
) -> Result<(), PullError> {
    for fingerprint in fingerprints {
        if stored.contains(fingerprint) {
            continue;
        }
        let path = format!("issuer/{fingerprint}");
        let found = log.assets.get(&path).await.map_err(UploadRefusal::from)?;
        let der = match found.filter(|der| Fingerprint::of(der) == *fingerprint) {
            // Another process may have written the file without a sync, or with a failed one.
            Some(der) => der,
            None => issuer(source, *fingerprint).await?,
        };
        let file = Asset::new(path, der, AssetKind::Issuer);
        log.assets
            .publish(vec![file])
            .await
            .map_err(UploadRefusal::from)?;
        stored.insert(*fingerprint);
    }
    Ok(())
}
