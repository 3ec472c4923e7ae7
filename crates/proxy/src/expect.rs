//! `Expect: 100-continue` (RFC 9110, section 10.1.1): a body that waits for the server's interim
//! response.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// States of the expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// The server has not responded yet.
    None,
    /// The server wants the body, or does not know the expectation.
    Wanted,
    /// The server has responded without the body. The body is not sent, but the connection is still
    /// needed for the response.
    Refused,
    /// The response has been read. The connection must end, because its request still has no body.
    Over,
}

/// Gate that holds a body back until the server responds.
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

    /// Lets the body pass.
    pub(crate) fn open(&self) {
        self.turn(Expectation::None, Expectation::Wanted);
    }

    /// Records the server's final response. A body that is still held back is not sent, and its
    /// connection serves this response only.
    pub(crate) fn responded(self) -> Option<Withheld> {
        self.turn(Expectation::None, Expectation::Refused)
            .then_some(Withheld(self))
    }

    /// Returns the state, or waits while it is [`Expectation::None`].
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

/// A body that was never sent. Dropping this value ends the connection of the request.
pub(crate) struct Withheld(BodyGate);

impl Drop for Withheld {
    fn drop(&mut self) {
        self.0.turn(Expectation::Refused, Expectation::Over);
    }
}
