//! The issuer of a leaf, after the signatures of all certificates above the leaf have been
//! verified.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_x509::oid;

use crate::certificate::Certificate;
use crate::entry::{Issuer, sha256};
use crate::signature::IssuerKey;

/// The issuer of leaves, at the bottom of a chain that was verified up to an accepted root. A cache
/// keeps this value, so a submission costs only the verification of its leaf.
#[derive(Debug)]
pub(crate) struct VerifiedIssuer {
    /// This issuer first, the accepted root last.
    pub(crate) issuers: Arc<[Arc<Issuer>]>,
    /// The subject, with the original bytes of the Name.
    pub(crate) subject: Bytes,
    pub(crate) key: IssuerKey,
    pub(crate) precerts: PrecertIssuer,
}

/// The CA that issues the final certificate: the entry of a precertificate has the name and the key
/// hash of this CA (RFC 6962, section 3.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PrecertIssuer {
    /// The signer itself: SHA-256 of its SubjectPublicKeyInfo.
    Itself { key_hash: [u8; 32] },
    /// The signer is a Precertificate Signing Certificate; the CA above it will issue the
    /// certificate.
    Above {
        key_hash: [u8; 32],
        rewrite: PreissuerRewrite,
    },
    /// The signer is a Precertificate Signing Certificate and itself an accepted root: the CA above
    /// it is unknown.
    Unknown,
}

impl PrecertIssuer {
    pub(crate) fn key_hash(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Itself { key_hash } | Self::Above { key_hash, .. } => Some(key_hash),
            Self::Unknown => None,
        }
    }
}

/// The replacements in a TBSCertificate that a Precertificate Signing Certificate has signed: the
/// issuer and the authorityKeyIdentifier of the signing certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreissuerRewrite {
    /// The Name, including tag and length.
    pub(crate) issuer: Bytes,
    /// The whole Extension; `None` removes the extension from the TBSCertificate.
    pub(crate) authority_key_identifier: Option<Bytes>,
}

impl PreissuerRewrite {
    /// Returns the replacements if `signer` is a Precertificate Signing Certificate: a CA with the
    /// extended key usage Certificate Transparency (RFC 6962, section 3.1).
    pub(crate) fn of(signer: &Certificate<'_>) -> Option<Self> {
        let named = signer
            .extended_key_usages()
            .is_some_and(|mut usages| usages.any(|usage| usage == oid::content::PRECERT_SIGNING));
        (named && signer.is_authority()).then(|| Self {
            issuer: Bytes::copy_from_slice(signer.issuer()),
            authority_key_identifier: signer
                .extension(oid::content::AUTHORITY_KEY_ID)
                .map(|extension| Bytes::copy_from_slice(extension.raw)),
        })
    }
}

/// Returns the `issuer_key_hash` of RFC 6962, section 3.2.
pub(crate) fn key_hash(certificate: &Certificate<'_>) -> [u8; 32] {
    sha256(&[certificate.spki()])
}

impl VerifiedIssuer {
    /// Returns the approximate memory in bytes.
    pub(crate) fn weight(&self) -> u32 {
        let certificates: usize = self
            .issuers
            .iter()
            .map(|issuer| issuer.der.len() + 96)
            .sum();
        u32::try_from(certificates + self.subject.len() + 2048).unwrap_or(u32::MAX)
    }
}
