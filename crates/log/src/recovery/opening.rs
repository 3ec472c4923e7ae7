//! The recovery of a running log, with its reader, lock and metrics.

use lucarne_signer::Head;

use crate::data::tree_head;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::{LockEvidence, LockInconsistency, StorageInconsistency};
use crate::error::{Away, Fatal, ReadError};
use crate::index::evidence::seen;
use crate::read::proofs;
use crate::recovery::known_checkpoints::KnownCheckpoint;
use crate::recovery::recover::{self, Recovered};
use crate::shared::Shared;

impl Shared {
    /// Proves the growth of the log to a separate signer whose last checkpoint is older than the
    /// committed checkpoint, because its memory was restored from a backup. A signer that has
    /// signed another history refuses.
    pub(crate) async fn remind(
        &self,
        recovered: &Recovered,
        signed: Option<Head>,
    ) -> Result<(), Fatal> {
        let tree = &recovered.tree;
        let Some(signed) = signed.filter(|signed| signed.size < tree.size()) else {
            return Ok(());
        };
        let proof =
            proofs::consistency(self.reader.tiles(), &tree.edge, signed.size, tree.size()).await;
        let proof = proof.map_err(|error| match error {
            ReadError::Unavailable(problem) => Away::Storage(problem).into(),
            error => Fatal::from(StorageInconsistency::NoProof(error)),
        })?;
        let head = Head {
            size: tree.size(),
            root: tree.root,
            timestamp_ms: tree.timestamp_ms,
        };
        tree_head::sign(&self.config, head, proof).await.map(drop)
    }

    /// Reads the checkpoint in the lock.
    pub(crate) async fn committed(&self) -> Result<VerifiedCheckpoint, Fatal> {
        let found = self.lock.load(&self.config.key.log_id().0).await?;
        self.committed_is(found).await
    }

    /// Verifies the checkpoint that was `found` in the lock.
    pub(crate) async fn committed_is(
        &self,
        found: Option<Vec<u8>>,
    ) -> Result<VerifiedCheckpoint, Fatal> {
        match recover::verified(&self.config, &*self.lock, found) {
            Err(missing @ Fatal::NotCreated { .. }) => Err(self.not_created(missing).await),
            verified => verified,
        }
    }

    /// Recovers storage forward to the checkpoint in the lock, unless a `known` checkpoint
    /// contradicts the log.
    pub(crate) async fn recover(
        &self,
        signed: Option<VerifiedCheckpoint>,
        known: impl Future<Output = Vec<KnownCheckpoint>>,
    ) -> Result<Recovered, Fatal> {
        let places = (&self.assets, &*self.lock);
        match recover::recover(&self.config, places, signed, known).await {
            Err(missing @ Fatal::NotCreated { .. }) => Err(self.not_created(missing).await),
            recovered => recovered.inspect(|recovered| {
                self.metrics.restored_files.inc_by(recovered.restored);
            }),
        }
    }

    /// Returns the error for a log that is not in the lock. The error depends on other evidence of
    /// the log, because a log with evidence is not new.
    async fn not_created(&self, missing: Fatal) -> Fatal {
        // Unreadable storage proves nothing.
        let published = recover::published(&self.config, &*self.assets).await;
        let evidence = match published.ok().flatten() {
            Some(published) => LockEvidence::Published {
                size: published.checkpoint.size,
                storage: self.assets.location(),
            },
            None => match seen(&self.config).await {
                Ok(None) => return missing,
                Ok(Some(seen)) => LockEvidence::Indexed(seen),
                Err(fatal) => return fatal,
            },
        };
        Fatal::from(LockInconsistency::Missing {
            lock: self.lock.location(),
            log_id: self.config.key.log_id(),
            name: self.config.shortname.clone(),
            evidence,
        })
    }
}
