//! The worker thread that checks certificates. The proxy's tasks and pages must not wait for the
//! verification of signatures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use lucarne_ct::{Fingerprint, Issuer};
use lucarne_mint::now_ms;

use super::destination::{Destination, choose};
use super::issuer::{Issuers, Path};
use super::judge::{Judgement, SctDeliveries, Subject, judge};
use super::memory::Record;
use super::metrics::{SctLabels, StandingLabels};
use super::shared::Shared;
use super::staple::Staple;
use super::submission::Submission;
use super::submitter::PendingSubmission;

/// Messages to the worker.
#[derive(Debug)]
pub(crate) enum Message {
    Seen(Sighting),
    /// The log list has changed ([`Shared::relisted`]).
    Listed,
}

/// A handshake with a server.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(crate) host: String,
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) deliveries: SctDeliveries,
    pub(crate) at_ms: u64,
}

impl Sighting {
    pub(crate) fn len(&self) -> usize {
        let chain: usize = self.chain.iter().map(Vec::len).sum();
        chain + self.deliveries.len() + self.host.len()
    }
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// Logs for submissions.
    pub(crate) destinations: Vec<Destination>,
    /// Bytes in the queue.
    pub(crate) queued: Arc<AtomicUsize>,
}

impl Worker {
    /// Processes messages until all senders are dropped.
    pub(crate) fn run(self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            if self.shared.relisted.swap(false, Ordering::AcqRel) {
                self.judge_again(|_| true);
            }
            if let Message::Seen(sighting) = message {
                self.queued.fetch_sub(sighting.len(), Ordering::Relaxed);
                self.look_at(sighting);
            }
        }
    }

    fn look_at(&self, mut sighting: Sighting) {
        let Some(leaf) = sighting.chain.first() else {
            return;
        };
        let fingerprint = Fingerprint::of(leaf);
        let mut memory = self.shared.memory.lock();
        let known = memory.record(&fingerprint);
        let mut new_issuers = Vec::new();
        if known.is_none_or(|record| has_news(record, &sighting)) {
            let before = known.cloned();
            let issuers;
            (issuers, new_issuers) = memory.intern(&sighting.chain[1..]);
            drop(memory);
            let deliveries = match (&before, sighting.deliveries.len()) {
                (Some(before), 0) => before.deliveries.clone(),
                _ => Arc::new(std::mem::take(&mut sighting.deliveries)),
            };
            let mut record = self.record(fingerprint, &sighting, issuers, deliveries, before);
            memory = self.shared.memory.lock();
            if let Some(now) = memory.record(&fingerprint) {
                // The submission may have finished in the meantime.
                record.submission = now.submission.clone();
            }
            memory.remember(record);
        }
        memory.saw(&sighting.host, fingerprint, sighting.at_ms);
        if let Some(record) = memory.record(&fingerprint) {
            self.shared
                .note(record, Some(&sighting.host), sighting.at_ms);
        }
        let first = !self.destinations.is_empty() && memory.offer(fingerprint);
        let offered = memory.record(&fingerprint).filter(|_| first).cloned();
        self.gauge(&memory);
        drop(memory);
        if let Some(record) = offered {
            self.offer(&record);
        }
        if !new_issuers.is_empty() {
            let wants = |wanted: &[u8]| new_issuers.iter().any(|name| **name == *wanted);
            self.judge_again(|record| record.path.wanted.as_deref().is_some_and(wants));
        }
        self.shared.metrics.handshakes.inc();
    }

    fn record(
        &self,
        fingerprint: Fingerprint,
        sighting: &Sighting,
        issuers: Issuers,
        deliveries: Arc<SctDeliveries>,
        before: Option<Record>,
    ) -> Record {
        let leaf = &sighting.chain[0];
        let path = self.path(leaf, &issuers);
        let (deliveries, judgement) = self.deliveries(leaf, &path, deliveries, before.as_ref());
        if before.is_none() {
            self.count(&judgement);
        }
        let before = before.as_ref();
        Record {
            fingerprint,
            leaf: leaf[..].into(),
            issuers,
            deliveries,
            path,
            judgement,
            submission: Submission::Not,
            first_ms: before.map_or(sighting.at_ms, |record| record.first_ms),
            last_ms: sighting.at_ms,
            handshakes: before.map_or(0, |record| record.handshakes),
        }
    }

    /// Returns the SCT deliveries to keep, and the judgement. A proven revocation stays until a
    /// verified staple states another status, because anyone can send a staple that proves nothing.
    fn deliveries(
        &self,
        leaf: &[u8],
        path: &Path,
        deliveries: Arc<SctDeliveries>,
        before: Option<&Record>,
    ) -> (Arc<SctDeliveries>, Judgement) {
        let judgement = self.judge(leaf, path, &deliveries);
        let revoked = before.filter(|record| record.judgement.staple == Staple::Revoked);
        match (revoked, &judgement.staple) {
            (Some(before), Staple::Absent | Staple::Unproven(_)) => {
                let deliveries = SctDeliveries {
                    ocsp: before.deliveries.ocsp.clone(),
                    tls: deliveries.tls.clone(),
                };
                let judgement = self.judge(leaf, path, &deliveries);
                (Arc::new(deliveries), judgement)
            }
            _ => (deliveries, judgement),
        }
    }

    fn path(&self, leaf: &[u8], sent: &[Arc<Issuer>]) -> Path {
        let seen = |name: &[u8]| self.shared.memory.lock().issuers_named(name);
        Path::of(leaf, sent, &self.shared.roots, seen)
    }

    fn judge(&self, leaf: &[u8], path: &Path, deliveries: &SctDeliveries) -> Judgement {
        let listed = self.shared.list.load();
        let subject = Subject {
            leaf,
            path,
            deliveries,
        };
        let keys = &self.shared.submit_keys;
        judge(&subject, listed.list.as_ref(), keys, now_ms())
    }

    fn count(&self, judgement: &Judgement) {
        let metrics = &self.shared.metrics;
        let standing = judgement.standing.name();
        metrics
            .certificates
            .get_or_create(&StandingLabels { standing })
            .inc();
        for sct in &judgement.scts {
            let (delivery, finding) = (sct.seen.delivery.name(), sct.seen.finding.name());
            metrics
                .scts
                .get_or_create(&SctLabels { delivery, finding })
                .inc();
        }
    }

    fn gauge(&self, memory: &super::memory::Memory) {
        let (hosts, certificates) = memory.counts();
        let metrics = &self.shared.metrics;
        metrics
            .hosts_held
            .set(i64::try_from(hosts).unwrap_or(i64::MAX));
        metrics
            .certificates_held
            .set(i64::try_from(certificates).unwrap_or(i64::MAX));
    }

    /// Queues a chain for the log that accepts its certificate, unless a log already has the
    /// certificate or the queue is full.
    fn offer(&self, record: &Record) {
        let fingerprint = record.fingerprint;
        let destination = match self.destination(record) {
            Ok(destination) => destination,
            // The outcome is already reported. The chain is offered again when a server presents it
            // again, because the choice of logs can change.
            Err(outcome) if outcome == record.submission => {
                return self.shared.memory.lock().forget_offer(&fingerprint);
            }
            Err(outcome) => return self.shared.submitted(&fingerprint, outcome),
        };
        let waiting = Submission::Waiting(None);
        self.shared
            .memory
            .lock()
            .change(&fingerprint, |record| record.submission = waiting);
        let known = !record.path.chain.is_empty();
        let issuers = if known {
            &record.path.chain
        } else {
            &record.issuers
        };
        let pending = PendingSubmission {
            fingerprint,
            leaf: record.leaf.clone(),
            issuers: issuers.clone(),
        };
        self.shared.metrics.submissions_waiting.inc();
        if destination.send.try_send(pending).is_err() {
            self.shared.metrics.submissions_waiting.dec();
            self.shared.metrics.drop("submissions");
            let full =
                "the log's queue is full; the chain is offered again when a server presents it";
            self.shared
                .submitted(&fingerprint, Submission::Failed(full.to_owned()));
        }
    }

    /// Returns the log for a certificate, or the outcome if there is none.
    fn destination(&self, record: &Record) -> Result<&Destination, Submission> {
        if let Some(log) = record.judgement.logged_by() {
            return Err(Submission::NotNeeded(log.to_owned()));
        }
        let listed = self.shared.list.load();
        let chosen = choose(&self.destinations, listed.list.as_ref(), &record.leaf);
        chosen.map_err(|why| Submission::NoLog(why.to_string()))
    }

    /// Repeats the judgement of the remembered certificates that `meant` selects, after a new log
    /// list or a missing issuer has arrived.
    fn judge_again(&self, meant: impl Fn(&Record) -> bool) {
        let meant: Vec<_> = {
            let memory = self.shared.memory.lock();
            let meant = memory.records().filter(|record| meant(record));
            meant.cloned().collect()
        };
        for mut record in meant {
            let path = self.path(&record.leaf, &record.issuers);
            // A log that refused a chain without its issuers may accept the chain with them.
            let is_longer = path.chain.len() > record.path.chain.len();
            record.judgement = self.judge(&record.leaf, &path, &record.deliveries);
            record.path = path;
            self.shared.note(&record, None, record.last_ms);
            let mut offer = false;
            let mut memory = self.shared.memory.lock();
            memory.change(&record.fingerprint, |known| {
                known.path = record.path.clone();
                known.judgement = record.judgement.clone();
                offer = match known.submission {
                    Submission::NoLog(_) => true,
                    Submission::Refused(_) => is_longer,
                    _ => false,
                };
            });
            if offer {
                memory.offer(record.fingerprint);
                drop(memory);
                self.offer(&record);
            }
        }
    }
}

/// Returns whether a known certificate came with new data: another staple, which may have other
/// SCTs, or other issuers while one is missing.
fn has_news(record: &Record, sighting: &Sighting) -> bool {
    let other_beside = sighting.deliveries.len() != 0 && *record.deliveries != sighting.deliveries;
    let issuers = record.issuers.iter().map(|issuer| &issuer.der[..]);
    let sent = sighting.chain[1..].iter().map(|der| &der[..]);
    other_beside || (record.path.wanted.is_some() && !issuers.eq(sent))
}
