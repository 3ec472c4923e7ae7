//! The way of a submission to its place in the log.

use std::sync::atomic::Ordering;

use lucarne_ct::{Chain, Entry, EntryKind, Identity, Sct, SignedEntry};

use crate::dedup::Place;
use crate::pool::{Epoch, Joined, Known, Ticket};
use crate::session::Session;
use crate::shared::Shared;
use crate::{Fatal, State, SubmitError};

/// A submission that has its place.
struct Placed {
    signed: SignedEntry,
    place: At,
    /// It was known before any signature was verified.
    duplicate: bool,
}

/// Where an entry is.
enum At {
    /// In the log.
    Index(Place),
    /// In a round that may not be published yet.
    Round(Ticket),
}

/// What memory and index know of an identity.
enum Looked {
    Found(At),
    /// It was nowhere at this time.
    Absent(Epoch),
}

impl Shared {
    /// See [`Log::submit`](crate::Log::submit).
    pub(crate) async fn submit(&self, kind: EntryKind, chain: Chain) -> Result<Sct, SubmitError> {
        let Placed {
            signed,
            place,
            duplicate,
        } = self.place(kind, &chain)?;
        let (index, timestamp_ms) = match place {
            At::Index(place) => (place.index, place.timestamp_ms),
            At::Round(ticket) => ticket.wait().await.map_err(|_| self.unavailable())?,
        };
        let counter = match duplicate {
            true => &self.metrics.duplicate,
            false => &self.metrics.accepted,
        };
        counter.inc();
        self.sct(&signed, index, timestamp_ms)
    }

    /// Examines, looks for a duplicate, verifies, joins the open round: all
    /// that happens before there is something to wait for.
    fn place(&self, kind: EntryKind, chain: &Chain) -> Result<Placed, SubmitError> {
        let session = self.session.load();
        let session = session.as_ref().ok_or_else(|| self.unavailable())?;
        let validator = self.validator.load();
        let examined = validator
            .examine(chain, kind, self.now_ms())
            .map_err(SubmitError::Rejected)?;
        // A duplicate is answered before any signature is checked.
        let looked = match (examined.identity(), examined.signed()) {
            (Some(identity), Some(signed)) => match self.look(session, identity)? {
                Looked::Found(place) => {
                    return Ok(Placed {
                        signed,
                        place,
                        duplicate: true,
                    });
                }
                Looked::Absent(epoch) => Some(epoch),
            },
            _ => None,
        };
        let entry = validator.verify(examined).map_err(SubmitError::Rejected)?;
        let signed = entry.signed.clone();
        let place = self.join(session, entry, looked)?;
        Ok(Placed {
            signed,
            place,
            duplicate: false,
        })
    }

    /// Looks for an identity in memory, then in the index.
    fn look(&self, session: &Session, identity: &Identity) -> Result<Looked, SubmitError> {
        let epoch = match session.pool.find(identity) {
            Known::Here(ticket) => return Ok(Looked::Found(At::Round(ticket))),
            Known::NotHere(epoch) => epoch,
        };
        let found = session.dedup.find(identity);
        let found = found.map_err(|fatal| self.unreadable(session, fatal))?;
        Ok(found.map_or(Looked::Absent(epoch), |place| {
            Looked::Found(At::Index(place))
        }))
    }

    /// Joins the open round, once the entry is known to be nowhere else.
    fn join(
        &self,
        session: &Session,
        mut entry: Entry,
        mut looked: Option<Epoch>,
    ) -> Result<At, SubmitError> {
        loop {
            let epoch = match looked.take() {
                Some(epoch) => epoch,
                None => match self.look(session, &entry.identity)? {
                    Looked::Found(place) => return Ok(place),
                    Looked::Absent(epoch) => epoch,
                },
            };
            match session.pool.join(entry, epoch) {
                Joined::At(ticket) => return Ok(At::Round(ticket)),
                Joined::LookAgain(same) => entry = *same,
                Joined::Full {
                    retry_after_seconds,
                } => {
                    return Err(SubmitError::Full {
                        retry_after_seconds,
                    });
                }
                Joined::Closed => return Err(self.unavailable()),
            }
        }
    }

    fn sct(&self, signed: &SignedEntry, index: u64, timestamp: u64) -> Result<Sct, SubmitError> {
        let key = &self.config.key;
        if let Some(signature) = self.issued.find(index, timestamp) {
            return Ok(key.signed_sct(timestamp, index, signature));
        }
        let sct =
            key.sign_sct(timestamp, signed, index)
                .map_err(|error| SubmitError::Unavailable {
                    retry_after_seconds: 10,
                    reason: format!("signing failed: {error}"),
                })?;
        self.issued.remember(index, timestamp, &sct.signature);
        Ok(sct)
    }

    /// Without its index the log cannot tell duplicates: it stops, and opens
    /// or rebuilds the index at its next start.
    fn unreadable(&self, session: &Session, fatal: Fatal) -> SubmitError {
        tracing::error!(log = self.config.shortname, error = %fatal, "dedup index failed");
        session.pool.fail(fatal);
        self.unavailable()
    }

    fn unavailable(&self) -> SubmitError {
        let (retry_after_seconds, reason) = match &*self.state.lock() {
            State::Retired => return SubmitError::Gone,
            State::Starting => (5, "the log is starting".into()),
            State::Running if self.closing.load(Ordering::SeqCst) => {
                (10, "the log is shutting down".into())
            }
            State::Running => (1, "the round failed".into()),
            State::Closed => (10, "the log is shutting down".into()),
            State::Stopped { retry_at_ms, .. } => {
                let wait_ms = retry_at_ms.saturating_sub(self.config.clock.now_ms());
                let seconds = wait_ms.div_ceil(1000).clamp(1, 60) as u32;
                (seconds, "the log is stopped by an error".into())
            }
        };
        SubmitError::Unavailable {
            retry_after_seconds,
            reason,
        }
    }
}
