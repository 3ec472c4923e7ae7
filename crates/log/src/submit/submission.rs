//! The processing of a submission, from its chain to its SCT.

mod proof;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lucarne_ct::{Chain, Code, Entry, EntryKind, Identity, Rejection, Sct, SignedEntry};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use self::proof::Source;
use crate::config::instances::AGAIN;
use crate::config::lane::Lane;
use crate::error::{Fatal, SubmitError, Unavailable};
use crate::index::backlog::Pace;
use crate::index::dedup::{LeafPosition, NeedsDisk, Unknown};
use crate::index::log_index::is_silent;
use crate::status::state::State;
use crate::submit::forward_wire::Outcome;
use crate::submit::lookups::NoAnswer;
use crate::submit::pool::{Epoch, Joined, Known, Ticket};
use crate::submit::session::Session;
use crate::submit::steps::StepTimes;
use crate::submit::submissions::Submissions;

/// Maximum time that a submission waits for a leading instance, and for a response of this instance
/// beyond the time that the instance's pool needs.
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds of Retry-After while the speed of reading a backlog is unknown.
const FIRST_PACE: u64 = 5;
/// Longest Retry-After for entries that may be in the backlog, in seconds.
const MAX_RETRY_AFTER: u64 = 3600;

/// A submission with its place.
struct Placed {
    identity: Identity,
    signed: SignedEntry,
    place: At,
    /// The entry was known before any signature was verified.
    duplicate: bool,
}

/// The place of an entry.
pub(crate) enum At {
    /// The entry is in the log.
    Index(LeafPosition),
    /// The entry is in a round that may not be published yet.
    Round(Ticket),
    /// The entry was forwarded to the leading instance, which will return the place.
    Sent(Lane, oneshot::Receiver<Outcome>),
}

/// The entry to look for.
struct Wanted<'w> {
    identity: &'w Identity,
    /// `notBefore` of the certificate in Unix milliseconds; `None` if it cannot be parsed.
    not_before_ms: Option<i64>,
}

/// The result of looking for an identity in memory and in the index.
enum Looked {
    Found(At),
    /// The entry was neither in memory nor in the index at this epoch.
    Absent(Epoch),
}

