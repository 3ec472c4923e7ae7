//! HTTP/2 streams whose receiver accepts no bytes.
//!
//! hyper does not poll a body while the receiver gives its stream no window. Therefore the timer of
//! [`Timed`](crate::timed_body::Timed) does not run, and the connection itself works. Over HTTP/1,
//! the kernel closes a connection in this state (`TCP_USER_TIMEOUT`). This module gives up the
//! stream after the same time, and keeps the connection for the other streams.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use tokio::time::{Instant, sleep};

/// Last event of the body that a task of hyper sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyEvent {
    /// The task sends no body.
    #[default]
    None,
    /// The body has no frame yet. The timer of the body limits this wait.
    Waiting,
    /// The body has returned a frame.
    Frame,
    /// The receiver has not accepted the last frame yet; the timer of the task runs.
    Blocked,
}

tokio::task_local! {
    static SENDING: Cell<BodyEvent>;
}

/// Records the result of polling a body in the task that sends the body, and returns it.
pub(crate) fn polled<F, E>(result: Poll<Option<Result<F, E>>>) -> Poll<Option<Result<F, E>>> {
    record(match &result {
        Poll::Pending => BodyEvent::Waiting,
        Poll::Ready(Some(Ok(_))) => BodyEvent::Frame,
        Poll::Ready(Some(Err(_)) | None) => BodyEvent::None,
    });
    result
}

/// Records that the body of this task is dropped.
pub(crate) fn dropped() {
    record(BodyEvent::None);
}

/// Returns whether the current task sends its body over HTTP/2.
pub(crate) fn is_http2() -> bool {
    SENDING.try_with(|_| ()).is_ok()
}

fn record(event: BodyEvent) {
    // HTTP/1 connections record nothing.
    let _ = SENDING.try_with(|sending| sending.set(event));
}

/// Runs the task of an HTTP/2 connection to a server.
pub(crate) async fn connection<F: Future>(task: F) {
    SENDING.scope(Cell::default(), task).await;
}

/// Executor of hyper's tasks on HTTP/2 connections. A task ends if the receiver of its body accepts
/// no bytes for `idle`. The stream is reset when the task has ended.
#[derive(Clone, Debug)]
pub(crate) struct StreamExecutor {
    idle: Duration,
    /// Task to wake after the next poll of a task.
    watcher: Arc<AtomicWaker>,
}

impl StreamExecutor {
    pub(crate) fn new(idle: Duration) -> Self {
        StreamExecutor {
            idle,
            watcher: Arc::default(),
        }
    }

    /// Wakes this waker once, after the next poll of one of the tasks.
    pub(crate) fn wake_after_poll(&self, waker: &Waker) {
        self.watcher.register(waker);
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        // hyper polls the body of a request in the task of the connection first. If the body is not
        // sent at once, the next task continues with it.
        let begun = SENDING.try_with(Cell::take).unwrap_or_default();
        let (idle, watcher) = (self.idle, self.watcher.clone());
        let limited = async move { limited(task, idle, &watcher).await };
        tokio::spawn(SENDING.scope(Cell::new(begun), limited));
    }
}

/// Runs `task` until it ends, or until the receiver of its body has accepted no bytes for `idle`.
/// Wakes `watcher` after each poll.
async fn limited<F: Future>(task: F, idle: Duration, watcher: &AtomicWaker) {
    let mut task = pin!(task);
    // The limit itself: `poll_fn` polls this timer only while the receiver accepts nothing.
    let mut alarm = pin!(sleep(idle));
    std::future::poll_fn(|cx: &mut Context<'_>| {
        let ended = task.as_mut().poll(cx).is_ready();
        watcher.wake();
        if ended {
            return Poll::Ready(());
        }
        match SENDING.with(Cell::get) {
            BodyEvent::None | BodyEvent::Waiting => return Poll::Pending,
            BodyEvent::Frame => {
                alarm.as_mut().reset(Instant::now() + idle);
                SENDING.with(|sending| sending.set(BodyEvent::Blocked));
            }
            BodyEvent::Blocked => {}
        }
        let late = alarm.as_mut().poll(cx);
        late.map(|()| tracing::debug!("stream reset: the receiver accepted no byte for {idle:?}"))
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    /// Runs a task that polls a body once and then waits. Returns whether the limit ends the task
    /// within `time`.
    async fn ends(first: Poll<Option<Result<(), ()>>>, time: Duration) -> bool {
        let task = async move {
            let _ = polled(first);
            std::future::pending::<()>().await;
        };
        let watcher = AtomicWaker::new();
        let limited = limited(task, Duration::from_millis(10), &watcher);
        timeout(time, SENDING.scope(Cell::default(), limited))
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn only_a_frame_that_is_not_accepted_ends_the_task() {
        assert!(ends(Poll::Ready(Some(Ok(()))), Duration::from_secs(60)).await);
        for first in [Poll::Pending, Poll::Ready(None)] {
            // The task must outlast several limits.
            assert!(!ends(first, Duration::from_millis(100)).await, "{first:?}");
        }
    }
}
