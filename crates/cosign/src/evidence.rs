//! Evidence: checkpoints, signed by a log, that contradict the checkpoint which the witness has
//! recorded. Each one is kept in the lock beside the record, with both signed notes.

use std::collections::{HashMap, HashSet};

use lucarne_ct::sha256;
use lucarne_storage::{Lock, LockError, LogId};
use lucarne_tlog::{Checkpoint, Hash, SignedNote};
use tokio::sync::Mutex;

/// Maximum number of stored contradictions of an origin.
pub const MOST: usize = 1000;

/// The stored contradictions of all origins.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Heads of the stored checkpoints, by origin, in the order of their numbers.
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    heads: HashSet<(u64, Hash)>,
    /// Number of the next stored contradiction.
    next: usize,
}

/// Two checkpoints of a log that cannot both be true, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The recorded checkpoint, with the cosignatures of this witness.
    pub recorded: String,
    /// The checkpoint that contradicts the recorded one.
    pub submitted: String,
}

/// The line between the two notes.
const SEPARATOR: &str = "\n\u{2260}\n";

impl Contradiction {
    fn encode(&self) -> Vec<u8> {
        [&self.recorded, SEPARATOR, &self.submitted].concat().into()
    }

    fn decode(stored: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(stored).ok()?;
        let (recorded, submitted) = text.split_once(SEPARATOR)?;
        Some(Self {
            recorded: recorded.to_owned(),
            submitted: submitted.to_owned(),
        })
    }

    fn head(&self) -> Option<(u64, Hash)> {
        let note = SignedNote::parse(self.submitted.as_bytes()).ok()?;
        let (checkpoint, _) = Checkpoint::parse_extended(&note.text).ok()?;
        Some((checkpoint.size, checkpoint.root))
    }
}

impl Evidence {
    /// Stores a contradiction, unless its checkpoint is already stored or [`MOST`] are. Returns
    /// whether it is new.
    pub(crate) async fn store(
        &self,
        lock: &dyn Lock,
        checkpoint: &Checkpoint,
        contradiction: &Contradiction,
    ) -> Result<bool, LockError> {
        let mut known = self.known.lock().await;
        let known = read_on(&mut known, lock, &checkpoint.origin).await?;
        while known.next < MOST {
            if !known.heads.insert((checkpoint.size, checkpoint.root)) {
                return Ok(false);
            }
            let key = key(&checkpoint.origin, known.next);
            match lock.create(&key, &contradiction.encode()).await {
                Ok(()) => {
                    known.next += 1;
                    return Ok(true);
                }
                // Another process has stored another one.
                Err(LockError::Exists { .. }) => {
                    known.heads.remove(&(checkpoint.size, checkpoint.root));
                    let before = known.next;
                    known.read(lock, &checkpoint.origin).await?;
                    if known.next == before {
                        return Ok(false);
                    }
                }
                Err(error) => {
                    known.heads.remove(&(checkpoint.size, checkpoint.root));
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    /// Returns the number of stored contradictions of an origin.
    pub async fn count(&self, lock: &dyn Lock, origin: &str) -> Result<usize, LockError> {
        let mut known = self.known.lock().await;
        Ok(read_on(&mut known, lock, origin).await?.next)
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

/// Returns the contradictions of an origin, after reading those that other processes have stored.
async fn read_on<'k>(
    known: &'k mut HashMap<String, Known>,
    lock: &dyn Lock,
    origin: &str,
) -> Result<&'k mut Known, LockError> {
    let known = known.entry(origin.to_owned()).or_default();
    known.read(lock, origin).await?;
    Ok(known)
}

impl Known {
    async fn read(&mut self, lock: &dyn Lock, origin: &str) -> Result<(), LockError> {
        while self.next < MOST {
            let Some(stored) = lock.load(&key(origin, self.next)).await? else {
                break;
            };
            let stored = Contradiction::decode(&stored);
            self.heads.extend(stored.and_then(|stored| stored.head()));
            self.next += 1;
        }
        Ok(())
    }
}

/// Returns the key of a contradiction in the lock. No origin has a newline, so that no key is the
/// key of a record.
fn key(origin: &str, number: usize) -> LogId {
    sha256(&[format!("{origin}\nevidence {number}\n").as_bytes()])
}
