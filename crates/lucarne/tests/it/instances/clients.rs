//! Submitters and auditors of a log with several instances.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lucarne_ct::EntryKind;
use lucarne_testkit::{Audit, Client};
use tokio::task::JoinSet;

use super::group::Instances;
use crate::common::load::{Submission, is_retry_later};
use crate::common::{eventually, pki};

/// Clients behind a load balancer: a request without a response is sent to the next instance.
pub(super) struct Clients {
    logs: Vec<Client>,
    /// The longest wait of a client for a response.
    patience: Duration,
    /// The auditor of each instance, and the number of SCTs that it knows.
    watches: Vec<(Audit, AtomicUsize)>,
    promised: Mutex<Vec<(Submission, Vec<u8>)>>,
    /// The times of SCTs.
    times: Mutex<Vec<Instant>>,
    pub(super) submitted: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) unreached: AtomicUsize,
    /// While this is set, no client starts a submission.
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

    /// Starts `count` submitters, with a `pause` after each response, and a monitor of each
    /// instance.
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

    /// Ends submitters and monitors.
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
                // A poll interval: no verdict depends on it.
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

    /// Returns a new submission, or sometimes one that already has an SCT.
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

    /// Submits once. Returns `true` for an SCT.
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

    /// Reads the checkpoint of an instance in a loop. A checkpoint is never older than the one
    /// before.
    async fn watch_on(&self, n: usize) {
        while !self.over.load(SeqCst) {
            let look = self.watches[n].0.poll();
            let _ = tokio::time::timeout(Duration::from_secs(2), look).await;
            // The interval of the polls: no verdict depends on it.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the number of SCTs so far.
    pub(super) fn promised(&self) -> usize {
        self.promised.lock().unwrap().len()
    }

    /// Returns the longest time without an SCT since `since`.
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

    /// Audits all SCTs through this instance. Submissions pause during the audit, because this
    /// instance may have an older tree than the instance that issued the last SCT.
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

    /// Returns the auditor of this instance, after it has received all SCTs.
    fn told(&self, n: usize) -> &Audit {
        let (audit, told) = &self.watches[n];
        let all = self.promised.lock().unwrap();
        for (submission, sct) in &all[told.swap(all.len(), SeqCst)..] {
            audit.promised(submission.kind, submission.body.as_bytes(), sct);
        }
        audit
    }

    /// Audits through each instance at the end, and checks that all of them agree.
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
