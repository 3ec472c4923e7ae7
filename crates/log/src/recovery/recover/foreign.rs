//! A published checkpoint that another process has signed with this log's key, such as a TesseraCT
//! that still runs.

use lucarne_storage::Assets;

use crate::data::record::Record;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::Fatal;
use crate::error::inconsistency::{LockInconsistency, SignedTime};

/// Refuses a published checkpoint that is not older than a round of the journal which extends its
/// tree. This log signs each round with a later time than all checkpoints before, and never signs
/// an older tree again.
///
/// # Errors
/// [`Fatal::Inconsistent`].
pub(super) fn refuse(
    published: &VerifiedCheckpoint,
    path: &[Record],
    assets: &dyn Assets,
) -> Result<(), Fatal> {
    let signed_ms = published.timestamp_ms;
    let later = path.iter().find(|record| {
        record.step.old_size >= published.checkpoint.size && record.step.timestamp_ms <= signed_ms
    });
    let Some(round) = later else {
        return Ok(());
    };
    Err(Fatal::from(LockInconsistency::Shared {
        storage: assets.location(),
        published: published.signed_time(),
        own: SignedTime {
            size: round.step.new_size,
            timestamp_ms: round.step.timestamp_ms,
        },
        other: assets.others(),
    }))
}
