//! What stands above a leaf: the certificates after it in the chain, up to an accepted root.

use std::sync::Arc;

use bytes::Bytes;

use crate::algorithm::SignatureAlgorithm;
use crate::certificate::Certificate;
use crate::entry::Issuer;
use crate::name::{display_name, names_match};
use crate::policy::Policy;
use crate::rejection::{Code, Rejection};
use crate::roots::{Root, Roots};
use crate::signature::{IssuerKey, VerifyError};
use crate::signer::{PrecertIssuer, PreissuerRewrite, Signer, key_hash};
use crate::unsigned;
use crate::verification::Verification;

/// Certificates that certify each other by name, below roots by name. Their signatures have
/// not been verified yet.
#[derive(Debug)]
pub(crate) struct Tail<'c> {
    /// The leaf's issuer.
    signer: Signed<'c>,
    /// What certifies it, the accepted root excluded.
    above: Vec<Signed<'c>>,
    /// The roots of which one must have signed the last of these: the one that the chain
    /// ends in, or all that bear the right name if it was left out. At least one.
    roots: Vec<Arc<Root>>,
    /// The place in the chain of a certificate that is an accepted root in other bytes.
    altered_root: Option<usize>,
}

/// A certificate with a signature to verify.
#[derive(Debug)]
pub(crate) struct Signed<'c> {
    /// Place in the chain, 0 = the leaf.
    pub(crate) index: usize,
    pub(crate) certificate: Certificate<'c>,
    pub(crate) algorithm: SignatureAlgorithm,
}

/// Where a chain leads without its leaf.
#[derive(Debug)]
pub(crate) enum Upwards<'c> {
    /// Straight to a root: one of these has to have signed the leaf.
    Roots(Vec<Arc<Root>>),
    /// Through intermediates.
    Tail(Box<Tail<'c>>),
}

impl<'c> Upwards<'c> {
    /// Looks at the certificates of a chain after `leaf`.
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
        let mut signed = certificates
            .into_iter()
            .enumerate()
            .map(|(place, certificate)| intermediate(place + 1, certificate, roots, policy));
        Ok(match signed.next().transpose()? {
            None => Self::Roots(anchors),
            Some(signer) => Self::Tail(Box::new(Tail {
                signer,
                above: signed.collect::<Result<_, _>>()?,
                roots: anchors,
                altered_root: altered_root.map(|place| place + 1),
            })),
        })
    }
}

