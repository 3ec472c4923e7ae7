//! The forwarding of a follower's submissions to the leader, and the responses.
//!
//! A follower examines and verifies each submission, and looks the submission up in its own index
//! before it forwards the entry. The leader looks the entry up again, in its pool and its index
//! under its own epoch. A chain that is submitted to all instances at once therefore gets one
//! index. The leader's response is a hint, like an index: the follower signs an SCT only after its
//! own tree has reached that index and has the entry there. Requests are idempotent: the same entry
//! gets the same index.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::config::messenger::MessengerError;
use crate::error::SubmitError;
use crate::shared::Shared;
use crate::submit::forward_queue::{Leader, Queued, QueuedLanes};
use crate::submit::forward_wire::{Answer, Batch, Item, MOST_ENTRIES, Outcome, Status};
use crate::submit::submission::At;

/// Maximum number of batches of fresh entries in flight. Each batch waits for a round.
const MOST_FRESH: usize = 64;
/// Maximum number of batches of old entries in flight. An old entry may wait for several rounds; a
/// batch therefore has entries of one lane only.
const MOST_OLD: usize = 16;
/// Bytes after which a batch takes no further entry.
const MOST_BYTES: usize = 1 << 20;
/// Maximum time that an entry waits for other entries of its batch.
const MOST_GATHERING: Duration = Duration::from_millis(20);

/// Sends queued entries in batches until the queue ends. Dropping the future cancels all batches in
/// flight.
pub(crate) async fn forward(log: Arc<Shared>, queued: QueuedLanes) {
    let fresh = forward_lane(log.clone(), queued.fresh, MOST_FRESH);
    let old = forward_lane(log, queued.old, MOST_OLD);
    tokio::join!(fresh, old);
}

async fn forward_lane(log: Arc<Shared>, mut queued: mpsc::Receiver<Queued>, most: usize) {
    let gathering = (log.config.rounds.period / 10).min(MOST_GATHERING);
    let (permits, mut under_way) = (Arc::new(Semaphore::new(most)), JoinSet::new());
    // The semaphore is never closed.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        let Some(first) = queued.recv().await else {
            break;
        };
        let batch = gather(first, &mut queued, gathering).await;
        while under_way.try_join_next().is_some() {}
        let log = log.clone();
        under_way.spawn(async move {
            log.send(batch).await;
            drop(permit);
        });
    }
    while under_way.join_next().await.is_some() {}
}

/// Returns a batch: the first entry, and the entries that arrive within `gathering`, up to the
/// limits of a batch.
async fn gather(
    first: Queued,
    queued: &mut mpsc::Receiver<Queued>,
    gathering: Duration,
) -> Vec<Queued> {
    let until = Instant::now() + gathering;
    let mut bytes = first.item.entry.size();
    let mut batch = vec![first];
    while batch.len() < MOST_ENTRIES && bytes < MOST_BYTES {
        match timeout_at(until, queued.recv()).await {
            Ok(Some(next)) => {
                bytes += next.item.entry.size();
                batch.push(next);
            }
            _ => break,
        }
    }
    batch
}

