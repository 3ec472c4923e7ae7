//! The actions of several instances of one log.

use std::fmt;

use super::instance::Opening;
use crate::sequence::phase::Phase;

/// An action of an instance, of a client or of the network.
#[derive(Clone, Copy)]
pub(super) enum Action {
    /// A follower opens the log and reads the published checkpoint.
    Read(usize),
    /// The follower reads the lock, compares both, and follows.
    Compare(usize),
    /// A follower extends its tree to the published checkpoint.
    Follow(usize),
    /// A follower reads the checkpoint, and the store responds with the first checkpoint of the
    /// log.
    FollowStale(usize),
    TakeLease(usize),
    /// The lease names no holder any more.
    LoseLease,
    HandOver(usize),
    /// A leader finds that the lease is not its own.
    Depose(usize),
    Opening(usize, Opening),
    /// All steps of the opening.
    Recover(usize),
    /// An instance looks for the entry: `from` is the instance whose client submitted it.
    Look {
        from: usize,
        at: usize,
    },
    /// The entry joins the pool, or waits for the equal entry in the pool.
    Join {
        from: usize,
        at: usize,
    },
    /// The round of this submission.
    Seal(usize, u8),
    Resign(usize),
    Step(usize, Phase),
    /// A follower forwards the entry.
    Forward(usize),
    /// A follower gets a response: index and time.
    Receive(usize, (usize, u8)),
    /// The network delivers a response whose place may be wrong.
    WrongResponse(usize),
    /// A follower has the entry in its own index.
    Duplicate(usize),
    Crash(usize),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Read(i) => write!(f, "instance {i} opens the log: reads the first checkpoint"),
            Action::Compare(i) => {
                write!(f, "instance {i} reads the second checkpoint, and follows")
            }
            Action::Follow(i) => write!(f, "instance {i} extends its tree"),
            Action::FollowStale(i) => write!(f, "instance {i} reads a stale checkpoint"),
            Action::TakeLease(i) => write!(f, "instance {i} takes the lease"),
            Action::LoseLease => write!(f, "the lease names no holder"),
            Action::HandOver(i) => write!(f, "instance {i} hands the lease over"),
            Action::Depose(i) => write!(f, "instance {i} finds another lease"),
            Action::Opening(i, step) => write!(f, "instance {i} recovers: {step:?}"),
            Action::Recover(i) => write!(f, "instance {i} recovers"),
            Action::Look { from, at } if from == at => {
                write!(f, "instance {at} looks for the entry of its client")
            }
            Action::Look { from, at } => {
                write!(
                    f,
                    "instance {at} gets the entry from instance {from}, and looks for it"
                )
            }
            Action::Join { from, at } => {
                write!(
                    f,
                    "instance {at}: the entry from instance {from} joins the pool"
                )
            }
            Action::Seal(i, n) => write!(f, "instance {i}: Seal submission {n}"),
            Action::Resign(i) => write!(f, "instance {i} begins to sign the same tree again"),
            Action::Step(i, phase) => write!(f, "instance {i}: {phase:?}"),
            Action::Forward(i) => write!(f, "instance {i} forwards the entry"),
            Action::Receive(i, (index, time)) => {
                write!(
                    f,
                    "instance {i} gets the response: index {index}, time {time}"
                )
            }
            Action::WrongResponse(i) => write!(f, "a wrong response is sent to instance {i}"),
            Action::Duplicate(i) => write!(f, "instance {i} has the entry in its index"),
            Action::Crash(i) => write!(f, "instance {i} is killed"),
        }
    }
}
