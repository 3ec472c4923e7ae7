//! Cosignatures of witnesses and mirrors for published checkpoints (C2SP tlog-witness and
//! tlog-mirror, main of 2026-07-22).
//!
//! ```text
//! checkpoint published → one request to each witness → verified lines → second publication
//!                      → uploads to each mirror      ─↗
//! ```
//!
//! Each witness and mirror has a task of its own, so that a silent one delays no other one. The
//! task requests cosignatures of the newest checkpoint, one request at a time. The sequencer
//! publishes the lines between two rounds, and drops an unfinished publication when a round begins.
//! Rounds and SCTs therefore never wait for a witness or mirror. The second publication compares
//! and replaces the published checkpoint. The lock keeps the checkpoint without cosignatures.

mod request;
mod upload;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_tlog::Policy;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::request::{Failure, LATE, Proposal, Response, attend};
use crate::config::witnesses::Witnesses;
use crate::data::cosignatures::Cosigned;
use crate::data::tree::Tree;
use crate::shared::Shared;
use crate::status::witness_status::Outcome;

/// Longest time for which cosignatures wait for those of slower witnesses, to be published together
/// with them.
const TOGETHER: Duration = Duration::from_secs(1);
/// The part of a period before the next round, by which the cosignatures are published.
const MARGIN: u32 = 4;

/// The requests to the witnesses of a log, and the cosignatures of its newest checkpoint.
pub(super) struct Cosigning {
    log: Arc<Shared>,
    witnesses: Witnesses,
    newest: watch::Sender<Option<Arc<Proposal>>>,
    responses: mpsc::Receiver<Response>,
    current: Option<Collection>,
    /// Estimated time of a second publication.
    takes: Duration,
    /// Ends the tasks of the witnesses when the sequencer ends.
    _tasks: JoinSet<()>,
}

/// The cosignatures of one checkpoint.
struct Collection {
    cosigned: Cosigned,
    /// The checkpoint as published.
    published: Bytes,
    /// The time at which a publication has begun that has not ended: the storage may have more
    /// lines.
    begun: Option<Instant>,
    size: u64,
    /// The time of the last publication.
    at: Instant,
    /// Number of cosignatures that are published.
    shown: usize,
    /// Number of requests without a response.
    missing: usize,
}

impl Collection {
    /// Returns whether responses or their publication are missing.
    fn is_open(&self) -> bool {
        self.missing > 0 || self.cosigned.cosignatures().len() > self.shown
    }

    /// Returns the time at which new cosignatures are published; `None` if there are none.
    /// `interval` is the shortest time between publications, and one `takes` this time.
    fn due(
        &self,
        policy: &Policy,
        (period, interval, takes): (Duration, Duration, Duration),
        (now, next): (Instant, Instant),
    ) -> Option<Instant> {
        let due = self.earliest_due(policy, (period, interval), (now, next))?;
        // If the next round began before the end of a publication, it would have to find out
        // whether the storage has the cosignatures.
        let is_in_time = now >= next || due.max(now) + takes <= next;
        Some(if is_in_time {
            due
        } else {
            due.max(next + takes)
        })
    }

    fn earliest_due(
        &self,
        policy: &Policy,
        (period, interval): (Duration, Duration),
        (now, next): (Instant, Instant),
    ) -> Option<Instant> {
        let all = self.cosigned.cosignatures().len();
        if all == self.shown || self.begun.is_some() {
            return None;
        }
        let earliest = self.at + interval;
        let meets_quorum = |count| self.cosigned.meets_quorum(policy, count);
        if self.missing == 0 || meets_quorum(all) && !meets_quorum(self.shown) {
            return Some(earliest);
        }
        let together = self.at + TOGETHER.min(period / 2);
        // After `next`, the log is idle: the next round begins with the next submission.
        let together = if now < next {
            let before_next = next.checked_sub(period / MARGIN);
            before_next.map_or(together, |before| together.min(before))
        } else {
            together
        };
        Some(earliest.max(together))
    }
}

impl Drop for Cosigning {
    /// Another instance may lead from now on.
    fn drop(&mut self) {
        let (status, metrics) = (&self.log.status.witnesses, &self.log.metrics.witnesses);
        status.reset(&self.witnesses, metrics);
    }
}

impl Cosigning {
    /// Starts the tasks of the witnesses; returns `None` if the log has no witnesses.
    pub(super) fn start(log: &Arc<Shared>) -> Option<Self> {
        let witnesses = log.config.witnesses.clone()?;
        let newest = watch::Sender::new(None);
        let (sender, responses) = mpsc::channel(witnesses.servers.len());
        let mut tasks = JoinSet::new();
        for server in witnesses.servers.clone() {
            let (witnesses, sender) = (witnesses.clone(), sender.clone());
            tasks.spawn(attend(
                (log.clone(), witnesses),
                server,
                newest.subscribe(),
                sender,
            ));
        }
        Some(Cosigning {
            log: log.clone(),
            witnesses,
            newest,
            responses,
            current: None,
            takes: Duration::ZERO,
            _tasks: tasks,
        })
    }

