//! The certificates after the leaf of a chain, up to an accepted root: before and after their
//! signatures have been verified.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_x509::oid;

use crate::algorithm::SignatureAlgorithm;
use crate::certificate::Certificate;
use crate::entry::{Issuer, sha256};
use crate::known::KnownSignature;
use crate::name::{display_name, names_match};
use crate::policy::Policy;
use crate::rejection::{Code, Rejection};
use crate::roots::{Root, Roots};
use crate::signature::{IssuerKey, VerifyError};
use crate::unsigned;
use crate::verification::Verification;

/// Certificates that match each other and the roots by name. Their signatures have not been
/// verified yet.
#[derive(Debug)]
pub(crate) struct IssuerChain<'c> {
    /// The leaf's issuer.
    issuer: UnverifiedCertificate<'c>,
    /// The issuers above `issuer`, without the accepted root.
    above: Vec<UnverifiedCertificate<'c>>,
    /// The candidate roots, at least one. One of them must have signed the last certificate: the
    /// root at the end of the chain, or, if the chain has no root, any root with the right name.
    roots: Vec<Arc<Root>>,
    /// Index in the chain of a certificate that equals an accepted root except for unsigned bytes.
    altered_root: Option<usize>,
}

/// A certificate whose signature has not been verified yet.
#[derive(Debug)]
pub(crate) struct UnverifiedCertificate<'c> {
    /// Index in the chain; 0 is the leaf.
    pub(crate) index: usize,
    pub(crate) certificate: Certificate<'c>,
    pub(crate) algorithm: SignatureAlgorithm,
}

/// The path of a chain after its leaf.
#[derive(Debug)]
pub(crate) enum IssuerPath<'c> {
    /// The leaf is directly below a root: one of these roots must have signed the leaf.
    Roots(Vec<Arc<Root>>),
    /// The leaf is below intermediates.
    IssuerChain(Box<IssuerChain<'c>>),
}

impl<'c> IssuerPath<'c> {
    /// Parses the certificates of a chain after `leaf`, and checks everything except signatures.
    pub(crate) fn examine(
        leaf: &Certificate<'c>,
        above: impl Iterator<Item = &'c [u8]>,
        roots: &Roots,
        policy: &Policy,
    ) -> Result<Self, Rejection> {
        let mut certificates = parse_in_order(leaf, above)?;
        let included = certificates
            .last()
            .and_then(|last| roots.find(last).cloned());
        let anchors = match included {
            Some(root) => {
                certificates.pop();
                vec![root]
            }
            None => roots_above(
                certificates.last().unwrap_or(leaf),
                certificates.len(),
                roots,
            )?,
        };
        let altered_root = certificates
            .iter()
            .position(|certificate| roots.has_in_other_bytes(certificate));
        let mut unverified = certificates
            .into_iter()
            .enumerate()
            .map(|(place, certificate)| intermediate(place + 1, certificate, roots, policy));
        Ok(match unverified.next().transpose()? {
            None => Self::Roots(anchors),
            Some(issuer) => Self::IssuerChain(Box::new(IssuerChain {
                issuer,
                above: unverified.collect::<Result<_, _>>()?,
                roots: anchors,
                altered_root: altered_root.map(|place| place + 1),
            })),
        })
    }
}

/// Parses the certificates, and checks that the subject of each certificate is the issuer of the
/// certificate before.
fn parse_in_order<'c>(
    leaf: &Certificate<'c>,
    above: impl Iterator<Item = &'c [u8]>,
) -> Result<Vec<Certificate<'c>>, Rejection> {
    let mut certificates: Vec<Certificate<'c>> = Vec::new();
    for (place, der) in above.enumerate() {
        let certificate = parse(place + 1, der)?;
        let below = certificates.last().unwrap_or(leaf);
        check_order(place, below, certificate.subject())?;
        certificates.push(certificate);
    }
    Ok(certificates)
}

/// Parses the certificate at `index` of a chain.
pub(crate) fn parse(index: usize, der: &[u8]) -> Result<Certificate<'_>, Rejection> {
    Certificate::parse(der).map_err(|error| {
        let detail = format!("not a DER certificate: {error}");
        Rejection::of(index, Code::InvalidCertificate, detail)
    })
}

/// Checks that the certificate at `index` may be followed by a certificate with this subject.
pub(crate) fn check_order(
    index: usize,
    certificate: &Certificate<'_>,
    next_subject: &[u8],
) -> Result<(), Rejection> {
    if !names_match(certificate.issuer(), next_subject) {
        let (issuer, subject) = (
            display_name(certificate.issuer()),
            display_name(next_subject),
        );
        let detail = format!(
            "issued by {issuer:?}, but followed by {subject:?}; expected the leaf first, and \
             each certificate followed by that of its issuer"
        );
        return Err(Rejection::of(index, Code::WrongOrder, detail));
    }
    Ok(())
}

/// Returns the accepted roots with the name of the issuer of `top`, the last certificate.
fn roots_above(
    top: &Certificate<'_>,
    index: usize,
    roots: &Roots,
) -> Result<Vec<Arc<Root>>, Rejection> {
    let found: Vec<_> = roots.find_by_subject(top.issuer()).cloned().collect();
    if found.is_empty() {
        let issuer = display_name(top.issuer());
        let detail = format!(
            "the chain ends below {issuer:?}, which is not an accepted root; get-roots lists the \
             accepted roots"
        );
        return Err(Rejection::of(index, Code::UnknownRoot, detail));
    }
    Ok(found)
}

