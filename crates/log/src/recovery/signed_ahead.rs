//! Recovery of a log whose signer has signed a newer tree head than the lock holds.
//!
//! A signer remembers a tree head before it releases the signature, and the lock gets the head only
//! afterwards. A process that stops in between leaves a head that is signed and not committed. The
//! log cannot skip this head, because the signer signs only heads that extend its last head. The
//! round of the head was staged before the request to the signer, so the log can commit the head
//! now, with the same signature.

use bytes::Bytes;
use lucarne_storage::{Assets, Lock};

use crate::config::LogConfig;
use crate::data::record::Record;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::Fatal;
use crate::error::inconsistency::SignerInconsistency;

/// The head from which a log continues.
pub(crate) struct Newest {
    pub(crate) head: VerifiedCheckpoint,
    /// The checkpoint in the lock that `head` must replace; `None` if the lock already has `head`.
    pub(crate) replaces: Option<Bytes>,
}

/// Chooses between the checkpoint of the lock and the last checkpoint of the signer.
///
/// # Errors
/// If neither the lock nor the journal leads to the tree head that the signer has signed. Lock and
/// data are then older than the log.
pub(crate) fn newest(
    committed: VerifiedCheckpoint,
    signed: Option<VerifiedCheckpoint>,
    records: &[Record],
    (assets, lock): (&dyn Assets, &dyn Lock),
) -> Result<Newest, Fatal> {
    let keep = |head| Newest {
        head,
        replaces: None,
    };
    let Some(signed) = signed else {
        return Ok(keep(committed));
    };
    let (from, to) = (&committed.checkpoint, &signed.checkpoint);
    let same = (from.size, from.root) == (to.size, to.root);
    let later = signed.timestamp_ms > committed.timestamp_ms;
    if to.size < from.size || same && !later {
        return Ok(keep(committed));
    }
    let staged = |record: &Record| {
        let step = &record.step;
        (step.old_size, step.old_root, step.new_size, step.new_root)
            == (from.size, from.root, to.size, to.root)
    };
    if same || later && records.iter().any(staged) {
        return Ok(Newest {
            head: signed,
            replaces: Some(committed.note),
        });
    }
    Err(Fatal::from(SignerInconsistency::Ahead {
        signed: (to.size, to.root),
        lock: lock.location(),
        committed: (from.size, from.root),
        storage: assets.location(),
    }))
}

impl Newest {
    /// Commits a head that is signed and not yet in the lock.
    pub(crate) async fn commit(
        replaces: &Bytes,
        head: &VerifiedCheckpoint,
        config: &LogConfig,
        lock: &dyn Lock,
    ) -> Result<(), Fatal> {
        tracing::warn!(
            log = config.shortname,
            size = head.checkpoint.size,
            timestamp = head.timestamp_ms,
            "committing a checkpoint that is already signed"
        );
        let log_id = config.key.log_id();
        Ok(lock.replace(&log_id.0, replaces, &head.note).await?)
    }
}
