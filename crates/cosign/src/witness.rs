//! The checks of a witness, its record of each origin, and its cosignatures (C2SP tlog-witness,
//! main of 2026-07-22).

mod record;

use std::collections::HashSet;
use std::sync::Arc;

use lucarne_storage::{Lock, LockError, LogId};
use lucarne_tlog::{
    CosignError, Cosigner, EMPTY_ROOT, KeyType, NoteSignature, ProofError, SignedNote, VerifierKey,
    verify_consistency, verify_subtree_consistency,
};

use self::record::{Record, origin_hash};
use crate::evidence::{Contradiction, Evidence};
use crate::logs::LogKeys;
use crate::request::{AddCheckpoint, Malformed, SignSubtree};

/// Number of attempts to replace a record that other processes replace at the same time.
const ATTEMPTS: usize = 8;

/// Maximum number of seconds that the clock may be behind the latest cosignature.
const MAX_CLOCK_LAG: u64 = 60;

/// Longest origin in the message that an ML-DSA-44 key signs, in bytes.
const MAX_ORIGIN: usize = 255;

/// A witness of the known logs.
pub struct Witness {
    cosigners: Vec<Cosigner>,
    logs: LogKeys,
    lock: Arc<dyn Lock>,
    evidence: Evidence,
}

/// The reasons why keys and logs are not a witness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWitness {
    /// There is no key.
    #[error("a witness must have a key")]
    NoKey,
    /// Two cosigners have the same public key.
    #[error("the witness has the same public key twice: {0}")]
    SameKey(Box<VerifierKey>),
    /// An ML-DSA-44 key cannot cosign the checkpoints of this log.
    #[error("the origin {0:?} is empty or longer than {MAX_ORIGIN} bytes")]
    Origin(String),
}

