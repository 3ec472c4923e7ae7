//! One log of a signer: guard, memory and key together.

use std::num::NonZeroUsize;

use lucarne_ct::{KeyError, KeyHolder, LogId, MerkleTreeLeafRef};
use lucarne_tlog::{Frontier, Hash};
use lucarne_x509::text::counted;
use parking_lot::Mutex;

use crate::guard::{Guard, Head, Leaf, Refusal, included, included_alone};
use crate::memory::{Memory, MemoryDirectory, MemoryError};

/// Minimum number of signatures that are worth a thread, at about 17 µs each.
const WORTH_A_THREAD: usize = 256;

/// The reasons why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The guard refuses the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No head of this size is remembered.
    #[error("no tree head of {} is remembered", counted(*.0, "entry"))]
    UnknownTree(u64),
    /// The memory of the last tree head could not be read or written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The key created no signature.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The signature does not verify.
    #[error("the created signature does not verify: {0}")]
    Unsound(#[from] lucarne_ct::CheckpointError),
}

/// A log of the signer.
#[derive(Debug)]
pub struct SigningLog {
    origin: String,
    key: Box<dyn KeyHolder>,
    memory: Memory,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    guard: Guard,
    /// The last signed note.
    note: Option<Vec<u8>>,
}

impl SigningLog {
    /// Opens a log with its memory.
    ///
    /// # Errors
    /// If the memory is missing or damaged.
    pub fn open(
        origin: &str,
        key: Box<dyn KeyHolder>,
        directory: &MemoryDirectory,
    ) -> Result<Self, MemoryError> {
        let memory = directory.of(origin, &*key);
        if let Err(problem) = key.cosigner(origin) {
            tracing::warn!(log = origin, %problem, "checkpoints have no ML-DSA-44 signature");
        }
        let (head, note) = memory.read()?.unzip();
        Ok(Self {
            origin: origin.to_owned(),
            key,
            memory,
            state: Mutex::new(State {
                guard: Guard::new(head),
                note,
            }),
        })
    }

    /// Returns the log ID.
    pub fn log_id(&self) -> LogId {
        self.key.log_id()
    }

    /// Returns the origin of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the last signed head; `None` if nothing was signed.
    pub fn last(&self) -> Option<Head> {
        self.state.lock().guard.last()
    }

    /// Returns the last signed note; `None` if nothing was signed.
    pub fn note(&self) -> Option<Vec<u8>> {
        self.state.lock().note.clone()
    }

    /// Signs a tree head that extends the last signed head. The same head gets the same note again.
    ///
    /// # Errors
    /// See [`SignError`]. No signature leaves the signer then.
    pub fn sign_head(&self, head: Head, proof: &[Hash], now_ms: u64) -> Result<Vec<u8>, SignError> {
        let mut state = self.state.lock();
        if state.guard.last() == Some(head)
            && let Some(note) = &state.note
        {
            return Ok(note.clone());
        }
        state.guard.may_sign(head, proof, now_ms)?;
        let Head {
            size,
            root,
            timestamp_ms,
        } = head;
        let note = self
            .key
            .sign_checkpoint(&self.origin, size, &root, timestamp_ms)?
            .into_bytes();
        // A note that does not verify would damage the memory.
        self.memory.head(&note)?;
        self.memory.write(&note)?;
        state.guard.signed(head);
        state.note = Some(note.clone());
        Ok(note)
    }

    /// Signs the SCTs of the complete leaves in their order. `before` and the leaves together form
    /// a tree with a signed head.
    ///
    /// # Errors
    /// See [`SignError`]. Nothing is signed then.
    pub fn sign_range(
        &self,
        before: Frontier,
        leaves: &[Leaf<'_>],
    ) -> Result<Vec<Vec<u8>>, SignError> {
        let root = self.root(before.size() + leaves.len() as u64)?;
        let leaves = included(&root, before, leaves)?;
        self.sign_all(&leaves)
    }

    /// Signs the SCT of one leaf that is in a tree with a signed head.
    ///
    /// # Errors
    /// See [`SignError`].
    pub fn sign_leaf(
        &self,
        size: u64,
        index: u64,
        leaf: &[u8],
        proof: &[Hash],
    ) -> Result<Vec<u8>, SignError> {
        let root = self.root(size)?;
        let leaf = included_alone((size, &root), index, leaf, proof)?;
        Ok(self.key.sign_leaf(leaf)?)
    }

    fn root(&self, size: u64) -> Result<Hash, SignError> {
        let root = self.state.lock().guard.root(size);
        root.ok_or(SignError::UnknownTree(size))
    }

    fn sign_all(&self, leaves: &[MerkleTreeLeafRef<'_>]) -> Result<Vec<Vec<u8>>, SignError> {
        let sign = |leaves: &[MerkleTreeLeafRef<'_>]| -> Result<Vec<_>, KeyError> {
            leaves
                .iter()
                .map(|leaf| self.key.sign_leaf(*leaf))
                .collect()
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let part = leaves.len().div_ceil(threads).max(WORTH_A_THREAD);
        if leaves.len() <= part {
            return Ok(sign(leaves)?);
        }
        let parts: Result<Vec<Vec<_>>, KeyError> = std::thread::scope(|scope| {
            let signing: Vec<_> = leaves
                .chunks(part)
                .map(|part| scope.spawn(move || sign(part)))
                .collect();
            let signed = signing.into_iter().map(|part| part.join());
            signed
                .map(|part| part.unwrap_or(Err(KeyError::Signing)))
                .collect()
        });
        Ok(parts?.concat())
    }
}
