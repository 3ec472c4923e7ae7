//! Tickets: checkpoints that were pending, for clients whose upload began before the pending
//! checkpoint changed. A ticket has a code of the mirror, and is valid for the log in its text.

use aws_lc_rs::hmac;
use lucarne_tlog::{Checkpoint, SignedNote};

/// Length of the code before the note, in bytes.
const CODE: usize = 32;

/// Longest ticket in a request, in bytes.
const MAX_TICKET: usize = u16::MAX as usize;

/// The key that authenticates the tickets of a mirror.
pub(super) struct Tickets(hmac::Key);

/// A checkpoint to which entries are uploaded, with the verified signatures of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) note: SignedNote,
    pub(super) checkpoint: Checkpoint,
}

impl Tickets {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the ticket of a checkpoint that was pending; empty if the note is too long.
    pub(super) fn seal(&self, target: &Target) -> Vec<u8> {
        let note = target.note.encode();
        if note.len() > MAX_TICKET - CODE {
            return Vec::new();
        }
        let code = hmac::sign(&self.0, note.as_bytes());
        [code.as_ref(), note.as_bytes()].concat()
    }

    /// Returns the checkpoint of a ticket of this mirror for the log; `None` for other bytes.
    pub(super) fn open(&self, origin: &str, ticket: &[u8]) -> Option<Target> {
        let (code, note) = ticket.split_at_checked(CODE)?;
        hmac::verify(&self.0, note, code).ok()?;
        let note = SignedNote::parse(note).ok()?;
        let (checkpoint, _) = Checkpoint::parse_extended(&note.text).ok()?;
        (checkpoint.origin == origin).then_some(Target { note, checkpoint })
    }
}
