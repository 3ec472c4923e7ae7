//! The SCTs of rounds, from a signer apart: those of one round are asked for together, once its
//! checkpoint is published.

use std::sync::Arc;

use lucarne_ct::{Entry, SignedEntry, merkle_tree_leaf};
use lucarne_signer::{Client, ClientError};
use lucarne_tlog::{Frontier, Hash};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::dedup::LeafPosition;
use crate::shared::Shared;
use crate::{SubmitError, proofs};

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
enum Stand {
    /// The first so many entries have theirs.
    Signed(usize),
    /// There will be no more.
    Failed(ClientError),
}

struct Signing {
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
    async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.rounds.clone().acquire_owned().await.ok()
    }

    fn of(&self, index: u64) -> Option<Arc<Signing>> {
        let signing = self.signing.lock();
        let has = |round: &&Arc<Signing>| {
            (round.first..round.first + round.count as u64).contains(&index)
        };
        signing.iter().find(has).cloned()
    }
}

impl Signing {
    /// Waits for the signature of the entry at `index`.
    async fn signed(&self, index: u64) -> Result<(), ClientError> {
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

impl Shared {
    /// Begins to have the SCTs of a round signed. Whoever looks for one finds it among those that
    /// were issued, or here.
    pub(crate) async fn promise(self: &Arc<Self>, client: &Arc<Client>, round: Promised) {
        let room = self.promises.room().await;
        let (told, stand) = watch::channel(Stand::Signed(0));
        let signing = Arc::new(Signing {
            first: round.before.size(),
            count: round.entries.len(),
            stand,
        });
        self.promises.signing.lock().push(signing.clone());
        let (log, client) = (self.clone(), client.clone());
        tokio::spawn(async move {
            if let Err(error) = log.have_signed(&client, &round, &told).await {
                tracing::error!(log = log.config.shortname, %error, "a round without its SCTs");
                told.send_replace(Stand::Failed(error));
            }
            let mut rounds = log.promises.signing.lock();
            rounds.retain(|round| !Arc::ptr_eq(round, &signing));
            drop((rounds, room));
        });
    }

    async fn have_signed(
        &self,
        client: &Client,
        round: &Promised,
        told: &watch::Sender<Stand>,
    ) -> Result<(), ClientError> {
        let timestamp_ms = round.timestamp_ms;
        let first = round.before.size();
        let leaf = |at: usize| {
            let mut leaf = Vec::new();
            let signed = &round.entries[at].signed;
            merkle_tree_leaf(timestamp_ms, signed, first + at as u64, &mut leaf);
            leaf
        };
        let signed = |from: usize, signatures: Vec<Vec<u8>>| {
            let to = from + signatures.len();
            for (at, signature) in (from..).zip(signatures) {
                let place = LeafPosition {
                    index: first + at as u64,
                    timestamp_ms,
                };
                let identity = &round.entries[at].identity;
                self.issued.remember(identity, place, &signature);
            }
            told.send_replace(Stand::Signed(to));
        };
        client
            .range(&round.before, &round.hashes, leaf, signed)
            .await
    }

    /// The signature of an SCT from a signer apart: with those of its round, or by itself if that
    /// was long ago.
    pub(crate) async fn promised(
        &self,
        client: &Client,
        identity: &lucarne_ct::Identity,
        signed: &SignedEntry,
        place: LeafPosition,
    ) -> Result<Vec<u8>, SubmitError> {
        if let Some(round) = self.promises.of(place.index) {
            let signed = round.signed(place.index).await;
            signed.map_err(|error| self.unsigned(&error))?;
        }
        if let Some(signature) = self.issued.find(identity, place) {
            return Ok(signature);
        }
        self.promised_alone(client, signed, place).await
    }

    async fn promised_alone(
        &self,
        client: &Client,
        signed: &SignedEntry,
        place: LeafPosition,
    ) -> Result<Vec<u8>, SubmitError> {
        let Some(tree) = self.reader.tree() else {
            return Err(self.unsigned(&"the log is not open"));
        };
        let proof = proofs::inclusion(self.reader.tiles(), &tree.edge, place.index).await;
        let proof = proof.map_err(|error| self.unsigned(&error))?;
        let mut leaf = Vec::new();
        merkle_tree_leaf(place.timestamp_ms, signed, place.index, &mut leaf);
        let signature = client.leaf(tree.size(), place.index, &leaf, proof).await;
        signature.map_err(|error| self.unsigned(&error))
    }

    fn unsigned(&self, problem: &dyn std::fmt::Display) -> SubmitError {
        tracing::warn!(log = self.config.shortname, %problem, "no SCT");
        SubmitError::Unavailable {
            retry_after_seconds: 5,
            reason: "the log cannot sign now".into(),
        }
    }
}
