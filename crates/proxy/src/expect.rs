//! `Expect: 100-continue` (RFC 9110 10.1.1): a body that waits for the
//! server's word.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// What has become of the expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
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

/// What a body waits before.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Mutex<State>>);

struct State {
    word: Word,
    waiting: Option<Waker>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate(Arc::new(Mutex::new(State {
            word: Word::None,
            waiting: None,
        })))
    }

    /// The body is to be sent.
    pub(crate) fn open(&self) {
        self.turn(Word::None, Word::Wanted);
    }

    /// The server has answered. If the body was still held back, it is not
    /// sent any more, and its connection is good for this answer alone.
    pub(crate) fn answered(self) -> Option<Withheld> {
        self.turn(Word::None, Word::Refused)
            .then_some(Withheld(self))
    }

    /// The word, for which the body waits if there is none.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Word> {
        let mut state = self.0.lock();
        if matches!(state.word, Word::None | Word::Refused) {
            state.waiting = Some(cx.waker().clone());
        }
        match state.word {
            Word::None => Poll::Pending,
            word => Poll::Ready(word),
        }
    }

    fn turn(&self, from: Word, to: Word) -> bool {
        let mut state = self.0.lock();
        if state.word != from {
            return false;
        }
        state.word = to;
        if let Some(waiting) = state.waiting.take() {
            waiting.wake();
        }
        true
    }
}

/// A body that was held back to the end. Its connection ends with this.
pub(crate) struct Withheld(Gate);

impl Drop for Withheld {
    fn drop(&mut self) {
        self.0.turn(Word::Refused, Word::Over);
    }
}
