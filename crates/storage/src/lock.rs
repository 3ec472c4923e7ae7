//! The trait [`Lock`]: the last signed checkpoint of each log.

use async_trait::async_trait;

use crate::StoreDate;

/// SHA-256 of a log's public key (RFC 6962, section 3.2); the key of its row.
pub type LogId = [u8; 32];

/// Holds the last signed checkpoint of each log, outside its assets.
///
/// Only a process that replaces the newest checkpoint can sequence the log. If two instances of one
/// log try this at the same time, one of them loses the swap and stops. A [`Lease`](crate::Lease)
/// selects the instance that *should* try. The lease only affects availability; safety depends only
/// on this trait.
///
/// One lock serves many logs. Calls for different logs wait for each other only as long as the
/// store requires. When a method that changes something returns `Ok`, the change is durable.
#[async_trait]
pub trait Lock: Send + Sync + 'static {
    /// Returns the checkpoint of this log exactly as it was stored, or `None` if the log was never
    /// created in this lock.
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError>;

    /// Stores the first checkpoint of a log.
    ///
    /// # Errors
    ///
    /// [`LockError::Exists`] if the log has a checkpoint already, which is unchanged.
    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError>;

    /// Replaces the checkpoint if it is still `old`, byte for byte. This is the commit of a round.
    ///
    /// # Errors
    ///
    /// [`LockError::Conflict`] if the stored checkpoint is not `old`: nothing was changed, and
    /// another process signs for this log. After [`LockError::Failed`] it is unknown whether the
    /// change was made: call [`load`](Self::load).
    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError>;

    /// Verifies that a checkpoint could be stored now. Changes no checkpoint.
    async fn check(&self) -> Result<(), LockError>;

    /// Returns the newest reading of the lock's own clock; `None` if the lock has no clock of its
    /// own.
    async fn date(&self) -> Result<Option<StoreDate>, LockError>;

    /// Closes the lock cleanly, so that the next process need not recover it. The lock must not be
    /// used afterwards. Dropping a lock without closing it loses nothing.
    async fn close(&self) {}

    /// Returns the reason why the newest commits of the lock may be missing, as text for operators.
    fn doubt(&self) -> Option<String> {
        None
    }

    /// Returns the location of the lock for messages: a file, or a URL without its password.
    fn location(&self) -> String;
}

/// The reasons why a lock failed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The stored checkpoint is not the checkpoint that was to be replaced.
    #[error("{location}: {}", conflict(.found))]
    Conflict {
        /// The place of the lock.
        location: String,
        /// The stored checkpoint, or `None` if the log has no checkpoint there.
        found: Option<Vec<u8>>,
    },
    /// [`Lock::create`] found a checkpoint.
    #[error(
        "{location}: this log exists there already and is never created twice. Start the \
         existing log, or give the new log its own key"
    )]
    Exists {
        /// The place of the lock.
        location: String,
    },
    /// The lock cannot be opened: it does not exist, is not a lock, or is not accessible. A lock
    /// that does not respond returns [`Failed`](Self::Failed).
    #[error("{location}: {reason}")]
    Unusable {
        /// The expected place of the lock.
        location: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// The database or store failed.
    #[error("{location}: cannot {action}: {reason}")]
    Failed {
        /// The place of the lock.
        location: String,
        /// The failed operation.
        action: &'static str,
        /// The response of the database or store.
        reason: String,
    },
}

fn conflict(found: &Option<Vec<u8>>) -> &'static str {
    match found {
        Some(_) => {
            "holds a different checkpoint than this log signed last. Another process signs for \
             this log, or the lock was changed by hand; this process continues only after the \
             other process has ended"
        }
        None => {
            "holds no checkpoint of this log. The lock was replaced or emptied; restore \
             the newest lock, and never create the log again"
        }
    }
}
