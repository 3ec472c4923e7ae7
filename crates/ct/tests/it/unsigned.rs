//! Unsigned bytes are accepted in one form only, signed bytes in any form.

use lucarne_ct::{Certificate, Code, EntryKind, Policy};
use lucarne_mint::{Authority, CaOptions, KeyType, Lengths, SignatureAlgorithm, Template};

use crate::minting::{leaf as leaf_of, *};
use crate::rewrapping::*;

const P256_ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
const P384_ORDER: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973";
/// The order of the group of Ed25519 in the byte order of signatures: lowest byte first.
const ED25519_ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";

/// Returns the sum of two numbers, highest byte first.
fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let digit = |number: &[u8], place: usize| {
        let at = number.len().checked_sub(place + 1);
        at.map_or(0, |at| u16::from(number[at]))
    };
    let (mut sum, mut carry) = (Vec::new(), 0);
    for place in 0..a.len().max(b.len()) {
        carry += digit(a, place) + digit(b, place);
        sum.push(carry as u8);
        carry >>= 8;
    }
    sum.extend((carry > 0).then_some(carry as u8));
    sum.reverse();
    sum
}

/// Returns `a` - `b`; `b` must not exceed `a`.
fn difference(a: &[u8], b: &[u8]) -> Vec<u8> {
    // With as many bytes, -b is the complement of b, plus one.
    let mut negative = vec![0xff; a.len() - b.len()];
    negative.extend(b.iter().map(|byte| !byte));
    let all = sum(&sum(a, &negative), &[1]);
    let low = &all[all.len() - a.len()..];
    let zeros = low.iter().take_while(|byte| **byte == 0).count();
    low[zeros..].to_vec()
}

/// Returns the signature (r, n - s), which is as valid as (r, s) and cannot be distinguished from
/// it.
fn other_s(der: &[u8], order: &str) -> Vec<u8> {
    let (r, s) = ecdsa_integers(Certificate::parse(der).unwrap().signature());
    let order = hex::decode(order).unwrap();
    with_signature(der, &ecdsa_signature(&r, &difference(&order, &s)))
}

fn root(name: &str, key: KeyType) -> Authority {
    Authority::root(&CaOptions::named(name, key)).unwrap()
}

fn below(issuer: &Authority, name: &str, key: KeyType) -> Authority {
    issuer.intermediate(&CaOptions::named(name, key)).unwrap()
}

/// Returns issuers of every type of key, below roots of every type, with their chains.
fn issuers() -> Vec<Authority> {
    let ecdsa = root("Root of P-256", KeyType::EcdsaP256);
    let large = root("Root of P-384", KeyType::EcdsaP384);
    let edwards = root("Root of Ed25519", KeyType::Ed25519);
    vec![
        pki().rsa.clone(),
        pki().p384.clone(),
        below(&ecdsa, "P-384 below P-256", KeyType::EcdsaP384),
        below(&large, "P-521 below P-384", KeyType::EcdsaP521),
        below(&edwards, "Ed25519 below Ed25519", KeyType::Ed25519),
        ecdsa,
    ]
}

fn of_kind(issuer: &Authority, kind: EntryKind) -> Vec<Vec<u8>> {
    let usual = pki().leaf("example.test");
    let leaf = match kind {
        EntryKind::X509 => issuer.issue(&usual),
        EntryKind::Precert => issuer.issue(&usual.precertificate()),
    };
    issuer.full_chain(leaf.unwrap()).into_certificates()
}

#[test]
fn every_other_wrapping_is_refused_wherever_it_stands() {
    for issuer in issuers() {
        for kind in [EntryKind::X509, EntryKind::Precert] {
            let chain = of_kind(&issuer, kind);
            let log = log(&[chain.last().unwrap()], Policy::default());
            // Twice: before and after the tail is cached.
            for known in [false, true] {
                for place in 0..chain.len() {
                    for other in rewrappings(&chain[place]) {
                        let mut rewrapped = chain.clone();
                        rewrapped[place] = other.der;
                        let at = format!("{} at {place}, {kind:?}, {known}", other.how);
                        let rejection = submit(&log, kind, &rewrapped).expect_err(&at);
                        assert_eq!(rejection.code.as_str(), other.code, "{at}");
                        assert_eq!(rejection.certificate_index, Some(place), "{at}");
                    }
                }
                submit(&log, kind, &chain).unwrap();
            }
        }
    }
}

