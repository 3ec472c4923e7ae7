//! Every signature algorithm that certificates have used, with every size of key.

use std::sync::Arc;

use lucarne_ct::{Chain, EntryKind, Policy, Roots, Validator};

const CHAINS: &str = include_str!("data/algorithms.pem");

/// Returns the verdict on a chain of one leaf below the only root.
fn verdict(pem: &str, accept_sha1: bool) -> Result<(), &'static str> {
    let (certificates, skipped) = Roots::from_pem(pem.as_bytes());
    assert!(skipped.is_empty());
    let certificates: Vec<_> = certificates
        .iter()
        .map(|root| root.der().to_vec())
        .collect();
    let mut roots = Roots::new();
    roots.add(&certificates[1]).unwrap();
    let policy = Policy {
        accept_sha1,
        ..Policy::default()
    };
    let validator = Validator::new(Arc::new(roots), policy);
    let chain = Chain::from_ders(&certificates[..1]).unwrap();
    validator
        .examine(&chain, EntryKind::X509, 0)
        .and_then(|examined| validator.verify(examined))
        .map(|_| ())
        .map_err(|rejection| rejection.code.as_str())
}

#[test]
fn every_algorithm_and_key() {
    let mut chains = 0;
    for section in CHAINS.split("\n# ").skip(1) {
        let heading = section.lines().next().unwrap();
        let expected = match heading.rsplit(' ').next().unwrap() {
            "accept" => Ok(()),
            code => Err(code),
        };
        assert_eq!(verdict(section, true), expected, "{heading}");
        let without_sha1 = if heading.contains("sha1 ") {
            Err("sha1_refused")
        } else {
            expected
        };
        assert_eq!(verdict(section, false), without_sha1, "{heading}");
        chains += 1;
    }
    assert_eq!(chains, 27);
}
