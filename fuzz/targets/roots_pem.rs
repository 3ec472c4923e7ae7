//! Any file yields roots, each found by its subject, and reasons for the other parts.

use lucarne_ct::{Certificate, Roots};

pub(crate) fn run(file: &[u8]) {
    let (roots, skipped) = Roots::from_pem(file);
    for root in roots.iter() {
        let certificate = Certificate::parse(root.der()).expect("a root is a certificate");
        assert!(roots.find(&certificate).is_some());
        assert!(
            roots
                .find_by_subject(certificate.subject())
                .any(|r| r.der() == root.der())
        );
    }
    assert!(
        skipped
            .iter()
            .all(|skipped| !skipped.reason.to_string().is_empty())
    );
    let (mut twice, _) = Roots::from_pem(file);
    twice.merge(&roots);
    assert_eq!(twice.len(), roots.len());
    let _ = roots.get_roots_json();
}
