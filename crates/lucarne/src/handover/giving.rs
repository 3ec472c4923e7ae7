//! Handing over, as the process does that has the logs.

use std::sync::Arc;
use std::time::Duration;

use lucarne_http::Serving;
use lucarne_log::Log;
use lucarne_storage::Lock;
use tokio::time::{sleep, timeout};

use super::doorway::Candidate;
use super::wire::{Message, Wire};
use super::{ANSWER, OPENING};
use crate::closing::close;

/// The time for clients to come back on new connections: those that ask for something in
/// it are told that it was the last answer on theirs.
const SENDING_AWAY: Duration = Duration::from_secs(2);

/// The time for the submissions that have come here to be answered. Whoever takes longer
/// to send one gets 503.
const LAST_SUBMISSIONS: Duration = Duration::from_secs(1);

/// The time for the lock to be closed.
const CLOSING: Duration = Duration::from_secs(5);

/// The outcomes of a hand-over.
pub(crate) enum Given {
    /// The other process has the logs.
    Over,
    /// It has not, and nothing has changed here.
    Not,
    /// It has not, and the logs are closed here, and the sockets not accepted from.
    Back,
}

/// Hands the logs over.
pub(crate) async fn give(
    candidate: Candidate,
    serving: &mut Serving,
    logs: &[Arc<Log>],
    lock: &Arc<dyn Lock>,
    drain_timeout: Duration,
) -> Given {
    let Candidate { mut wire, pid, .. } = candidate;
    let wire = &mut wire;
    tracing::info!(pid, "handing over");
    serving.send_away(true);
    tokio::select! {
        () = sleep(SENDING_AWAY) => {}
        why = gone(wire) => {
            serving.send_away(false);
            tracing::error!(pid, "not handed over: the other process {why}; this one goes on");
            return Given::Not;
        }
    }
    serving.close().await;
    match switch(wire, serving, logs, lock, drain_timeout).await {
        Ok(()) => {
            tracing::info!(pid, "handed over");
            Given::Over
        }
        Err(why) => {
            tracing::error!(
                pid,
                "not handed over: {why}; this process opens its logs again"
            );
            withdraw(wire, why).await;
            Given::Back
        }
    }
}

/// Waits until the other process says or does what it should not yet.
async fn gone(wire: &mut Wire) -> String {
    match wire.receive().await {
        Ok(None) => "has died".to_owned(),
        Ok(Some(Message::Failed(why))) => format!("cannot: {why}"),
        Ok(Some(_)) => "says what it should not".to_owned(),
        Err(error) => format!("is not understood: {error:#}"),
    }
}

async fn switch(
    wire: &mut Wire,
    serving: &Serving,
    logs: &[Arc<Log>],
    lock: &Arc<dyn Lock>,
    drain_timeout: Duration,
) -> Result<(), String> {
    let unsent = |error: anyhow::Error| format!("the other process does not listen: {error:#}");
    wire.send(&Message::Accept).await.map_err(unsent)?;
    if !serving.submissions_end(LAST_SUBMISSIONS).await {
        tracing::warn!(
            "some connections are not done yet: a submission that comes on them is refused"
        );
    }
    let late = close(logs, drain_timeout).await;
    if !late.is_empty() {
        return Err(format!(
            "these logs wait for what does not answer: {}",
            late.join(", ")
        ));
    }
    for log in logs {
        let name = &log.config().shortname;
        log.let_go()
            .await
            .map_err(|error| format!("log `{name}`: {error}"))?;
    }
    if timeout(CLOSING, lock.close()).await.is_err() {
        return Err(format!("{} does not answer", lock.location()));
    }
    wire.send(&Message::Yours).await.map_err(unsent)?;
    match timeout(OPENING + ANSWER, wire.receive()).await {
        Ok(Ok(Some(Message::Leading))) => Ok(()),
        Ok(Ok(Some(Message::Failed(why)))) => Err(format!("the other process cannot: {why}")),
        Ok(Ok(Some(_))) => Err("the other process says what it should not".to_owned()),
        Ok(Ok(None)) => Err("the other process has died".to_owned()),
        Ok(Err(error)) => Err(format!("the other process is not understood: {error:#}")),
        Err(_) => Err("the other process does not open the logs".to_owned()),
    }
}

/// Tells the other process to end, and waits until it has: it may have opened something.
async fn withdraw(wire: &mut Wire, why: String) {
    let _ = timeout(ANSWER, wire.send(&Message::Withdrawn(why))).await;
    let ended = async { while let Ok(Some(_)) = wire.receive().await {} };
    if timeout(ANSWER, ended).await.is_err() {
        tracing::error!("the other process does not end: end it");
    }
}