impl Shared {
    /// Sends a batch to the leader, and reports each entry's outcome. Entries without an outcome
    /// are sent again, to the leader at that time.
    async fn send(&self, batch: Vec<Queued>) {
        let Some(instances) = &self.config.instances else {
            return;
        };
        let mut leaders = self.instance.leader.subscribe();
        let Some(leader) = leaders.borrow_and_update().clone() else {
            return;
        };
        let (items, mut outcomes): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|queued| (queued.item, queued.outcome))
            .unzip();
        let message = Batch::encode(&self.instance.configuration, &items);
        let id = self.config.key.log_id();
        let asked = instances.messenger.ask(&leader.address, id, message);
        let answer = tokio::select! {
            answer = asked => answer,
            // A leader that has lost the lease may never respond.
            _ = leaders.wait_for(|now| now.as_ref() != Some(&leader)) => return,
            // No submission waits for the response any more.
            () = all_gone(&mut outcomes) => return,
        };
        let refused = |status| Undelivered::refused(&leader.address, status);
        let answer = answer.map_err(Undelivered::from).and_then(|bytes| {
            let answer = Answer::parse(bytes);
            answer.ok_or_else(|| refused(Status::Version))
        });
        if leaders.borrow().as_ref() != Some(&leader) {
            return;
        }
        let answer = match answer {
            Ok(answer) if answer.status == Status::Taken => answer,
            // The other instance is no longer the leader: find the new leader at once.
            Ok(answer) if answer.status == Status::NotLeading => {
                let address = leader.address.clone();
                self.not_led(&leader, &Undelivered::NotLeading { address });
                return self.instance.nudge.notify_one();
            }
            Ok(answer) => {
                return self
                    .status
                    .note_refusal(Some(refused(answer.status).to_string()));
            }
            Err(undelivered) => return self.not_led(&leader, &undelivered),
        };
        self.instance.leads();
        self.status.note_refusal(None);
        let session = self.submissions.session.load();
        if let Some(forwarder) = session.as_ref().and_then(|session| session.follows()) {
            forwarder.note(answer.pressure);
        }
        // Placed entries are already published, so the follower polls the tree at once.
        self.instance.nudge.notify_one();
        for (told, outcome) in outcomes.into_iter().zip(answer.outcomes) {
            // The client may have disconnected.
            let _ = told.send(outcome);
        }
    }

    /// Records that the instance with the lease does not lead or respond. The problem is reported
    /// if no other instance takes the lead in time.
    fn not_led(&self, leader: &Leader, problem: &Undelivered) {
        if self.instance.leads_not(leader, Instant::now()) {
            self.status.note_refusal(Some(problem.to_string()));
        }
    }

    /// Takes a batch from a follower, and responds after publication of its rounds.
    pub(crate) async fn take(&self, message: Bytes) -> Bytes {
        self.taken(message).await.encode()
    }

    async fn taken(&self, message: Bytes) -> Answer {
        let Some(batch) = Batch::parse(message) else {
            tracing::warn!(
                log = self.config.shortname,
                "an instance sends an unknown format: run the same version on all instances"
            );
            return Answer::refusal(Status::Version);
        };
        if batch.configuration != self.instance.configuration {
            tracing::warn!(
                log = self.config.shortname,
                "refused the submissions of an instance with another configuration of this log: \
                 use the same configuration for all instances"
            );
            return Answer::refusal(Status::Configuration);
        }
        let session = self.submissions.session.load_full();
        let Some(session) = session.filter(|session| session.follows().is_none()) else {
            return Answer::refusal(Status::NotLeading);
        };
        self.instance.slowness.lock().note_follower(Instant::now());
        let joins = batch.items.into_iter().map(async |item| {
            let Item {
                entry,
                not_before_ms,
            } = item;
            let (identity, signed) = (entry.identity, entry.signed.clone());
            let joined = self.submissions.join(&session, entry, not_before_ms, None);
            let at = joined.await?;
            let proven = self.submissions.prove_indexed(&identity, &signed, &at);
            proven.await.map(|()| at)
        });
        let joined = join_all(joins).await;
        // The session must not be held while a round is pending.
        drop(session);
        let mut outcomes = Vec::with_capacity(joined.len());
        for at in joined {
            outcomes.push(outcome(at).await);
        }
        let session = self.submissions.session.load();
        Answer {
            status: Status::Taken,
            pressure: session
                .as_ref()
                .map(|session| session.pool.pressure())
                .unwrap_or_default(),
            outcomes,
        }
    }
}

/// Waits until no submission waits for any of these outcomes.
async fn all_gone(outcomes: &mut [oneshot::Sender<Outcome>]) {
    for outcome in outcomes {
        outcome.closed().await;
    }
}

/// Waits for the outcome of an entry that a follower has sent.
pub(crate) async fn outcome(at: Result<At, SubmitError>) -> Outcome {
    let place = match at {
        Ok(At::Index(place)) => Ok((place.index, place.timestamp_ms)),
        Ok(At::Round(ticket)) => ticket.wait().await.map_err(|_| Outcome::Lost),
        Ok(At::Sent(..)) => Err(Outcome::Lost),
        Err(SubmitError::Full {
            retry_after_seconds,
            ..
        }) => Err(Outcome::Full {
            retry_after_seconds,
        }),
        Err(SubmitError::Unavailable(cause)) if !cause.ends_with_leader() => {
            Err(Outcome::Unavailable {
                // Instances of the version before take one second for `Lost`.
                retry_after_seconds: cause.retry_after_seconds().max(2),
            })
        }
        Err(_) => Err(Outcome::Lost),
    };
    match place {
        Ok((index, timestamp_ms)) => Outcome::Placed {
            index,
            timestamp_ms,
        },
        Err(outcome) => outcome,
    }
}

/// The reasons why the leader has not accepted a batch.
#[derive(Debug, thiserror::Error)]
enum Undelivered {
    #[error(transparent)]
    Messenger(#[from] MessengerError),
    #[error(
        "the leading instance at {address} has another configuration of this log (another name, \
         or other rules for submissions), and refuses submissions from this instance: use the same \
         configuration for all instances"
    )]
    Configuration { address: String },
    #[error(
        "the instance at {address} has the lease, and responds that it does not lead: if another \
         instance has the same `address`, configure another `address` for each instance"
    )]
    NotLeading { address: String },
    #[error(
        "the leading instance at {address} has an incompatible version, and refuses submissions \
         from this instance: run the same version on all instances"
    )]
    Version { address: String },
}

impl Undelivered {
    fn refused(address: &str, status: Status) -> Self {
        let address = address.to_owned();
        match status {
            Status::Configuration => Undelivered::Configuration { address },
            _ => Undelivered::Version { address },
        }
    }
}
