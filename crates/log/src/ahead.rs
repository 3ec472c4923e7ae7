//! A signer that has signed more than the lock has.
//!
//! It remembers a tree head before it gives the signature away, and that is before the lock has
//! it. Who dies in between leaves a head that is signed and not committed. It cannot be passed
//! over, for the signer goes on from nothing else; nor need it be: its round was staged before it
//! was asked for, so that it can be committed now, with that very signature.

use bytes::Bytes;
use lucarne_storage::{Assets, Lock};

use crate::record::Record;
use crate::verified_checkpoint::VerifiedCheckpoint;
use crate::{Fatal, LogConfig};

/// The head that a log goes on from.
pub(crate) struct Newest {
    pub(crate) head: VerifiedCheckpoint,
    /// The checkpoint that is in the lock instead, and is to be replaced.
    pub(crate) replaces: Option<Bytes>,
}

/// Chooses between the lock's checkpoint and the signer's last one.
///
/// # Errors
/// If the signer has signed what neither the lock has nor the journal leads to: lock and data are
/// older than the log.
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
    Err(Fatal::Inconsistent(format!(
        "the signer has signed {} entries with the root {}, the lock {} has {} with the root {}, \
         and the journal in {} has no round that leads from one to the other. Lock and data were \
         rolled back (a backup was restored, or a replica promoted that was behind), or belong to a \
         copy of this log. Put the newest ones back; the signer signs nothing that does not grow \
         from what it has signed",
        to.size,
        to.root,
        lock.location(),
        from.size,
        from.root,
        assets.location(),
    )))
}

impl Newest {
    /// Commits what was signed and is not in the lock yet.
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
            "the signer had signed this, and it was not committed: it is now"
        );
        let log_id = config.key.log_id();
        Ok(lock.replace(&log_id.0, replaces, &head.note).await?)
    }
}
