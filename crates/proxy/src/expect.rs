//! `Expect: 100-continue` (RFC 9110 10.1.1): a body that waits for the
//! server's word.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// The states of the expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Nothing yet.
    None,
    /// The server wants the body, or cannot say so.
    Wanted,
    /// The server has answered without it. It will not be sent, but the
    /// connection is still needed for the answer.
    Refused,
    /// The answer has been read: the connection, which waits for a body that
    /// does not come, is to end.
    Over,
}

/// The gate that a body waits before.
#[derive(Clone)]
pub(crate) struct BodyGate(Arc<Mutex<State>>);

struct State {
    expectation: Expectation,
    waiting: Option<Waker>,
}

impl BodyGate {
    pub(crate) fn new() -> Self {
        BodyGate(Arc::new(Mutex::new(State {
            expectation: Expectation::None,
            waiting: None,
        })))
    }

    /// The body is to be sent.
    pub(crate) fn open(&self) {
        self.turn(Expectation::None, Expectation::Wanted);
    }

    /// The server has answered. If the body was still held back, it is not
    /// sent any more, and its connection is good for this answer alone.
    pub(crate) fn answered(self) -> Option<Withheld> {
        self.turn(Expectation::None, Expectation::Refused)
            .then_some(Withheld(self))
    }

    /// The expectation, for which the body waits if there is none.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Expectation> {
        let mut state = self.0.lock();
        if matches!(state.expectation, Expectation::None | Expectation::Refused) {
            state.waiting = Some(cx.waker().clone());
        }
        match state.expectation {
            Expectation::None => Poll::Pending,
            expectation => Poll::Ready(expectation),
        }
    }

    fn turn(&self, from: Expectation, to: Expectation) -> bool {
        let mut state = self.0.lock();
        if state.expectation != from {
            return false;
        }
        state.expectation = to;
        if let Some(waiting) = state.waiting.take() {
            waiting.wake();
        }
        true
    }
}

/// A body that was held back to the end. Its connection ends with this.
pub(crate) struct Withheld(BodyGate);

impl Drop for Withheld {
    fn drop(&mut self) {
        self.0.turn(Expectation::Refused, Expectation::Over);
    }
}
