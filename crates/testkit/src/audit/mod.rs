//! Checks a log from outside, over HTTP, with nothing but its public key: what
//! a monitor and an auditor would do (RFC 6962 5.3, 5.4; static-ct-api).

mod tree;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, ensure};
use lucarne_ct::{
    Chain, ChainLimits, CheckpointVerifier, EntryKind, Fingerprint, Identity, Issuer, Policy,
    PublicKey, Require, Roots, Sct, Validator,
};
use lucarne_mint::now_ms;
use lucarne_tlog::Checkpoint;

use crate::Client;

/// Collects what a log has promised, and then checks that it kept it.
///
/// Give it every SCT with [`promised`](Self::promised) and every checkpoint
/// with [`saw_checkpoint`](Self::saw_checkpoint) or [`poll`](Self::poll), from
/// as many tasks as there are; [`run`](Self::run) does the rest.
pub struct Audit {
    client: Client,
    verifier: CheckpointVerifier,
    key: PublicKey,
    validator: Validator,
    state: Mutex<State>,
    /// Held from asking for a checkpoint to noting it: whoever asks meanwhile is
    /// told of one that is not older.
    polling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    promises: HashMap<Identity, Promise>,
    checkpoints: Vec<Seen>,
    findings: Vec<String>,
    scts: usize,
}

/// The SCT of one submission.
#[derive(Clone)]
struct Promise {
    index: u64,
    timestamp: u64,
    /// The chains that it was submitted with: the log keeps one of them.
    chains: Vec<Issuers>,
}

type Issuers = Arc<[Arc<Issuer>]>;

impl Promise {
    fn knows(&mut self, chains: Vec<Issuers>) {
        for chain in chains {
            let new = |known: &Issuers| !fingerprints(known).eq(fingerprints(&chain));
            if self.chains.iter().all(new) {
                self.chains.push(chain);
            }
        }
    }
}

fn fingerprints(issuers: &Issuers) -> impl Iterator<Item = Fingerprint> {
    issuers.iter().map(|issuer| issuer.fingerprint)
}

/// A checkpoint that was seen at some time.
#[derive(Clone)]
struct Seen {
    checkpoint: Checkpoint,
    timestamp: u64,
}

/// The findings of an audit.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Entries in the tree.
    pub size: u64,
    /// SCTs checked.
    pub scts: usize,
    /// Different submissions among them.
    pub submissions: usize,
    /// Checkpoints checked.
    pub checkpoints: usize,
    /// Certificates fetched from `issuer/`.
    pub issuers: usize,
    /// Everything that is not as it must be.
    pub findings: Vec<String>,
}

impl Report {
    /// Nothing was found wrong.
    ///
    /// # Panics
    /// Otherwise, with the findings.
    pub fn assert_clean(&self) {
        assert!(self.findings.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "audit: {} entries, {} SCTs of {} submissions, {} checkpoints, {} issuers, {} findings",
            self.size,
            self.scts,
            self.submissions,
            self.checkpoints,
            self.issuers,
            self.findings.len()
        )?;
        self.findings
            .iter()
            .take(30)
            .try_for_each(|finding| writeln!(f, "- {finding}"))
    }
}

