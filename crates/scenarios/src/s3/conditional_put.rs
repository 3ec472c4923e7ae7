//! Conditional PUT under contention.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use lucarne_load::http::{Body, Client, Response};
use lucarne_load::{Failure, Iteration, Pending};

use super::content::{Content, ContentError, Header};
use super::store::{S3Request, Store};

/// Counts of the races at one store.
#[derive(Debug, Default)]
pub(super) struct RaceCounts {
    /// Races in which every response arrived.
    pub(super) races: AtomicU64,
    /// Complete races without exactly one winner, or whose winner's bytes were not stored.
    pub(super) broken: AtomicU64,
}

impl RaceCounts {
    /// Formats the counts as a line. Returns `None` if there were no races.
    pub(super) fn line(&self, store: &str, racers: u32) -> Option<String> {
        let races = self.races.load(Ordering::Relaxed);
        let broken = self.broken.load(Ordering::Relaxed);
        match (races, broken) {
            (0, _) => None,
            (_, 0) => Some(format!(
                "{store}: atomic, one winner in each of {races} races of {racers}"
            )),
            _ => Some(format!(
                "{store}: NOT ATOMIC, {broken} of {races} races of {racers} went wrong: \
                 do not use this store as a lock"
            )),
        }
    }

    pub(super) fn count(&self, fair: bool) {
        self.races.fetch_add(1, Ordering::Relaxed);
        self.broken.fetch_add(u64::from(!fair), Ordering::Relaxed);
    }
}

/// The reasons why a race does not have exactly one winner.
#[derive(Debug, thiserror::Error)]
pub(super) enum RaceError {
    #[error("expected one of {creators} creators to succeed, found none")]
    NoWinner { creators: usize },
    #[error("expected one of {creators} creators to succeed, found {winners}")]
    Winners { winners: usize, creators: usize },
    /// The winner's object cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Failure),
    #[error("the winner's object is not stored: {0}")]
    NotStored(#[from] ContentError),
}

/// Result of a race.
pub(super) struct Finish {
    pub(super) responses: Vec<Response>,
    /// Index of the winner.
    pub(super) winner: Result<usize, RaceError>,
    /// Whether every racer received a response, so that the result is meaningful.
    pub(super) complete: bool,
}

/// Lets all clients create the object `key` concurrently, each with its own header.
pub(super) async fn run(
    store: &Store,
    clients: &mut [Client],
    key: &str,
    content: &Content,
    headers: &[Header],
    size: u64,
    pending: &(dyn Fn(&Client) -> Pending + Sync),
) -> Finish {
    let racers = clients
        .iter_mut()
        .zip(headers)
        .map(|(client, header)| async move {
            let parts = content.parts(header, size);
            let pending = pending(client);
            pending
                .until(store.send(client, S3Request::Create(key), Body::Parts(&parts)))
                .await
        });
    judge(join_all(racers).await)
}

fn judge(responses: Vec<Response>) -> Finish {
    let winners: Vec<_> = responses
        .iter()
        .enumerate()
        .filter(|(_, response)| response.is(&[200]))
        .map(|(index, _)| index)
        .collect();
    let complete = responses.iter().all(|it| it.exchange.outcome.is_ok());
    let winner = match winners[..] {
        [one] => Ok(one),
        [] => Err(RaceError::NoWinner {
            creators: responses.len(),
        }),
        _ => Err(RaceError::Winners {
            winners: winners.len(),
            creators: responses.len(),
        }),
    };
    Finish {
        responses,
        // Two winners are wrong even if other responses are missing.
        complete: complete || winners.len() > 1,
        winner,
    }
}

/// Checks that the store has the winner's bytes.
pub(super) async fn confirm(
    store: &Store,
    client: &mut Client,
    key: &str,
    content: &Content,
    header: &Header,
    size: u64,
) -> (Response, Result<(), RaceError>) {
    let mut comparison = content.comparison(header, size);
    let response = store.get(client, key, &mut comparison).await;
    let stored = match &response.exchange.outcome {
        Err(failure) => Err(failure.clone().into()),
        Ok(()) => comparison.result().map_err(RaceError::NotStored),
    };
    (response, stored)
}

/// Name of the check.
pub(super) const CHECK: &str = "one creator wins";

/// Records the check for the object `key`, and counts the race.
pub(super) fn tell(
    iteration: &Iteration,
    tags: lucarne_load::Tags,
    counts: &RaceCounts,
    store: &str,
    key: &str,
    outcome: Result<(), RaceError>,
) {
    counts.count(outcome.is_ok());
    let outcome = outcome.map_err(|error| format!("{store}: {key}: {error}"));
    iteration.check(tags, CHECK, outcome);
}
