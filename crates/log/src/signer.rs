//! The holder of a log's key: this process, or a signer apart from it.

use std::sync::Arc;

use lucarne_ct::{KeyError, LogId, LogKey, PublicKey};
use lucarne_signer::Client;

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