fn intermediate<'c>(
    index: usize,
    certificate: Certificate<'c>,
    roots: &Roots,
    policy: &Policy,
) -> Result<UnverifiedCertificate<'c>, Rejection> {
    if !certificate.is_authority() && roots.find(&certificate).is_none() {
        let what = match certificate.version() {
            1 | 2 => "an X.509 certificate before version 3",
            _ => "a certificate without basicConstraints CA:TRUE",
        };
        let detail = format!("{what} cannot be an intermediate");
        return Err(Rejection::of(index, Code::NotACertificateAuthority, detail));
    }
    unsigned::check(index, &certificate, roots)?;
    Ok(UnverifiedCertificate {
        index,
        algorithm: SignatureAlgorithm::of(index, &certificate, policy)?,
        certificate,
    })
}

impl IssuerChain<'_> {
    /// Returns the issuer name and key in the entry of a precertificate. The root of the chain may
    /// still be unknown.
    pub(crate) fn precerts(&self) -> PrecertIssuerKey {
        match PreissuerRewrite::of(&self.issuer.certificate) {
            None => PrecertIssuerKey {
                key_hash: Some(key_hash(&self.issuer.certificate)),
                rewrite: None,
            },
            Some(rewrite) => PrecertIssuerKey {
                key_hash: match self.above.first() {
                    Some(issuer) => Some(key_hash(&issuer.certificate)),
                    None => only(self.roots.iter().map(|root| root.key_hash())),
                },
                rewrite: Some(rewrite),
            },
        }
    }

    /// Verifies every signature from the top down. No key is used before its certificate has been
    /// verified.
    ///
    /// # Errors
    /// If a signature does not verify: the index of the certificate, and the reason.
    pub(crate) fn verify(self, verification: &Verification) -> Result<VerifiedIssuer, Rejection> {
        let top = self.above.last().unwrap_or(&self.issuer);
        let root = root_that_signed(top, &self.roots, verification)?;
        for (place, issuer) in self.above.iter().enumerate().rev() {
            let below = match place.checked_sub(1) {
                Some(below) => &self.above[below],
                None => &self.issuer,
            };
            let key = IssuerKey::new(&issuer.certificate);
            key.verify(&below.certificate, below.algorithm, verification)
                .map_err(|error| below.reject(error))?;
        }
        if let Some(index) = self.altered_root {
            let detail = "an accepted root in a different encoding; expected the bytes of \
                          get-roots, or no root";
            return Err(Rejection::of(index, Code::NotCanonical, detail));
        }
        Ok(self.into_verified(root))
    }

    fn into_verified(self, root: Arc<Root>) -> VerifiedIssuer {
        let PrecertIssuerKey { key_hash, rewrite } = self.precerts();
        let key_hash = key_hash.unwrap_or(*root.key_hash());
        let issuer = |unverified: &UnverifiedCertificate<'_>| {
            Arc::new(Issuer::new(Bytes::copy_from_slice(
                unverified.certificate.raw(),
            )))
        };
        let certificate = self.issuer.certificate;
        VerifiedIssuer {
            issuers: std::iter::once(issuer(&self.issuer))
                .chain(self.above.iter().map(issuer))
                .chain([root.issuer().clone()])
                .collect(),
            subject: Bytes::copy_from_slice(certificate.subject()),
            key: IssuerKey::new(&certificate),
            precerts: match rewrite {
                None => PrecertIssuer::Itself { key_hash },
                Some(rewrite) => PrecertIssuer::Above { key_hash, rewrite },
            },
        }
    }
}

/// The issuer of a precertificate's entry, before signatures are verified.
pub(crate) struct PrecertIssuerKey {
    /// `None` while several roots are possible.
    pub(crate) key_hash: Option<[u8; 32]>,
    pub(crate) rewrite: Option<PreissuerRewrite>,
}

/// Returns the common value if all values are equal.
pub(crate) fn only<'a>(mut hashes: impl Iterator<Item = &'a [u8; 32]>) -> Option<[u8; 32]> {
    let first = hashes.next()?;
    hashes.all(|hash| hash == first).then_some(*first)
}

impl UnverifiedCertificate<'_> {
    pub(crate) fn reject(&self, error: VerifyError) -> Rejection {
        let issuer = display_name(self.certificate.issuer());
        Rejection::of(self.index, error.code(), error.detail(&issuer))
    }

    pub(crate) fn verify_with(
        &self,
        signer: &VerifiedIssuer,
        verification: &Verification,
    ) -> Result<(), Rejection> {
        let key = &signer.key;
        let verified = key.verify(&self.certificate, self.algorithm, verification);
        verified.map_err(|error| self.reject(error))
    }

    /// Verifies this certificate. Its signature `known` may already have been tried in a batch.
    pub(crate) fn verify_known_with(
        &self,
        known: &KnownSignature,
        signer: &VerifiedIssuer,
        verification: &Verification,
    ) -> Result<(), Rejection> {
        let verified = signer.key.verify_known(known, self.algorithm, verification);
        verified.map_err(|error| self.reject(error))
    }
}

/// Returns the root whose key verifies this signature. Callers never pass a certificate that is
/// itself an accepted root, because the signature of a root is irrelevant.
///
/// # Errors
/// The error of the first root, if no root verifies the signature.
pub(crate) fn root_that_signed(
    unverified: &UnverifiedCertificate<'_>,
    roots: &[Arc<Root>],
    verification: &Verification,
) -> Result<Arc<Root>, Rejection> {
    let mut first_error = None;
    for root in roots {
        let key = &root.signer().key;
        match key.verify(&unverified.certificate, unverified.algorithm, verification) {
            Ok(()) => return Ok(root.clone()),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(unverified.reject(first_error.unwrap_or(VerifyError::Invalid)))
}

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
