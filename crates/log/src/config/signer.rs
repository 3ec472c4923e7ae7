//! The holder of a log's key: this process, or a separate signer.

use std::sync::Arc;

use lucarne_ct::{KeyError, LogId, LogKey, PublicKey};
use lucarne_signer::Client;

/// The holder of a log's key.
#[derive(Clone, Debug)]
pub enum Signer {
    /// This process.
    Own(Arc<LogKey>),
    /// A separate process that remembers all its signatures.
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
    /// Returns the log ID.
    pub fn log_id(&self) -> LogId {
        match self {
            Self::Own(key) => key.log_id(),
            Self::Apart(client) => client.log_id(),
        }
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key_spki(&self) -> &[u8] {
        match self {
            Self::Own(key) => key.public_key_spki(),
            Self::Apart(client) => client.public_key_spki(),
        }
    }

    /// Returns the public key.
    ///
    /// # Errors
    /// The errors of [`PublicKey::from_spki`].
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        PublicKey::from_spki(self.public_key_spki())
    }

    /// Returns the verifier key of the second signature of checkpoints with this origin; `None` if
    /// there is no second signature, or if another process has the key.
    pub fn cosigner(&self, origin: &str) -> Option<String> {
        let Self::Own(key) = self else { return None };
        let cosigner = key.cosigner(origin).ok()??;
        Some(cosigner.verifier().to_string())
    }

    /// Returns whether signing a tree head requires a consistency proof from the previous tree
    /// head.
    pub(crate) fn wants_proof(&self) -> bool {
        matches!(self, Self::Apart(_))
    }
}
