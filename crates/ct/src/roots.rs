//! The accepted roots.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lucarne_x509::Fingerprint;
use lucarne_x509::der::DerError;
use lucarne_x509::pem;

use crate::certificate::Certificate;
use crate::entry::Issuer;
use crate::issuer_chain::{PrecertIssuer, PreissuerRewrite, VerifiedIssuer, key_hash};
use crate::name::{canonical, display_name};
use crate::signature::IssuerKey;

/// The accepted roots of a log, found by subject or by fingerprint.
///
/// Any certificate can be a root. A root whose key cannot be used is accepted at the end of a
/// chain, but verifies no signature.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// Roots in the order in which they were added, which is also the order of `get-roots`.
    roots: Vec<Arc<Root>>,
    by_fingerprint: HashMap<Fingerprint, usize>,
    by_subject: HashMap<Vec<u8>, Vec<usize>>,
    get_roots: OnceLock<Bytes>,
}

/// An accepted root.
#[derive(Debug)]
pub struct Root {
    signer: Arc<VerifiedIssuer>,
    /// SHA-256 of the SubjectPublicKeyInfo.
    key_hash: [u8; 32],
    not_after: Option<i64>,
}

impl Root {
    fn new(der: &[u8]) -> Result<Self, DerError> {
        let certificate = Certificate::parse(der)?;
        let key_hash = key_hash(&certificate);
        let signer = VerifiedIssuer {
            issuers: Arc::from([Arc::new(Issuer::new(Bytes::copy_from_slice(der)))]),
            subject: Bytes::copy_from_slice(certificate.subject()),
            key: IssuerKey::new(&certificate),
            precerts: match PreissuerRewrite::of(&certificate) {
                Some(_) => PrecertIssuer::Unknown,
                None => PrecertIssuer::Itself { key_hash },
            },
        };
        Ok(Self {
            signer: Arc::new(signer),
            key_hash,
            not_after: certificate.not_after(),
        })
    }

    /// Returns the certificate and its fingerprint.
    pub fn issuer(&self) -> &Arc<Issuer> {
        &self.signer.issuers[0]
    }

    /// Returns the DER of the certificate.
    pub fn der(&self) -> &[u8] {
        &self.issuer().der
    }

    /// Returns the SHA-256 of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.issuer().fingerprint
    }

    /// Returns the subject as text, most specific part first.
    pub fn subject(&self) -> String {
        display_name(&self.signer.subject)
    }

    /// Returns notAfter in milliseconds since 1970, if it is a valid time.
    pub fn not_after(&self) -> Option<i64> {
        self.not_after
    }

    pub(crate) fn key_hash(&self) -> &[u8; 32] {
        &self.key_hash
    }

    pub(crate) fn signer(&self) -> &Arc<VerifiedIssuer> {
        &self.signer
    }
}

/// The reasons why bytes cannot be a root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The bytes are not a certificate.
    #[error(transparent)]
    Certificate(#[from] DerError),
    /// The PEM block is damaged.
    #[error("{0}")]
    Pem(&'static str),
    /// The PEM block has this label.
    #[error("expected a CERTIFICATE block, found {0:?}")]
    Label(String),
    /// The CCADB record has no certificate.
    #[error("the record has no certificate in PEM")]
    NoPem,
}

/// An unusable certificate of a roots file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRoot {
    /// Index among the certificates or records of the file, starting at 0.
    pub index: usize,
    /// First line, starting at 1.
    pub line: usize,
    /// The reason.
    pub reason: RootError,
}

impl std::fmt::Display for SkippedRoot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "certificate {} (line {}): {}",
            self.index + 1,
            self.line,
            self.reason
        )
    }
}

impl Roots {
    /// Creates an empty set, which accepts no chain.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the certificates of a PEM bundle. Text between blocks is ignored. Blocks that are not
    /// certificates are skipped and returned. A repeated certificate counts once.
    pub fn from_pem(text: &[u8]) -> (Self, Vec<SkippedRoot>) {
        let mut roots = Self::new();
        let mut skipped = Vec::new();
        for (index, block) in pem::blocks(text).into_iter().enumerate() {
            if let Err(reason) = roots.add_block(&block) {
                let line = block.line;
                skipped.push(SkippedRoot {
                    index,
                    line,
                    reason,
                });
            }
        }
        (roots, skipped)
    }

