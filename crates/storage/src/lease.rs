//! [`Lease`]: decides which of several instances of a log should sequence it.
//!
//! The lease is a second value in the log's [`Lock`], under a separate identifier. The lease works
//! with every kind of lock and needs no other table and no other permissions. The holder of the
//! lease sequences, and the other instances wait. Safety does not depend on the lease: if two
//! instances sequence nevertheless, the swap of the checkpoint stops one of them.
//!
//! ```text
//! lucarne lease 1
//! holder 8d0c…                 random number of the leading process, or `nobody`
//! address 10.0.0.1:6963        address of the leading process
//! epoch 7                      grows with each new holder
//! renewal 12                   grows while the holder leads and has nothing to sign
//! ```

use std::fmt::Write;

use crate::{Lock, LockError, LogId};

/// A random number that identifies one process.
pub type HolderId = [u8; 16];

const TITLE: &str = "lucarne lease 1";
const NOBODY: &str = "nobody";
/// Maximum length of an address in bytes: a host name and a port.
const MAX_ADDRESS: usize = 253 + 6;

/// The record of the process that leads.
///
/// # Examples
///
/// ```
/// use lucarne_storage::{Lease, LeaseError, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (lock, log) = (MemoryLock::new(), [7; 32]);
/// let first = Lease {
///     holder: Some([1; 16]),
///     address: "10.0.0.1:6963".to_owned(),
///     epoch: 1,
///     renewal: 0,
/// };
/// first.create(&lock, &log).await?;
/// let second = Lease { holder: Some([2; 16]), epoch: 2, ..first.clone() };
/// first.replace(&second, &lock, &log).await?;
///
/// // The first process has lost its lease.
/// assert!(matches!(first.replace(&first, &lock, &log).await, Err(LeaseError::Lost)));
/// assert_eq!(Lease::load(&lock, &log).await?, Some(second));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The process that leads; `None` if the last leader has handed the lease over.
    pub holder: Option<HolderId>,
    /// The address at which other instances reach that process, as `host:port`.
    pub address: String,
    /// Number of the holder, which grows by one with each new holder.
    pub epoch: u64,
    /// Number of renewals by this holder.
    pub renewal: u64,
}

/// The reasons why a lease cannot be read or taken.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another process has changed the lease since it was read.
    #[error("another instance has the lease")]
    Lost,
    /// This version cannot read the stored lease.
    #[error(
        "{location} holds a lease of this log that this version cannot read: another version of \
         Lucarne leads. Run the same version on all instances; this instance follows and does \
         not lead"
    )]
    Unreadable {
        /// The place of the lock.
        location: String,
    },
    /// The lock failed.
    #[error(transparent)]
    Lock(LockError),
}

impl From<LockError> for LeaseError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Conflict { .. } | LockError::Exists { .. } => LeaseError::Lost,
            error => LeaseError::Lock(error),
        }
    }
}

impl Lease {
    /// Reads the lease of a log; `None` if the log never had a lease.
    ///
    /// # Errors
    /// [`LeaseError::Unreadable`], [`LeaseError::Lock`].
    pub async fn load(lock: &dyn Lock, log: &LogId) -> Result<Option<Lease>, LeaseError> {
        let Some(bytes) = lock.load(&id(log)).await? else {
            return Ok(None);
        };
        let unreadable = || LeaseError::Unreadable {
            location: lock.location(),
        };
        Lease::parse(&bytes).map(Some).ok_or_else(unreadable)
    }

    /// Stores the first lease of a log.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if the log has a lease already, [`LeaseError::Lock`].
    pub async fn create(&self, lock: &dyn Lock, log: &LogId) -> Result<(), LeaseError> {
        Ok(lock.create(&id(log), self.encode().as_bytes()).await?)
    }

    /// Replaces this lease with `new` if this lease is still stored.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if another lease is stored, [`LeaseError::Lock`].
    pub async fn replace(
        &self,
        new: &Lease,
        lock: &dyn Lock,
        log: &LogId,
    ) -> Result<(), LeaseError> {
        let (old, new) = (self.encode(), new.encode());
        Ok(lock
            .replace(&id(log), old.as_bytes(), new.as_bytes())
            .await?)
    }

