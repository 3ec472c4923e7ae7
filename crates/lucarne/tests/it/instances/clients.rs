//! Who submits to a log of several instances, and who audits it from outside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lucarne_ct::EntryKind;
use lucarne_testkit::{Audit, Client};
use tokio::task::JoinSet;

use super::group::Instances;
use crate::common::load::{Submission, is_retry_later};
use crate::common::{eventually, pki};

/// Clients behind a balancer: what gets no answer from one instance goes to the next.
pub(super) struct Clients {
    logs: Vec<Client>,
    /// The longest time for which they wait for an answer.
    patience: Duration,
    /// One through each instance, and how many of the promises it has been told.
    watches: Vec<(Audit, AtomicUsize)>,
    promised: Mutex<Vec<(Submission, Vec<u8>)>>,
    /// When SCTs came.
    times: Mutex<Vec<Instant>>,
    pub(super) submitted: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) unreached: AtomicUsize,
    /// Nobody submits for the moment, and how many still do.
    held: AtomicBool,
    busy: AtomicUsize,
    over: AtomicBool,
}

impl Clients {
    pub(super) fn new(instances: &Instances, patience: Duration) -> Arc<Self> {
        let watch = |n| (instances.audit(n), AtomicUsize::new(0));
        Arc::new(Clients {
            logs: instances.all.iter().map(|it| it.log()).collect(),
            patience,
            watches: (0..instances.all.len()).map(watch).collect(),
            promised: Mutex::default(),
            times: Mutex::default(),
            submitted: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            unreached: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// Lets so many submit, with a `pause` after each answer, and a monitor follow each instance.
    pub(super) fn go_to_work(self: &Arc<Self>, count: usize, pause: Duration) -> JoinSet<()> {
        let mut at_work = JoinSet::new();
        for n in 0..count {
            let clients = self.clone();
            at_work.spawn(async move { clients.submit_on(n, pause).await });
        }
        for n in 0..self.watches.len() {
            let clients = self.clone();
            at_work.spawn(async move { clients.watch_on(n).await });
        }
        at_work
    }

    /// Ends them.
    pub(super) async fn end(&self, at_work: JoinSet<()>) {
        self.over.store(true, SeqCst);
        at_work.join_all().await;
        println!(
            "{} submitted, {} SCTs, {} refused, {} not reached",
            self.submitted.load(SeqCst),
            self.promised(),
            self.refused.load(SeqCst),
            self.unreached.load(SeqCst)
        );
    }

    async fn submit_on(&self, first: usize, pause: Duration) {
        let mut turn = first;
        while !self.over.load(SeqCst) {
            if self.held.load(SeqCst) {
                // The pace of looking whether it goes on: no verdict depends on it.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            self.busy.fetch_add(1, SeqCst);
            let submission = self.pick(turn);
            self.submitted.fetch_add(1, SeqCst);
            while !self.over.load(SeqCst) {
                turn += 1;
                let log = &self.logs[turn % self.logs.len()];
                let got = self.submit(log, &submission).await;
                // The pace of a client: no verdict depends on it.
                tokio::time::sleep(pause).await;
                if got {
                    break;
                }
            }
            self.busy.fetch_sub(1, SeqCst);
        }
    }

    /// A new one, or now and then one that has its SCT already.
    fn pick(&self, turn: usize) -> Submission {
        let old = self.promised.lock().unwrap();
        let repeated = (turn % 10 == 9).then(|| old.get(turn * 7919 % old.len().max(1)));
        match repeated.flatten() {
            Some((old, _)) => old.clone(),
            None => {
                drop(old);
                let kind = [EntryKind::X509, EntryKind::Precert][turn % 2];
                Submission::new(&pki().p256, kind)
            }
        }
    }

    /// Submits once. Returns true if an SCT came.
    async fn submit(&self, log: &Client, submission: &Submission) -> bool {
        let path = match submission.kind {
            EntryKind::X509 => "ct/v1/add-chain",
            EntryKind::Precert => "ct/v1/add-pre-chain",
        };
        let post = log.post(path, submission.body.clone());
        match tokio::time::timeout(self.patience, post).await {
            Ok(Ok(answer)) if answer.status == 200 => {
                self.times.lock().unwrap().push(Instant::now());
                let promise = (submission.clone(), answer.body.to_vec());
                self.promised.lock().unwrap().push(promise);
                return true;
            }
            Ok(Ok(answer)) => {
                assert!(
                    is_retry_later(&answer),
                    "{}: {}",
                    answer.status,
                    answer.text()
                );
                self.refused.fetch_add(1, SeqCst);
            }
            _ => drop(self.unreached.fetch_add(1, SeqCst)),
        }
        false
    }

    /// Looks at the checkpoint of an instance: none is ever older than the one before.
    async fn watch_on(&self, n: usize) {
        while !self.over.load(SeqCst) {
            let look = self.watches[n].0.poll();
            let _ = tokio::time::timeout(Duration::from_secs(2), look).await;
            // The pace at which a monitor asks: no verdict depends on how often.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// SCTs so far.
    pub(super) fn promised(&self) -> usize {
        self.promised.lock().unwrap().len()
    }

    /// The longest time without an SCT since then.
    pub(super) fn gap(&self, since: Instant) -> Duration {
        let mut times = self.times.lock().unwrap().clone();
        times.push(Instant::now());
        times.sort_unstable();
        let after = times.iter().filter(|time| **time >= since);
        let before = [since].into_iter().chain(after.clone().copied());
        after
            .zip(before)
            .map(|(time, before)| *time - before)
            .max()
            .unwrap()
    }

    pub(super) async fn go_on(&self) {
        let before = self.promised();
        eventually("SCTs again", async || self.promised() > before + 20).await;
    }

    /// An audit through this instance, of all that any of them has promised. Nobody submits
    /// meanwhile: an instance may be a moment behind the one that gave the last SCT.
    pub(super) async fn audited(&self, n: usize) -> String {
        self.held.store(true, SeqCst);
        eventually("nobody submits", async || self.busy.load(SeqCst) == 0).await;
        let audit = self.told(n);
        let mut size = 0;
        for (other, _) in &self.watches {
            size = size.max(other.poll().await.unwrap());
        }
        eventually("all is followed", async || {
            audit.poll().await.unwrap_or(0) >= size
        })
        .await;
        let report = audit.run().await.unwrap();
        self.held.store(false, SeqCst);
        report.assert_clean();
        report.to_string()
    }

    /// The auditor who reads through this instance, once told of all promises.
    fn told(&self, n: usize) -> &Audit {
        let (audit, told) = &self.watches[n];
        let all = self.promised.lock().unwrap();
        for (submission, sct) in &all[told.swap(all.len(), SeqCst)..] {
            audit.promised(submission.kind, submission.body.as_bytes(), sct);
        }
        audit
    }

    /// Audits through each of them, in the end: they agree.
    pub(super) async fn all_audited(&self) {
        for n in 0..self.watches.len() {
            print!("{}", self.audited(n).await);
        }
        let mut notes = Vec::new();
        eventually("all show one checkpoint", async || {
            notes.clear();
            for log in &self.logs {
                let note = log.get("checkpoint").await;
                notes.push(note.map(|note| note.body).unwrap_or_default());
            }
            notes.windows(2).all(|two| two[0] == two[1])
        })
        .await;
        assert!(!notes[0].is_empty());
    }
}
