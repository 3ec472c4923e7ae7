//! The published checkpoint and its tree.

use lucarne_ct::{CheckpointError, verify_checkpoint};
use lucarne_storage::Assets;
use lucarne_tlog::{Checkpoint, SignedNote};

use crate::config::LogConfig;
use crate::data::tree::Tree;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::StorageInconsistency;
use crate::error::{Away, Fatal};
use crate::read::edge;

/// Maximum number of bytes that differ between a damaged checkpoint and the original: a few bits
/// flipped in a sector or in memory.
const MOST_FLIPPED: usize = 4;

/// Returns the checkpoint that storage publishes; `None` if storage has no checkpoint, or no signed
/// note in its place.
///
/// The newest checkpoint is not synced, so a power cut may leave an empty, truncated or zeroed
/// file. A file that is not a signed note counts as missing; the checkpoint of the lock is
/// published in its place.
///
/// # Errors
/// If the file is a note, but not a checkpoint of this log.
pub(crate) async fn published(
    config: &LogConfig,
    assets: &dyn Assets,
) -> Result<Option<VerifiedCheckpoint>, Fatal> {
    let Some(note) = assets.get("checkpoint").await? else {
        return Ok(None);
    };
    let location = assets.location();
    if let Err(error) = SignedNote::parse(&note) {
        tracing::warn!(log = config.shortname, %error, "{location}/checkpoint is not a signed \
                                                        note, and counts as missing");
        return Ok(None);
    }
    let verified = VerifiedCheckpoint::verify(note, config);
    let verified = verified.map_err(|problem| StorageInconsistency::OtherLog {
        storage: location,
        origin: config.origin.clone(),
        problem,
    })?;
    Ok(Some(verified))
}

/// Reads the published tree and verifies it against its root, without a lock: another process may
/// run the log.
///
/// # Errors
/// If the tiles do not lead to the root.
pub(crate) async fn published_tree(
    published: &VerifiedCheckpoint,
    assets: &dyn Assets,
) -> Result<Tree, Fatal> {
    let Checkpoint { size, root, .. } = &published.checkpoint;
    let problem = match edge::tree(assets, (*size, *root)).await {
        Ok(found) => return Ok(found.tree),
        Err(edge::Problem::Away(problem)) => return Err(Away::Storage(problem).into()),
        Err(edge::Problem::Tiles { problem, .. }) => problem,
    };
    Err(Fatal::from(StorageInconsistency::PublishedTree {
        storage: assets.location(),
        size: *size,
        problem,
    }))
}

/// Returns `true` if the published file is not a checkpoint of this log because of flipped bits:
/// the file begins like the checkpoint of the lock, except for a few bytes, or it has the name of
/// this log's key and not more entries than the lock. A damaged file proves nothing. If the tiles
/// confirm the checkpoint of the lock, that checkpoint is published in its place.
pub(super) async fn is_damaged(
    head: &VerifiedCheckpoint,
    config: &LogConfig,
    assets: &dyn Assets,
) -> Result<bool, Fatal> {
    let Some(note) = assets.get("checkpoint").await? else {
        return Ok(false);
    };
    let differing = std::iter::zip(&note, &head.note).filter(|(a, b)| a != b);
    let nearly = note.len() >= head.note.len() && differing.count() <= MOST_FLIPPED;
    let verified = verify_checkpoint(&note, &config.origin, config.key.public_key_spki());
    let ours = matches!(
        verified,
        Err(CheckpointError::Signature | CheckpointError::NoTimestamp(_))
    );
    let size = SignedNote::parse(&note).ok();
    let size = size.and_then(|note| Some(Checkpoint::parse(&note.text).ok()?.size));
    if nearly || ours && size.is_some_and(|size| size <= head.checkpoint.size) {
        tracing::warn!(
            log = config.shortname,
            checkpoint = %String::from_utf8_lossy(&note),
            "{}/checkpoint is damaged: the checkpoint in the lock replaces it when the log opens",
            assets.location()
        );
        return Ok(true);
    }
    Ok(false)
}

/// Returns `true` if storage lacks entries that were signed.
pub(super) fn behind(published: &VerifiedCheckpoint, signed: &VerifiedCheckpoint) -> bool {
    published.checkpoint.size < signed.checkpoint.size
}
