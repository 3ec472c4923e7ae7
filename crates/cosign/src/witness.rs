//! The checks of a witness, its record of each origin, and its cosignatures (C2SP tlog-witness,
//! main of 2026-07-22).

mod record;

use std::collections::HashSet;
use std::sync::Arc;

use lucarne_ct::sha256;
use lucarne_storage::{Lock, LockError, LogId};
use lucarne_tlog::{
    CosignError, Cosigner, EMPTY_ROOT, KeyType, NoteSignature, ProofError, SignedNote, VerifierKey,
    verify_consistency, verify_subtree_consistency,
};
use parking_lot::RwLock;

pub(crate) use self::record::{Record, Recorded, Slot};
use crate::evidence::{Contradiction, Evidence};
use crate::logs::{ListedLog, LogKeys};
use crate::memory::NO_STATE;
use crate::request::{AddCheckpoint, Malformed, SignSubtree};

/// Number of attempts to replace a record that other processes replace at the same time.
const ATTEMPTS: usize = 8;

/// Maximum number of seconds that the clock may be behind the latest cosignature.
const MAX_CLOCK_LAG: u64 = 60;

/// Time in seconds for which a replay of the recorded checkpoint gets the recorded cosignatures.
/// Anyone can replay a checkpoint: the lock of the logs must not be written each time.
const REPLAY: u64 = 10;

/// Maximum number of known logs. A list must not fill the memory and the lock.
const MAX_LOGS: usize = 10_000;

/// Longest origin in the message that an ML-DSA-44 key signs, in bytes.
const MAX_ORIGIN: usize = 255;

/// A witness of the known logs.
pub struct Witness {
    cosigners: Arc<[Cosigner]>,
    /// Replaced as a whole: a request uses one set of logs from its beginning to its end.
    logs: RwLock<Arc<LogKeys>>,
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
    /// A log and a cosigner must not have the same name in signature lines.
    #[error("the origin {0:?} is the name of the witness")]
    Name(String),
}