#[test]
fn parameters_of_pss_are_those_that_were_signed() {
    let ca = &pki().rsa;
    let leaf = odd_leaf(ca, |template| {
        template.algorithm = SignatureAlgorithm::RsaPssSha256
    });
    add_chain([&leaf[..], ca.cert_der()]).unwrap();
    for other in rewrappings(&leaf) {
        let rejection = add_chain([&other.der[..], ca.cert_der()]).unwrap_err();
        assert_eq!(rejection.code.as_str(), other.code, "{}", other.how);
    }
}

#[test]
fn of_an_ecdsa_signature_only_the_other_s_is_left() {
    let ca = &pki().p256;
    let leaf = leaf_of(ca);
    let log = usual();
    let verdict = |leaf: &[u8]| submit(&log, EntryKind::X509, [leaf, ca.cert_der()]);
    let (r, s) = ecdsa_integers(Certificate::parse(&leaf).unwrap().signature());
    let order = hex::decode(P256_ORDER).unwrap();
    let beyond = [
        ecdsa_signature(&sum(&r, &order), &s),
        ecdsa_signature(&r, &sum(&s, &order)),
        ecdsa_signature(&sum(&r, &order), &sum(&s, &order)),
    ];
    // Before and after the key is prepared.
    for _ in 0..2 {
        for signature in &beyond {
            let found = refused(verdict(&with_signature(&leaf, signature)));
            assert_eq!(found, (Code::InvalidSignature, Some(0)));
        }
        verdict(&other_s(&leaf, P256_ORDER)).unwrap();
        for _ in 0..100 {
            verdict(&leaf).unwrap();
        }
    }
}

#[test]
fn an_rsa_signature_is_below_its_modulus() {
    let ca = &pki().rsa;
    let spki = ca.key().spki();
    // The modulus follows a zero byte, and precedes the exponent 65537.
    let modulus = &spki[spki.len() - 5 - 256..spki.len() - 5];
    let log = usual();
    let verdict = |leaf: &[u8]| submit(&log, EntryKind::X509, [leaf, ca.cert_der()]);
    let (leaf, beyond) = (0..)
        .find_map(|number| {
            let options = pki().leaf(&format!("{number}.example.test"));
            let leaf = ca.issue(&options).unwrap();
            let beyond = sum(Certificate::parse(&leaf).unwrap().signature(), modulus);
            (beyond.len() == modulus.len()).then_some((leaf, beyond))
        })
        .unwrap();
    for _ in 0..2 {
        let found = refused(verdict(&with_signature(&leaf, &beyond)));
        assert_eq!(found, (Code::InvalidSignature, Some(0)));
        verdict(&leaf).unwrap();
    }
}

#[test]
fn an_ed25519_signature_is_below_the_order() {
    let ca = root("Edwards", KeyType::Ed25519);
    let leaf = leaf_of(&ca);
    let log = log(&[ca.cert_der()], Policy::default());
    let signature = Certificate::parse(&leaf).unwrap().signature();
    let (r, s) = signature.split_at(32);
    let reversed = |number: &[u8]| number.iter().rev().copied().collect::<Vec<_>>();
    let order = reversed(&hex::decode(ED25519_ORDER).unwrap());
    let beyond = reversed(&sum(&reversed(s), &order));
    let other = with_signature(&leaf, &[r, &beyond].concat());
    let found = refused(submit(&log, EntryKind::X509, [&other]));
    assert_eq!(found, (Code::InvalidSignature, Some(0)));
    submit(&log, EntryKind::X509, [&leaf]).unwrap();
}

