//! The signatures of SCTs, created with the log's own key or by a separate signer.

use std::sync::Arc;

use lucarne_ct::{Identity, Sct, SignedEntry, merkle_tree_leaf};
use lucarne_signer::{Client, ClientError, Seldom};
use tokio::sync::watch;

use crate::config::LogConfig;
use crate::config::signer::Signer;
use crate::error::{SubmitError, Unavailable};
use crate::index::dedup::LeafPosition;
use crate::read::proofs;
use crate::read::reader::Reader;
use crate::submit::issued_scts::IssuedScts;
use crate::submit::promises::{Promised, Promises, Stand};

/// The holder of the key, and a cache of the newest signatures.
pub(crate) struct SctSignatures {
    /// Short name of the log, for messages.
    log: String,
    key: Signer,
    reader: Arc<Reader>,
    issued: IssuedScts,
    promises: Promises,
    /// Rate limit of log lines about entries without a signature.
    complaints: Seldom,
}

impl SctSignatures {
    pub(crate) fn new(config: &LogConfig, reader: Arc<Reader>) -> Self {
        SctSignatures {
            log: config.shortname.clone(),
            key: config.key.clone(),
            reader,
            issued: IssuedScts::default(),
            promises: Promises::default(),
            complaints: Seldom::default(),
        }
    }

    /// Returns the signature of this entry's SCT, if it is in memory.
    pub(crate) fn find(&self, identity: &Identity, place: LeafPosition) -> Option<Vec<u8>> {
        self.issued.find(identity, place)
    }

    /// Returns the SCT of an entry with this position. The caller has proven the entry's inclusion.
    pub(crate) async fn sct(
        &self,
        identity: &Identity,
        signed: &SignedEntry,
        place: LeafPosition,
    ) -> Result<Sct, SubmitError> {
        let (index, timestamp) = (place.index, place.timestamp_ms);
        let sct = |signature| Sct::signed(self.key.log_id(), timestamp, index, signature);
        if let Some(signature) = self.issued.find(identity, place) {
            return Ok(sct(signature));
        }
        let made = match &self.key {
            Signer::Own(key) => key
                .sign_sct(timestamp, signed, index)
                .map_err(|error| self.unsigned(&error))?,
            Signer::Apart(client) => sct(self.promised(client, identity, signed, place).await?),
        };
        self.issued.remember(identity, place, &made.signature);
        Ok(made)
    }

    /// Starts to request the SCTs of a round from a separate signer, if there is one. Submissions
    /// find each signature among the issued SCTs, or wait for the round here.
    pub(crate) async fn promise(self: &Arc<Self>, round: impl FnOnce() -> Promised) {
        let Signer::Apart(client) = &self.key else {
            return;
        };
        let round = round();
        let room = self.promises.room().await;
        let (signing, told) = self.promises.begin(&round);
        let (scts, client) = (self.clone(), client.clone());
        tokio::spawn(async move {
            if let Err(error) = scts.have_signed(&client, &round, &told).await {
                tracing::error!(log = scts.log, %error, "cannot get the SCTs of a round");
                told.send_replace(Stand::Failed(error));
            }
            scts.promises.end(&signing);
            drop(room);
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

    /// Returns the SCT signature of an entry from a separate signer. The signature arrives with the
    /// other signatures of its round. If these signatures are no longer in memory, sends a request
    /// for this entry alone.
    async fn promised(
        &self,
        client: &Client,
        identity: &Identity,
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
        let tiles = self.reader.tiles();
        let proof = proofs::inclusion(tiles, &tree.edge, place.index, tree.size()).await;
        let proof = proof.map_err(|error| self.unsigned(&error))?;
        let mut leaf = Vec::new();
        merkle_tree_leaf(place.timestamp_ms, signed, place.index, &mut leaf);
        let signature = client.leaf(tree.size(), place.index, &leaf, proof).await;
        signature.map_err(|error| self.unsigned(&error))
    }

    fn unsigned(&self, problem: &dyn std::fmt::Display) -> SubmitError {
        if let Some(left_out) = self.complaints.due() {
            tracing::warn!(log = self.log, %problem, left_out, "cannot get the SCT of an entry");
        }
        SubmitError::Unavailable(Unavailable::CannotSign)
    }
}
