//! The side of a hand-over that gives its logs away.

use std::sync::Arc;
use std::time::Duration;

use lucarne_http::Serving;
use lucarne_log::{Fatal, Log};
use lucarne_storage::{AssetError, Lock};
use tokio::time::{sleep, timeout};

use super::doorway::Candidate;
use super::wire::{Message, Wire};
use super::{OPENING, RESPONSE_TIMEOUT};
use crate::closing::close;
use crate::mirror::Mirroring;

/// Time for clients to open new connections. Responses in this time announce the end of their
/// connection.
const SENDING_AWAY: Duration = Duration::from_secs(2);

/// Time for open submissions to get their response. Submissions that arrive later get 503.
const LAST_SUBMISSIONS: Duration = Duration::from_secs(1);

/// Time limit for closing the lock.
const CLOSING: Duration = Duration::from_secs(5);

/// Outcomes of a hand-over.
pub(crate) enum Given {
    /// The other process has the logs.
    Over,
    /// The hand-over failed, and nothing has changed in this process.
    Not,
    /// The hand-over failed. This process has closed its logs and no longer accepts connections.
    Back,
}

/// Hands the logs over to the `candidate` process.
pub(crate) async fn give(
    candidate: Candidate,
    serving: &mut Serving,
    (logs, mirroring): (&[Arc<Log>], Option<&mut Mirroring>),
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
            tracing::error!(
                pid,
                "not handed over: the other process {why}; this process continues"
            );
            return Given::Not;
        }
    }
    serving.close().await;
    match switch(wire, serving, (logs, mirroring), lock, drain_timeout).await {
        Ok(()) => {
            tracing::info!(pid, "handed over");
            Given::Over
        }
        Err(why) => {
            tracing::error!(
                pid,
                "not handed over: {why}; this process opens its logs again"
            );
            wire.withdraw(why.to_string()).await;
            Given::Back
        }
    }
}

/// Waits until the other process fails or violates the protocol.
async fn gone(wire: &mut Wire) -> String {
    match wire.receive().await {
        Ok(None) => "has died".to_owned(),
        Ok(Some(Message::Failed(why))) => format!("failed: {why}"),
        Ok(Some(_)) => "sent an unexpected message".to_owned(),
        Err(error) => format!("sent no valid message: {error:#}"),
    }
}

/// Reasons why the logs were not handed over.
#[derive(Debug, thiserror::Error)]
enum SwitchError {
    #[error("the other process does not respond: {0:#}")]
    Unsent(#[source] anyhow::Error),
    #[error("these logs wait for a store or a server that does not respond: {}", .0.join(", "))]
    Waiting(Vec<String>),
    #[error("log `{name}`: {source}")]
    Log { name: String, source: Fatal },
    #[error("the copies of the mirror: {0}")]
    Mirror(#[source] AssetError),
    #[error("the lock {0} does not respond")]
    Lock(String),
    #[error("the other process failed: {0}")]
    Failed(String),
    #[error("the other process sent an unexpected message")]
    Unexpected,
    #[error("the other process has died")]
    Died,
    #[error("the other process sent no valid message: {0:#}")]
    Unreadable(#[source] anyhow::Error),
    #[error(
        "the other process has not opened the logs after {} s",
        (OPENING + RESPONSE_TIMEOUT).as_secs()
    )]
    Late,
}

async fn switch(
    wire: &mut Wire,
    serving: &Serving,
    (logs, mirroring): (&[Arc<Log>], Option<&mut Mirroring>),
    lock: &Arc<dyn Lock>,
    drain_timeout: Duration,
) -> Result<(), SwitchError> {
    let accepted = wire.send(&Message::Accept).await;
    accepted.map_err(SwitchError::Unsent)?;
    if !serving.submissions_end(LAST_SUBMISSIONS).await {
        tracing::warn!("some connections are still open: further submissions on them are refused");
    }
    let late = close(logs, drain_timeout).await;
    if !late.is_empty() {
        return Err(SwitchError::Waiting(late));
    }
    for log in logs {
        log.let_go().await.map_err(|source| SwitchError::Log {
            name: log.config().shortname.clone(),
            source,
        })?;
    }
    if let Some(mirroring) = mirroring {
        mirroring.let_go().await.map_err(SwitchError::Mirror)?;
    }
    if timeout(CLOSING, lock.close()).await.is_err() {
        return Err(SwitchError::Lock(lock.location()));
    }
    let yours = wire.send(&Message::Yours).await;
    yours.map_err(SwitchError::Unsent)?;
    match timeout(OPENING + RESPONSE_TIMEOUT, wire.receive()).await {
        Ok(Ok(Some(Message::Leading))) => Ok(()),
        Ok(Ok(Some(Message::Failed(why)))) => Err(SwitchError::Failed(why)),
        Ok(Ok(Some(_))) => Err(SwitchError::Unexpected),
        Ok(Ok(None)) => Err(SwitchError::Died),
        Ok(Err(error)) => Err(SwitchError::Unreadable(error)),
        Err(_) => Err(SwitchError::Late),
    }
}