    /// Parses the stored form of a lease; `None` if the bytes are not a lease of this version. Each
    /// lease has exactly one stored form.
    pub fn parse(bytes: &[u8]) -> Option<Lease> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        value("lucarne").filter(|title| Some(*title) == TITLE.strip_prefix("lucarne "))?;
        let holder = match value("holder")? {
            NOBODY => None,
            id => Some(hex::decode(id).ok()?.try_into().ok()?),
        };
        let lease = Lease {
            holder,
            address: value("address")?.to_owned(),
            epoch: value("epoch")?.parse().ok()?,
            renewal: value("renewal")?.parse().ok()?,
        };
        let is_whole = lease.encode().as_bytes() == bytes;
        (is_whole && lease.address.len() <= MAX_ADDRESS).then_some(lease)
    }

    fn encode(&self) -> String {
        let Lease {
            holder,
            address,
            epoch,
            renewal,
        } = self;
        let holder = holder.map_or_else(|| NOBODY.to_owned(), hex::encode);
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = write!(
            text,
            "{TITLE}\nholder {holder}\naddress {address}\nepoch {epoch}\nrenewal {renewal}\n"
        );
        text
    }
}

/// Returns the identifier of a log's lease in its lock: the identifier of the log with all bits
/// inverted. Identifiers are hashes, so no other log has this value by chance.
fn id(log: &LogId) -> LogId {
    log.map(|byte| !byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLock;

    const LOG: LogId = [7; 32];

    fn lease(epoch: u64) -> Lease {
        Lease {
            holder: Some([0xab; 16]),
            address: "10.0.0.1:6963".into(),
            epoch,
            renewal: 0,
        }
    }

    #[test]
    fn a_record_has_one_text() {
        let handed_over = Lease {
            holder: None,
            ..lease(u64::MAX)
        };
        for lease in [lease(1), handed_over] {
            let text = lease.encode();
            assert_eq!(Lease::parse(text.as_bytes()), Some(lease));
            for other in [
                text.replace('\n', "\r\n"),
                format!("{text}\n"),
                text.trim_end().to_owned(),
                text.replace("epoch ", "epoch 0"),
                text.replace("renewal 0", "renewal +0"),
                text.replace("lease 1", "lease 2"),
                text.replace("abab", "ABAB"),
                text.replace("address", "place"),
            ] {
                assert!(
                    other == text || Lease::parse(other.as_bytes()).is_none(),
                    "{other}"
                );
            }
        }
    }

    #[tokio::test]
    async fn one_of_two_who_saw_the_same_takes_it() {
        let lock = MemoryLock::new();
        assert_eq!(Lease::load(&lock, &LOG).await.unwrap(), None);
        lease(1).create(&lock, &LOG).await.unwrap();
        let again = lease(1).create(&lock, &LOG).await;
        assert!(matches!(again, Err(LeaseError::Lost)), "{again:?}");
        let other = Lease {
            holder: Some([1; 16]),
            ..lease(2)
        };
        lease(1).replace(&lease(2), &lock, &LOG).await.unwrap();
        let late = lease(1).replace(&other, &lock, &LOG).await;
        assert!(matches!(late, Err(LeaseError::Lost)), "{late:?}");
        assert_eq!(Lease::load(&lock, &LOG).await.unwrap(), Some(lease(2)));
        assert_eq!(lock.load(&LOG).await.unwrap(), None, "no checkpoint");
    }

    #[tokio::test]
    async fn what_another_version_wrote_is_left_alone() {
        let lock = MemoryLock::new();
        lock.create(&id(&LOG), b"lucarne lease 2\n").await.unwrap();
        let found = Lease::load(&lock, &LOG).await;
        assert!(matches!(found, Err(LeaseError::Unreadable { .. })));
    }
}