/// A submitted root must equal the accepted one byte for byte: even the other s is refused.
#[test]
fn an_accepted_root_has_no_other_form() {
    let (small, large) = (
        root("Small", KeyType::EcdsaP256),
        root("Large", KeyType::EcdsaP384),
    );
    for (root, order) in [(&small, P256_ORDER), (&large, P384_ORDER)] {
        let ca = below(root, "Below", KeyType::EcdsaP256);
        let log = log(&[root.cert_der()], Policy::default());
        let other = other_s(root.cert_der(), order);
        let direct = leaf_of(root);
        let leaf = leaf_of(&ca);
        for (chain, place) in [
            (chain(&[&leaf, ca.cert_der(), &other]), 2),
            (chain(&[&leaf, ca.cert_der(), &other, root.cert_der()]), 2),
            (chain(&[&leaf, ca.cert_der(), root.cert_der(), &other]), 3),
            (chain(&[&direct, &other]), 1),
        ] {
            let found = refused(submit(&log, EntryKind::X509, &chain));
            assert_eq!(found, (Code::NotCanonical, Some(place)));
        }
        submit(&log, EntryKind::X509, chain(&[&leaf, ca.cert_der()])).unwrap();
    }
}

/// A configured root may have any form, but is accepted in that form only.
#[test]
fn a_root_in_lax_form_is_sent_in_that_form() {
    let root = root("Lax", KeyType::EcdsaP256);
    let ca = below(&root, "Below", KeyType::EcdsaP256);
    let leaf = leaf_of(&ca);
    let lax = rewrappings(root.cert_der())
        .into_iter()
        .find(|other| other.how == "a long length of the BIT STRING");
    let lax = lax.unwrap().der;
    let log = log(&[&lax], Policy::default());
    for chain in [
        chain(&[&leaf, ca.cert_der()]),
        chain(&[&leaf, ca.cert_der(), &lax]),
    ] {
        let entry = submit(&log, EntryKind::X509, chain).unwrap();
        assert_eq!(entry.issuers[1].der, lax);
    }
    let strict = chain(&[&leaf, ca.cert_der(), root.cert_der()]);
    let found = refused(submit(&log, EntryKind::X509, strict));
    assert_eq!(found, (Code::NotCanonical, Some(2)));
}

#[test]
fn what_was_signed_stays_lax() {
    let lax = |template: &mut Template| template.lengths = Lengths::Long;
    for ca in [&pki().rsa, &pki().p256] {
        let leaf = odd_leaf(ca, lax);
        let entry = add_chain([&leaf[..], ca.cert_der()]).unwrap();
        assert_eq!(entry.signed.identity(), entry.identity);
        let below = odd_ca(ca, "Lax", lax);
        let leaf = leaf_of(&below);
        let entry = add_chain([&leaf[..], below.cert_der(), ca.cert_der()]).unwrap();
        assert_eq!(entry.issuers[0].der, below.cert_der());
    }
    // If the signed identifier is not DER, the unsigned one has the same meaning in DER.
    let identifier = |null: &[u8]| {
        let oid = tlv(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11]);
        tlv(0x30, &[&oid, null].concat())
    };
    let null_of_four = tlv(5, b"text");
    for signed in [&[5, 0x81, 0][..], &null_of_four] {
        let with = |outer: Vec<u8>| {
            let leaf = odd_leaf(&pki().rsa, |template| {
                template.inner_algorithm = Some(identifier(signed));
                template.outer_algorithm = Some(outer);
            });
            add_chain([&leaf[..], pki().rsa.cert_der()])
        };
        with(identifier(&[5, 0])).unwrap();
        let found = refused(with(identifier(signed)));
        assert_eq!(found, (Code::NotCanonical, Some(0)));
        let found = refused(with(identifier(&[])));
        assert_eq!(found, (Code::AlgorithmMismatch, Some(0)));
    }
}
