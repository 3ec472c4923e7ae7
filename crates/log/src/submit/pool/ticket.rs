//! Tickets: a submission waits with its ticket for its index in the log.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// The outcome of a round.
pub(crate) type SequencingResult = Result<Sequenced, Abandoned>;

/// The position of a round's entries in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) first_index: u64,
    pub(crate) timestamp_ms: u64,
}

/// A failed round. Its entries may or may not be in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

/// The result for the submissions of one entry.
#[derive(Default)]
struct Told {
    place: OnceLock<Result<(u64, u64), Abandoned>>,
    told: Notify,
}

/// The handle with which submissions wait for the index of an entry. The ticket does not fix the
/// round, because an old entry may wait for a later round.
#[derive(Clone, Default)]
pub(crate) struct Ticket(Arc<Told>);

impl Ticket {
    /// Waits until the entry's round is published; returns index and timestamp.
    pub(crate) async fn wait(&self) -> Result<(u64, u64), Abandoned> {
        loop {
            let mut told = std::pin::pin!(self.0.told.notified());
            // Registers before the check, because a decision between the two would be missed
            // otherwise.
            told.as_mut().enable();
            if let Some(place) = self.0.place.get() {
                return *place;
            }
            told.await;
        }
    }

    /// Notifies all waiting submissions. Later results are ignored.
    pub(super) fn tell(&self, place: Result<(u64, u64), Abandoned>) {
        if self.0.place.set(place).is_ok() {
            self.0.told.notify_waiters();
        }
    }
}

/// The tickets of a round, whose holders wait for the outcome.
pub(crate) struct RoundOutcome(pub(super) Vec<Ticket>);

impl RoundOutcome {
    /// Notifies all waiting submissions. Later results are ignored.
    pub(crate) fn decide(&self, result: SequencingResult) {
        for (position, ticket) in (0..).zip(&self.0) {
            let place = |it: Sequenced| (it.first_index + position, it.timestamp_ms);
            ticket.tell(result.map(place));
        }
    }
}
