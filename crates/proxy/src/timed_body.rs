//! A body whose sender may not stand still.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// The reasons why a body ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Its sender broke off.
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
    /// Its sender stopped sending.
    #[error("nothing came for {0:?}")]
    Still(Duration),
    /// The server has answered without waiting for it.
    #[error("the server did not want it")]
    Unwanted,
}

/// A body whose sender must not stand still for too long.
pub(crate) struct Timed {
    incoming: Incoming,
    idle: Duration,
    /// Made when it has to be waited for the first time: most never are.
    alarm: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Timed {
    pub(crate) fn new(incoming: Incoming, idle: Duration) -> Self {
        Timed {
            incoming,
            idle,
            alarm: None,
            waiting: false,
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            self.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let idle = self.idle;
        // Set anew whenever bytes have come: it rings after silence only.
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(idle)));
        if !self.waiting {
            self.waiting = true;
            alarm.as_mut().reset(Instant::now() + idle);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Still(idle))))
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
