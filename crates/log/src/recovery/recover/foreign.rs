//! A published checkpoint that another process has signed with this log's key, such as a TesseraCT
//! that still runs.

use lucarne_storage::Assets;

use crate::error::Fatal;
use crate::sequence::record::Record;
use crate::sequence::verified_checkpoint::VerifiedCheckpoint;

/// Refuses a checkpoint that was signed after a round which begins at its tree. This log signs each
/// round with a later time than everything before, and never signs an older tree again.
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
    Err(Fatal::Inconsistent(format!(
        "{} publishes a checkpoint of {} entries signed at {signed_ms}, after this log had signed one of {} \
         entries at {}: another process signs with this log's key{}. Stop that one for good; if it has given \
         SCTs for entries that are not here, this key has signed a fork",
        assets.location(),
        published.checkpoint.size,
        round.step.new_size,
        round.step.timestamp_ms,
        perhaps(assets),
    )))
}

/// Names the other process, if one is known, as the end of a clause.
pub(super) fn perhaps(assets: &dyn Assets) -> String {
    let named = |holder| format!(", perhaps {holder}");
    assets.others().map_or_else(String::new, named)
}