/// The reasons why a witness does not cosign.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The request is malformed (status 400).
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The log is unknown (status 404).
    #[error("this witness does not know the log {0:?}")]
    UnknownLog(String),
    /// No trusted key has signed the checkpoint, or a signature is invalid (status 403).
    #[error("the checkpoint has no valid signature of a trusted key: {0}")]
    Untrusted(String),
    /// The old size differs from the recorded size (status 409, with the recorded size as body).
    #[error("the latest cosigned checkpoint has the size {0}")]
    Stale(u64),
    /// The root is not the root of the recorded or of the empty tree (status 422).
    #[error("the checkpoint contradicts the checkpoint of the same size that was cosigned")]
    Contradiction,
    /// The proof is invalid (status 422).
    #[error("the checkpoint is not proven to be consistent: {0}")]
    Proof(#[from] ProofError),
    /// The witness has no key that cosigns subtrees (status 404).
    #[error("this witness does not cosign subtrees")]
    NoSubtrees,
    /// Other requests for this log were always faster (status 503).
    #[error("too many requests for this log at the same time: retry later")]
    Busy,
    /// The clock is behind the latest cosignature by this number of seconds (status 503).
    #[error("the clock of the witness is {0} s behind its latest cosignature: correct the clock")]
    Clock(u64),
    /// The lock failed (status 503).
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The record in the lock is not a record of this witness (status 500).
    #[error("the record of {0:?} in the lock is damaged: {1}")]
    Record(String, String),
    /// The key created no signature (status 500).
    #[error(transparent)]
    Signing(#[from] CosignError),
}

impl Witness {
    /// Creates a witness that cosigns with all these keys.
    ///
    /// # Errors
    /// If the witness could not cosign the checkpoints of every log with every key.
    pub fn new(
        cosigners: Vec<Cosigner>,
        logs: LogKeys,
        lock: Arc<dyn Lock>,
    ) -> Result<Self, InvalidWitness> {
        let keys: Vec<_> = cosigners.iter().map(Cosigner::verifier).collect();
        if keys.is_empty() {
            return Err(InvalidWitness::NoKey);
        }
        let mut different = HashSet::new();
        if let Some(key) = keys.iter().find(|key| !different.insert(key.public_key())) {
            return Err(InvalidWitness::SameKey(Box::new((*key).clone())));
        }
        let ml_dsa = keys
            .iter()
            .any(|key| key.key_type() == KeyType::MlDsa44Cosigner);
        let fits = |origin: &&str| (1..=MAX_ORIGIN).contains(&origin.len());
        if let Some(origin) = logs.origins().find(|origin| ml_dsa && !fits(origin)) {
            return Err(InvalidWitness::Origin(origin.to_owned()));
        }
        Ok(Self {
            evidence: Evidence::new(logs.origins()),
            cosigners,
            logs,
            lock,
        })
    }

    /// Verifies that a checkpoint extends the recorded one, records the checkpoint, and returns the
    /// cosignatures. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// See [`Refusal`]. No cosignature of this checkpoint has then left the witness.
    pub async fn add_checkpoint(
        &self,
        body: &[u8],
        now: u64,
    ) -> Result<Vec<NoteSignature>, Refusal> {
        let request = AddCheckpoint::parse(body)?;
        let origin = &request.checkpoint.origin;
        let signatures = self.trusted_signatures(&request)?;
        let key = origin_hash(origin);
        for _ in 0..ATTEMPTS {
            let recorded = self.recorded(origin).await?;
            self.verify(&request, recorded.as_ref()).await?;

            let latest = recorded.as_ref().map_or(0, |record| record.time);
            let lag = latest.saturating_sub(now);
            if lag > MAX_CLOCK_LAG {
                return Err(Refusal::Clock(lag));
            }
            let time = latest.max(now);
            // A replay would record the same statements again.
            if let Some(record) = recorded.as_ref().filter(|record| record.time == time)
                && record.has(&request.note.text, &signatures)
                && let Some(cosignatures) = record.cosignatures(&self.cosigners)
            {
                return Ok(cosignatures);
            }
            let cosignatures = self.cosign(&request.note.text, time)?;
            let new = SignedNote {
                text: request.note.text.clone(),
                signatures: [&signatures[..], &cosignatures].concat(),
            };
            let new = new.encode();
            let swapped = match &recorded {
                Some(old) => self.lock.replace(&key, &old.stored, new.as_bytes()).await,
                None => self.lock.create(&key, new.as_bytes()).await,
            };
            match swapped {
                Ok(()) => return Ok(cosignatures),
                // Another request was faster: its checkpoint is the recorded one now.
                Err(LockError::Conflict { .. } | LockError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let recorded = self.recorded(origin).await?;
        match recorded.map_or(0, |record| record.checkpoint.size) {
            size if size == request.old => Err(Refusal::Busy),
            size => Err(Refusal::Stale(size)),
        }
    }

    async fn recorded(&self, origin: &str) -> Result<Option<Record>, Refusal> {
        let key = origin_hash(origin);
        let Some(stored) = self.lock.load(&key).await? else {
            return Ok(None);
        };
        let record = Record::parse(stored, &key, &self.cosigners);
        let damaged = |reason| Refusal::Record(origin.to_owned(), reason);
        record.map(Some).map_err(damaged)
    }

    /// Compares a checkpoint with the recorded one.
    async fn verify(
        &self,
        request: &AddCheckpoint,
        recorded: Option<&Record>,
    ) -> Result<(), Refusal> {
        let new = &request.checkpoint;
        let (size, root) = match recorded {
            Some(record) => (record.checkpoint.size, record.checkpoint.root),
            None => (0, EMPTY_ROOT),
        };
        let contradicts = new.size == size && new.root != root;
        if let Some(recorded) = recorded
            && contradicts
        {
            let contradiction = Contradiction {
                recorded: String::from_utf8_lossy(&recorded.stored).into_owned(),
                submitted: request.note.encode(),
            };
            if self
                .evidence
                .store(&*self.lock, new, &contradiction)
                .await?
            {
                let (origin, size) = (&new.origin, new.size);
                tracing::error!("{origin} has signed two different trees of {size} entries");
            }
        }
        if request.old != size {
            return Err(Refusal::Stale(size));
        }
        if contradicts || (new.size == 0 && new.root != EMPTY_ROOT) {
            return Err(Refusal::Contradiction);
        }
        Ok(verify_consistency(
            size,
            &root,
            new.size,
            &new.root,
            &request.proof,
        )?)
    }

    /// Verifies that a subtree is in a checkpoint that this witness has cosigned, and returns the
    /// cosignatures of the subtree.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn sign_subtree(&self, body: &[u8]) -> Result<Vec<NoteSignature>, Refusal> {
        let request = SignSubtree::parse(body)?;
        let checkpoint = &request.checkpoint;
        let origin = &checkpoint.origin;
        if self.logs.of(origin).is_none() {
            return Err(Refusal::UnknownLog(origin.clone()));
        }
        let mut cosigned = false;
        for cosigner in &self.cosigners {
            let verified = cosigner.verifier().verify(&request.note);
            let verified = verified.map_err(|error| Refusal::Untrusted(error.to_string()))?;
            cosigned |= verified.is_some();
        }
        if !cosigned {
            let reason = "this witness has not cosigned the checkpoint";
            return Err(Refusal::Untrusted(reason.to_owned()));
        }
        let (subtree, hash) = (request.subtree, &request.hash);
        let (size, root) = (checkpoint.size, &checkpoint.root);
        verify_subtree_consistency(subtree, hash, size, root, &request.proof)?;

        let signed = self.cosigners.iter().filter_map(|cosigner| {
            match cosigner.cosign_subtree(origin, subtree, hash) {
                Err(CosignError::Subtree) => None,
                signed => Some(signed),
            }
        });
        let signed: Vec<_> = signed.collect::<Result<_, _>>()?;
        if signed.is_empty() {
            return Err(Refusal::NoSubtrees);
        }
        Ok(signed)
    }

    /// Returns the recorded checkpoint of the log with this hash of its origin: with the signatures
    /// of the log that were verified, and the cosignatures of this witness. `None` if the lock has
    /// no checkpoint of this origin that this witness has cosigned. The lock may have other values,
    /// such as checkpoints that are not yet published.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn checkpoint(&self, origin_hash: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        let stored = self.lock.load(origin_hash).await?;
        let parse = |stored| Record::parse(stored, origin_hash, &self.cosigners).ok();
        let cosigned = stored.and_then(parse).filter(|record| record.time > 0);
        Ok(cosigned.map(|record| record.stored))
    }

    /// Returns the number of stored contradictions of a log that this process knows. The first call
    /// reads the number from the lock. Contradictions that other processes have stored later are
    /// included after this process stores another one.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn contradictions(&self, origin: &str) -> Result<usize, LockError> {
        self.evidence.count(&*self.lock, origin).await
    }

    /// Returns the signature lines of the log's trusted keys, all verified.
    fn trusted_signatures(&self, request: &AddCheckpoint) -> Result<Vec<NoteSignature>, Refusal> {
        let (origin, note) = (&request.checkpoint.origin, &request.note);
        let unknown = || Refusal::UnknownLog(origin.clone());
        let keys = self.logs.of(origin).ok_or_else(unknown)?;
        let mut trusted = Vec::new();
        let mut extensible = false;
        for key in keys {
            let lines = key.verified_lines(note).map_err(Refusal::Untrusted)?;
            extensible |= key.signs_extensions() && !lines.is_empty();
            for line in lines {
                if !trusted.contains(&line) {
                    trusted.push(line);
                }
            }
        }
        if trusted.is_empty() {
            return Err(Refusal::Untrusted("no known key has signed it".to_owned()));
        }
        // Anyone can append extension lines to a text that only other types of keys have signed.
        if !extensible && note.text != request.checkpoint.to_string() {
            let reason = "no known key has signed the extension lines";
            return Err(Refusal::Untrusted(reason.to_owned()));
        }
        Ok(trusted)
    }

    fn cosign(&self, text: &str, time: u64) -> Result<Vec<NoteSignature>, CosignError> {
        let cosigners = self.cosigners.iter();
        cosigners
            .map(|cosigner| cosigner.cosign(text, time))
            .collect()
    }
}
