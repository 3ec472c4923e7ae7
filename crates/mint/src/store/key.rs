//! Key of a stored certificate.

use std::fmt;

use lucarne_x509::Fingerprint;

use super::Host;
use crate::KeyType;

/// Key of a stored certificate. The CA is part of the key, so certificates of an earlier CA are not
/// found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreKey {
    /// Fingerprint of the CA's certificate.
    pub ca: Fingerprint,
    /// Host of the certificate.
    pub host: Host,
    /// Kind of the certificate's key.
    pub key_type: KeyType,
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ca = self.ca.to_string();
        write!(f, "{} ({}, CA {})", self.host, self.key_type, &ca[..8])
    }
}
