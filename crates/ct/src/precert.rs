//! Precertificates: the poison, and the TBSCertificate that the log signs (RFC 6962
//! sections 3.1 and 3.2).
//!
//! The TBSCertificate is derived from the submitted bytes: the poison is removed, the lengths of
//! the three enclosing structures are rewritten, and every other byte stays as the authority wrote
//! it. The result equals the TBSCertificate of the final certificate, from which the SCT list is
//! removed in the same way.

use lucarne_x509::der::{push_header, tag};
use lucarne_x509::oid;

use crate::certificate::Certificate;
use crate::entry::EntryKind;
use crate::issuer_chain::PreissuerRewrite;
use crate::rejection::{Code, Rejection};

/// Checks that a leaf has the kind that its endpoint accepts.
pub(crate) fn check_kind(leaf: &Certificate<'_>, kind: EntryKind) -> Result<(), Rejection> {
    let mut poisons = leaf
        .extensions()
        .filter(|extension| extension.oid == oid::content::POISON);
    let reject = |code, detail| Err(Rejection::of(0, code, detail));
    match (kind, poisons.next()) {
        (EntryKind::X509, None) => Ok(()),
        (EntryKind::X509, Some(_)) => reject(
            Code::PrecertificateOnAddChain,
            "the leaf has the precertificate poison; submit it to add-pre-chain",
        ),
        (EntryKind::Precert, None) => reject(
            Code::CertificateOnAddPreChain,
            "the leaf has no precertificate poison (1.3.6.1.4.1.11129.2.4.3); submit it to \
             add-chain",
        ),
        (EntryKind::Precert, Some(_)) if poisons.next().is_some() => reject(
            Code::InvalidPoison,
            "the precertificate poison appears more than once; expected exactly one",
        ),
        (EntryKind::Precert, Some(poison)) if !poison.critical => reject(
            Code::InvalidPoison,
            "the precertificate poison is not critical, which RFC 6962 requires",
        ),
        (EntryKind::Precert, Some(poison)) if poison.value != [tag::NULL, 0] => reject(
            Code::InvalidPoison,
            "the value of the precertificate poison is not NULL (05 00), which RFC 6962 requires",
        ),
        (EntryKind::Precert, Some(_)) => Ok(()),
    }
}

/// Returns the TBSCertificate of a precertificate without its poison, which equals the
/// TBSCertificate of the final certificate without its SCTs. If the poison is the only extension,
/// `[3]` is removed.
///
/// For a certificate without poison, the result is its TBSCertificate (with minimal lengths around
/// the extensions).
pub fn tbs_without_poison(precertificate: &Certificate<'_>) -> Vec<u8> {
    splice(precertificate, None)
}

/// Returns the same as [`tbs_without_poison`] for a precertificate that a Precertificate Signing
/// Certificate has signed. The issuer and the authorityKeyIdentifier are replaced by those of the
/// signing certificate. The authorityKeyIdentifier is appended if the precertificate has none, and
/// removed if the signing certificate has none.
pub fn tbs_without_poison_for(
    precertificate: &Certificate<'_>,
    preissuer: &Certificate<'_>,
) -> Vec<u8> {
    splice(precertificate, PreissuerRewrite::of(preissuer).as_ref())
}

/// Returns the TBSCertificate of a final certificate without its SCT list, which the logs of its
/// embedded SCTs have signed (RFC 6962, section 3.2). If the list is the only extension, `[3]` is
/// removed.
///
/// For a certificate without a list, the result is its TBSCertificate (with minimal lengths around
/// the extensions).
pub fn tbs_without_scts(certificate: &Certificate<'_>) -> Vec<u8> {
    splice_out(certificate, oid::content::SCT_LIST, None)
}

pub(crate) fn splice(certificate: &Certificate<'_>, rewrite: Option<&PreissuerRewrite>) -> Vec<u8> {
    splice_out(certificate, oid::content::POISON, rewrite)
}

fn splice_out(
    certificate: &Certificate<'_>,
    removed: &[u8],
    rewrite: Option<&PreissuerRewrite>,
) -> Vec<u8> {
    let raw = certificate.raw();
    let tbs = certificate.tbs_tlv();
    let fields_start = tbs.end() - tbs.value.len();
    let fields_end = certificate
        .extensions_tlv()
        .map_or(tbs.end(), |(wrapper, _)| wrapper.start());
    let issuer = certificate.issuer_tlv();
    let new_issuer = rewrite.map_or(issuer.raw, |rewrite| &rewrite.issuer);
    let extensions = spliced_extensions(certificate, removed, rewrite);
    let fields = [
        &raw[fields_start..issuer.start()],
        new_issuer,
        &raw[issuer.end()..fields_end],
        &extensions,
    ];
    let mut out = Vec::with_capacity(tbs.raw.len() + new_issuer.len() + 16);
    push_header(
        tag::SEQUENCE,
        fields.iter().map(|field| field.len()).sum(),
        &mut out,
    );
    for field in fields {
        out.extend_from_slice(field);
    }
    out
}

/// Returns the element `[3]` with the remaining extensions; empty if no extension is left.
fn spliced_extensions(
    certificate: &Certificate<'_>,
    removed: &[u8],
    rewrite: Option<&PreissuerRewrite>,
) -> Vec<u8> {
    let Some((wrapper, _)) = certificate.extensions_tlv() else {
        return Vec::new();
    };
    let mut list = Vec::with_capacity(wrapper.raw.len() + 64);
    let mut identifier = rewrite.map(|rewrite| rewrite.authority_key_identifier.as_deref());
    for extension in certificate.extensions() {
        match extension.oid {
            oid if oid == removed => {}
            oid::content::AUTHORITY_KEY_ID if rewrite.is_some() => {
                list.extend_from_slice(identifier.take().flatten().unwrap_or_default());
            }
            _ => list.extend_from_slice(extension.raw),
        }
    }
    list.extend_from_slice(identifier.flatten().unwrap_or_default());
    if list.is_empty() {
        return list;
    }
    let mut sequence = Vec::with_capacity(list.len() + 16);
    push_header(tag::SEQUENCE, list.len(), &mut sequence);
    let mut out = Vec::with_capacity(list.len() + 16);
    push_header(tag::context(3), sequence.len() + list.len(), &mut out);
    out.extend_from_slice(&sequence);
    out.extend_from_slice(&list);
    out
}
