//! The checks of a witness, its record of each origin, and its cosignatures (C2SP tlog-witness,
//! main of 2026-07-22).

mod record;

use std::sync::Arc;

use lucarne_storage::{Lock, LockError};
use lucarne_tlog::{
    CosignError, Cosigner, EMPTY_ROOT, NoteSignature, ProofError, SignedNote, verify_consistency,
    verify_subtree_consistency,
};

use self::record::{Record, origin_hash};
use crate::evidence::{Contradiction, Evidence};
use crate::logs::LogKeys;
use crate::request::{AddCheckpoint, Malformed, SignSubtree};

/// Number of attempts to replace a record that other processes replace at the same time.
const ATTEMPTS: usize = 8;

/// A witness of the known logs.
pub struct Witness {
    cosigners: Vec<Cosigner>,
    logs: LogKeys,
    lock: Arc<dyn Lock>,
    evidence: Evidence,
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
    pub fn new(cosigners: Vec<Cosigner>, logs: LogKeys, lock: Arc<dyn Lock>) -> Self {
        Self {
            cosigners,
            logs,
            lock,
            evidence: Evidence::default(),
        }
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
        let signatures = self.trusted_signatures(origin, &request.note)?;
        let key = origin_hash(origin);
        for _ in 0..ATTEMPTS {
            let recorded = self.recorded(origin).await?;
            self.verify(&request, recorded.as_ref()).await?;

            let time = recorded.as_ref().map_or(now, |record| record.time.max(now));
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
        Err(Refusal::Stale(
            recorded.map_or(0, |record| record.checkpoint.size),
        ))
    }

    async fn recorded(&self, origin: &str) -> Result<Option<Record>, Refusal> {
        let Some(stored) = self.lock.load(&origin_hash(origin)).await? else {
            return Ok(None);
        };
        let record = Record::parse(stored, origin, &self.cosigners);
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
    /// of the log that were verified, and the cosignatures of this witness. `None` if nothing was
    /// cosigned.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn checkpoint(&self, origin_hash: &[u8; 32]) -> Result<Option<Vec<u8>>, LockError> {
        self.lock.load(origin_hash).await
    }

    /// Returns the number of stored contradictions of a log.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn contradictions(&self, origin: &str) -> Result<usize, LockError> {
        self.evidence.count(&*self.lock, origin).await
    }

    /// Returns the signature lines of the log's trusted keys, all verified.
    fn trusted_signatures(
        &self,
        origin: &str,
        note: &SignedNote,
    ) -> Result<Vec<NoteSignature>, Refusal> {
        let unknown = || Refusal::UnknownLog(origin.to_owned());
        let keys = self.logs.of(origin).ok_or_else(unknown)?;
        let mut trusted = Vec::new();
        for key in keys {
            if key.has_signed(note).map_err(Refusal::Untrusted)? {
                trusted.extend(key.lines(note));
            }
        }
        if trusted.is_empty() {
            return Err(Refusal::Untrusted("no known key has signed it".to_owned()));
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