    fn add_block(&mut self, block: &pem::Block) -> Result<(), RootError> {
        match &block.contents {
            Err(why) => Err(RootError::Pem(why)),
            Ok(der) if block.is_certificate() => self.add(der),
            Ok(_) => Err(RootError::Label(block.label.clone())),
        }
    }

    /// Adds one certificate, unless the set has it already.
    ///
    /// # Errors
    /// If the bytes are not a certificate.
    pub fn add(&mut self, der: &[u8]) -> Result<(), RootError> {
        let root = Root::new(der)?;
        self.insert(Arc::new(root));
        Ok(())
    }

    /// Appends the roots of `other` that this set does not have.
    pub fn merge(&mut self, other: &Roots) {
        for root in &other.roots {
            self.insert(root.clone());
        }
    }

    /// Returns `true` if both sets have the same roots, in any order.
    pub fn same_as(&self, other: &Roots) -> bool {
        let has = |root: &Arc<Root>| self.by_fingerprint.contains_key(&root.fingerprint());
        self.len() == other.len() && other.roots.iter().all(has)
    }

    /// Removes the root with this fingerprint; returns `true` if there was one.
    pub fn remove(&mut self, fingerprint: &Fingerprint) -> bool {
        let all = std::mem::take(self).roots;
        let before = all.len();
        let others = all.into_iter();
        others
            .filter(|root| root.fingerprint() != *fingerprint)
            .for_each(|root| self.insert(root));
        self.len() < before
    }

    fn insert(&mut self, root: Arc<Root>) {
        let place = self.roots.len();
        if self.by_fingerprint.contains_key(&root.fingerprint()) {
            return;
        }
        self.by_fingerprint.insert(root.fingerprint(), place);
        self.by_subject
            .entry(canonical(&root.signer.subject))
            .or_default()
            .push(place);
        self.roots.push(root);
        self.get_roots = OnceLock::new();
    }

    /// Returns the number of roots.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Returns `true` if there are no roots.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Returns the roots in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Root>> {
        self.roots.iter()
    }

    /// Returns the roots with this subject (a DER Name, including tag and length), compared by
    /// [`names_match`](crate::names_match). Several roots can share a name.
    pub fn find_by_subject(&self, name: &[u8]) -> impl Iterator<Item = &Arc<Root>> {
        let places = self.by_subject.get(&canonical(name));
        places
            .into_iter()
            .flatten()
            .filter_map(|place| self.roots.get(*place))
    }

    /// Returns the root that equals this certificate byte for byte.
    pub fn find(&self, certificate: &Certificate<'_>) -> Option<&Arc<Root>> {
        let place = self
            .by_fingerprint
            .get(&Fingerprint::of(certificate.raw()))?;
        self.roots.get(*place)
    }

    /// Returns `true` if a root has the same TBSCertificate as this certificate, in another
    /// encoding or with another signature.
    pub(crate) fn has_in_other_bytes(&self, certificate: &Certificate<'_>) -> bool {
        let mut namesakes = self.find_by_subject(certificate.subject());
        namesakes.any(|root| {
            let same = |root: Certificate<'_>| root.tbs() == certificate.tbs();
            root.der() != certificate.raw() && Certificate::parse(root.der()).is_ok_and(same)
        })
    }

    /// Returns the body of `get-roots` (RFC 6962, section 4.7), which is created at the first call.
    pub fn get_roots_json(&self) -> Bytes {
        self.get_roots.get_or_init(|| self.build_json()).clone()
    }

    fn build_json(&self) -> Bytes {
        let size: usize = self
            .roots
            .iter()
            .map(|root| root.der().len() / 3 * 4 + 8)
            .sum();
        let mut json = String::with_capacity(size + 32);
        json.push_str("{\"certificates\":[");
        for (place, root) in self.roots.iter().enumerate() {
            json.push_str(if place == 0 { "\"" } else { ",\"" });
            base64_simd::STANDARD.encode_append(root.der(), &mut json);
            json.push('"');
        }
        json.push_str("]}");
        Bytes::from(json)
    }
}
