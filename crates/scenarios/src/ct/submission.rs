//! A submission: a leaf with its chain.

use std::sync::Arc;

use base64_simd::STANDARD;
use bytes::Bytes;
use lucarne_ct::{Certificate, EntryKind, Fingerprint, SignedEntry, sha256, tbs_without_poison};

use super::authorities::split;
use super::extra_data::{ExtraData, IssuerChain};

/// The part of a submission after the leaf, which is the same for all leaves of an issuer.
#[derive(Debug)]
pub struct ChainSuffix {
    /// Rest of the JSON body after the leaf's base64.
    json: String,
    /// SHA-256 of the issuer's SubjectPublicKeyInfo.
    issuer_key_hash: [u8; 32],
    /// Chain in the form that the log must store.
    issuers: Arc<IssuerChain>,
}

impl ChainSuffix {
    /// Creates the suffix for the leaves of `issuer`; the root is omitted.
    pub(super) fn new(issuer: &lucarne_mint::Authority) -> Self {
        let (sent, root) = split(issuer.certificates());
        let mut json = String::from("\"");
        for der in sent {
            json.push_str(",\"");
            STANDARD.encode_append(der, &mut json);
            json.push('"');
        }
        json.push_str("]}");
        Self {
            json,
            issuer_key_hash: sha256(&[issuer.key().spki()]),
            issuers: Arc::new(IssuerChain {
                chain: sent
                    .iter()
                    .map(Vec::as_slice)
                    .chain(root)
                    .map(Fingerprint::of)
                    .collect(),
                complete: root.is_some(),
            }),
        }
    }
}

/// Beginning of the body before the leaf's base64.
pub(crate) const BODY_PREFIX: &str = "{\"chain\":[\"";

/// A chain to submit.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Kind of entry, which determines the endpoint.
    pub kind: EntryKind,
    pub(super) leaf: Bytes,
    pub(super) suffix: Arc<ChainSuffix>,
}

impl Submission {
    /// Replaces the contents of `buffer` by the leaf in base64, which [`parts`](Self::parts) needs
    /// for the body.
    pub(crate) fn encode_leaf(&self, buffer: &mut String) {
        buffer.clear();
        STANDARD.encode_append(&self.leaf, buffer);
    }

    /// Returns the JSON body for the leaf's base64.
    pub(crate) fn parts<'a>(&'a self, leaf: &'a str) -> [&'a [u8]; 3] {
        [
            BODY_PREFIX.as_bytes(),
            leaf.as_bytes(),
            self.suffix.json.as_bytes(),
        ]
    }

    /// Returns the data that the log must store but does not sign.
    pub(crate) fn extra_data(&self) -> ExtraData {
        ExtraData {
            precertificate: match self.kind {
                EntryKind::Precert => Some(Fingerprint::of(&self.leaf)),
                EntryKind::X509 => None,
            },
            issuers: Arc::clone(&self.suffix.issuers),
        }
    }

    /// Returns the entry that a log signs for the submission.
    pub(crate) fn signed(&self) -> Option<SignedEntry> {
        Some(match self.kind {
            EntryKind::X509 => SignedEntry::X509 {
                certificate: self.leaf.clone(),
            },
            EntryKind::Precert => SignedEntry::Precert {
                issuer_key_hash: self.suffix.issuer_key_hash,
                tbs: tbs_without_poison(&Certificate::parse(&self.leaf).ok()?).into(),
            },
        })
    }
}