    /// Requests cosignatures of a checkpoint that was published just now.
    pub(super) fn propose(&mut self, tree: &Arc<Tree>, committed: &Bytes) {
        if let Some(before) = self.current.take() {
            decide(&self.log, &before);
            // After a slow publication, the estimate decreases again in each round.
            self.takes = match before.begun {
                Some(begun) => self.takes.max(begun.elapsed()),
                None => self.takes * 7 / 8,
            };
        }
        let Some(cosigned) = Cosigned::begin(committed.clone()) else {
            return;
        };
        let (tree, note) = (tree.clone(), committed.clone());
        let text = cosigned.text().to_owned();
        self.current = Some(Collection {
            cosigned,
            published: note.clone(),
            begun: None,
            size: tree.size(),
            at: Instant::now(),
            shown: 0,
            missing: self.witnesses.servers.len(),
        });
        let proposal = Proposal { note, text, tree };
        self.newest.send_replace(Some(Arc::new(proposal)));
    }

    /// Collects the responses of the witnesses, and publishes their cosignatures. A busy log begins
    /// its next round at `next`. May be dropped at any time.
    pub(super) async fn collect(&mut self, next: Instant) -> Infallible {
        loop {
            self.advance(next).await;
        }
    }

    /// Collects the responses for the last checkpoint of a log, and publishes their cosignatures.
    pub(super) async fn conclude(&mut self) {
        let now = Instant::now();
        let end = now + LATE + TOGETHER + self.log.assets.replacement_interval();
        while self.current.as_ref().is_some_and(Collection::is_open) {
            if timeout_at(end, self.advance(now)).await.is_err() {
                return;
            }
        }
    }

    /// Waits for a response, or for the time of the next publication, and publishes.
    async fn advance(&mut self, next: Instant) {
        let period = self.log.config.rounds.period;
        let times = (period, self.log.assets.replacement_interval(), self.takes);
        let current = self.current.as_ref();
        let round = (Instant::now(), next);
        let due = current.and_then(|it| it.due(&self.witnesses.policy, times, round));
        let is_due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(response) = self.responses.recv() => self.take(response),
            () = is_due => self.publish().await,
        }
    }

    fn take(&mut self, response: Response) {
        let newest = self.newest.borrow().clone();
        let is_outdated = newest.is_none_or(|newest| newest.note != response.note);
        let (status, metrics) = (&self.log.status.witnesses, &self.log.metrics.witnesses);
        for at in self.witnesses.of_server(&response.server) {
            let failure = match &response.lines {
                Err(failure) => Some(failure),
                // Another key has the same URL.
                Ok(lines) if lines.iter().all(|line| line.witness != at) => Some(&Failure::Missing),
                Ok(_) if is_outdated => Some(&Failure::Outdated),
                Ok(_) => None,
            };
            let outcome = failure.map_or(Outcome::Cosigned, Failure::outcome);
            let problem = failure.map(Failure::to_string);
            let log = &self.log.config.shortname;
            let (result, now) = ((outcome, problem.clone()), std::time::Instant::now());
            match (status.responded(at, result, now, metrics), &problem) {
                (Some(witness), Some(problem)) => {
                    tracing::warn!(log, witness, problem, "the witness does not cosign");
                }
                (Some(witness), None) => tracing::info!(log, witness, "the witness cosigns"),
                (None, _) => {}
            }
        }
        let current = self.current.as_mut();
        if let Some(current) = current.filter(|it| *it.cosigned.committed() == response.note) {
            current.missing = current.missing.saturating_sub(1);
            current.cosigned.add(response.lines.unwrap_or_default());
            let is_complete = current.cosigned.cosignatures().len() == current.shown;
            if current.missing == 0 && is_complete {
                decide(&self.log, current);
            }
        }
    }

    /// Replaces the published checkpoint by the checkpoint with the cosignatures.
    async fn publish(&mut self) {
        let Some(current) = &mut self.current else {
            return;
        };
        let note = current.cosigned.note();
        let begun = Instant::now();
        current.begun = Some(begun);
        let amended = self
            .log
            .assets
            .amend_checkpoint(&current.published, note.clone());
        let log = &self.log.config.shortname;
        let problem = match amended.await {
            Ok(true) => None,
            Ok(false) => Some(
                "the storage cannot compare and replace a file, or another process publishes this \
                 log"
                .into(),
            ),
            Err(error) => Some(error.to_string()),
        };
        let (status, metrics) = (&self.log.status.witnesses, &self.log.metrics.witnesses);
        let was_published = status.published(problem.clone());
        if let Some(problem) = problem {
            if was_published {
                tracing::warn!(log, problem, "cannot publish cosignatures");
            }
            decide(&self.log, current);
            self.current = None;
            return;
        }
        self.log.reader.show_amended(&current.published, &note);
        let all = current.cosigned.cosignatures();
        for new in &all[current.shown..] {
            status.cosigned(new.witness, (current.size, new.time), metrics);
        }
        current.shown = all.len();
        current.published = note;
        current.begun = None;
        current.at = Instant::now();
        self.takes = current.at - begun;
        tracing::debug!(
            log,
            cosignatures = current.shown,
            size = current.size,
            "cosigned"
        );
        let policy = &self.witnesses.policy;
        if current.missing == 0 || current.cosigned.meets_quorum(policy, current.shown) {
            decide(&self.log, current);
        }
    }
}

