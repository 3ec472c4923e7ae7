//! The diagnosis of an SCT that does not verify: the error that occurred between the log and the
//! certificate. A cause is proven if the signature verifies after reversing the error.

use base64_simd::STANDARD;
use bytes::Bytes;

use super::LintCode;
use crate::certificate::Certificate;
use crate::entry::{SignedEntry, sha256};
use crate::leaf::leaf_index_extension;
use crate::loglist::{ListedLog, LogApi};
use crate::name::display_name;
use crate::sct::{Sct, delivered_entry, embedded_entry};
use crate::signature::key_bits;

/// Maximum distance between the SCT's leaf index and the indexes that are tried.
const NEAR: u64 = 256;
/// Number of leaf indexes, which have five bytes.
const INDEXES: u64 = 1 << 40;

/// An embedded SCT whose signature does not verify, with its context.
pub(super) struct Patient<'a> {
    pub(super) sct: &'a Sct,
    pub(super) log: &'a ListedLog,
    pub(super) leaf: &'a Certificate<'a>,
    pub(super) issuer: &'a Certificate<'a>,
    /// Other available certificates.
    pub(super) issuers: &'a [Certificate<'a>],
    /// The entry of the precertificate, if available.
    pub(super) precertificate: Option<&'a SignedEntry>,
    /// All SCTs of the certificate.
    pub(super) scts: &'a [Sct],
    /// Whether another SCT verifies, which proves that logs have signed this TBSCertificate and
    /// key.
    pub(super) entry_is_right: bool,
}

