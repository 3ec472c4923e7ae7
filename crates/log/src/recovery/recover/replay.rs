//! The rounds of the journal: which of them happened, and their files.

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_storage::{Asset, AssetError, Assets};
use lucarne_tlog::{Checkpoint, Hash, Tile};

use super::published::published;
use crate::config::LogConfig;
use crate::data::record::{Record, Step};
use crate::data::round::{issuer_asset, tile_assets};
use crate::data::tree::{NewTiles, Tree};
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::Fatal;
use crate::error::inconsistency::{JournalInconsistency, ReplayError};

/// The rounds of a journal that can be read.
pub(super) struct Rounds {
    pub(super) records: Vec<Record>,
    /// The damage of skipped rounds. The published files must replace these rounds; `None` if they
    /// do so in any case, because they are durable.
    pub(super) damage: Option<AssetError>,
}

/// Reads the journal. If a round is damaged, returns the other rounds.
///
/// # Errors
/// If the journal cannot be read, or has the format of another version. If published files are
/// durable, also if a round is damaged that the published checkpoint does not cover.
pub(super) async fn rounds(config: &LogConfig, assets: &dyn Assets) -> Result<Rounds, Fatal> {
    let (staged, damage) = match assets.staged().await {
        Err(damage @ AssetError::Damaged { .. }) => {
            let published = published(config, assets).await?;
            let covered = published.map_or(0, |published| published.checkpoint.size);
            let staged = assets.staged_beyond(covered).await?;
            (staged, Some(damage).filter(|_| !assets.publishes_durably()))
        }
        staged => (staged?, None),
    };
    let parse = |bytes| {
        Record::parse(bytes).map_err(|problem| {
            Fatal::from(JournalInconsistency::Version {
                storage: assets.location(),
                problem,
            })
        })
    };
    let records = staged.into_iter().map(parse).collect::<Result<_, _>>()?;
    Ok(Rounds { records, damage })
}

/// Reads the whole journal.
///
/// # Errors
/// The errors of [`rounds`], and any damage.
pub(super) async fn records(config: &LogConfig, assets: &dyn Assets) -> Result<Vec<Record>, Fatal> {
    let rounds = rounds(config, assets).await?;
    rounds
        .damage
        .map_or(Ok(rounds.records), |damage| Err(damage.into()))
}

/// Returns the rounds that lead to the signed head, oldest first. The walk back by size and root
/// leaves out every round that was staged and never committed.
pub(super) fn rounds_to(head: &Checkpoint, records: Vec<Record>) -> Vec<Record> {
    let steps: Vec<Step> = records.iter().map(|record| record.step).collect();
    let on_path = steps_to((head.size, head.root), &steps);
    let records = records.into_iter().zip(on_path);
    records
        .filter_map(|(record, on_path)| on_path.then_some(record))
        .collect()
}

/// Returns for each step whether it is on the path to this size and root.
pub(crate) fn steps_to((mut size, mut root): (u64, Hash), steps: &[Step]) -> Vec<bool> {
    let mut on_path = vec![false; steps.len()];
    for (on_path, step) in on_path.iter_mut().zip(steps).rev() {
        if step.new_size == size && step.new_root == root && step.old_size < size {
            (size, root) = (step.old_size, step.old_root);
            *on_path = true;
        }
    }
    on_path
}

/// Returns the last step to which the journal leads from `published`, if any. If several rounds
/// begin at one tree, only the last round can have happened: before its process staged this round,
/// the lock showed that the other rounds had not happened.
pub(super) fn rounds_from(published: &Checkpoint, records: &[Record]) -> Option<Step> {
    let mut tip = None;
    let (mut size, mut root) = (published.size, published.root);
    while let Some(record) = records.iter().rev().find(|record| {
        (record.step.old_size, record.step.old_root) == (size, root) && record.step.new_size > size
    }) {
        (size, root) = (record.step.new_size, record.step.new_root);
        tip = Some(record.step);
    }
    tip
}

/// Returns size and root of the tree at which these rounds begin.
pub(super) fn base(head: &VerifiedCheckpoint, path: &[Record]) -> (u64, Hash) {
    let head = (head.checkpoint.size, head.checkpoint.root);
    let first = path.first();
    first.map_or(head, |record| (record.step.old_size, record.step.old_root))
}

/// Returns the number of these rounds that need not be published again: the published checkpoint
/// covers them, and published files are durable.
pub(super) fn published_rounds(
    path: &[Record],
    published: Option<&VerifiedCheckpoint>,
    assets: &dyn Assets,
) -> usize {
    match published {
        Some(head) if assets.publishes_durably() => {
            path.partition_point(|record| record.step.new_size <= head.checkpoint.size)
        }
        _ => 0,
    }
}

/// Returns the files of one round exactly as they were published, and grows `tree` by the round.
/// Partial tiles that are full once the tree has its `last` size are left out, because they would
/// be removed again.
///
/// # Errors
/// [`Fatal::Inconsistent`] if the entries of the round do not lead to its size and root.
pub(super) fn replay(
    tree: &mut Tree,
    record: Record,
    last: u64,
    assets: &dyn Assets,
) -> Result<Vec<Asset>, Fatal> {
    let size = record.step.new_size;
    let damaged = |problem| {
        Fatal::from(JournalInconsistency::Replay {
            storage: assets.location(),
            size,
            problem,
        })
    };
    let (leaves, ends) = lucarne_ctread::leaves(&record.entries)
        .map_err(|error| damaged(ReplayError::Entry(error)))?;
    let first = tree.size();
    let mut tiles = NewTiles {
        hashes: tree.append_leaves(&leaves),
        data: tree.append_data(first, &record.entries, &ends),
    };
    let stays = |(tile, _): &(Tile, Bytes)| {
        let partial = Tile::rightmost_partial(tile.level(), last);
        tile.is_full() || partial.is_some_and(|partial| partial.index() == tile.index())
    };
    tiles.hashes.retain(stays);
    tiles.data.retain(stays);
    if (tree.size(), tree.root) != (size, record.step.new_root) {
        return Err(damaged(ReplayError::Tree {
            size: tree.size(),
            root: tree.root,
        }));
    }
    let mut batch = tile_assets(tiles, tree)?;
    for der in &record.issuers {
        batch.push(issuer_asset(&Fingerprint::of(der), der));
    }
    Ok(batch)
}
