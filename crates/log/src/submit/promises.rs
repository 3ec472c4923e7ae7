//! SCTs from a separate signer process: the log requests the SCTs of a round together, after the
//! checkpoint of the round is published.

use std::sync::Arc;

use lucarne_ct::Entry;
use lucarne_signer::ClientError;
use lucarne_tlog::{Frontier, Hash};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Maximum number of rounds whose SCTs are being signed. The next round waits.
const ROUNDS: usize = 4;

/// A published round whose SCTs must be signed.
pub(crate) struct Promised {
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Leaf hashes of the entries.
    pub(crate) hashes: Vec<Hash>,
    /// The tree before the round.
    pub(crate) before: Frontier,
    pub(crate) timestamp_ms: u64,
}

/// The progress of the signatures of a round.
#[derive(Clone, Debug)]
pub(crate) enum Stand {
    /// The first `n` entries have an SCT.
    Signed(usize),
    /// No more signatures will follow.
    Failed(ClientError),
}

pub(crate) struct Signing {
    first: u64,
    count: usize,
    stand: watch::Receiver<Stand>,
}

/// The rounds whose SCTs are being signed.
pub(crate) struct Promises {
    signing: Mutex<Vec<Arc<Signing>>>,
    rounds: Arc<Semaphore>,
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            signing: Mutex::default(),
            rounds: Arc::new(Semaphore::new(ROUNDS)),
        }
    }
}

impl Promises {
    /// Waits until fewer than [`ROUNDS`] rounds are being signed. Every signing ends.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.rounds.clone().acquire_owned().await.ok()
    }

    /// Registers a round that is being signed. The sender reports the progress to waiting tasks.
    pub(crate) fn begin(&self, round: &Promised) -> (Arc<Signing>, watch::Sender<Stand>) {
        let (told, stand) = watch::channel(Stand::Signed(0));
        let signing = Arc::new(Signing {
            first: round.before.size(),
            count: round.entries.len(),
            stand,
        });
        self.signing.lock().push(signing.clone());
        (signing, told)
    }

    /// Removes a round whose signing has ended.
    pub(crate) fn end(&self, ended: &Arc<Signing>) {
        let mut rounds = self.signing.lock();
        rounds.retain(|round| !Arc::ptr_eq(round, ended));
    }

    pub(crate) fn of(&self, index: u64) -> Option<Arc<Signing>> {
        let signing = self.signing.lock();
        let has = |round: &&Arc<Signing>| {
            (round.first..round.first + round.count as u64).contains(&index)
        };
        signing.iter().find(has).cloned()
    }
}

impl Signing {
    /// Waits for the signature of the entry at `index`.
    pub(crate) async fn signed(&self, index: u64) -> Result<(), ClientError> {
        let at = (index - self.first) as usize;
        let mut stand = self.stand.clone();
        let passed = |stand: &Stand| match stand {
            Stand::Signed(count) => *count > at,
            Stand::Failed(_) => true,
        };
        match stand.wait_for(passed).await.as_deref() {
            Ok(Stand::Failed(error)) => Err(error.clone()),
            // When signing ends, all signatures of the round have arrived.
            Ok(Stand::Signed(_)) | Err(_) => Ok(()),
        }
    }
}
