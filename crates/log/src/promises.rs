//! The SCTs of rounds, from a signer apart: those of one round are asked for together, once its
//! checkpoint is published.

use std::sync::Arc;

use lucarne_ct::Entry;
use lucarne_signer::ClientError;
use lucarne_tlog::{Frontier, Hash};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Rounds whose SCTs may be on their way before the next round waits for them.
const ROUNDS: usize = 4;

/// A round that is published, and whose SCTs are to be signed.
pub(crate) struct Promised {
    pub(crate) entries: Vec<Arc<Entry>>,
    /// The hashes of their leaves.
    pub(crate) hashes: Vec<Hash>,
    /// The tree before them.
    pub(crate) before: Frontier,
    pub(crate) timestamp_ms: u64,
}

/// The stand of the signatures of a round.
#[derive(Clone, Debug)]
pub(crate) enum Stand {
    /// The first so many entries have theirs.
    Signed(usize),
    /// There will be no more.
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
    /// Waits until not too many rounds are being signed. Each of them comes to its end.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.rounds.clone().acquire_owned().await.ok()
    }

    /// Notes that a round is being signed; what is told of it reaches those who wait.
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

    /// Notes that no more comes of it.
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
            // All that a round gets is there when it ends.
            Ok(Stand::Signed(_)) | Err(_) => Ok(()),
        }
    }
}
