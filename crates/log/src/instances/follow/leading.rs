//! Leading: a follower takes the lease, recovers the log and sequences it.

use std::sync::Arc;

use lucarne_storage::{Lease, LeaseError};
use tokio::time::{Instant, sleep};

use super::Follower;
use super::growing::grow;
use crate::config::instances::AGAIN;
use crate::error::Fatal;
use crate::recovery::recover::Recovered;
use crate::sequence::sequencer::Sequencer;
use crate::sequence::term::Term;

/// Number of attempts to read lock, journal and storage while another instance still changes the
/// lock.
const ATTEMPTS: usize = 5;

impl Follower {
    /// Takes the lease; returns `None` if another instance was faster.
    pub(super) async fn take(&self, lease: Option<Lease>) -> Result<Option<Term>, Fatal> {
        let (log, at) = (&self.log, Instant::now());
        let (lock, id) = (&*log.lock, log.config.key.log_id());
        let taken = Lease {
            holder: Some(log.instance.holder),
            address: self.instances.address.clone(),
            epoch: lease.as_ref().map_or(1, |lease| lease.epoch + 1),
            renewal: 0,
        };
        let result = match &lease {
            None => taken.create(lock, &id.0).await,
            Some(lease) => lease.replace(&taken, lock, &id.0).await,
        };
        match result {
            Err(LeaseError::Lost) => return Ok(None),
            result => result?,
        }
        tracing::info!(
            log = log.config.shortname,
            epoch = taken.epoch,
            from = lease.map(|lease| lease.address),
            "took the lease"
        );
        let instances = self.instances.clone();
        Ok(Some(Term::begin(log.clone(), instances, taken, at)))
    }

    /// Leads: sequences until the log is closed, or another instance becomes the leader.
    pub(super) async fn lead(&mut self, term: &Arc<Term>) -> Result<(), Fatal> {
        let session = self.session.clone();
        let leading = async {
            let recovered = self.recover().await?;
            let (log, head) = (self.log.clone(), recovered.tree.head());
            let grown = if head.size == self.tree.size() {
                None
            } else {
                Some(grow(&log, self.tree.clone(), head).await?)
            };
            log.reader.recovered();
            log.status.note_trouble(None);
            let (opened, session) = (log.clone(), self.session.clone());
            // Shows the recovered tree. The index gets its entries later: a place beyond the shown
            // tree would count as wrong.
            let sequencer = Sequencer::new(log, session.clone(), recovered, Some(term.clone()));
            if let Some(grown) = grown {
                self.take_up(grown, None).await?;
            }
            sequencer
                .run(move || opened.opened(session, head.size))
                .await
        };
        tokio::select! {
            led = leading => led,
            never = term.keep(&session.pool) => match never {},
        }
    }

    /// Recovers like at any start. The previous leader may not have noticed its loss yet; if the
    /// lock changes during recovery, recovery starts again.
    pub(super) async fn recover(&self) -> Result<Recovered, Fatal> {
        let (log, id) = (&self.log, self.log.config.key.log_id());
        for _ in 0..ATTEMPTS {
            let before = log.lock.load(&id.0).await?;
            // The known checkpoints were compared when this instance opened the log.
            let known = std::future::ready(Vec::new());
            match log.recover(None, known).await {
                Err(fatal) if log.lock.load(&id.0).await? != before => {
                    let log = &log.config.shortname;
                    tracing::info!(log, %fatal, "another instance has signed in the meantime");
                    // The other instance may not have finished publishing.
                    sleep(AGAIN).await;
                }
                recovered => return recovered,
            }
        }
        Err(Fatal::Deposed { by: None })
    }
}
