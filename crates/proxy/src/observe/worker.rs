//! The thread that looks at what was seen: signatures take time that neither the proxy's tasks
//! nor its pages should wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use lucarne_ct::{Fingerprint, Issuer};
use tokio::sync::mpsc;

use super::issuer::{Issuers, Path};
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
        if known.is_none_or(|record| tells_more(record, &sighting)) {
            let before = known.cloned();
            let issuers;
            (issuers, new_issuers) = memory.intern(&sighting.chain[1..]);
            drop(memory);
            let beside = match (&before, sighting.beside.len()) {
                (Some(before), 0) => before.beside.clone(),
                _ => Arc::new(std::mem::take(&mut sighting.beside)),
            };
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
        beside: Arc<Beside>,
        before: Option<Record>,
    ) -> Record {
        let leaf = &sighting.chain[0];
        let path = self.path(leaf, &issuers);
        let judgement = self.judge(leaf, &path, &beside);
        if before.is_none() {
            self.count(&judgement);
        }
        let before = before.as_ref();
        Record {
            fingerprint,
            leaf: leaf[..].into(),
            issuers,
            beside,
            path,
            judgement,
            submission: Submission::Not,
            first_ms: before.map_or(sighting.at_ms, |record| record.first_ms),
            last_ms: sighting.at_ms,
            handshakes: before.map_or(0, |record| record.handshakes),
        }
    }

    fn path(&self, leaf: &[u8], sent: &[Arc<Issuer>]) -> Path {
        let seen = |name: &[u8]| self.shared.memory.lock().issuers_named(name);
        Path::of(leaf, sent, &self.shared.roots, seen)
    }

    fn judge(&self, leaf: &[u8], path: &Path, beside: &Beside) -> Judgement {
        let listed = self.shared.list.load();
        let subject = Subject { leaf, path, beside };
        judge(&subject, listed.list.as_ref(), now_ms())
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

    /// Judges what is remembered and `meant` once more: there is another log list, or an issuer
    /// that was wanted.
    fn judge_again(&self, meant: impl Fn(&Record) -> bool) {
        let meant: Vec<_> = {
            let memory = self.shared.memory.lock();
            let meant = memory.records().filter(|record| meant(record));
            meant.cloned().collect()
        };
        for record in meant {
            let path = self.path(&record.leaf, &record.issuers);
            let judgement = self.judge(&record.leaf, &path, &record.beside);
            let mut memory = self.shared.memory.lock();
            memory.change(&record.fingerprint, |record| {
                record.path = path;
                record.judgement = judgement;
            });
        }
    }
}

/// Whether a certificate that is known has come with something new: another staple, which may
/// have other SCTs, or the issuers that were wanted.
fn tells_more(record: &Record, sighting: &Sighting) -> bool {
    let other_beside = sighting.beside.len() != 0 && *record.beside != sighting.beside;
    let issuers = record.issuers.iter().map(|issuer| &issuer.der[..]);
    let sent = sighting.chain[1..].iter().map(|der| &der[..]);
    other_beside || (record.path.wanted.is_some() && !issuers.eq(sent))
}
