//! A term: the time during which this process leads.

use std::sync::Arc;
use std::time::Duration;

use lucarne_storage::{Lease, LeaseError};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::config::instances::Instances;
use crate::error::Fatal;
use crate::error::inconsistency::LockInconsistency;
use crate::shared::Shared;
use crate::submit::pool::Pool;

/// Number of lease times after which a busy leader renews its lease in any case. A leader that was
/// replaced without noticing then notices the replacement.
const BUSY: u32 = 4;

/// The lease, as long as this process holds it.
pub(crate) struct Term {
    log: Arc<Shared>,
    instances: Instances,
    /// The lease as stored.
    lease: tokio::sync::Mutex<Lease>,
    changed: Mutex<Changed>,
}

/// The last times at which followers may have seen a change by this process.
struct Changed {
    /// The start of the last change of lock or lease.
    any: Instant,
    /// The start of the last change of the lease.
    lease: Instant,
}

impl Changed {
    /// Returns the time of the next renewal. Commits postpone the renewal by up to [`BUSY`] lease
    /// times.
    fn renewal_due(&self, instances: &Instances) -> Instant {
        let idle = self.any + instances.renewal();
        idle.min(self.lease + BUSY * instances.lease)
    }
}

impl Term {
    /// Begins a term. The request that acquired `lease` began at `at`.
    pub(crate) fn begin(log: Arc<Shared>, instances: Instances, lease: Lease, at: Instant) -> Self {
        log.instance.slowness.lock().begin();
        Term {
            log,
            instances,
            lease: tokio::sync::Mutex::new(lease),
            changed: Mutex::new(Changed { any: at, lease: at }),
        }
    }

    /// Records that this process has published its newest checkpoint. Until the leader may have
    /// been replaced, no other instance has a newer one.
    pub(crate) fn published(&self) {
        let until = self.changed.lock().any + self.instances.doubt();
        self.log.instance.set_newest_until(Some(until));
    }

    /// Records a commit that began at `at`. A commit renews the lease as well.
    pub(crate) fn committed(&self, at: Instant) {
        self.changed.lock().any = at;
    }

    /// Records a round. Releases the lease if the rounds of this leader are slow, so that another
    /// instance tries to lead.
    ///
    /// # Errors
    /// [`Fatal::Deposed`] if the lease was released.
    pub(crate) async fn note_round(&self, took: Duration) -> Result<(), Fatal> {
        let config = &self.log.config;
        let is_slow = took > 2 * self.instances.lease.max(config.rounds.period);
        let slowness = &self.log.instance.slowness;
        if !slowness.lock().note_round(is_slow, Instant::now()) {
            return Ok(());
        }
        let seconds = took.as_secs_f64();
        tracing::warn!(
            log = config.shortname,
            seconds,
            "the last rounds were slow: handing the lease over, because store or lock may be fast \
             for another instance"
        );
        self.release().await;
        Err(Fatal::Deposed { by: None })
    }

    /// Checks before a commit that no other instance has replaced this process. The check reads the
    /// lock only if this process has changed nothing for so long that another instance may take
    /// over.
    ///
    /// # Errors
    /// [`Fatal::Deposed`] if another instance has taken over, or an error of the lock.
    pub(crate) async fn confirm(&self) -> Result<(), Fatal> {
        let last = self.changed.lock().any;
        if last.elapsed() >= self.instances.doubt() {
            self.renew().await
        } else {
            Ok(())
        }
    }

    /// Renews the lease as long as this process holds the lease. If the lease is lost, the pool
    /// fails.
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
                        "cannot renew the lease: another instance may take over"
                    );
                    // A poll interval: no event announces that a lock is available again.
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

    /// Releases the lease, so that another instance can take the lease at once. If the release
    /// fails, the lease lapses.
    pub(crate) async fn release(&self) {
        self.log.instance.set_newest_until(None);
        if self.lease.lock().await.holder.is_none() {
            return;
        }
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
                tracing::warn!(log, %error, "cannot hand over the lease: other instances must \
                                             wait until the lease expires")
            }
            Err(_) => tracing::warn!(
                log,
                "cannot hand over the lease, because the lock does not \
                                           respond: other instances must wait until the lease \
                                           expires"
            ),
        }
    }

    /// Changes the lease, if this process still holds it.
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
                    let until = at + self.instances.doubt();
                    self.log.instance.prolong_newest(until);
                    return Ok(());
                }
                Err(LeaseError::Lost) => {}
                Err(error) => return Err(error.into()),
            }
            // The response to a change by this process may have been lost.
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
            error @ LeaseError::Unreadable { .. } => LockInconsistency::Lease(error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::Bytes;
    use lucarne_ct::LogId;

    use super::*;
    use crate::config::messenger::{Messenger, MessengerError};

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
