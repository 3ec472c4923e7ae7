//! The way of a submission to its place in the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lucarne_ct::{Chain, Entry, EntryKind, Identity, Sct, SignedEntry, merkle_tree_leaf};
use lucarne_tlog::leaf_hash;
use tokio::task::spawn_blocking;

use crate::dedup::{Dedup, LeafPosition};
use crate::lookups::NoAnswer;
use crate::pool::{Epoch, Joined, Known, Ticket};
use crate::session::Session;
use crate::shared::Shared;
use crate::{Fatal, Signer, State, SubmitError};

/// A submission that has its place.
struct Placed {
    identity: Identity,
    signed: SignedEntry,
    place: At,
    /// It was known before any signature was verified.
    duplicate: bool,
}

/// The place of an entry.
enum At {
    /// In the log.
    Index(LeafPosition),
    /// In a round that may not be published yet.
    Round(Ticket),
}

/// The entry that is looked for.
struct Wanted<'w> {
    identity: &'w Identity,
    /// Of the certificate, Unix milliseconds, if it can be read.
    not_before_ms: Option<i64>,
}

/// The answer of memory and index about an identity.
enum Looked {
    Found(At),
    /// It was nowhere at this time.
    Absent(Epoch),
}

impl Shared {
    /// See [`Log::submit`](crate::Log::submit).
    pub(crate) async fn submit(&self, kind: EntryKind, chain: Chain) -> Result<Sct, SubmitError> {
        let Placed {
            identity,
            signed,
            place,
            duplicate,
        } = self.place(kind, &chain).await?;
        let place = match place {
            At::Index(place) => {
                self.prove(&identity, &signed, place).await?;
                place
            }
            At::Round(ticket) => {
                let waited = ticket.wait().await.map_err(|_| self.unavailable())?;
                let (index, timestamp_ms) = waited;
                LeafPosition {
                    index,
                    timestamp_ms,
                }
            }
        };
        let counter = match duplicate {
            true => &self.metrics.duplicate,
            false => &self.metrics.accepted,
        };
        counter.inc();
        self.sct(&identity, &signed, place).await
    }

