//! Waiting for events, with a timeout that only a hang exceeds.

use std::{
    thread,
    time::{Duration, Instant},
};

use tokio::time::timeout;

/// Timeout for one event: a guard against hangs, longer than any event on a busy machine.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two polls. The pause does not affect results: a late poll only ends the wait
/// later.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// Pauses between two polls of a wait with a separate limit.
pub(crate) fn pause() {
    thread::sleep(POLL);
}

/// Polls `holds` until it returns `true`.
///
/// # Panics
/// If `holds` does not return `true` within [`EVENT_TIMEOUT`]; the message has `what`.
pub async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    in_time(what, poll(holds)).await;
}

async fn poll(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(POLL).await;
    }
}

/// Polls `holds`, which does not block, until it returns `true`.
///
/// # Panics
/// If `holds` does not return `true` within [`EVENT_TIMEOUT`]; the message has `what`.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let polling = async {
        while !holds() {
            tokio::time::sleep(POLL).await;
        }
    };
    in_time(what, polling).await;
}

/// Polls `holds` until it returns `true`, and blocks this thread during the wait.
///
/// # Panics
/// If `holds` does not return `true` within [`EVENT_TIMEOUT`]; the message has `what`.
#[track_caller]
pub fn block_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "{what}: not within {EVENT_TIMEOUT:?}"
        );
        pause();
    }
}

/// Waits for `future`.
///
/// # Panics
/// If `future` is not ready within [`EVENT_TIMEOUT`]; the message has `what`.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(EVENT_TIMEOUT, what, future).await
}

async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn an_event_is_waited_for() {
        let mut polls = 0;
        until("the third poll", || {
            polls += 1;
            polls == 3
        })
        .await;
        assert_eq!(in_time("a value", async { polls }).await, 3);
        block_until("the fifth poll", || {
            polls += 1;
            polls == 5
        });
    }

    #[tokio::test]
    #[should_panic(expected = "the end of the world: not within 20ms")]
    async fn a_hang_is_named() {
        within(4 * POLL, "the end of the world", pending::<()>()).await;
    }

    #[tokio::test]
    #[should_panic(expected = "a miracle: not within 20ms")]
    async fn an_event_that_does_not_happen_is_named() {
        within(4 * POLL, "a miracle", poll(async || false)).await;
    }
}
