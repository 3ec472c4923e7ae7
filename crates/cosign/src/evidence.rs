//! Evidence: checkpoints, signed by a log, that contradict the checkpoint which the witness has
//! recorded. Each one is kept in the lock beside the record, with both signed notes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lucarne_ct::sha256;
use lucarne_storage::{Lock, LockError, LogId};
use lucarne_tlog::{Checkpoint, NoteSignature, SignedNote};
use tokio::sync::{Mutex, OnceCell};

use crate::request::AddCheckpoint;
use crate::witness::Record;

/// Maximum number of stored contradictions of an origin.
pub const MOST: usize = 1000;

/// The stored contradictions of logs, by origin.
#[derive(Debug, Default)]
pub struct Evidence(parking_lot::Mutex<HashMap<String, Arc<Known>>>);

#[derive(Debug, Default)]
struct Known {
    /// Lock of the request that stores, so that each checkpoint of an origin is stored once.
    storing: Mutex<()>,
    /// The number of contradictions in the lock, after it was read.
    count: OnceCell<AtomicUsize>,
}

/// Two checkpoints of a log that cannot both be true, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The recorded checkpoint, with the cosignatures of this witness.
    pub recorded: String,
    /// The checkpoint that contradicts the recorded one.
    pub submitted: String,
}

/// The character between the two notes: a control character, which a note cannot contain.
const SEPARATOR: char = '\u{1e}';

impl Contradiction {
    fn encode(&self) -> Vec<u8> {
        format!("{}{SEPARATOR}{}", self.recorded, self.submitted).into()
    }

    fn decode(stored: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(stored).ok()?;
        let (recorded, submitted) = text.split_once(SEPARATOR)?;
        Some(Self {
            recorded: recorded.to_owned(),
            submitted: submitted.to_owned(),
        })
    }
}

impl Evidence {
    fn of(&self, origin: &str) -> Arc<Known> {
        let mut known = self.0.lock();
        Arc::clone(known.entry(origin.to_owned()).or_default())
    }

    /// Stores and reports that the log has signed a checkpoint which contradicts the recorded one.
    pub(crate) async fn report(
        &self,
        lock: &dyn Lock,
        request: &AddCheckpoint,
        signatures: &[NoteSignature],
        recorded: &Record,
    ) -> Result<(), LockError> {
        let submitted = SignedNote {
            text: request.note.text.clone(),
            signatures: signatures.to_vec(),
        };
        let contradiction = Contradiction {
            recorded: recorded.note.encode(),
            submitted: submitted.encode(),
        };
        let Checkpoint { origin, size, .. } = &recorded.checkpoint;
        if self
            .store(lock, &request.checkpoint, &contradiction)
            .await?
        {
            tracing::error!("{origin} has signed two different trees of {size} entries");
        }
        Ok(())
    }

    /// Stores a contradiction, unless its checkpoint is already stored or [`MOST`] are. Returns
    /// whether it is new. Two processes may both store a checkpoint that they receive at the same
    /// time.
    pub(crate) async fn store(
        &self,
        lock: &dyn Lock,
        checkpoint: &Checkpoint,
        contradiction: &Contradiction,
    ) -> Result<bool, LockError> {
        let Checkpoint { origin, size, root } = checkpoint;
        let known = self.of(origin);
        let _storing = known.storing.lock().await;
        // The key of a value whose presence means that this checkpoint is stored.
        let mark = sha256(&[format!("{origin}\nevidence {size} {root}\n").as_bytes()]);
        if lock.load(&mark).await?.is_some() {
            return Ok(false);
        }
        let count = known.count(lock, origin).await?;
        let encoded = contradiction.encode();
        let number = loop {
            let number = count.load(Ordering::Relaxed);
            if number == MOST {
                return Ok(false);
            }
            match lock.create(&key(origin, number), &encoded).await {
                Ok(()) => break number,
                // Another process has stored another one.
                Err(LockError::Exists { .. }) => {
                    let found = count_from(lock, origin, number + 1).await?;
                    count.store(found, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        };
        count.store(number + 1, Ordering::Relaxed);
        match lock.create(&mark, number.to_string().as_bytes()).await {
            Ok(()) | Err(LockError::Exists { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of stored contradictions of an origin that this process knows.
    pub async fn count(&self, lock: &dyn Lock, origin: &str) -> Result<usize, LockError> {
        let known = self.of(origin);
        let count = known.count(lock, origin).await?;
        Ok(count.load(Ordering::Relaxed))
    }

    /// Reads the number of stored contradictions of an origin again: other processes store, too.
    pub async fn recount(&self, lock: &dyn Lock, origin: &str) -> Result<usize, LockError> {
        let known = self.of(origin);
        let count = known.count(lock, origin).await?;
        let found = count_from(lock, origin, count.load(Ordering::Relaxed)).await?;
        count.fetch_max(found, Ordering::Relaxed);
        Ok(found)
    }

    /// Returns the number that was read or stored last, without the lock.
    pub fn known(&self, origin: &str) -> usize {
        let known = self.0.lock();
        let count = known.get(origin).and_then(|known| known.count.get());
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns a stored contradiction; `None` after the last one, or if the value is damaged.
    pub async fn get(
        lock: &dyn Lock,
        origin: &str,
        number: usize,
    ) -> Result<Option<Contradiction>, LockError> {
        let stored = lock.load(&key(origin, number)).await?;
        Ok(stored.and_then(|stored| Contradiction::decode(&stored)))
    }
}

impl Known {
    async fn count(&self, lock: &dyn Lock, origin: &str) -> Result<&AtomicUsize, LockError> {
        let read = async || count_from(lock, origin, 0).await.map(AtomicUsize::new);
        self.count.get_or_try_init(read).await
    }
}

/// Returns the number of contradictions in the lock, which is at least `low`. The numbers have no
/// gaps: the search doubles its steps, and then halves the interval.
async fn count_from(lock: &dyn Lock, origin: &str, mut low: usize) -> Result<usize, LockError> {
    let (mut high, mut step) = (MOST, 0);
    while low < high {
        let number = low.midpoint(high).min(low + step);
        if lock.load(&key(origin, number)).await?.is_some() {
            low = number + 1;
            step = 2 * step + 1;
        } else {
            high = number;
        }
    }
    Ok(low)
}

/// Returns the key of a contradiction in the lock. No origin has a newline, so that no two logs
/// have the same key.
fn key(origin: &str, number: usize) -> LogId {
    sha256(&[format!("{origin}\nevidence {number}\n").as_bytes()])
}
