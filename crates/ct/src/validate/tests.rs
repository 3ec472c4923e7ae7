use lucarne_mint::Authority;
use lucarne_mint::testing::Pki;
use lucarne_x509::der::{push_header, tag};

use super::*;
use crate::ChainLimits;

fn validator() -> Validator {
    let (roots, _) = Roots::from_pem(Pki::shared().root.certificate_pem().as_bytes());
    Validator::new(Arc::new(roots), Policy::default())
}

fn chain(certificates: Vec<Vec<u8>>) -> Chain {
    let json = lucarne_mint::Chain::new(certificates).to_json();
    Chain::decode_json(json.as_bytes(), &ChainLimits::default()).unwrap()
}

fn below(issuer: &Authority, leaf: Vec<u8>) -> Vec<Vec<u8>> {
    issuer.chain(leaf).into_certificates()
}

fn flipped(mut der: Vec<u8>) -> Vec<u8> {
    *der.last_mut().unwrap() ^= 1;
    der
}

fn refused(judged: Result<EntryKind, Rejection>) -> (Code, String) {
    let rejection = judged.unwrap_err();
    (rejection.code, rejection.to_string())
}

#[test]
fn a_tail_is_remembered_once_a_leaf_below_it_has_verified() {
    let (validator, ca) = (validator(), &Pki::shared().rsa);
    let leaf = ca.issue(&Pki::shared().leaf("www.example.com")).unwrap();
    let remembered = || {
        validator.verified.run_pending_tasks();
        validator.verified.entry_count()
    };
    let forged = chain(below(ca, flipped(leaf.clone())));
    assert_eq!(
        refused(validator.judge(&forged, 0)).0,
        Code::InvalidSignature
    );
    assert_eq!(remembered(), 0);
    let good = chain(below(ca, leaf));
    assert_eq!(validator.judge(&good, 0).unwrap(), EntryKind::X509);
    assert_eq!(remembered(), 1);
}

#[test]
fn a_chain_is_judged_by_its_leafs_kind_and_with_all_signatures() {
    let (validator, ca) = (validator(), &Pki::shared().p256);
    let leaf = || Pki::shared().leaf("www.example.com");
    for (leaf, kind) in [
        (leaf().precertificate(), EntryKind::Precert),
        (leaf(), EntryKind::X509),
    ] {
        let der = ca.issue(&leaf).unwrap();
        let good = chain(below(ca, der.clone()));
        // The result is the same after the tail was cached.
        for _ in 0..2 {
            assert_eq!(validator.judge(&good, 0).unwrap(), kind);
            let forged = chain(below(ca, flipped(der.clone())));
            assert_eq!(
                refused(validator.judge(&forged, 0)).0,
                Code::InvalidSignature
            );
        }
        let mut forged = below(ca, der);
        forged[1] = flipped(forged[1].clone());
        let forged = chain(forged);
        assert_eq!(
            refused(validator.judge(&forged, 0)).0,
            Code::InvalidSignature
        );
    }
}

/// Bytes can be in the signed part, but in no field of it. Logs that accept them sign a
/// TBSCertificate without them, which differs from that of the final certificate.
#[test]
fn bytes_behind_the_list_of_extensions_are_refused() {
    let ca = &Pki::shared().p256;
    let leaf = ca.issue(&Pki::shared().leaf("www.example.com")).unwrap();
    let (code, said) = refused(validator().judge(&chain(below(ca, with_more(&leaf))), 0));
    assert_eq!(code, Code::InvalidCertificate);
    assert!(said.contains("extensions"), "{said}");
}

/// Returns the certificate with a NULL after the list in `[3]`.
fn with_more(der: &[u8]) -> Vec<u8> {
    let certificate = Certificate::parse(der).unwrap();
    let tlv = |tag, value: &[u8]| {
        let mut out = Vec::new();
        push_header(tag, value.len(), &mut out);
        out.extend_from_slice(value);
        out
    };
    let (tbs, (wrapper, list)) = (certificate.tbs_tlv(), certificate.extensions_tlv().unwrap());
    let fields = &der[tbs.end() - tbs.value.len()..wrapper.start()];
    let extensions = tlv(wrapper.tag, &[list.raw, &[tag::NULL, 0]].concat());
    let signed = tlv(tag::SEQUENCE, &[fields, &extensions].concat());
    tlv(tag::SEQUENCE, &[&signed, &der[tbs.end()..]].concat())
}
