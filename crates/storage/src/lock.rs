//! The trait [`Lock`]: the last signed checkpoint of each log.

use async_trait::async_trait;

/// SHA-256 of a log's public key (RFC 6962, section 3.2), the key of its row.
pub type LogId = [u8; 32];

/// Holds the last signed checkpoint of each log, outside its assets.
///
/// Whoever holds the newest checkpoint and replaces it sequences the log:
/// nothing else decides it. Two instances of one log that both try are safe,
/// for one of them loses each swap and stops. What tells several instances
/// which of them *should* try is a [`Lease`](crate::Lease), and a matter of
/// availability alone; this trait is all that safety rests on.
///
/// One lock serves many logs; calls for different logs do not wait for each
/// other longer than the store itself makes them. When a method that changes
/// something returns `Ok`, the change is durable.
#[async_trait]
pub trait Lock: Send + Sync + 'static {
    /// The checkpoint of this log, exactly as it was stored, or `None` if the
    /// log was never created here.
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError>;

    /// Stores the first checkpoint of a log.
    ///
    /// # Errors
    ///
    /// [`LockError::Exists`] if the log has one already; it is unchanged.
    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError>;

    /// Replaces the checkpoint, if it is still `old` byte for byte: the commit
    /// of a round.
    ///
    /// # Errors
    ///
    /// [`LockError::Conflict`] if it is not: nothing was changed, and someone
    /// else signs for this log. After [`LockError::Failed`] it is unknown
    /// whether the change was made: [`load`](Self::load) tells.
    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError>;

    /// Shows that a checkpoint could be stored now, without changing any.
    async fn check(&self) -> Result<(), LockError>;

    /// Lets go of it, leaving nothing to be done at its next opening. It is of
    /// no use afterwards. Losing it without loses nothing either.
    async fn close(&self) {}

    /// For messages: where the lock is (a file, a URL without its password).
    fn location(&self) -> String;
}

/// The reasons why a lock refused.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The stored checkpoint is not the one that was to be replaced.
    #[error("{location}: {}", conflict(.found))]
    Conflict {
        /// The place of the lock.
        location: String,
        /// The checkpoint that is stored instead; `None` if the log has no checkpoint there.
        found: Option<Vec<u8>>,
    },
    /// [`Lock::create`] found a checkpoint.
    #[error(
        "{location}: this log exists there already; it is never created twice. \
         Start it as it is, or give the new log its own key"
    )]
    Exists {
        /// The place of the lock.
        location: String,
    },
    /// The lock cannot be opened: absent, not a lock, not permitted. (One that
    /// only does not answer has [`Failed`](Self::Failed).)
    #[error("{location}: {reason}")]
    Unusable {
        /// The place where the lock is, or should be.
        location: String,
        /// The problem with it and what to do.
        reason: String,
    },
    /// The database or store failed.
    #[error("{location}: cannot {action}: {reason}")]
    Failed {
        /// The place of the lock.
        location: String,
        /// The operation that was tried.
        action: &'static str,
        /// The store's answer.
        reason: String,
    },
}

fn conflict(found: &Option<Vec<u8>>) -> &'static str {
    match found {
        Some(_) => {
            "holds another checkpoint than this log signed last. Another process signs for \
             this log, or the lock was changed by hand; this one goes on only once that one has ended"
        }
        None => {
            "holds no checkpoint of this log any more. The lock was replaced or emptied; \
             restore the newest one, and never create the log again"
        }
    }
}
