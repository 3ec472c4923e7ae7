//! Submitters that retry without limit, and an auditor that records every response.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lucarne_ct::EntryKind;
use lucarne_mint::{Authority, CaOptions, Chain, KeyType};
use lucarne_testkit::{Audit, Client, LogUnderTest, Report, Response, is_silence};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::pki;

/// A submission that can be repeated.
#[derive(Clone)]
pub(crate) struct Submission {
    pub(crate) kind: EntryKind,
    pub(crate) body: String,
}

impl Submission {
    /// Issues a new certificate or precertificate.
    pub(crate) fn new(issuer: &Authority, kind: EntryKind) -> Self {
        let leaf = pki().leaf("load.example.com");
        let leaf = match kind {
            EntryKind::X509 => leaf,
            EntryKind::Precert => leaf.precertificate(),
        };
        let chain: Chain = issuer.chain(issuer.issue(&leaf).unwrap());
        let body = chain.to_json();
        Submission { kind, body }
    }

    fn path(&self) -> &'static str {
        match self.kind {
            EntryKind::X509 => "ct/v1/add-chain",
            EntryKind::Precert => "ct/v1/add-pre-chain",
        }
    }
}

/// Concurrent submissions to one log and reads of it, over several runs of the server.
pub(crate) struct Load {
    client: Client,
    pub(crate) audit: Audit,
    issuers: Mutex<Vec<Authority>>,
    submissions: Mutex<Vec<Submission>>,
    problems: Mutex<Vec<String>>,
    /// The choices are the same in every run, except for the order of concurrent clients.
    rng: Mutex<StdRng>,
    pub(crate) promised: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    over: AtomicBool,
}

impl Load {
    pub(crate) fn new(log: &LogUnderTest) -> Self {
        Self::on(log.client(), log.audit().unwrap())
    }

    /// Creates a load on the log of this client and this auditor.
    pub(crate) fn on(client: Client, audit: Audit) -> Self {
        let pki = pki();
        Load {
            client,
            audit,
            issuers: Mutex::new(vec![pki.p256.clone(), pki.p384.clone(), pki.rsa.clone()]),
            submissions: Mutex::default(),
            problems: Mutex::default(),
            rng: Mutex::new(StdRng::seed_from_u64(1)),
            promised: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Submits new and old chains one after the other, each until it has an SCT, until
    /// [`end`](Self::end).
    pub(crate) async fn submit_on(&self) {
        let mut submission = self.pick();
        while !self.over.load(Ordering::SeqCst) {
            match self.submit(&submission).await {
                Some(true) => submission = self.pick(),
                // The log is stopped, starting or dead. The pause has no influence on the verdict.
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Reads the checkpoint in a loop until [`end`](Self::end).
    pub(crate) async fn poll_on(&self) {
        while !self.over.load(Ordering::SeqCst) {
            self.note_silence(&self.audit.poll().await);
            // The interval of the polls: no verdict depends on their number.
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Submits once. Returns `true` for an SCT, `false` for a 503, `None` without a response.
    pub(crate) async fn submit(&self, submission: &Submission) -> Option<bool> {
        let post = self.client.post(submission.path(), submission.body.clone());
        let answered = self.answered();
        match post.await {
            Err(error) if is_silence(&error) => self.problem(format!(
                "{error:#}: {} others were answered meanwhile, and not {}",
                self.answered() - answered,
                submission.body
            )),
            Err(_) => None,
            Ok(answer) if answer.status == 200 => {
                let body = submission.body.as_bytes();
                self.audit.promised(submission.kind, body, &answer.body);
                self.promised.fetch_add(1, Ordering::SeqCst);
                Some(true)
            }
            Ok(answer) if is_retry_later(&answer) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                Some(false)
            }
            Ok(answer) => self.problem(format!("answered {}: {}", answer.status, answer.text())),
        }
    }

    /// Submits every chain again until each has an SCT, and checks that the log has exactly these
    /// entries.
    pub(crate) async fn settle_accounts(&self) -> Report {
        let all = self.submissions.lock().unwrap().clone();
        let next = AtomicUsize::new(0);
        let one_by_one = async || {
            while let Some(submission) = all.get(next.fetch_add(1, Ordering::SeqCst)) {
                super::eventually("every submission gets its SCT", async || {
                    self.submit(submission).await == Some(true)
                })
                .await;
            }
        };
        // Eight submissions run concurrently in this task.
        let (a, b, c, d) = (one_by_one(), one_by_one(), one_by_one(), one_by_one());
        let (e, f, g, h) = (one_by_one(), one_by_one(), one_by_one(), one_by_one());
        tokio::join!(a, b, c, d, e, f, g, h);
        let mut report = self.audit.run().await.unwrap();
        report.findings.append(&mut self.problems.lock().unwrap());
        if report.size != all.len() as u64 {
            let finding = format!("{} submissions, {} entries", all.len(), report.size);
            report.findings.push(finding);
        }
        report
    }

    /// Returns the number of SCTs and 503 responses so far.
    fn answered(&self) -> usize {
        self.promised.load(Ordering::SeqCst) + self.refused.load(Ordering::SeqCst)
    }

    /// Returns the number of distinct submissions.
    pub(crate) fn count(&self) -> usize {
        self.submissions.lock().unwrap().len()
    }

    /// Creates a new submission, which will be repeated later.
    pub(crate) fn fresh(&self) -> Submission {
        let kind = if self.happens(0.5) {
            EntryKind::X509
        } else {
            EntryKind::Precert
        };
        let submission = Submission::new(&self.issuer(), kind);
        self.submissions.lock().unwrap().push(submission.clone());
        submission
    }

    fn pick(&self) -> Submission {
        if self.happens(0.25)
            && let Some(old) = self.choose(&self.submissions)
        {
            return old;
        }
        self.fresh()
    }

    /// Returns an intermediate, sometimes a new one, because issuers are files as well.
    fn issuer(&self) -> Authority {
        if self.happens(0.02) {
            let options = CaOptions::named("Lucarne Test New", KeyType::EcdsaP256);
            let new = pki().root.intermediate(&options).unwrap();
            self.issuers.lock().unwrap().push(new.clone());
            return new;
        }
        self.choose(&self.issuers).unwrap()
    }

    /// Returns true with probability `p`.
    fn happens(&self, p: f64) -> bool {
        self.rng.lock().unwrap().random_bool(p)
    }

    /// Returns one of `all`, each with the same probability.
    fn choose<T: Clone>(&self, all: &Mutex<Vec<T>>) -> Option<T> {
        let all = all.lock().unwrap();
        all.choose(&mut self.rng.lock().unwrap()).cloned()
    }

    /// Records a request without a response in time. A refused connection is not recorded, because
    /// the log may be down.
    pub(crate) fn note_silence<T>(&self, outcome: &anyhow::Result<T>) {
        if let Err(error) = outcome
            && is_silence(error)
        {
            self.problem(format!("{error:#}"));
        }
    }

    fn problem(&self, problem: String) -> Option<bool> {
        self.problems.lock().unwrap().push(problem);
        Some(false)
    }
}

/// Returns whether the response is a 503 with a Retry-After of 1 to 60 seconds.
pub(crate) fn is_retry_later(answer: &Response) -> bool {
    let seconds = answer.header("retry-after").parse::<u32>();
    answer.status == 503 && seconds.is_ok_and(|seconds| (1..=60).contains(&seconds))
}
