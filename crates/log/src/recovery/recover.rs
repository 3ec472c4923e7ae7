//! The start of a log: recovery from lock, journal and storage.
//!
//! The checkpoint in the lock is authoritative. The journal rolls storage forward to this
//! checkpoint. A round that was staged on this checkpoint was never committed, and is ignored.
//! Storage may be older than the lock, but never newer. Every other combination means that lock,
//! journal or storage was rolled back, copied or lost, and the log refuses to sign.
//!
//! | module | contents |
//! |---|---|
//! | `judge` | the state of lock, journal and storage together |
//! | `contradiction` | the combinations that stop a log, and their errors |
//! | `published` | the published checkpoint and its tree |
//! | `replay` | the rounds of the journal, and their files |
//! | `rollback` | storage that lost files which were published before the journal begins |
//! | `foreign` | a checkpoint that another process signed with the key of the log |
//! | `newest` | the newest tree of a log that lost its lock |
//! | `never_published` | a signed round that storage lost before publication |

mod contradiction;
mod foreign;
mod judge;
mod never_published;
mod newest;
mod published;
mod replay;
mod rollback;

use std::sync::Arc;

use bytes::Bytes;
use lucarne_storage::{Asset, AssetKind, Assets, Lock};
use lucarne_tlog::Frontier;

use self::never_published::unless_indexed;
use self::replay::replay;
use crate::config::LogConfig;
use crate::config::signer::Signer;
use crate::data::cosignatures;
use crate::data::tree::Tree;
use crate::data::tree_head;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::Fatal;
use crate::index::catchup;
use crate::recovery::known_checkpoints::KnownCheckpoint;
use crate::recovery::replace_damaged::replace_damaged;
use crate::recovery::signed_ahead::Newest as NewestSigned;

pub(crate) use self::contradiction::{is_beyond, not_new, not_newer};
pub(crate) use self::judge::{Judged, judge, verified};
pub use self::never_published::{NeverPublished, never_published};
pub use self::newest::{Newest, newest};
pub(crate) use self::published::{published, published_tree};
pub(crate) use self::replay::steps_to;

/// The state of a log after recovery: ready to be sequenced.
pub(crate) struct Recovered {
    /// The tree of the checkpoint in the lock.
    pub(crate) tree: Tree,
    /// The checkpoint exactly as it is in the lock.
    pub(crate) committed: Bytes,
    /// The published checkpoint: `committed`, possibly with cosignatures.
    pub(crate) published: Bytes,
    /// Number of entries of the tree before the first round of the journal.
    pub(crate) base: u64,
    /// Number of damaged files that were restored.
    pub(crate) restored: u64,
}

/// Compares lock, journal, storage and index like the start of a log. Writes nothing to them, and
/// creates no index.
///
/// # Errors
/// The same error with which the start of the log would fail.
pub async fn examine(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let signed = tree_head::last_signed(config).await?;
    let judged = judge_whole(config, &assets, lock, signed).await;
    let judged = unless_indexed(judged, config).await?;
    examine_judged(config, assets, lock, &judged).await
}

/// Judges the log as [`judge`] does, and refuses storage that was emptied or rolled back.
///
/// # Errors
/// Returns the errors of [`judge`] and of [`rollback::check`].
pub(crate) async fn judge_whole(
    config: &LogConfig,
    assets: &Arc<dyn Assets>,
    lock: &dyn Lock,
    signed: Option<VerifiedCheckpoint>,
) -> Result<Judged, Fatal> {
    let mut judged = judge(config, &**assets, lock, signed).await?;
    let damage = judged.damage.take();
    let (published, tree) = (judged.published.as_ref(), &judged.tree);
    let unconfirmed = match (published, &damage) {
        (None, _) => tree.size(),
        (Some(published), None) => tree.size().saturating_sub(published.checkpoint.size),
        (Some(_), Some(_)) => tree.size().min(rollback::ALL_VERIFIED),
    };
    let checked = rollback::check(unconfirmed, tree, &judged.path, assets).await;
    match (checked, damage) {
        (Err(Fatal::Inconsistent(_)), Some(damage)) => return Err(damage.into()),
        (checked, Some(damage)) => {
            checked?;
            tracing::error!(
                log = config.shortname,
                %damage,
                "the journal is damaged. The published files have all its damaged rounds, so the \
                 log opens, and keeps the damaged segment when its other rounds are settled"
            );
        }
        (checked, None) => checked?,
    }
    Ok(judged)
}

