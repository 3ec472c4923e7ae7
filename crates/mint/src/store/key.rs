//! The key that a certificate is kept under.

use std::fmt;

use super::Host;
use crate::KeyType;

/// SHA-256 of a certificate's DER.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of this certificate, in DER.
    pub fn of(certificate: &[u8]) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

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