impl Submissions {
    /// See [`Log::submit`](crate::log::Log::submit). With several instances, a submission is tried
    /// again with the next leader if the leading instance ends.
    ///
    /// A log that is removed while the process runs keeps its clients' connections, and is closed
    /// after its last submission. This log therefore accepts no new submissions after a while.
    pub(crate) async fn submit_in_steps(
        &self,
        kind: EntryKind,
        chain: Chain,
        steps: &mut StepTimes,
    ) -> Result<Sct, SubmitError> {
        if self.config.instances.is_none() {
            return self.try_submit(kind, &chain, steps).await;
        }
        let closing_since = self.status.closing_since();
        if closing_since.is_some_and(|since| since.elapsed() > LEADER_TIMEOUT) {
            return Err(SubmitError::Unavailable(Unavailable::ShuttingDown));
        }
        let _counted = Counted::new(&self.in_flight);
        let until = Instant::now() + LEADER_TIMEOUT;
        loop {
            match self.try_submit(kind, &chain, steps).await {
                Err(SubmitError::Unavailable(cause))
                    if cause.ends_with_leader() && Instant::now() < until =>
                {
                    // A poll interval: no event announces the next leader.
                    sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    async fn try_submit(
        &self,
        kind: EntryKind,
        chain: &Chain,
        steps: &mut StepTimes,
    ) -> Result<Sct, SubmitError> {
        let placed = self.place(kind, chain).await;
        steps.end("validate");
        let Placed {
            identity,
            signed,
            place,
            duplicate,
        } = placed?;
        let mut turn = None;
        let place = match place {
            At::Index(place) => {
                let proven = self.prove_duplicate(&identity, &signed, place).await;
                steps.end("prove");
                turn = proven?;
                place
            }
            At::Sent(lane, outcome) => {
                let place = self.forwarded(lane, outcome).await;
                steps.end("forward");
                let place = place?;
                let proven = self.prove(&identity, &signed, place, Source::Leader).await;
                steps.end("prove");
                proven?;
                place
            }
            At::Round(ticket) => {
                let waited = ticket.wait().await;
                match &waited {
                    Ok((index, _)) => steps.end_round(&self.round_times, *index),
                    Err(_) => steps.end("wait"),
                }
                let (index, timestamp_ms) = waited.map_err(|_| self.unavailable())?;
                LeafPosition {
                    index,
                    timestamp_ms,
                }
            }
        };
        let counter = if duplicate {
            &self.metrics.duplicate
        } else {
            &self.metrics.accepted
        };
        counter.inc();
        let sct = self.scts.sct(&identity, &signed, place).await;
        steps.end("sign");
        drop(turn);
        sct
    }

    /// Takes all steps before the submission waits for a result: examines the chain, looks for a
    /// duplicate, verifies the signatures, and adds the entry to the pool.
    async fn place(&self, kind: EntryKind, chain: &Chain) -> Result<Placed, SubmitError> {
        let session = self.session.load_full();
        let session = session.as_ref().ok_or_else(|| self.unavailable())?;
        let validator = self.validator.load_full();
        let mut examined = validator
            .examine(chain, kind, self.status.now_ms())
            .map_err(|rejection| self.rejected(rejection))?;
        let not_before_ms = examined.not_before();
        // A duplicate is found before any signature is verified.
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
        if let Some(signature) = validator.known_signature(&mut examined) {
            self.batches.try_beside_others(&signature).await;
        }
        let entry = validator.verify(examined);
        let entry = entry.map_err(|rejection| self.rejected(rejection))?;
        let (identity, signed) = (entry.identity, entry.signed.clone());
        let place = self.join(session, entry, not_before_ms, looked).await?;
        Ok(Placed {
            identity,
            signed,
            place,
            duplicate: false,
        })
    }

    /// Converts a rejection. An unknown root is a temporary error while accepted roots are still
    /// missing.
    fn rejected(&self, rejection: Rejection) -> SubmitError {
        match rejection.code {
            Code::UnknownRoot if self.awaits_roots() => {
                SubmitError::Unavailable(Unavailable::RootsUnread)
            }
            _ => SubmitError::Rejected(rejection),
        }
    }

    /// Looks for an identity in memory, then in the index.
    async fn look(&self, session: &Session, wanted: &Wanted<'_>) -> Result<Looked, SubmitError> {
        let epoch = match session.pool.find(wanted.identity) {
            Known::Here(ticket) => return Ok(Looked::Found(At::Round(ticket))),
            Known::NotHere(epoch) => epoch,
        };
        // The backlog is checked before the lookup. Otherwise, an entry could leave the backlog
        // after the lookup has missed the entry.
        let unknown = session.dedup.unknown(wanted.not_before_ms);
        let found = match session.dedup.find_in_memory(wanted.identity) {
            Ok(found) => Ok(found),
            Err(NeedsDisk) => match session.lookups.find(*wanted.identity).await {
                Ok(found) => found,
                Err(NoAnswer::Silent) => Err(is_silent(&self.config)),
                Err(NoAnswer::Busy) => {
                    return Err(SubmitError::Unavailable(Unavailable::IndexBusy));
                }
            },
        };
        match found.map_err(|fatal| self.unreadable(session, fatal))? {
            Some(place) => Ok(Looked::Found(At::Index(place))),
            None => match unknown {
                None => Ok(Looked::Absent(epoch)),
                Some(Unknown::Unread) => Err(not_read_yet(&session.dedup.pace, wanted)),
                Some(Unknown::Unreadable) => {
                    Err(SubmitError::Unavailable(Unavailable::TilesUnreadable))
                }
            },
        }
    }

    /// Returns the place that the leader has assigned, after this instance has followed the tree up
    /// to this place.
    async fn forwarded(
        &self,
        lane: Lane,
        outcome: oneshot::Receiver<Outcome>,
    ) -> Result<LeafPosition, SubmitError> {
        let session = self.session.load_full();
        let forwarder = session.as_ref().and_then(|session| session.follows());
        drop(session);
        let pool = forwarder.map_or(0, |forwarder| forwarder.retry_after_seconds(lane));
        let wait = LEADER_TIMEOUT + Duration::from_secs(u64::from(pool.saturating_sub(1)));
        let Ok(outcome) = timeout(wait, outcome).await else {
            return Err(self.leader_is_silent(wait));
        };
        let (index, timestamp_ms) = match outcome {
            Ok(Outcome::Placed {
                index,
                timestamp_ms,
            }) => (index, timestamp_ms),
            Ok(Outcome::Full {
                retry_after_seconds,
            }) => return Err(self.refused(lane, retry_after_seconds)),
            Ok(Outcome::Unavailable {
                retry_after_seconds,
            }) => {
                return Err(SubmitError::Unavailable(Unavailable::LeaderUnavailable {
                    retry_after_seconds,
                }));
            }
            Ok(Outcome::Lost) | Err(_) => return Err(self.unavailable()),
        };
        let mut shown = self.shown.subscribe();
        let followed = timeout(LEADER_TIMEOUT, shown.wait_for(|size| *size > index)).await;
        match followed {
            Ok(Ok(_)) => Ok(LeafPosition {
                index,
                timestamp_ms,
            }),
            _ => Err(self.unavailable()),
        }
    }

    /// Adds the entry to the pool, or forwards the entry to the leader, unless the entry is in a
    /// round or in the log.
    pub(crate) async fn join(
        &self,
        session: &Session,
        mut entry: Entry,
        not_before_ms: Option<i64>,
        mut looked: Option<Epoch>,
    ) -> Result<At, SubmitError> {
        let freshness = self.config.rounds.lanes.freshness;
        let lane = Lane::of(&entry, not_before_ms, self.status.now_ms(), freshness);
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
            if let Some(forwarder) = session.follows() {
                return match forwarder.send(entry, lane, not_before_ms) {
                    Ok(outcome) => Ok(At::Sent(lane, outcome)),
                    Err(TrySendError::Full(())) => {
                        Err(self.refused(lane, forwarder.retry_after_seconds(lane)))
                    }
                    Err(TrySendError::Closed(())) => Err(self.unavailable()),
                };
            }
            match session.pool.join(entry, lane, epoch) {
                Joined::At(ticket) => return Ok(At::Round(ticket)),
                Joined::LookAgain(same) => entry = *same,
                Joined::Full {
                    retry_after_seconds,
                } => return Err(self.refused(lane, retry_after_seconds)),
                Joined::Closed => return Err(self.unavailable()),
            }
        }
    }

    /// Reports a leader that has accepted entries and does not respond.
    fn leader_is_silent(&self, wait: Duration) -> SubmitError {
        if let State::Following {
            leader: Some(address),
        } = self.status.state()
        {
            let problem = format!(
                "the leading instance at {address} has not responded to forwarded submissions for \
                 {} s",
                wait.as_secs()
            );
            self.status.note_refusal(Some(problem));
        }
        SubmitError::Unavailable(Unavailable::LeaderSilent)
    }

    fn refused(&self, lane: Lane, retry_after_seconds: u32) -> SubmitError {
        self.metrics.lane(lane).refused.inc();
        SubmitError::Full {
            lane,
            retry_after_seconds,
        }
    }

    /// Stops the log, because duplicates cannot be detected without the index. The next start opens
    /// or rebuilds the index.
    fn unreadable(&self, session: &Session, fatal: Fatal) -> SubmitError {
        tracing::error!(log = self.config.shortname, error = %fatal, "dedup index failed");
        session.pool.fail(fatal);
        self.unavailable()
    }

    pub(crate) fn unavailable(&self) -> SubmitError {
        SubmitError::Unavailable(match self.status.state() {
            State::Retired => return SubmitError::Gone,
            State::Starting => Unavailable::Starting,
            State::Following { .. } => Unavailable::NoLeader,
            State::Running if self.status.is_closing() && self.config.instances.is_some() => {
                Unavailable::HandedOver
            }
            State::Running if self.status.is_closing() => Unavailable::ShuttingDown,
            State::Running if self.status.is_stalled() => Unavailable::Stalled,
            State::Running => Unavailable::RoundFailed,
            State::Closed => Unavailable::ShuttingDown,
            State::Stopped { retry_at_ms, .. } => {
                let wait_ms = retry_at_ms.saturating_sub(self.config.clock.now_ms());
                Unavailable::Stopped {
                    retry_after_seconds: wait_ms.div_ceil(1000).clamp(1, 60) as u32,
                }
            }
        })
    }
}

/// Counts a submission in flight until it is dropped.
struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns an error with the estimated time until the part of the backlog that may contain this
/// entry is read.
fn not_read_yet(pace: &Pace, wanted: &Wanted<'_>) -> SubmitError {
    let told = pace.time_until_told(wanted.not_before_ms);
    let seconds = told.map_or(FIRST_PACE, |time| time.as_secs().saturating_add(1));
    SubmitError::Unavailable(Unavailable::IndexUnread {
        retry_after_seconds: seconds.clamp(1, MAX_RETRY_AFTER) as u32,
    })
}

#[cfg(test)]
mod backlog_tests;
#[cfg(test)]
pub(crate) mod tests;
