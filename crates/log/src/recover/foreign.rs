//! A published checkpoint that another process has signed with this log's key: a TesseraCT that still runs, say.

use lucarne_storage::Assets;

use crate::Fatal;
use crate::record::Record;
use crate::verified_checkpoint::VerifiedCheckpoint;

/// Refuses a checkpoint that was signed after a round that goes on from its tree: this log signs a round with
/// a later time than all that it signed before, and then never again the tree before the round.
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

/// Names the other process, if one is known, in words that follow what it does.
pub(super) fn perhaps(assets: &dyn Assets) -> String {
    let named = |holder| format!(", perhaps {holder}");
    assets.others().map_or_else(String::new, named)
}
