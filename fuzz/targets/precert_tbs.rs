//! A TBSCertificate without its poison has no poison. In a certificate it parses, keeps the other
//! extensions in their order, and removing the poison again changes nothing.
//!
//! The input is the length of a precertificate (two bytes), the precertificate, and possibly a
//! Precertificate Signing Certificate.

use lucarne_ct::{Certificate, tbs_without_poison, tbs_without_poison_for};
use lucarne_mint::{Der, oid};

pub(crate) fn run(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_be_bytes(*length));
    let Some((precertificate, preissuer)) = rest.split_at_checked(length) else {
        return;
    };
    let Ok(precertificate) = Certificate::parse(precertificate) else {
        return;
    };

    let tbs = tbs_without_poison(&precertificate);
    let wrapped = wrap(&tbs, &precertificate);
    let spliced = Certificate::parse(&wrapped).expect("the spliced certificate");
    assert_eq!(tbs_without_poison(&spliced), tbs);
    let kept = precertificate
        .extensions()
        .filter(|e| e.oid != oid::POISON.as_bytes());
    assert!(kept.map(|e| e.raw).eq(spliced.extensions().map(|e| e.raw)));

    let Ok(preissuer) = Certificate::parse(preissuer) else {
        return;
    };
    let rewritten = tbs_without_poison_for(&precertificate, &preissuer);
    if !signs_precertificates(&preissuer) {
        assert_eq!(rewritten, tbs);
        return;
    }
    let wrapped = wrap(&rewritten, &precertificate);
    let spliced = Certificate::parse(&wrapped).expect("the rewritten certificate");
    assert_eq!(spliced.issuer(), preissuer.issuer());
    // Without extensions, there was no poison, and another extension cannot be added.
    if precertificate.extensions().next().is_none() {
        return;
    }
    let key_id = |certificate: &Certificate<'_>| {
        let extension = certificate.extension(oid::AUTHORITY_KEY_ID.as_bytes())?;
        Some(extension.raw.to_vec())
    };
    assert_eq!(key_id(&spliced), key_id(&preissuer));
}

/// Returns true for a CA with the extended key usage of RFC 6962 section 3.1.
fn signs_precertificates(certificate: &Certificate<'_>) -> bool {
    let named = certificate
        .extended_key_usages()
        .is_some_and(|mut usages| usages.any(|usage| usage == oid::PRECERT_SIGNING.as_bytes()));
    named && certificate.is_authority()
}

/// Wraps this TBSCertificate in a certificate.
fn wrap(tbs: &[u8], original: &Certificate<'_>) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.raw(tbs);
            der.raw(original.algorithm());
            der.bit_string(original.signature());
        });
    })
}