/// Records whether the published cosignatures of a checkpoint met the quorum.
fn decide(log: &Shared, current: &Collection) {
    let policy = log.config.witnesses.as_ref().map(|it| &it.policy);
    let met = policy.is_some_and(|policy| current.cosigned.meets_quorum(policy, current.shown));
    log.status.witnesses.decided(met, &log.metrics.witnesses);
}

#[cfg(test)]
mod tests {
    use lucarne_ct::LogKey;
    use lucarne_tlog::{Cosigner, EMPTY_ROOT};

    use super::*;
    use crate::data::cosignatures::verified;

    /// Two quick witnesses meet the quorum; a third one is silent.
    #[test]
    fn a_silent_witness_delays_no_other_one() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let committed = key.sign_checkpoint("log.example/a", 0, &EMPTY_ROOT, 5000);
        let mut cosigned = Cosigned::begin(committed.unwrap().into()).unwrap();
        let names = ["a.example", "b.example", "c.example"];
        let keys = names.map(|name| Cosigner::ml_dsa_44(name, &[name.as_bytes()[0]; 32]).unwrap());
        let [a, b, c] = keys.each_ref().map(Cosigner::verifier);
        let policy =
            format!("witness A {a}\nwitness B {b}\nwitness C {c}\ngroup two 2 A B C\nquorum two\n");
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let text = cosigned.text().to_owned();
        let by = |at: usize| {
            let line = keys[at].cosign(&text, 7).unwrap();
            verified(&policy, &text, &format!("{line}\n")).unwrap()
        };
        cosigned.add(by(0));
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut of = Collection {
            cosigned,
            published: Bytes::new(),
            begun: None,
            size: 0,
            at: start,
            shown: 0,
            missing: 2,
        };
        let due = |of: &Collection, interval: u64, next: u64| {
            let times = (ms(1000), ms(interval), ms(0));
            let due = of.due(&policy, times, (start, start + ms(next)));
            due.map(|due| due - start)
        };
        assert_eq!(due(&of, 0, 1000), Some(ms(500)));
        // The round took longer than half of the period.
        assert_eq!(due(&of, 0, 400), Some(ms(150)));
        assert_eq!(due(&of, 700, 400), Some(ms(700)));
        // The log is idle: nothing is gained by a publication for each witness.
        assert_eq!(due(&of, 0, 0), Some(ms(500)));

        (of.shown, of.at) = (1, start + ms(500));
        assert_eq!(due(&of, 0, 1000), None);
        assert!(!of.cosigned.meets_quorum(&policy, 1));
        of.cosigned.add(by(1));
        of.missing = 1;
        // The second line meets the quorum, and is not published yet.
        assert_eq!(due(&of, 0, 2000), Some(ms(500)));
        assert!(!of.cosigned.meets_quorum(&policy, of.shown));
        of.shown = 2;
        of.cosigned.add(by(2));
        // A line that is not published does not change the quorum.
        assert!(of.cosigned.meets_quorum(&policy, of.shown));
        assert_eq!(due(&of, 0, 2000), Some(ms(1000)));
        of.missing = 0;
        assert_eq!(due(&of, 0, 2000), Some(ms(500)));
        // A slow publication begins only if it ends before the next round, or if the log is idle.
        let slow = |next| {
            let times = (ms(1000), ms(0), ms(300));
            let due = of.due(&policy, times, (start, start + ms(next)));
            due.map(|due| due - start)
        };
        assert_eq!(slow(800), Some(ms(500)));
        assert_eq!(slow(799), Some(ms(1099)));
        assert_eq!(slow(0), Some(ms(500)));
        of.begun = Some(start);
        assert_eq!(due(&of, 0, 2000), None);
    }
}
