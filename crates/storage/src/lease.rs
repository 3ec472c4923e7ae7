//! [`Lease`]: which of several instances of a log should sequence it.
//!
//! It is a second value in the log's [`Lock`], under an identifier of its own, and
//! so it is there with whatever lock there is: no other table, no other rights.
//! Nothing that is safe rests on it. Who holds it tries, who does not, does not;
//! what becomes of those who try is decided by the swap of the checkpoint, as ever.
//!
//! ```text
//! lucarne lease 1
//! holder 8d0c…                 who leads: a random number of the process; or `nobody`
//! address 10.0.0.1:6963        where the others reach it
//! epoch 7                      grows with each who leads
//! renewal 12                   grows as long as one leads and has nothing to sign
//! ```

use std::fmt::Write;

use crate::{Lock, LockError, LogId};

/// A value that tells one process from all others.
pub type HolderId = [u8; 16];

const TITLE: &str = "lucarne lease 1";
const NOBODY: &str = "nobody";
/// Bytes of the longest address: a host name and a port.
const MOST_ADDRESS: usize = 253 + 6;

/// The record of who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The process that leads; `None` if the last one has handed it over.
    pub holder: Option<HolderId>,
    /// The place where the others reach that process, as `host:port`.
    pub address: String,
    /// Grows with each holder, by one.
    pub epoch: u64,
    /// Grows with each renewal by the same holder.
    pub renewal: u64,
}

/// The reasons why a lease cannot be read or taken.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another process has changed it since it was read.
    #[error("another instance has the lease")]
    Lost,
    /// It is not one that this version reads.
    #[error(
        "{location} holds a lease of this log that this version does not read: another version of \
         Lucarne leads. Bring all instances to one version; this one follows, and does not lead"
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
    /// Reads the lease of a log; `None` if it never had one.
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
    /// [`LeaseError::Lost`] if it has one, [`LeaseError::Lock`].
    pub async fn create(&self, lock: &dyn Lock, log: &LogId) -> Result<(), LeaseError> {
        Ok(lock.create(&id(log), self.encode().as_bytes()).await?)
    }

    /// Replaces this lease by `new`, if it is still the one that is stored.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] if it is not, [`LeaseError::Lock`].
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

    /// Reads the text of a record. There is one text for each.
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
        (is_whole && lease.address.len() <= MOST_ADDRESS).then_some(lease)
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
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{TITLE}\nholder {holder}\naddress {address}\nepoch {epoch}\nrenewal {renewal}\n"
        );
        text
    }
}

/// The identifier of a log's lease in its lock: the log's own, all bits inverted. Both are as
/// good as random, and no log has the other by chance.
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
