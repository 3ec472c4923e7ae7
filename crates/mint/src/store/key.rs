//! The key that a certificate is kept under.

use std::fmt;

use lucarne_x509::Fingerprint;

use super::Host;
use crate::KeyType;

/// The key that a certificate is kept under. The CA is part of it: once the CA is
/// another, nothing of the old one is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreKey {
    /// The CA's certificate.
    pub ca: Fingerprint,
    /// The host that the certificate is for.
    pub host: Host,
    /// The kind of the certificate's key.
    pub key_type: KeyType,
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ca = self.ca.to_string();
        write!(f, "{} ({:?}, CA {})", self.host, self.key_type, &ca[..8])
    }
}