impl Patient<'_> {
    /// Returns the most likely cause, and a sentence about it.
    pub(super) fn diagnose(&self) -> (LintCode, String) {
        let entry = embedded_entry(self.leaf, self.issuer);
        self.extensions(&entry)
            .or_else(|| self.key_hash(&entry))
            .or_else(|| self.entry_type())
            .or_else(|| self.other_tbs())
            .unwrap_or_else(|| self.unknown())
    }

    fn verifies(&self, extensions: &[u8], entry: &SignedEntry) -> bool {
        let sct = Sct {
            extensions: extensions.to_vec(),
            ..self.sct.clone()
        };
        sct.verify(&self.log.key, entry).is_ok()
    }

    /// Checks for damaged extensions.
    fn extensions(&self, entry: &SignedEntry) -> Option<(LintCode, String)> {
        let is_static = matches!(self.log.api, LogApi::Static { .. });
        let there = &self.sct.extensions[..];
        if let Some(decoded) = decoded(there) {
            let proof = if self.verifies(&decoded, entry) {
                "the SCT verifies with the decoded bytes"
            } else {
                "the SCT does not verify with the decoded bytes either"
            };
            let text = String::from_utf8_lossy(there);
            let detail = format!(
                "the extensions are the base64 text `{text}` of the log's response, but must be \
                 the decoded bytes; {proof}"
            );
            return Some((LintCode::SctExtensionsBase64, detail));
        }
        if is_static && there.is_empty() {
            let detail = "the SCT has no extensions, but a static CT log always sends a leaf index \
                          there: the field `extensions` of the log's response was dropped, and the \
                          signature covers it";
            return Some((LintCode::SctExtensionsDropped, detail.to_owned()));
        }
        if let Some(right) = self.right_index(entry) {
            let there = shown(there, self.sct.index());
            let detail = format!("the leaf index is {there}; the SCT verifies with {right}");
            return Some((LintCode::SctLeafIndex, detail));
        }
        if is_static && self.sct.index().is_none() {
            let detail = format!(
                "the extensions are {}, without the leaf index that every static CT log sends",
                hex::encode(there)
            );
            return Some((LintCode::SctLeafIndex, detail));
        }
        None
    }

    /// Formats the signed leaf index, if there is none, if it is near the SCT's index, or if it is
    /// that of another SCT.
    fn right_index(&self, entry: &SignedEntry) -> Option<String> {
        let others = self.scts.iter().filter(|other| *other != self.sct);
        for other in others {
            if self.verifies(&other.extensions, entry) {
                let index = shown(&other.extensions, other.index());
                return Some(format!("that of the SCT of log {}, {index}", other.log_id));
            }
        }
        if self.verifies(&[], entry) {
            return Some("none".to_owned());
        }
        let index = self.sct.index()?;
        let reversed = index.swap_bytes() >> 24;
        let near = (1..=NEAR).flat_map(|far| [index + far, index + INDEXES - far]);
        let mut tried = std::iter::once(reversed).chain(near.map(|index| index % INDEXES));
        tried
            .find(|index| self.verifies(&leaf_index_extension(*index), entry))
            .map(|index| index.to_string())
    }

    /// Checks for another hash of the issuer's key.
    fn key_hash(&self, entry: &SignedEntry) -> Option<(LintCode, String)> {
        let SignedEntry::Precert { tbs, .. } = entry else {
            return None;
        };
        let mut tried = vec![
            (
                sha256(&[self.issuer.raw()]),
                "of the issuer's whole certificate".to_owned(),
            ),
            (
                sha256(&[key_bits(self.issuer).unwrap_or_default()]),
                "of the issuer's key without its algorithm".to_owned(),
            ),
            (
                sha256(&[self.leaf.spki()]),
                "of the certificate's own key".to_owned(),
            ),
            ([0; 32], "of no key (32 zero bytes)".to_owned()),
        ];
        for other in self.issuers {
            let name = format!("of the key of {}", display_name(other.subject()));
            tried.push((sha256(&[other.spki()]), name));
        }
        let mut wrong = tried.into_iter().filter(|(issuer_key_hash, _)| {
            let entry = SignedEntry::Precert {
                issuer_key_hash: *issuer_key_hash,
                tbs: tbs.clone(),
            };
            self.verifies(&self.sct.extensions, &entry)
        });
        let (_, name) = wrong.next()?;
        let detail = format!(
            "the log signed a wrong issuer key hash, that {name}; expected the hash of \
             the key that signed the certificate"
        );
        Some((LintCode::SctIssuerKeyHash, detail))
    }

    /// Checks whether the SCT was signed for a certificate instead of a precertificate.
    fn entry_type(&self) -> Option<(LintCode, String)> {
        let SignedEntry::Precert { tbs, .. } = embedded_entry(self.leaf, self.issuer) else {
            return None;
        };
        let of_tbs = SignedEntry::X509 {
            certificate: Bytes::clone(&tbs),
        };
        let types = [delivered_entry(self.leaf), of_tbs];
        let mut types = types.iter();
        types
            .any(|entry| self.verifies(&self.sct.extensions, entry))
            .then(|| {
                let detail = "the SCT is for a final certificate (add-chain); an embedded SCT \
                              must be for a precertificate (add-pre-chain)";
                (LintCode::SctEntryType, detail.to_owned())
            })
    }

    /// Checks whether the SCT was signed for the available precertificate.
    fn other_tbs(&self) -> Option<(LintCode, String)> {
        let entry = self.precertificate?;
        self.verifies(&self.sct.extensions, entry).then(|| {
            let detail =
                "the SCT verifies for the precertificate, but the certificate differs from it";
            (LintCode::SctForPrecertificate, detail.to_owned())
        })
    }

    fn unknown(&self) -> (LintCode, String) {
        if self.entry_is_right {
            let index = match self.sct.index() {
                Some(index) => format!("its leaf index {index}, "),
                None => String::new(),
            };
            let detail = format!(
                "the log's signature does not verify for this certificate, but other SCTs do: its \
                 timestamp, {index}or its signature was changed, or it belongs to another \
                 certificate"
            );
            return (LintCode::SctAltered, detail);
        }
        let detail = "the log's signature does not verify for this certificate: the TBSCertificate \
                      differs from that of the precertificate, or the SCT was changed, or belongs \
                      to another certificate";
        (LintCode::SctSignature, detail.to_owned())
    }
}

/// Decodes the bytes if they are base64 text.
fn decoded(extensions: &[u8]) -> Option<Vec<u8>> {
    // A leaf index begins with a zero byte, which never occurs in text.
    let text = !extensions.is_empty() && extensions.is_ascii() && extensions[0] != 0;
    text.then(|| STANDARD.decode_to_vec(extensions).ok())?
}

fn shown(extensions: &[u8], index: Option<u64>) -> String {
    match index {
        Some(index) => index.to_string(),
        None if extensions.is_empty() => "missing".to_owned(),
        None => hex::encode(extensions),
    }
}
