//! The newest tree of a log whose lock is lost, from its own data.

use std::sync::Arc;

use lucarne_ct::LogKey;
use lucarne_storage::{Assets, Lock, MemoryLock};

use super::examine_judged;
use super::judge::{Judged, judge};
use super::published::{behind, published};
use super::replay::{records, rounds_from};
use crate::config::LogConfig;
use crate::config::signer::Signer;
use crate::data::record::Record;
use crate::data::tree_head;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::StorageInconsistency;
use crate::error::{Fatal, KnownError};
use crate::recovery::known_checkpoints::KnownCheckpoint;
use crate::status::state::Published;

/// The newest tree that the data of a log prove.
pub struct Newest {
    pub(super) judged: Judged,
    assets: Arc<dyn Assets>,
}

impl Newest {
    /// Returns the checkpoint of the tree.
    pub fn published(&self) -> Published {
        self.judged.head.published()
    }

    /// Returns the time of the newest round or checkpoint in journal and storage, in Unix
    /// milliseconds.
    pub(super) fn last_signed_ms(&self) -> u64 {
        let published = self.judged.published.iter();
        let published = published.map(|published| published.timestamp_ms);
        let rounds = self.judged.path.iter();
        let rounds = rounds.map(|round| round.step.timestamp_ms);
        published.chain(rounds).max().unwrap_or(0)
    }

    /// Compares the tree with a checkpoint of an external source.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        let history = self.judged.history(self.assets.clone());
        history.hold_against(known).await
    }
}

/// Finds the newest tree without a lock: the published tree, the tree at the end of the journal, or
/// the tree of a `known` checkpoint that the tiles confirm.
///
/// A power cut may have undone the publication of a round that was signed. Every round of the
/// journal therefore counts as signed. A round that was not signed only adds entries that were
/// submitted.
///
/// # Errors
/// If nothing is published, if storage has more than the journal leads to, or if storage and
/// journal contradict each other.
pub async fn newest(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    known: &[KnownCheckpoint],
) -> Result<Newest, Fatal> {
    let published = published(config, &*assets).await?;
    let published = published.ok_or_else(|| StorageInconsistency::NoCheckpointForLock {
        storage: assets.location(),
        origin: config.origin.clone(),
    })?;
    let head = match &config.key {
        Signer::Own(key) => signed_tip(config, key, published, &records(config, &*assets).await?)?,
        // A separate signer remembers the last tree head that it signed.
        Signer::Apart(_) => match tree_head::last_signed(config).await? {
            Some(signed) if behind(&published, &signed) => signed,
            _ => published,
        },
    };
    let newer = known.iter().map(KnownCheckpoint::signed);
    let newer = newer.filter(|known| behind(&head, known));
    if let Some(newer) = newer.max_by_key(|known| known.checkpoint.size) {
        match newest_with(config, assets.clone(), newer).await {
            // The tiles do not lead to the known checkpoint.
            Err(Fatal::Inconsistent(_) | Fatal::LastRound { .. }) => {}
            judged => return judged,
        }
    }
    newest_with(config, assets, &head).await
}

/// Compares the whole log with this head, as the start of the log will.
async fn newest_with(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    head: &VerifiedCheckpoint,
) -> Result<Newest, Fatal> {
    let lock = MemoryLock::at("rebuilt from storage and journal");
    lock.create(&config.key.log_id().0, &head.note).await?;
    let judged = judge(config, &*assets, &lock, None).await?;
    examine_judged(config, assets.clone(), &lock, &judged).await?;
    Ok(Newest { judged, assets })
}

/// Returns the published checkpoint. If the journal extends the published tree, returns a new
/// checkpoint of the extended tree.
fn signed_tip(
    config: &LogConfig,
    key: &LogKey,
    published: VerifiedCheckpoint,
    records: &[Record],
) -> Result<VerifiedCheckpoint, Fatal> {
    let Some(step) = rounds_from(&published.checkpoint, records) else {
        return Ok(published);
    };
    let now_ms = config.clock.now_ms();
    let signed_ms = published.timestamp_ms.max(step.timestamp_ms);
    if now_ms <= signed_ms {
        let behind_ms = signed_ms - now_ms;
        return Err(Fatal::Clock { behind_ms });
    }
    let note = key
        .sign_checkpoint(&config.origin, step.new_size, &step.new_root, now_ms)
        .map_err(|error| Fatal::Sign(error.into()))?;
    VerifiedCheckpoint::verify(note.into(), config).map_err(|error| Fatal::Sign(error.into()))
}