    /// Examines, looks for a duplicate, verifies, joins the open round: all
    /// that happens before there is something to wait for.
    async fn place(&self, kind: EntryKind, chain: &Chain) -> Result<Placed, SubmitError> {
        let session = self.session.load_full();
        let session = session.as_ref().ok_or_else(|| self.unavailable())?;
        let validator = self.validator.load_full();
        let examined = validator
            .examine(chain, kind, self.now_ms())
            .map_err(SubmitError::Rejected)?;
        let not_before_ms = examined.not_before();
        // A duplicate is answered before any signature is checked.
        let wanted = examined.identity().map(|identity| Wanted {
            identity,
            not_before_ms,
        });
        let looked = match (wanted, examined.signed()) {
            (Some(wanted), Some(signed)) => match self.look(session, &wanted).await? {
                Looked::Found(place) => {
                    return Ok(Placed {
                        identity: *wanted.identity,
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
        let (identity, signed) = (entry.identity, entry.signed.clone());
        let place = self.join(session, entry, not_before_ms, looked).await?;
        Ok(Placed {
            identity,
            signed,
            place,
            duplicate: false,
        })
    }

    /// Looks for an identity in memory, then in the index.
    async fn look(&self, session: &Session, wanted: &Wanted<'_>) -> Result<Looked, SubmitError> {
        let epoch = match session.pool.find(wanted.identity) {
            Known::Here(ticket) => return Ok(Looked::Found(At::Round(ticket))),
            Known::NotHere(epoch) => epoch,
        };
        // Asked before the look: a gap that is mended after it was there when
        // nothing was found.
        let may_be_unknown = session.dedup.gaps.may_have(wanted.not_before_ms);
        let found = match session.lookups.find(*wanted.identity).await {
            Ok(found) => found,
            Err(NoAnswer::Silent) => Err(self.index_is_silent()),
            Err(NoAnswer::Busy) => return Err(self.index_is_busy()),
        };
        match found.map_err(|fatal| self.unreadable(session, fatal))? {
            Some(place) => Ok(Looked::Found(At::Index(place))),
            None if may_be_unknown => Err(SubmitError::Unavailable {
                retry_after_seconds: 60,
                reason: "a part of the log cannot be read now, which may have this entry".into(),
            }),
            None => Ok(Looked::Absent(epoch)),
        }
    }

    /// The index is a hint: an SCT is signed only for what the tree has in that place.
    async fn prove(
        &self,
        identity: &Identity,
        signed: &SignedEntry,
        place: LeafPosition,
    ) -> Result<(), SubmitError> {
        if self.issued.find(identity, place).is_some() {
            return Ok(());
        }
        let tree = self.reader.tree().ok_or_else(|| self.unavailable())?;
        if place.index < tree.size() {
            let in_tree = self.reader.tiles().leaf_hash(&tree.edge, place.index);
            let in_tree = in_tree.await.map_err(|error| self.unproven(&error))?;
            let mut leaf = Vec::new();
            merkle_tree_leaf(place.timestamp_ms, signed, place.index, &mut leaf);
            if leaf_hash(&leaf) == in_tree {
                return Ok(());
            }
        }
        self.metrics.dedup_wrong.inc();
        if let Some(session) = self.session.load().as_ref() {
            self.distrust(&session.dedup);
        }
        Err(self.unproven(&format_args!(
            "the dedup index in {} has a submission at entry {}, where the tree has another: \
             nothing was signed",
            self.config.cache.display(),
            place.index
        )))
    }

    /// Once for each index: one thread may wait for a disk that hangs.
    fn distrust(&self, dedup: &Arc<Dedup>) {
        if !dedup.distrust() {
            return;
        }
        let (dedup, log) = (dedup.clone(), self.config.shortname.clone());
        drop(spawn_blocking(move || {
            if let Err(error) = dedup.note_distrust() {
                // This process knows it anyway.
                tracing::error!(log, %error, "a wrong place of the dedup index cannot be noted");
            }
        }));
    }

    fn unproven(&self, problem: &dyn std::fmt::Display) -> SubmitError {
        tracing::error!(log = self.config.shortname, %problem, "duplicate without an SCT");
        SubmitError::Unavailable {
            retry_after_seconds: 60,
            reason: "the log cannot prove now that it has this entry".into(),
        }
    }

    /// Joins the open round, once the entry is known to be nowhere else.
    async fn join(
        &self,
        session: &Session,
        mut entry: Entry,
        not_before_ms: Option<i64>,
        mut looked: Option<Epoch>,
    ) -> Result<At, SubmitError> {
        loop {
            let epoch = match looked.take() {
                Some(epoch) => epoch,
                None => {
                    let wanted = Wanted {
                        identity: &entry.identity,
                        not_before_ms,
                    };
                    match self.look(session, &wanted).await? {
                        Looked::Found(place) => return Ok(place),
                        Looked::Absent(epoch) => epoch,
                    }
                }
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

    async fn sct(
        &self,
        identity: &Identity,
        signed: &SignedEntry,
        place: LeafPosition,
    ) -> Result<Sct, SubmitError> {
        let key = &self.config.key;
        let (index, timestamp) = (place.index, place.timestamp_ms);
        let sct = |signature| Sct::signed(key.log_id(), timestamp, index, signature);
        if let Some(signature) = self.issued.find(identity, place) {
            return Ok(sct(signature));
        }
        let made = match key {
            Signer::Own(key) => key.sign_sct(timestamp, signed, index).map_err(|error| {
                SubmitError::Unavailable {
                    retry_after_seconds: 10,
                    reason: format!("signing failed: {error}"),
                }
            })?,
            Signer::Apart(client) => sct(self.promised(client, identity, signed, place).await?),
        };
        self.issued.remember(identity, place, &made.signature);
        Ok(made)
    }

    /// Without its index the log cannot tell duplicates: it stops, and opens
    /// or rebuilds the index at its next start.
    fn unreadable(&self, session: &Session, fatal: Fatal) -> SubmitError {
        tracing::error!(log = self.config.shortname, error = %fatal, "dedup index failed");
        session.pool.fail(fatal);
        self.unavailable()
    }

    fn index_is_busy(&self) -> SubmitError {
        SubmitError::Unavailable {
            retry_after_seconds: 10,
            reason: "too many submissions wait for the log's index".into(),
        }
    }

    fn unavailable(&self) -> SubmitError {
        let (retry_after_seconds, reason) = match &*self.state.lock() {
            State::Retired => return SubmitError::Gone,
            State::Starting => (5, "the log is starting".into()),
            State::Running if self.closing.load(Ordering::SeqCst) => {
                (10, "the log is shutting down".into())
            }
            State::Running if self.stalled.load(Ordering::SeqCst) => {
                (10, "the log waits for its disk".into())
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

#[cfg(test)]
mod tests;