/// The reasons why the log of a list is not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// The log is known with another key.
    #[error("the log {0:?} is known with another key, which stays")]
    OtherKey(String),
    /// The witness knows too many logs.
    #[error("the witness knows {MAX_LOGS} logs already: no other log is added")]
    TooMany,
    /// The witness cannot cosign checkpoints of this log.
    #[error(transparent)]
    Unfit(InvalidWitness),
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
    /// The tree is larger than any mirror can store (status 422).
    #[error("the checkpoint has {0} entries: a mirror stores at most 2^40")]
    TooLarge(u64),
    /// The witness has no key that cosigns subtrees (status 404).
    #[error("this witness does not cosign subtrees")]
    NoSubtrees,
    /// Other requests for this log were always faster (status 503).
    #[error("too many requests for this log at the same time: retry later")]
    Busy,
    /// The clock is behind the latest cosignature by this number of seconds (status 503).
    #[error("the clock of the witness is {0} s behind its latest cosignature: correct the clock")]
    Clock(u64),
    /// The lock has no value of this witness (status 503).
    #[error("{NO_STATE}")]
    NoState,
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
        cosigners: impl Into<Arc<[Cosigner]>>,
        logs: LogKeys,
        lock: Arc<dyn Lock>,
    ) -> Result<Self, InvalidWitness> {
        let cosigners = cosigners.into();
        let keys: Vec<_> = cosigners.iter().map(Cosigner::verifier).collect();
        if keys.is_empty() {
            return Err(InvalidWitness::NoKey);
        }
        let mut different = HashSet::new();
        if let Some(key) = keys.iter().find(|key| !different.insert(key.public_key())) {
            return Err(InvalidWitness::SameKey(Box::new((*key).clone())));
        }
        let witness = Self {
            cosigners,
            logs: RwLock::default(),
            lock,
            evidence: Evidence::default(),
        };
        logs.origins().try_for_each(|origin| witness.fits(origin))?;
        *witness.logs.write() = Arc::new(logs);
        Ok(witness)
    }

    /// Checks that this witness can cosign the checkpoints of a log with this origin.
    ///
    /// # Errors
    /// [`InvalidWitness::Origin`], [`InvalidWitness::Name`].
    pub fn fits(&self, origin: &str) -> Result<(), InvalidWitness> {
        let mut keys = self.cosigners.iter().map(Cosigner::verifier);
        let is_long = !(1..=MAX_ORIGIN).contains(&origin.len());
        if is_long
            && keys
                .clone()
                .any(|key| key.key_type() == KeyType::MlDsa44Cosigner)
        {
            return Err(InvalidWitness::Origin(origin.to_owned()));
        }
        if keys.any(|key| key.name() == origin) {
            return Err(InvalidWitness::Name(origin.to_owned()));
        }
        Ok(())
    }

    /// Adds the logs that are not known yet: no log is ever removed, and none gets another key.
    /// Returns the logs that now have these keys, and the reason for each other log
    /// (once if there are too many logs).
    pub fn add_logs(&self, added: Vec<ListedLog>) -> (Vec<ListedLog>, Vec<Skipped>) {
        let mut logs = self.logs.write();
        let mut changed = LogKeys::clone(&logs);
        let mut skipped = Vec::new();
        let add = |(origin, key): &ListedLog| {
            let reason = match logs.of(origin) {
                Some(keys) if keys.iter().any(|known| known.is_same(key)) => return true,
                Some(_) => Err(Skipped::OtherKey(origin.clone())),
                None if changed.origins().len() >= MAX_LOGS => Err(Skipped::TooMany),
                None => self.fits(origin).map_err(Skipped::Unfit),
            };
            match reason {
                Ok(()) => changed.add(origin, Arc::clone(key)),
                Err(Skipped::TooMany) if skipped.contains(&Skipped::TooMany) => {}
                Err(reason) => skipped.push(reason),
            }
            changed
                .of(origin)
                .is_some_and(|keys| keys.iter().any(|known| known.is_same(key)))
        };
        let added = added.into_iter().filter(add).collect();
        *logs = Arc::new(changed);
        (added, skipped)
    }

    /// Returns the known logs as they are now.
    pub fn logs(&self) -> Arc<LogKeys> {
        Arc::clone(&self.logs.read())
    }

    /// Returns the public keys of this witness.
    pub fn verifiers(&self) -> impl Iterator<Item = &VerifierKey> + Clone {
        self.cosigners.iter().map(Cosigner::verifier)
    }

    /// Verifies that a record could be stored now.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn check(&self) -> Result<(), LockError> {
        self.lock.check().await
    }

    /// Returns the key of a log's record in the lock. The key is Sunlight's, so that both programs
    /// can use the same lock, one after the other. It has the public key of the witness, because
    /// each witness of a lock has its own view of a log.
    pub fn record_key(&self, origin: &str) -> LogId {
        self.lock_key(Slot::Cosigned.kind(), origin)
    }

    /// Returns Sunlight's key of a value of this witness in the lock. The zero bytes of a `NULL` in
    /// DER separate the hashed text from all public keys.
    pub(crate) fn lock_key(&self, kind: &str, origin: &str) -> LogId {
        let mut keys = self.verifiers();
        let ed25519 = |key: &&VerifierKey| key.key_type() == KeyType::Ed25519Cosigner;
        let key = keys.clone().find(ed25519).or_else(|| keys.next());
        let key = key.map_or(&[][..], VerifierKey::public_key);
        sha256(&[&[5, 0], kind.as_bytes(), key, origin.as_bytes()])
    }

    pub(crate) fn lock(&self) -> &dyn Lock {
        &*self.lock
    }

    /// Verifies that a checkpoint extends the recorded one, records the checkpoint, and returns the
    /// cosignatures. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// See [`Refusal`]. No cosignature of this checkpoint has then left the witness.
    pub async fn add_checkpoint(
        &self,
        request: &AddCheckpoint,
        now: u64,
    ) -> Result<Vec<NoteSignature>, Refusal> {
        self.record(Slot::Cosigned, request, now).await
    }

    /// Records a checkpoint like [`add_checkpoint`](Self::add_checkpoint), in any slot.
    pub(crate) async fn record(
        &self,
        slot: Slot,
        request: &AddCheckpoint,
        now: u64,
    ) -> Result<Vec<NoteSignature>, Refusal> {
        let (origin, text) = (&request.checkpoint.origin, &request.note.text);
        let lines = self.trusted_signatures(request)?;
        for _ in 0..ATTEMPTS {
            let recorded = self.recorded(slot, origin).await?;
            // A log that a mirror has copied itself has no pending checkpoint yet.
            let mirrored = match (slot, &recorded.record) {
                (Slot::Pending, None) => self.recorded(Slot::Mirror, origin).await?.record,
                _ => None,
            };
            let record = recorded.record.as_ref().or(mirrored.as_ref());
            self.verify(request, &lines, record).await?;
            if let Some((new, _)) = self.replaced(&recorded, text, &lines, now).await? {
                return Ok(new);
            }
        }
        let recorded = self.recorded(slot, origin).await?.record;
        match recorded.map_or(0, |record| record.checkpoint.size) {
            size if size == request.old => Err(Refusal::Busy),
            size => Err(Refusal::Stale(size)),
        }
    }

    /// Cosigns a checkpoint that the caller has verified, and replaces the record. Returns the
    /// cosignatures and the note; `None` if another request has replaced the record.
    pub(crate) async fn replaced(
        &self,
        recorded: &Recorded,
        text: &str,
        lines: &[NoteSignature],
        now: u64,
    ) -> Result<Option<(Vec<NoteSignature>, SignedNote)>, Refusal> {
        let Recorded {
            slot,
            stored,
            record,
            key,
        } = recorded;
        let latest = record.as_ref().map_or(0, |record| record.time);
        let lag = latest.saturating_sub(now);
        if lag > MAX_CLOCK_LAG {
            return Err(Refusal::Clock(lag));
        }
        let time = latest.max(now);
        let cosigners = self.signers(*slot);
        let is_fresh = |record: &&Record| time - record.time < REPLAY;
        if let Some(record) = record.as_ref().filter(is_fresh)
            && record.has(text, lines)
            && let Some(cosignatures) = record.cosignatures(cosigners)
        {
            return Ok(Some((cosignatures, record.note.clone())));
        }
        let cosign = cosigners.iter().map(|cosigner| cosigner.cosign(text, time));
        let cosignatures: Vec<_> = cosign.collect::<Result<_, _>>()?;
        let note = SignedNote {
            text: text.to_owned(),
            signatures: [lines, &cosignatures].concat(),
        };
        let new = note.encode();
        let swapped = match stored {
            Some(old) => self.lock.replace(key, old, new.as_bytes()).await,
            None => self.lock.create(key, new.as_bytes()).await,
        };
        match swapped {
            Ok(()) => Ok(Some((cosignatures, note))),
            // Another request was faster: its checkpoint is the recorded one now.
            Err(LockError::Conflict { .. } | LockError::Exists { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the keys that cosign the checkpoints in a slot.
    fn signers(&self, slot: Slot) -> &[Cosigner] {
        match slot {
            Slot::Cosigned | Slot::Mirror => &self.cosigners,
            Slot::Pending => &[],
        }
    }

    /// Returns the record of a note that was stored in a slot.
    pub(crate) fn parsed(
        &self,
        slot: Slot,
        origin: &str,
        note: &SignedNote,
    ) -> Result<Record, Refusal> {
        let record = Record::parse(note.encode().as_bytes(), origin, self.signers(slot));
        record.map_err(|reason| Refusal::Record(origin.to_owned(), reason))
    }

    /// Reads the value of a log in the lock. Sunlight creates an empty value for a new log.
    pub(crate) async fn recorded(&self, slot: Slot, origin: &str) -> Result<Recorded, Refusal> {
        let key = self.lock_key(slot.kind(), origin);
        let stored = self.lock.load(&key).await?;
        let note = stored.as_deref().filter(|stored| !stored.is_empty());
        let record = note.map(|note| Record::parse(note, origin, self.signers(slot)));
        let damaged = |reason| Refusal::Record(origin.to_owned(), reason);
        Ok(Recorded {
            record: record.transpose().map_err(damaged)?,
            slot,
            key,
            stored,
        })
    }

    /// Stores the evidence that a checkpoint contradicts the recorded one.
    pub(crate) async fn contradicts(
        &self,
        request: &AddCheckpoint,
        signatures: &[NoteSignature],
        recorded: &Record,
    ) -> Result<(), LockError> {
        let lock = &*self.lock;
        self.evidence
            .report(lock, request, signatures, recorded)
            .await
    }

    /// Compares a checkpoint with the recorded one.
    pub(crate) async fn verify(
        &self,
        request: &AddCheckpoint,
        signatures: &[NoteSignature],
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
            self.contradicts(request, signatures, recorded).await?;
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
    pub fn sign_subtree(&self, request: &SignSubtree) -> Result<Vec<NoteSignature>, Refusal> {
        let checkpoint = &request.checkpoint;
        let origin = &checkpoint.origin;
        if self.logs().of(origin).is_none() {
            return Err(Refusal::UnknownLog(origin.clone()));
        }
        let mut cosigned = false;
        for cosigner in &*self.cosigners {
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

    /// Returns the recorded checkpoint of a log: with the signatures of the log that were verified,
    /// and the cosignatures of this witness. `None` if this witness has not cosigned a checkpoint
    /// of the log.
    ///
    /// # Errors
    /// [`Refusal::Lock`], [`Refusal::Record`].
    pub async fn checkpoint(&self, origin: &str) -> Result<Option<SignedNote>, Refusal> {
        let record = self.recorded(Slot::Cosigned, origin).await?.record;
        let cosigned = record.filter(|record| record.time > 0);
        Ok(cosigned.map(|record| record.note))
    }

    /// Returns the size of the recorded checkpoint of a log, and the time of its cosignature in
    /// seconds since 1970.
    ///
    /// # Errors
    /// [`Refusal::Lock`], [`Refusal::Record`].
    pub async fn cosigned(&self, origin: &str) -> Result<Option<(u64, u64)>, Refusal> {
        let record = self.recorded(Slot::Cosigned, origin).await?.record;
        let cosigned = record.filter(|record| record.time > 0);
        Ok(cosigned.map(|record| (record.checkpoint.size, record.time)))
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

    /// Reads the number of stored contradictions of a log again.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn recount_contradictions(&self, origin: &str) -> Result<usize, LockError> {
        self.evidence.recount(&*self.lock, origin).await
    }

    /// Returns the number of contradictions of a log that was read or stored last.
    pub fn known_contradictions(&self, origin: &str) -> usize {
        self.evidence.known(origin)
    }

    /// Returns a stored contradiction of a log, or `None` after the last one.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn contradiction(
        &self,
        origin: &str,
        number: usize,
    ) -> Result<Option<Contradiction>, LockError> {
        Evidence::get(&*self.lock, origin, number).await
    }

    /// Verifies all signature lines of the log's trusted keys, and returns one line of each key: a
    /// log must not fill the lock with signatures.
    pub(crate) fn trusted_signatures(
        &self,
        request: &AddCheckpoint,
    ) -> Result<Vec<NoteSignature>, Refusal> {
        let (origin, note) = (&request.checkpoint.origin, &request.note);
        let unknown = || Refusal::UnknownLog(origin.clone());
        let logs = self.logs();
        let keys = logs.of(origin).ok_or_else(unknown)?;
        let mut trusted = Vec::new();
        let mut extensible = false;
        for key in keys {
            let lines = key.verified_lines(note).map_err(Refusal::Untrusted)?;
            extensible |= key.signs_extensions() && !lines.is_empty();
            trusted.extend(lines.into_iter().find(|line| !trusted.contains(line)));
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
}
