//! A term: the time for which this process leads.

use std::sync::Arc;
use std::time::Duration;

use lucarne_storage::{Lease, LeaseError};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::pool::Pool;
use crate::shared::Shared;
use crate::{Fatal, Instances};

/// Leases after which a leader that is busy renews its own all the same: who was replaced, and has
/// not noticed, notices then.
const BUSY: u32 = 4;

/// The lease while this process has it.
pub(crate) struct Term {
    log: Arc<Shared>,
    instances: Instances,
    /// As it is stored.
    lease: tokio::sync::Mutex<Lease>,
    changed: Mutex<Changed>,
}

/// The times at which the followers may have seen this process last.
struct Changed {
    /// The beginning of the last change of lock or lease.
    any: Instant,
    /// That of the last change of the lease.
    lease: Instant,
}

impl Changed {
    /// The time of the next renewal: commits put it off, up to [`BUSY`] leases.
    fn renewal_due(&self, instances: &Instances) -> Instant {
        let idle = self.any + instances.renewal();
        idle.min(self.lease + BUSY * instances.lease)
    }
}

impl Term {
    /// Begins with a lease that was taken by a request that began at `at`.
    pub(crate) fn begin(log: Arc<Shared>, instances: Instances, lease: Lease, at: Instant) -> Self {
        Term {
            log,
            instances,
            lease: tokio::sync::Mutex::new(lease),
            changed: Mutex::new(Changed { any: at, lease: at }),
        }
    }

    /// Notes a commit that began at `at`: that renews the lease, too.
    pub(crate) fn committed(&self, at: Instant) {
        self.changed.lock().any = at;
    }

    /// Makes sure before a commit that nobody had reason to replace this process. That costs nothing
    /// but where it changed nothing for so long that somebody may.
    ///
    /// # Errors
    /// [`Fatal::Deposed`] if somebody has, or the lock's.
    pub(crate) async fn confirm(&self) -> Result<(), Fatal> {
        let last = self.changed.lock().any;
        match last.elapsed() >= self.instances.doubt() {
            true => self.renew().await,
            false => Ok(()),
        }
    }

    /// Renews the lease as long as it lasts. Once it is lost, closes the pool for that reason.
    pub(crate) async fn keep(&self, pool: &Pool) -> std::convert::Infallible {
        loop {
            let due = self.changed.lock().renewal_due(&self.instances);
            if due > Instant::now() {
                sleep_until(due).await;
                continue;
            }
            match self.renew().await {
                Ok(()) => {}
                Err(deposed @ Fatal::Deposed { .. }) => {
                    pool.fail(deposed);
                    return std::future::pending().await;
                }
                Err(error) => {
                    tracing::warn!(
                        log = self.log.config.shortname,
                        %error,
                        "the lease is not renewed: another instance may take this one's place"
                    );
                    // The pace of trying: nothing tells when a lock is back.
                    sleep(self.instances.poll()).await;
                }
            }
        }
    }

    async fn renew(&self) -> Result<(), Fatal> {
        self.replace(|lease| Lease {
            renewal: lease.renewal + 1,
            ..lease.clone()
        })
        .await
    }

    /// Hands the lease over, to whoever takes it first. If that fails, it lapses.
    pub(crate) async fn release(&self) {
        let nobody = |lease: &Lease| Lease {
            holder: None,
            ..lease.clone()
        };
        let handing_over = timeout(self.instances.lease, self.replace(nobody));
        let log = &self.log.config.shortname;
        match handing_over.await {
            Ok(Ok(())) => tracing::info!(log, "handed the lease over"),
            Ok(Err(Fatal::Deposed { .. })) => {}
            Ok(Err(error)) => {
                tracing::warn!(log, %error, "the lease is not handed over: it lapses")
            }
            Err(_) => tracing::warn!(log, "the lock does not answer: the lease lapses"),
        }
    }

    /// Changes the lease, if it is still this process's.
    async fn replace(&self, change: impl Fn(&Lease) -> Lease) -> Result<(), Fatal> {
        let mut held = self.lease.lock().await;
        let (lock, id) = (&*self.log.lock, self.log.config.key.log_id());
        loop {
            let at = Instant::now();
            let new = change(&held);
            match held.replace(&new, lock, &id.0).await {
                Ok(()) => {
                    *held = new;
                    *self.changed.lock() = Changed { any: at, lease: at };
                    return Ok(());
                }
                Err(LeaseError::Lost) => {}
                Err(error) => return Err(error.into()),
            }
            // The answer to a change of our own may have been lost.
            match Lease::load(lock, &id.0).await? {
                Some(found) if found != *held && is_same_term(&found, &held) => *held = found,
                found => {
                    let by = found.and_then(|found| found.holder.map(|_| found.address));
                    return Err(Fatal::Deposed { by });
                }
            }
        }
    }
}

fn is_same_term(found: &Lease, held: &Lease) -> bool {
    (found.holder, found.epoch) == (held.holder, held.epoch)
}

impl From<LeaseError> for Fatal {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Lock(error) => Fatal::Lock(error),
            LeaseError::Lost => Fatal::Deposed { by: None },
            error @ LeaseError::Unreadable { .. } => Fatal::Inconsistent(error.to_string()),
        }
    }
}

/// The silence between an attempt to lead and the next one after it has failed at once.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use bytes::Bytes;
    use lucarne_ct::LogId;

    use super::*;
    use crate::{Messenger, MessengerError};

    #[derive(Debug)]
    struct Nobody;

    #[async_trait]
    impl Messenger for Nobody {
        async fn ask(&self, address: &str, _: LogId, _: Bytes) -> Result<Bytes, MessengerError> {
            Err(MessengerError {
                address: address.to_owned(),
                source: "connection refused".into(),
            })
        }
    }

    #[test]
    fn commits_renew_the_lease() {
        let instances = Instances {
            address: "a:1".into(),
            lease: Instances::LEASE,
            messenger: Arc::new(Nobody),
        };
        let start = Instant::now();
        let mut changed = Changed {
            any: start,
            lease: start,
        };
        assert_eq!(
            changed.renewal_due(&instances),
            start + Instances::LEASE / 3
        );
        let (mut at, mut commits) = (start, 0);
        while changed.renewal_due(&instances) > at {
            changed.any = at;
            at += Duration::from_millis(100);
            commits += 1;
        }
        assert_eq!((commits, at), (60, start + BUSY * Instances::LEASE));
    }
}
