//! The thread that looks at what was seen: signatures take time that neither the proxy's tasks
//! nor its pages should wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use lucarne_ct::{Fingerprint, Issuer};
use tokio::sync::mpsc;

use super::judge::{Beside, Judgement, Subject, judge};
use super::memory::Record;
use super::metrics::{SctLabels, Standing};
use super::shared::{Shared, now_ms};
use super::submission::{Parcel, Submission};

/// What the worker is told.
#[derive(Debug)]
pub(crate) enum Message {
    Seen(Sighting),
    /// There is another log list ([`Shared::relisted`]).
    Listed,
}

/// A handshake with a server.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(crate) host: String,
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) beside: Beside,
    pub(crate) at_ms: u64,
}

impl Sighting {
    pub(crate) fn len(&self) -> usize {
        let chain: usize = self.chain.iter().map(Vec::len).sum();
        chain + self.beside.len() + self.host.len()
    }
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) submit: Option<mpsc::Sender<Parcel>>,
    /// Bytes in the queue.
    pub(crate) queued: Arc<AtomicUsize>,
}

impl Worker {
    /// Looks at what comes until nothing can come any more.
    pub(crate) fn run(self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            if self.shared.relisted.swap(false, Ordering::AcqRel) {
                self.judge_again();
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
        self.shared.metrics.handshakes.inc();
        let mut memory = self.shared.memory.lock();
        let known = memory.record(&fingerprint);
        // The same certificate with another staple may have come with other SCTs.
        let same = known
            .is_some_and(|record| sighting.beside.len() == 0 || *record.beside == sighting.beside);
        if !same {
            let before = known.cloned();
            let issuers = memory.intern(&sighting.chain[1..]);
            drop(memory);
            let beside = std::mem::take(&mut sighting.beside);
            let mut record = self.record(fingerprint, &sighting, issuers, beside, before);
            memory = self.shared.memory.lock();
            if let Some(now) = memory.record(&fingerprint) {
                // Meanwhile the log may have answered.
                record.submission = now.submission.clone();
            }
            memory.remember(record);
        }
        memory.saw(&sighting.host, fingerprint, sighting.at_ms);
        let first = self.submit.is_some() && memory.offer(fingerprint);
        self.gauge(&memory);
        drop(memory);
        if first {
            self.offer(fingerprint, sighting.chain);
        }
    }

    fn record(
        &self,
        fingerprint: Fingerprint,
        sighting: &Sighting,
        issuers: Arc<[Arc<Issuer>]>,
        beside: Beside,
        before: Option<Record>,
    ) -> Record {
        let leaf = &sighting.chain[0];
        let judgement = self.judge(leaf, &issuers, &beside);
        if before.is_none() {
            self.count(&judgement);
        }
        let before = before.as_ref();
        Record {
            fingerprint,
            leaf: leaf[..].into(),
            issuers,
            beside: Arc::new(beside),
            judgement,
            submission: Submission::Not,
            first_ms: before.map_or(sighting.at_ms, |record| record.first_ms),
            last_ms: sighting.at_ms,
            handshakes: before.map_or(0, |record| record.handshakes),
        }
    }

    fn judge(&self, leaf: &[u8], issuers: &[Arc<Issuer>], beside: &Beside) -> Judgement {
        let subject = Subject {
            leaf,
            issuers,
            beside,
        };
        let listed = self.shared.list.load();
        judge(&subject, listed.list.as_ref(), &self.shared.roots, now_ms())
    }

    fn count(&self, judgement: &Judgement) {
        let metrics = &self.shared.metrics;
        let standing = judgement.standing.name();
        metrics
            .certificates
            .get_or_create(&Standing { standing })
            .inc();
        for sct in &judgement.scts {
            let (delivery, finding) = (sct.delivery.name(), sct.finding.name());
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

    /// Puts a chain into the queue to the log, if there is room.
    fn offer(&self, fingerprint: Fingerprint, chain: Vec<Vec<u8>>) {
        let Some(submit) = &self.submit else {
            return;
        };
        let waiting = Submission::Waiting(None);
        self.shared
            .memory
            .lock()
            .change(&fingerprint, |record| record.submission = waiting);
        if submit.try_send(Parcel { fingerprint, chain }).is_err() {
            self.shared.metrics.drop("submissions");
            let full = "too many chains wait for the log; offered again when seen again";
            self.shared
                .submitted(&fingerprint, Submission::Failed(full.to_owned()));
        }
    }

    /// Judges everything that is remembered by the new log list.
    fn judge_again(&self) {
        let all: Vec<_> = {
            let memory = self.shared.memory.lock();
            let parts = |record: &Record| {
                let (leaf, issuers) = (record.leaf.clone(), record.issuers.clone());
                (record.fingerprint, leaf, issuers, record.beside.clone())
            };
            memory.records().map(parts).collect()
        };
        for (fingerprint, leaf, issuers, beside) in all {
            let judgement = self.judge(&leaf, &issuers, &beside);
            let mut memory = self.shared.memory.lock();
            memory.change(&fingerprint, |record| record.judgement = judgement);
        }
    }
}
