//! Checks a log over HTTP with only its public key, like a monitor and an auditor (RFC 6962,
//! sections 5.3 and 5.4; static-ct-api).

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

/// Collects the promises of a log, and then verifies that the log has kept them.
///
/// Pass every SCT to [`promised`](Self::promised) and every checkpoint to
/// [`saw_checkpoint`](Self::saw_checkpoint) or [`poll`](Self::poll), from any number of tasks. Then
/// call [`run`](Self::run).
pub struct Audit {
    client: Client,
    verifier: CheckpointVerifier,
    key: PublicKey,
    validator: Validator,
    state: Mutex<State>,
    /// Held from the request for a checkpoint until the checkpoint is recorded, so that a later
    /// request never returns an older checkpoint.
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
    /// The submitted chains of the certificate. The log stores one of these chains.
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

/// A checkpoint with the time at which it was seen.
#[derive(Clone)]
struct Seen {
    checkpoint: Checkpoint,
    timestamp: u64,
}

/// The findings of an audit.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of entries in the tree.
    pub size: u64,
    /// Number of checked SCTs.
    pub scts: usize,
    /// Number of distinct submissions of these SCTs.
    pub submissions: usize,
    /// Number of checked checkpoints.
    pub checkpoints: usize,
    /// Number of certificates fetched from `issuer/`.
    pub issuers: usize,
    /// All violations.
    pub findings: Vec<String>,
}

impl Report {
    /// Asserts that there are no findings.
    ///
    /// # Panics
    /// If there are findings; the message lists the findings.
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
    /// Creates an audit of the log at `monitoring_prefix` (a URL), with this origin, public key
    /// (SPKI, DER) and accepted roots (PEM).
    ///
    /// # Errors
    /// If the key is invalid.
    pub fn new(monitoring_prefix: &str, origin: &str, spki: &[u8], roots: &[u8]) -> Result<Self> {
        let (roots, _) = Roots::from_pem(roots);
        let policy = Policy {
            require: Require::Any,
            ..Policy::default()
        };
        Ok(Self {
            client: Client::new(monitoring_prefix),
            verifier: CheckpointVerifier::new(origin, spki)
                .context("reading the log's public key")?,
            key: PublicKey::from_spki(spki).context("reading the log's public key")?,
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

    /// Records that the log returned this SCT (JSON) for the submission with this body. The
    /// signature is verified at once, the index in the tree by [`run`](Self::run). Every violation
    /// becomes a finding.
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
            anyhow::anyhow!(
                "the log accepted an invalid submission: {}",
                rejection.detail
            )
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
            index: sct.index().context("the SCT has no leaf_index extension")?,
            timestamp: sct.timestamp,
            chains: vec![entry.issuers],
        };
        Ok((entry.identity, promise))
    }

    /// Records that the log served this checkpoint, after all earlier checkpoints.
    ///
    /// # Errors
    /// If `note` is not a valid checkpoint of this log, which is also a finding.
    pub fn saw_checkpoint(&self, note: &[u8]) -> Result<u64> {
        let verified = self
            .verifier
            .verify(note)
            .context("verifying the checkpoint");
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

    /// Fetches the checkpoint and returns its size.
    ///
    /// # Errors
    /// If no checkpoint is served (not a finding, because the server may be down for a moment), or
    /// if the checkpoint is invalid (a finding).
    pub async fn poll(&self) -> Result<u64> {
        let _alone = self.polling.lock().await;
        self.poll_alone().await
    }

    async fn poll_alone(&self) -> Result<u64> {
        let note = self.client.get("checkpoint").await?.ok()?;
        self.saw_checkpoint(&note)
    }

    /// Returns the number of distinct submissions so far.
    pub fn submissions(&self) -> usize {
        self.state().promises.len()
    }

    /// Fetches and checks the whole log. The log must be running, and may be busy: the tree of the
    /// current checkpoint is checked.
    ///
    /// # Errors
    /// Only if there is no valid checkpoint to start from. Violations are in the report.
    pub async fn run(&self) -> Result<Report> {
        // The tree of the next checkpoint has every earlier promise.
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
