//! The log entry of an accepted submission, and its chain in `get-entries`.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use bytes::Bytes;
use lucarne_x509::Fingerprint;

use crate::leaf::push_u24;

/// The longest `opaque<0..2^24-1>`.
const LONGEST_OPAQUE: usize = (1 << 24) - 1;

/// The two kinds of entry, with the `entry_type` of RFC 6962 section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum EntryKind {
    /// A final certificate, from `add-chain`.
    X509 = 0,
    /// A precertificate, from `add-pre-chain`.
    Precert = 1,
}

/// SHA-256 of the content of an entry: `entry_type`, the issuer's key hash for a precertificate,
/// then the certificate or TBSCertificate. Two submissions are the same entry if and only if their
/// identities are equal. Deduplication uses all 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub [u8; 32]);

impl Identity {
    pub(crate) fn of_x509(certificate: &[u8]) -> Self {
        Self(sha256(&[
            &(EntryKind::X509 as u16).to_be_bytes(),
            certificate,
        ]))
    }

    pub(crate) fn of_precert(issuer_key_hash: &[u8; 32], tbs: &[u8]) -> Self {
        let kind = (EntryKind::Precert as u16).to_be_bytes();
        Self(sha256(&[&kind, issuer_key_hash, tbs]))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// A certificate above a leaf, served at `issuer/<fingerprint>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Issuer {
    /// SHA-256 of [`der`](Self::der).
    pub fingerprint: Fingerprint,
    /// The certificate as it was submitted, or as in the accepted roots.
    pub der: Bytes,
}

impl Issuer {
    /// Creates an issuer and computes its fingerprint.
    pub fn new(der: Bytes) -> Self {
        Self {
            fingerprint: Fingerprint::of(&der),
            der,
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({}, {} bytes)", self.fingerprint, self.der.len())
    }
}

/// The entry as the log signs it (`signed_entry` of RFC 6962 section 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedEntry {
    /// A final certificate.
    X509 {
        /// DER of the certificate as submitted.
        certificate: Bytes,
    },
    /// A precertificate.
    Precert {
        /// SHA-256 of the SubjectPublicKeyInfo of the CA that will issue the final certificate.
        issuer_key_hash: [u8; 32],
        /// The TBSCertificate without the poison, with issuer and key identifier of that CA.
        tbs: Bytes,
    },
}

impl SignedEntry {
    /// Returns the kind of entry.
    pub fn kind(&self) -> EntryKind {
        match self {
            SignedEntry::X509 { .. } => EntryKind::X509,
            SignedEntry::Precert { .. } => EntryKind::Precert,
        }
    }

    /// Returns the identity that the log uses for deduplication.
    pub fn identity(&self) -> Identity {
        match self {
            SignedEntry::X509 { certificate } => Identity::of_x509(certificate),
            SignedEntry::Precert {
                issuer_key_hash,
                tbs,
            } => Identity::of_precert(issuer_key_hash, tbs),
        }
    }
}

/// An accepted submission: everything that a log stores, except index and timestamp.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The identity that the log uses for deduplication; equal to `signed.identity()`.
    pub identity: Identity,
    /// The entry that the log signs.
    pub signed: SignedEntry,
    /// The precertificate as submitted; `None` for a final certificate.
    pub precertificate: Option<Bytes>,
    /// The chain above the leaf: issuer first, accepted root last, even if the submission omitted
    /// the root. Empty only if the leaf itself is an accepted root.
    pub issuers: Arc<[Arc<Issuer>]>,
}

impl Entry {
    /// Returns the total size in bytes of certificate, precertificate and chain. Most entries share
    /// their chains with other entries.
    pub fn size(&self) -> usize {
        let (SignedEntry::X509 { certificate: body } | SignedEntry::Precert { tbs: body, .. }) =
            &self.signed;
        let precertificate = self.precertificate.as_ref().map_or(0, Bytes::len);
        let issuers = self.issuers.iter().map(|issuer| issuer.der.len());
        body.len() + precertificate + issuers.sum::<usize>()
    }
}

/// Returns the SHA-256 of the concatenation of `parts`.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Returns the `extra_data` of an entry: for a certificate its `certificate_chain`, for a
/// precertificate its PrecertChainEntry, which begins with the submitted precertificate (RFC 6962,
/// sections 3.1 and 4.6). The tree does not cover these bytes.
///
/// `chain` has the DER certificates above the leaf, issuer first, accepted root last. Returns
/// `None` if the certificates are too long for the structure.
pub fn extra_data(precertificate: Option<&[u8]>, chain: &[impl AsRef<[u8]>]) -> Option<Vec<u8>> {
    let certificates = || chain.iter().map(AsRef::as_ref);
    let length: usize = certificates().map(|der| 3 + der.len()).sum();
    let longest = certificates().chain(precertificate).map(<[u8]>::len).max();
    if length > LONGEST_OPAQUE || longest > Some(LONGEST_OPAQUE) {
        return None;
    }
    let own = precertificate.map_or(0, |der| 3 + der.len());
    let mut data = Vec::with_capacity(own + 3 + length);
    if let Some(precertificate) = precertificate {
        push_u24(precertificate, &mut data);
    }
    data.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    certificates().for_each(|der| push_u24(der, &mut data));
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_rfc_lays_them_out() {
        // ASN.1Cert certificate_chain<0..2^24-1>.
        let chain = [&b"issuer"[..], b"root"];
        let certificate = extra_data(None, &chain).unwrap();
        assert_eq!(certificate, b"\0\0\x10\0\0\x06issuer\0\0\x04root");
        // ASN.1Cert pre_certificate, followed by the same chain.
        let precertificate = extra_data(Some(b"pre"), &chain).unwrap();
        assert_eq!(
            precertificate,
            b"\0\0\x03pre\0\0\x10\0\0\x06issuer\0\0\x04root"
        );
        let none: [&[u8]; 0] = [];
        assert_eq!(extra_data(None, &none).unwrap(), [0, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let most = vec![0; LONGEST_OPAQUE - 3];
        assert_eq!(
            extra_data(None, &[&most]).unwrap().len(),
            3 + LONGEST_OPAQUE
        );
        assert_eq!(extra_data(None, &[&most[..], b""]), None);
        let long = vec![0; LONGEST_OPAQUE + 1];
        assert_eq!(extra_data(Some(&long), &[b""]), None);
    }
}
