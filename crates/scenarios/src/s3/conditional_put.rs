//! Conditional PUT under contention.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use lucarne_load::http::{Body, Client, Response};
use lucarne_load::{Iteration, Pending};

use super::content::{Content, Header};
use super::store::{S3Request, Store};

/// The counts of the races at one store.
#[derive(Debug, Default)]
pub(super) struct RaceCounts {
    /// Races whose every answer was heard.
    pub(super) races: AtomicU64,
    /// Of these, races that did not have exactly one winner, or whose winner's
    /// bytes were not there afterwards.
    pub(super) broken: AtomicU64,
}

impl RaceCounts {
    /// In a line; `None` if there were no races.
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
                 not to be used as a lock"
            )),
        }
    }

    pub(super) fn count(&self, fair: bool) {
        self.races.fetch_add(1, Ordering::Relaxed);
        self.broken.fetch_add(u64::from(!fair), Ordering::Relaxed);
    }
}

/// The outcome of a race.
pub(super) struct Finish {
    pub(super) responses: Vec<Response>,
    /// The one that won; or why there is none, in words.
    pub(super) winner: Result<usize, String>,
    /// `true` if every racer was answered, so that the race says something.
    pub(super) complete: bool,
}

/// Lets every client create the object `key`, each with its own header, at once.
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
        [] => Err("no creator won".to_owned()),
        _ => Err(format!(
            "{} of {} creators were told that they made the object",
            winners.len(),
            responses.len()
        )),
    };
    Finish {
        responses,
        // Two winners are wrong whatever became of the others.
        complete: complete || winners.len() > 1,
        winner,
    }
}

/// Checks that what the winner wrote is there.
pub(super) async fn confirm(
    store: &Store,
    client: &mut Client,
    key: &str,
    content: &Content,
    header: &Header,
    size: u64,
) -> (Response, Result<(), String>) {
    let response = store.send(client, S3Request::Get(key), Body::Empty).await;
    let there = match &response.exchange.outcome {
        Err(failure) => Err(failure.to_string()),
        Ok(()) => content
            .compare(&response.body, header, size)
            .map_err(|how| format!("what the winner wrote is not there: {how}")),
    };
    (response, there)
}

/// The name of the check.
pub(super) const CHECK: &str = "one creator wins";

/// Tells the check and the tally.
pub(super) fn tell(
    iteration: &Iteration,
    tags: lucarne_load::Tags,
    counts: &RaceCounts,
    outcome: Result<(), String>,
) {
    counts.count(outcome.is_ok());
    iteration.check(tags, CHECK, outcome);
}
