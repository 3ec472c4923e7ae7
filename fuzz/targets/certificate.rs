//! All methods of a parsed certificate return without a panic, and every returned slice is within
//! the certificate.

use lucarne_ct::{Certificate, display_name, names_match};

pub(crate) fn run(der: &[u8]) {
    let Ok(certificate) = Certificate::parse(der) else {
        return;
    };
    let inside = |part: &[u8]| der.as_ptr_range().contains(&part.as_ptr()) || part.is_empty();
    for part in [
        certificate.tbs(),
        certificate.issuer(),
        certificate.subject(),
        certificate.spki(),
        certificate.algorithm(),
        certificate.tbs_algorithm(),
        certificate.signature(),
    ] {
        assert!(inside(part));
    }
    for extension in certificate.extensions() {
        assert!(inside(extension.raw) && inside(extension.value));
        assert!(certificate.extension(extension.oid).is_some());
    }
    let _ = (
        certificate.not_before(),
        certificate.not_after(),
        certificate.is_authority(),
    );
    let _ = certificate.extended_key_usages().map(Iterator::count);

    let (issuer, subject) = (certificate.issuer(), certificate.subject());
    assert_eq!(names_match(issuer, subject), names_match(subject, issuer));
    assert!(names_match(subject, subject));
    let _ = (display_name(issuer), display_name(subject));
}