impl Audit {
    /// Of the log at `monitoring_prefix` (a URL), with this origin, public key
    /// (SPKI, DER) and accepted roots (PEM).
    ///
    /// # Errors
    /// Not a key.
    pub fn new(monitoring_prefix: &str, origin: &str, spki: &[u8], roots: &[u8]) -> Result<Self> {
        let (roots, _) = Roots::from_pem(roots);
        let policy = Policy {
            require: Require::Any,
            ..Policy::default()
        };
        Ok(Self {
            client: Client::new(monitoring_prefix),
            verifier: CheckpointVerifier::new(origin, spki).context("the log's public key")?,
            key: PublicKey::from_spki(spki).context("the log's public key")?,
            validator: Validator::new(Arc::new(roots), policy),
            state: Mutex::default(),
            polling: tokio::sync::Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, finding: String) {
        self.state().findings.push(finding);
    }

    /// The log answered this SCT (JSON) to the submission with this body. Its
    /// signature is checked at once, its place in the tree by
    /// [`run`](Self::run). What is wrong becomes a finding.
    pub fn promised(&self, kind: EntryKind, body: &[u8], sct: &[u8]) {
        let outcome = self.check_sct(kind, body, sct);
        let mut state = self.state();
        state.scts += 1;
        match outcome {
            Err(error) => state.findings.push(format!("SCT: {error:#}")),
            Ok((identity, promise)) => {
                let first = state
                    .promises
                    .entry(identity)
                    .or_insert_with(|| promise.clone());
                first.knows(promise.chains);
                if (first.index, first.timestamp) != (promise.index, promise.timestamp) {
                    let finding = format!(
                        "one submission was promised twice: index {} at {}, then index {} at {}",
                        first.index, first.timestamp, promise.index, promise.timestamp
                    );
                    state.findings.push(finding);
                }
            }
        }
    }

    fn check_sct(&self, kind: EntryKind, body: &[u8], sct: &[u8]) -> Result<(Identity, Promise)> {
        let rejected = |rejection: lucarne_ct::Rejection| {
            anyhow::anyhow!("given for what no log may accept: {}", rejection.detail)
        };
        let chain = Chain::decode_json(body, &ChainLimits::default()).map_err(rejected)?;
        let examined = self
            .validator
            .examine(&chain, kind, now_ms())
            .map_err(rejected)?;
        let entry = self.validator.verify(examined).map_err(rejected)?;
        let sct = Sct::parse(sct)?;
        sct.verify(&self.key, &entry.signed)?;
        let promise = Promise {
            index: sct.index().context("no leaf_index extension")?,
            timestamp: sct.timestamp,
            chains: vec![entry.issuers],
        };
        Ok((entry.identity, promise))
    }

    /// The log served this checkpoint, later than all that were given before.
    ///
    /// # Errors
    /// Not a checkpoint of this log with a good signature; it is a finding too.
    pub fn saw_checkpoint(&self, note: &[u8]) -> Result<u64> {
        let verified = self.verifier.verify(note).context("checkpoint");
        let (checkpoint, timestamp) =
            verified.inspect_err(|error| self.found(format!("{error:#}")))?;
        let size = checkpoint.size;
        let mut state = self.state();
        if let Some(last) = state.checkpoints.last().cloned() {
            let same = last.checkpoint == checkpoint;
            if same && last.timestamp == timestamp {
                return Ok(size);
            }
            if timestamp <= last.timestamp || size < last.checkpoint.size {
                state.findings.push(format!(
                    "checkpoint of size {size} at {timestamp} served after size {} at {}",
                    last.checkpoint.size, last.timestamp
                ));
            }
        }
        state.checkpoints.push(Seen {
            checkpoint,
            timestamp,
        });
        Ok(size)
    }

    /// Fetches the checkpoint; its size.
    ///
    /// # Errors
    /// None is served (no finding: the server may be down for the moment), or
    /// it is bad (a finding).
    pub async fn poll(&self) -> Result<u64> {
        let _alone = self.polling.lock().await;
        self.poll_alone().await
    }

    async fn poll_alone(&self) -> Result<u64> {
        let note = self.client.get("checkpoint").await?.ok()?;
        self.saw_checkpoint(&note)
    }

    /// Returns the number of different submissions that have been promised so far.
    pub fn submissions(&self) -> usize {
        self.state().promises.len()
    }

    /// Fetches the whole log and checks everything. The log must be up, and
    /// may be busy: the tree of the checkpoint fetched now is checked.
    ///
    /// # Errors
    /// Only if there is no good checkpoint to start from. What is wrong with
    /// the log is in the report.
    pub async fn run(&self) -> Result<Report> {
        // Whatever was promised by now is in the tree that is asked for next.
        let promises = self.state().promises.clone();
        let (size, checkpoints) = {
            let _alone = self.polling.lock().await;
            (self.poll_alone().await?, self.state().checkpoints.clone())
        };
        ensure!(!checkpoints.is_empty(), "no checkpoint was ever seen");
        let mut walk = tree::Walk::new(&self.client, size);
        walk.entries(&promises, &checkpoints).await;
        walk.hash_tiles().await;
        walk.issuers(&promises).await;
        for (identity, promise) in &promises {
            walk.kept(identity, promise);
        }
        let state = self.state();
        let findings = state
            .findings
            .iter()
            .cloned()
            .chain(walk.findings)
            .collect();
        Ok(Report {
            size,
            scts: state.scts,
            submissions: promises.len(),
            checkpoints: checkpoints.len(),
            issuers: walk.issuers,
            findings,
        })
    }
}
