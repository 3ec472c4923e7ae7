//! SCTs from a separate signer: the SCTs of a round, and single SCTs that are requested later.

use std::sync::Arc;

use lucarne_ct::{Identity, SignedEntry, merkle_tree_leaf};
use lucarne_signer::{Client, ClientError};
use tokio::sync::watch;

use crate::error::SubmitError;
use crate::index::dedup::LeafPosition;
use crate::read::proofs;
use crate::shared::Shared;
use crate::submit::promises::{Promised, Stand};

/// Starts to request the SCTs of a round. Submissions find each signature among the issued SCTs, or
/// wait for the round here.
pub(crate) async fn promise(log: &Arc<Shared>, client: &Arc<Client>, round: Promised) {
    let room = log.promises.room().await;
    let (signing, told) = log.promises.begin(&round);
    let (log, client) = (log.clone(), client.clone());
    tokio::spawn(async move {
        if let Err(error) = have_signed(&log, &client, &round, &told).await {
            tracing::error!(log = log.config.shortname, %error, "cannot get the SCTs of a round");
            told.send_replace(Stand::Failed(error));
        }
        log.promises.end(&signing);
        drop(room);
    });
}

async fn have_signed(
    log: &Shared,
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
            log.issued.remember(identity, place, &signature);
        }
        told.send_replace(Stand::Signed(to));
    };
    client
        .range(&round.before, &round.hashes, leaf, signed)
        .await
}

/// Returns the SCT signature of an entry from a separate signer: with the signatures of its round,
/// or with a request of its own if the signatures of the round are no longer in memory.
pub(crate) async fn promised(
    log: &Shared,
    client: &Client,
    identity: &Identity,
    signed: &SignedEntry,
    place: LeafPosition,
) -> Result<Vec<u8>, SubmitError> {
    if let Some(round) = log.promises.of(place.index) {
        let signed = round.signed(place.index).await;
        signed.map_err(|error| unsigned(log, &error))?;
    }
    if let Some(signature) = log.issued.find(identity, place) {
        return Ok(signature);
    }
    promised_alone(log, client, signed, place).await
}

async fn promised_alone(
    log: &Shared,
    client: &Client,
    signed: &SignedEntry,
    place: LeafPosition,
) -> Result<Vec<u8>, SubmitError> {
    let Some(tree) = log.reader.tree() else {
        return Err(unsigned(log, &"the log is not open"));
    };
    let proof = proofs::inclusion(log.reader.tiles(), &tree.edge, place.index, tree.size()).await;
    let proof = proof.map_err(|error| unsigned(log, &error))?;
    let mut leaf = Vec::new();
    merkle_tree_leaf(place.timestamp_ms, signed, place.index, &mut leaf);
    let signature = client.leaf(tree.size(), place.index, &leaf, proof).await;
    signature.map_err(|error| unsigned(log, &error))
}

fn unsigned(log: &Shared, problem: &dyn std::fmt::Display) -> SubmitError {
    if let Some(left_out) = log.duplicates.unsigned.due() {
        tracing::warn!(log = log.config.shortname, %problem, left_out, "no SCT");
    }
    SubmitError::Unavailable {
        retry_after_seconds: 5,
        reason: "the log cannot sign now".into(),
    }
}
