//! The holder of a log's key: this process, or a signer apart from it.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{KeyError, LogId, LogKey, PublicKey};
use lucarne_signer::{Client, Head};
use lucarne_tlog::Hash;

use crate::verified_checkpoint::VerifiedCheckpoint;
use crate::{Fatal, LogConfig};

/// The holder of a log's key.
#[derive(Clone, Debug)]
pub enum Signer {
    /// This process.
    Own(Arc<LogKey>),
    /// A process that remembers what it has signed.
    Apart(Arc<Client>),
}

impl From<Arc<LogKey>> for Signer {
    fn from(key: Arc<LogKey>) -> Self {
        Self::Own(key)
    }
}

impl From<LogKey> for Signer {
    fn from(key: LogKey) -> Self {
        Self::Own(Arc::new(key))
    }
}

impl Signer {
    /// The log's ID.
    pub fn log_id(&self) -> LogId {
        match self {
            Self::Own(key) => key.log_id(),
            Self::Apart(client) => client.log_id(),
        }
    }

    /// The public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key_spki(&self) -> &[u8] {
        match self {
            Self::Own(key) => key.public_key_spki(),
            Self::Apart(client) => client.public_key_spki(),
        }
    }

    /// The public key.
    ///
    /// # Errors
    /// Those of [`PublicKey::from_spki`].
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        PublicKey::from_spki(self.public_key_spki())
    }

    /// Returns whether a tree head needs the proof that it grows from the last one.
    pub(crate) fn wants_proof(&self) -> bool {
        matches!(self, Self::Apart(_))
    }
}

impl LogConfig {
    /// Signs a tree head; `proof` leads to it from the last one, for a signer apart. A signature
    /// that does not verify must never be committed: this one does.
    pub(crate) async fn sign_head(
        &self,
        head: Head,
        proof: Vec<Hash>,
    ) -> Result<VerifiedCheckpoint, Fatal> {
        let note = match &self.key {
            Signer::Own(key) => key
                .sign_checkpoint(&self.origin, head.size, &head.root, head.timestamp_ms)
                .map_err(|error| Fatal::Sign(error.to_string()))?
                .into(),
            Signer::Apart(client) => Bytes::from(client.head(head, proof).await?),
        };
        let unsound = |problem: String| Fatal::Sign(problem);
        let signed =
            VerifiedCheckpoint::verify(note, self).map_err(|error| unsound(error.to_string()))?;
        match signed.head() == head {
            true => Ok(signed),
            false => Err(unsound("the signature is of another tree head".into())),
        }
    }

    /// The last checkpoint that a signer apart has signed, if there is one, and it has signed any.
    pub(crate) async fn last_signed(&self) -> Result<Option<VerifiedCheckpoint>, Fatal> {
        let Signer::Apart(client) = &self.key else {
            return Ok(None);
        };
        let Some(note) = client.last().await? else {
            return Ok(None);
        };
        let signed = VerifiedCheckpoint::verify(note.into(), self).map_err(|problem| {
            Fatal::Inconsistent(format!(
                "the signer at {} holds, for this key, something that is no checkpoint of {}: \
                 {problem}. Either its `origin` or the `submissionprefix` is another log's",
                client.path().display(),
                self.origin
            ))
        })?;
        Ok(Some(signed))
    }
}
