//! The state of lock, journal and storage, read together and checked against each other.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_storage::{Asset, AssetError, Assets, Lock};
use lucarne_tlog::Hash;

use super::contradiction::{no_round_beyond, no_tile_beyond, not_new, not_newer, same_history};
use super::published::{behind, is_damaged, published};
use super::replay::{Rounds, base, published_rounds, rounds, rounds_to};
use super::{foreign, never_published};
use crate::config::LogConfig;
use crate::data::record::Record;
use crate::data::tree::Tree;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::{LockInconsistency, StorageInconsistency};
use crate::error::{Away, Fatal};
use crate::read::edge;
use crate::recovery::known_checkpoints::History;
use crate::recovery::signed_ahead::{self, Newest as NewestSigned};
use crate::recovery::sunlight::Bundle;

/// The state of lock, journal and storage before recovery writes anything. The three do not
/// contradict each other.
pub(crate) struct Judged {
    /// The checkpoint of the lock, or a newer checkpoint of a separate signer.
    pub(crate) head: VerifiedCheckpoint,
    /// The checkpoint in the lock that `head` must replace; `None` unless a separate signer has
    /// signed a newer checkpoint.
    pub(super) replaces: Option<Bytes>,
    pub(crate) published: Option<VerifiedCheckpoint>,
    /// The tree before the first round of `path`.
    pub(super) tree: Tree,
    /// Right versions of the damaged hash tiles of `tree`.
    pub(super) damaged: Vec<Asset>,
    /// The rounds from `tree` to `head`.
    pub(crate) path: Vec<Record>,
    /// The bundle of a killed Sunlight with the last round of `path`; `None` without a bundle.
    pub(super) bundle: Option<Bundle>,
    /// The damage of rounds before `tree` in the journal.
    pub(super) damage: Option<AssetError>,
}

impl Judged {
    /// Returns the history of the tree up to `head`.
    pub(crate) fn history(&self, assets: Arc<dyn Assets>) -> History<'_> {
        let steps = self.path.iter().map(|record| record.step);
        let rounds = steps.map(|step| (step.new_size, step.new_root)).collect();
        History::new(assets, &self.tree.edge, rounds)
    }
}

/// Compares lock, journal and storage, and the last checkpoint that a separate signer has
/// `signed`. Writes nothing.
///
/// # Errors
/// If these sources contradict each other, or if one of them cannot be read.
pub(crate) async fn judge(
    config: &LogConfig,
    assets: &dyn Assets,
    lock: &dyn Lock,
    signed: Option<VerifiedCheckpoint>,
) -> Result<Judged, Fatal> {
    let head = committed(config, lock).await?;
    let missing = |fatal| not_new(fatal, head.checkpoint.size, assets, lock);
    // The journal is read before the published checkpoint, because a process that runs the log may
    // publish a round and cut the journal in between.
    let Rounds { records, damage } = rounds(config, assets).await.map_err(missing)?;
    let published = match published(config, assets).await {
        Err(Fatal::Inconsistent(_)) if is_damaged(&head, config, assets).await? => None,
        published => published.map_err(missing)?,
    };
    if let Some(published) = &published {
        not_newer(published, &head, assets, lock)?;
    }
    no_tile_beyond(&head, assets, lock).await?;
    no_round_beyond(&head.checkpoint, &records, assets, lock)?;
    let NewestSigned { head, replaces } =
        signed_ahead::newest(head, signed, &records, (assets, lock))?;
    let last = never_published::last(published.as_ref(), &records);
    let advise = |refusal| never_published::advise(refusal, config, &head, last);
    let mut path = rounds_to(&head.checkpoint, records);
    let bundle = match &published {
        Some(published) if path.is_empty() && behind(published, &head) => {
            Bundle::find(assets, &published.checkpoint, &head.checkpoint).await?
        }
        _ => None,
    };
    path.extend(bundle.iter().map(|bundle| bundle.record.clone()));
    if let Some(published) = &published {
        if bundle.is_none() {
            foreign::refuse(published, &path, assets)?;
        }
        let same = same_history(published, &head, &path, assets, lock).await;
        same.map_err(advise)?;
    }
    // The rounds after the damage must begin within the published tree.
    let covered = published
        .as_ref()
        .map_or(0, |published| published.checkpoint.size);
    let damage = match damage {
        Some(damage) if base(&head, &path).0 > covered => return Err(damage.into()),
        damage => damage,
    };
    let there = published_rounds(&path, published.as_ref(), assets);
    let mut tree = tree_at(base(&head, &path[there..]), &head, assets, lock).await;
    if there > 0 && matches!(tree, Err(Fatal::Inconsistent(_))) {
        // Published files are damaged; the journal has the rounds that restore them.
        tree = tree_at(base(&head, &path), &head, assets, lock).await;
    } else {
        path.drain(..there);
    }
    let edge::Found { tree, damaged } = tree.map_err(advise)?;
    Ok(Judged {
        head,
        replaces,
        published,
        tree,
        damaged,
        path,
        bundle,
        damage,
    })
}

/// Reads and verifies the checkpoint in the lock.
pub(super) async fn committed(
    config: &LogConfig,
    lock: &dyn Lock,
) -> Result<VerifiedCheckpoint, Fatal> {
    let found = lock.load(&config.key.log_id().0).await?;
    verified(config, lock, found)
}

/// Verifies the checkpoint that was `found` in the lock.
///
/// # Errors
/// [`Fatal::NotCreated`] if the lock has no checkpoint, [`Fatal::Inconsistent`] if the value is not
/// a checkpoint of this log.
pub(crate) fn verified(
    config: &LogConfig,
    lock: &dyn Lock,
    found: Option<Vec<u8>>,
) -> Result<VerifiedCheckpoint, Fatal> {
    let Some(note) = found else {
        return Err(Fatal::NotCreated {
            lock: lock.location(),
            log_id: config.key.log_id().to_string(),
            name: config.shortname.clone(),
        });
    };
    VerifiedCheckpoint::verify(note.into(), config).map_err(|problem| {
        Fatal::from(LockInconsistency::NoCheckpoint {
            lock: lock.location(),
            origin: config.origin.clone(),
            problem,
        })
    })
}

/// Reads the tree before the first round of the journal, and verifies it against its root.
async fn tree_at(
    (size, root): (u64, Hash),
    head: &VerifiedCheckpoint,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<edge::Found, Fatal> {
    let (problem, files) = match edge::tree(assets, (size, root)).await {
        Ok(found) => return Ok(found),
        Err(edge::Problem::Away(problem)) => return Err(Away::Storage(problem).into()),
        Err(edge::Problem::Tiles { problem, files }) => (problem, files),
    };
    Err(Fatal::from(StorageInconsistency::BehindLock {
        lock: lock.location(),
        size: head.checkpoint.size,
        storage: assets.location(),
        problem,
        files,
    }))
}