/// Rolls the tree forward in memory, and examines the index.
async fn examine_judged(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
    judged: &Judged,
) -> Result<(), Fatal> {
    let (mut grown, size) = (judged.tree.clone(), judged.head.checkpoint.size);
    for record in &judged.path {
        replay(&mut grown, record.clone(), size, &*assets)?;
    }
    catchup::examine(config, lock, assets, &judged.tree, grown.size()).await
}

/// Reads lock, journal and storage, and rolls storage forward to the lock. If the last checkpoint
/// `signed` by a separate signer is newer than the checkpoint in the lock, the newer checkpoint is
/// committed first. Before anything is written, the log is compared with the `known` checkpoints of
/// external sources.
///
/// # Errors
/// If lock, journal and storage contradict each other or a known checkpoint, or if one of them
/// fails.
pub(crate) async fn recover(
    config: &LogConfig,
    (assets, lock): (&Arc<dyn Assets>, &dyn Lock),
    signed: Option<VerifiedCheckpoint>,
    known: impl Future<Output = Vec<KnownCheckpoint>>,
) -> Result<Recovered, Fatal> {
    let judging = async {
        let judged = judge_whole(config, assets, lock, signed).await;
        unless_indexed(judged, config).await
    };
    let (judged, known) = tokio::try_join!(judging, async { Ok(known.await) })?;
    let (history, signed_ms) = (judged.history(assets.clone()), judged.head.timestamp_ms);
    let compared = history.hold_against_all(&known, signed_ms, &config.shortname);
    compared.await?;
    drop(history);
    let Judged {
        mut head,
        mut replaces,
        published,
        mut tree,
        damaged,
        path,
        bundle,
        ..
    } = judged;
    let restored = damaged.len() as u64;
    for tile in damaged {
        replace_damaged(config, &**assets, tile, "the tiles or entries beneath it").await?;
    }
    if let Signer::Own(key) = &config.key
        && let Err(problem) = key.cosigner(&config.origin)
    {
        let log = &config.shortname;
        tracing::warn!(log, %problem, "checkpoints have no ML-DSA-44 signature");
    }
    if let Some(note) = tree_head::with_second(&head, config) {
        replaces = Some(std::mem::replace(&mut head.note, note));
    }
    if let Some(replaces) = replaces {
        NewestSigned::commit(&replaces, &head, config, lock).await?;
    }
    let base = tree.size();
    if !path.is_empty() {
        tracing::info!(
            log = config.shortname,
            rounds = path.len(),
            from = base,
            to = head.checkpoint.size,
            sunlight = bundle.is_some(),
            "rolling forward from the journal"
        );
    }
    for record in path {
        let mut batch = replay(&mut tree, record, head.checkpoint.size, &**assets)?;
        if let Some(bundle) = &bundle {
            batch = bundle.as_stored(batch)?;
        }
        assets.publish(batch).await?;
    }
    tree.frontier = Frontier::from_right_edge(&tree.edge);
    tree.timestamp_ms = head.timestamp_ms;
    let policy = config.witnesses.as_ref().map(|it| &*it.policy);
    let is_cosigned =
        |it: &VerifiedCheckpoint| cosignatures::is_cosigned(policy, &head.note, &it.note);
    let published = match published.filter(is_cosigned) {
        Some(published) => published.note,
        None => {
            let checkpoint = Asset::new("checkpoint", head.note.clone(), AssetKind::Checkpoint);
            assets.publish(vec![checkpoint]).await?;
            head.note.clone()
        }
    };
    Ok(Recovered {
        tree,
        committed: head.note,
        published,
        base,
        restored,
    })
}
