//! Tree heads, signed by the holder of the log's key.

use bytes::Bytes;
use lucarne_signer::Head;
use lucarne_tlog::{Hash, SignedNote};

use crate::config::LogConfig;
use crate::config::signer::Signer;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::SignerInconsistency;
use crate::error::{Fatal, SignError};

/// Signs a tree head. A separate signer needs `proof`, the consistency proof from the last tree
/// head. The returned signature has been verified, because an invalid signature must never be
/// committed.
pub(crate) async fn sign(
    config: &LogConfig,
    head: Head,
    proof: Vec<Hash>,
) -> Result<VerifiedCheckpoint, Fatal> {
    let note = match &config.key {
        Signer::Own(key) => key
            .sign_checkpoint(&config.origin, head.size, &head.root, head.timestamp_ms)
            .map_err(|error| Fatal::Sign(error.into()))?
            .into(),
        Signer::Apart(client) => Bytes::from(client.head(head, proof).await?),
    };
    let signed = VerifiedCheckpoint::verify(note, config);
    let signed = signed.map_err(|error| Fatal::Sign(error.into()))?;
    if signed.head() == head {
        Ok(signed)
    } else {
        Err(Fatal::Sign(SignError::OtherHead))
    }
}

/// Returns the checkpoint with a new second signature, if its second signature is invalid: a copy
/// of the lock was damaged. `None` if the second signature is valid or missing, or if a separate
/// signer has the key.
pub(crate) fn with_second(signed: &VerifiedCheckpoint, config: &LogConfig) -> Option<Bytes> {
    let Signer::Own(key) = &config.key else {
        return None;
    };
    let cosigner = key.cosigner(&config.origin).ok()??;
    let (mut note, key) = (SignedNote::parse(&signed.note).ok()?, cosigner.verifier());
    let problem = key.verify(&note).err()?;
    tracing::warn!(
        log = config.shortname,
        %problem,
        "the ML-DSA-44 signature of the checkpoint in the lock is replaced"
    );
    note.signatures
        .retain(|line| (line.name.as_str(), line.key_id) != (key.name(), key.id()));
    let second = cosigner.cosign(&note.text, (signed.timestamp_ms / 1000).max(1));
    note.signatures.extend(second.ok());
    Some(note.encode().into())
}

/// Returns the last checkpoint of a separate signer; `None` without a signer, or if the signer has
/// not signed anything.
pub(crate) async fn last_signed(config: &LogConfig) -> Result<Option<VerifiedCheckpoint>, Fatal> {
    let Signer::Apart(client) = &config.key else {
        return Ok(None);
    };
    let Some(note) = client.last().await? else {
        return Ok(None);
    };
    let signed = VerifiedCheckpoint::verify(note.into(), config).map_err(|problem| {
        SignerInconsistency::OtherLog {
            signer: client.path().display().to_string(),
            origin: config.origin.clone(),
            problem,
        }
    })?;
    Ok(Some(signed))
}