/// Parses, and checks that each certificate bears the name of the issuer of the one before.
fn parse_in_order<'c>(
    leaf: &Certificate<'c>,
    above: impl Iterator<Item = &'c [u8]>,
) -> Result<Vec<Certificate<'c>>, Rejection> {
    let mut certificates: Vec<Certificate<'c>> = Vec::new();
    for (place, der) in above.enumerate() {
        let certificate = parse(place + 1, der)?;
        let below = certificates.last().unwrap_or(leaf);
        check_order(place, below, der, certificate.subject())?;
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

/// Checks that the certificate at `index` can be followed by `next`, whose subject this is.
pub(crate) fn check_order(
    index: usize,
    certificate: &Certificate<'_>,
    next: &[u8],
    next_subject: &[u8],
) -> Result<(), Rejection> {
    if certificate.raw() == next {
        let detail = "the same certificate as the one before it; accepted is each once";
        return Err(Rejection::of(index + 1, Code::DuplicateCertificate, detail));
    }
    if !names_match(certificate.issuer(), next_subject) {
        let (issuer, subject) = (
            display_name(certificate.issuer()),
            display_name(next_subject),
        );
        let detail = format!(
            "issued by {issuer:?}, but followed by {subject:?}; accepted is the leaf first, each certificate followed by its issuer's"
        );
        return Err(Rejection::of(index, Code::WrongOrder, detail));
    }
    Ok(())
}

/// The accepted roots that bear the name of the issuer of `top`, the last certificate.
fn roots_above(
    top: &Certificate<'_>,
    index: usize,
    roots: &Roots,
) -> Result<Vec<Arc<Root>>, Rejection> {
    let found: Vec<_> = roots.find_by_subject(top.issuer()).cloned().collect();
    if found.is_empty() {
        let issuer = display_name(top.issuer());
        let detail = format!(
            "the chain ends below {issuer:?}, which is no accepted root; get-roots lists those that are"
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
) -> Result<Signed<'c>, Rejection> {
    if !certificate.is_authority() && roots.find(&certificate).is_none() {
        let what = match certificate.version() {
            1 | 2 => "an X.509 certificate before version 3",
            _ => "a certificate without basicConstraints CA:TRUE",
        };
        let detail = format!("{what} cannot be an intermediate");
        return Err(Rejection::of(index, Code::NotACertificateAuthority, detail));
    }
    unsigned::check(index, &certificate, roots)?;
    Ok(Signed {
        index,
        algorithm: SignatureAlgorithm::of(index, &certificate, policy)?,
        certificate,
    })
}

impl Tail<'_> {
    /// Whose name and key a precertificate's entry would carry, as far as that can be told
    /// before it is known which root certifies the chain.
    pub(crate) fn precerts(&self) -> Precerts {
        match PreissuerRewrite::of(&self.signer.certificate) {
            None => Precerts {
                key_hash: Some(key_hash(&self.signer.certificate)),
                rewrite: None,
            },
            Some(rewrite) => Precerts {
                key_hash: match self.above.first() {
                    Some(issuer) => Some(key_hash(&issuer.certificate)),
                    None => only(self.roots.iter().map(|root| root.key_hash())),
                },
                rewrite: Some(rewrite),
            },
        }
    }

    /// Verifies every signature of the tail, from the top: by no key before the certificate that it
    /// is in has verified.
    ///
    /// # Errors
    /// The certificate whose signature does not verify, and why.
    pub(crate) fn verify(self, verification: &Verification) -> Result<Signer, Rejection> {
        let top = self.above.last().unwrap_or(&self.signer);
        let root = root_that_signed(top, &self.roots, verification)?;
        for (place, issuer) in self.above.iter().enumerate().rev() {
            let below = match place.checked_sub(1) {
                Some(below) => &self.above[below],
                None => &self.signer,
            };
            let key = IssuerKey::new(&issuer.certificate);
            key.verify(&below.certificate, below.algorithm, verification)
                .map_err(|error| below.reject(error))?;
        }
        if let Some(index) = self.altered_root {
            let detail = "an accepted root in other bytes; accepted are those that get-roots lists, or to leave it out";
            return Err(Rejection::of(index, Code::NotCanonical, detail));
        }
        Ok(self.into_signer(root))
    }

    fn into_signer(self, root: Arc<Root>) -> Signer {
        let Precerts { key_hash, rewrite } = self.precerts();
        let key_hash = key_hash.unwrap_or(*root.key_hash());
        let issuer = |signed: &Signed<'_>| {
            Arc::new(Issuer::new(Bytes::copy_from_slice(
                signed.certificate.raw(),
            )))
        };
        let certificate = self.signer.certificate;
        Signer {
            issuers: std::iter::once(issuer(&self.signer))
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

/// Whose name and key a precertificate's entry carries, before signatures are verified.
pub(crate) struct Precerts {
    /// `None` while it is open which of several roots it is.
    pub(crate) key_hash: Option<[u8; 32]>,
    pub(crate) rewrite: Option<PreissuerRewrite>,
}

/// The one value, if all are equal.
pub(crate) fn only<'a>(mut hashes: impl Iterator<Item = &'a [u8; 32]>) -> Option<[u8; 32]> {
    let first = hashes.next()?;
    hashes.all(|hash| hash == first).then_some(*first)
}

impl Signed<'_> {
    pub(crate) fn reject(&self, error: VerifyError) -> Rejection {
        let issuer = display_name(self.certificate.issuer());
        Rejection::of(self.index, error.code(), error.detail(&issuer))
    }
}

/// The root whose key verifies this signature. The certificate is not itself an accepted root,
/// byte for byte, or its signature would not matter.
///
/// # Errors
/// What the first of them says, if none does.
pub(crate) fn root_that_signed(
    signed: &Signed<'_>,
    roots: &[Arc<Root>],
    verification: &Verification,
) -> Result<Arc<Root>, Rejection> {
    let mut first_error = None;
    for root in roots {
        let key = &root.signer().key;
        match key.verify(&signed.certificate, signed.algorithm, verification) {
            Ok(()) => return Ok(root.clone()),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(signed.reject(first_error.unwrap_or(VerifyError::Invalid)))
}
