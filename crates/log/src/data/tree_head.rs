//! Tree heads, signed by the holder of the log's key.

use bytes::Bytes;
use lucarne_signer::Head;
use lucarne_tlog::Hash;

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
