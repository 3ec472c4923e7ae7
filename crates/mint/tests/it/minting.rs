//! These tests parse certificates and verify signatures without the code of this crate, except the
//! DER reader of `lucarne-x509`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{collections::HashSet, sync::Arc};

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use lucarne_mint::der::{Reader, tag};
use lucarne_mint::{
    Authority, CaOptions, Der, Extension, KeyPair, KeyType, LeafOptions, Lengths, Name, Poison,
    SignatureAlgorithm, Time, TimeForm, Version, extension, oid, testing::Pki,
};

/// Parts of a certificate, borrowed.
struct Parsed<'a> {
    tbs: &'a [u8],
    serial: &'a [u8],
    inner: &'a [u8],
    outer: &'a [u8],
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    key: &'a [u8],
    extensions: Vec<(&'a [u8], bool, &'a [u8])>,
    signature: &'a [u8],
}

fn parse(certificate: &[u8]) -> Parsed<'_> {
    let mut input = Reader::new(certificate);
    let mut outer = input.any("certificate").unwrap().reader();
    assert!(input.is_empty(), "nothing after the certificate");
    let tbs = outer.any("TBS").unwrap();
    let algorithm = outer.any("algorithm").unwrap().raw;
    let signature = &outer.any("signature").unwrap().value[1..];
    let mut fields = tbs.reader();
    fields.optional(tag::context(0), "version").unwrap();
    let mut next = || fields.any("field").unwrap();
    let serial = next().value;
    let [inner, issuer, validity, subject] = std::array::from_fn(|_| next().raw);
    let mut spki = next().reader();
    spki.any("algorithm").unwrap();
    let key = &spki.any("key").unwrap().value[1..];
    let mut extensions = Vec::new();
    if let Ok(wrapper) = fields.any("extensions") {
        let mut list = wrapper.reader().any("extensions").unwrap().reader();
        while let Ok(extension) = list.any("extension") {
            let mut parts = extension.reader();
            let oid = parts.any("identifier").unwrap().value;
            let critical = parts.optional(tag::BOOLEAN, "critical").unwrap();
            let value = parts.any("value").unwrap().value;
            extensions.push((oid, critical.is_some(), value));
        }
    }
    Parsed {
        tbs: tbs.raw,
        serial,
        inner,
        outer: algorithm,
        issuer,
        validity,
        subject,
        key,
        extensions,
        signature,
    }
}

fn verifies(certificate: &[u8], issuer: &[u8], with: &'static dyn VerificationAlgorithm) -> bool {
    let (certificate, issuer) = (parse(certificate), parse(issuer));
    certificate.issuer == issuer.subject
        && UnparsedPublicKey::new(with, issuer.key)
            .verify(certificate.tbs, certificate.signature)
            .is_ok()
}

const KINDS: [(KeyType, &dyn VerificationAlgorithm); 6] = [
    (KeyType::Rsa(2048), &signature::RSA_PKCS1_2048_8192_SHA256),
    (KeyType::Rsa(3072), &signature::RSA_PKCS1_2048_8192_SHA256),
    (KeyType::EcdsaP256, &signature::ECDSA_P256_SHA256_ASN1),
    (KeyType::EcdsaP384, &signature::ECDSA_P384_SHA384_ASN1),
    (KeyType::EcdsaP521, &signature::ECDSA_P521_SHA512_ASN1),
    (KeyType::Ed25519, &signature::ED25519),
];

#[test]
fn every_kind_of_ca_signs_and_survives_pem() {
    let pki = Pki::shared();
    for (kind, algorithm) in KINDS {
        let ca = pki
            .root
            .intermediate(&CaOptions::named("Some CA", kind))
            .unwrap();
        let rsa = &signature::RSA_PKCS1_2048_8192_SHA256;
        assert!(verifies(ca.cert_der(), pki.root.cert_der(), rsa));

        let again = Authority::from_pem(&ca.to_pem().unwrap()).unwrap();
        assert_eq!(again.certificates(), ca.certificates());
        assert_eq!(again.key().kind(), kind);
        for ca in [&ca, &again] {
            let leaf = ca.issue(&pki.leaf("example.test")).unwrap();
            assert!(verifies(&leaf, ca.cert_der(), algorithm), "{kind:?}");
            assert_eq!(parse(&leaf).inner, parse(&leaf).outer);
        }
    }
}

#[test]
fn rsa_signs_with_every_hash_and_padding() {
    let pki = Pki::shared();
    for (algorithm, verifier) in [
        (
            SignatureAlgorithm::RsaSha384,
            &signature::RSA_PKCS1_2048_8192_SHA384,
        ),
        (
            SignatureAlgorithm::RsaSha512,
            &signature::RSA_PKCS1_2048_8192_SHA512,
        ),
        (
            SignatureAlgorithm::RsaPssSha256,
            &signature::RSA_PSS_2048_8192_SHA256,
        ),
        (
            SignatureAlgorithm::RsaPssSha384,
            &signature::RSA_PSS_2048_8192_SHA384,
        ),
        (
            SignatureAlgorithm::RsaPssSha512,
            &signature::RSA_PSS_2048_8192_SHA512,
        ),
    ] {
        let options = LeafOptions {
            algorithm: Some(algorithm),
            ..pki.leaf("example.test")
        };
        let leaf = pki.rsa.issue(&options).unwrap();
        assert!(
            verifies(&leaf, pki.rsa.cert_der(), verifier),
            "{algorithm:?}"
        );
        assert!(pki.p256.issue(&options).is_err());
    }
}

#[test]
fn a_usual_submission_has_the_usual_size() {
    let pki = Pki::shared();
    let chain = pki
        .certificate(&pki.rsa, "load-00000001.example.test")
        .unwrap();
    let body = chain.to_json();
    assert!((2600..2800).contains(&body.len()), "{} bytes", body.len());
    assert!(body.starts_with("{\"chain\":[\"MII") && body.ends_with("\"]}"));
    assert_eq!(chain.certificates().len(), 2);

    // Two SCTs of static CT logs in a final certificate: about 120 bytes each.
    let plain = pki.leaf("load-00000001.example.test");
    let with = LeafOptions {
        scts: 2,
        ..plain.clone()
    };
    let size = |options| pki.rsa.issue(options).unwrap().len();
    assert_eq!(size(&with) - size(&plain), 280);
}

#[test]
fn names_and_purposes_are_in_the_leaf() {
    let pki = Pki::shared();
    let names = ["example.test", "*.example.test", "192.0.2.7", "2001:db8::1"];
    let leaf = pki
        .p256
        .issue(&LeafOptions::for_names(names).unwrap())
        .unwrap();
    let leaf = parse(&leaf);
    let value = |oid: &oid::Oid| {
        let found = leaf.extensions.iter().find(|e| e.0 == oid.as_bytes());
        found.map(|e| e.2).unwrap()
    };
    let mut san = Reader::new(value(&oid::SUBJECT_ALT_NAME));
    let mut san = san.any("names").unwrap().reader();
    let mut found = Vec::new();
    while let Ok(name) = san.any("name") {
        found.push((name.tag, name.value.to_vec()));
    }
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let expected: [(u8, &[u8]); 4] = [
        (0x82, b"example.test"),
        (0x82, b"*.example.test"),
        (0x87, &[192, 0, 2, 7]),
        (0x87, &v6),
    ];
    assert_eq!(found, expected.map(|(tag, bytes)| (tag, bytes.to_vec())));
    assert_eq!(leaf.subject, Name::common_name("example.test").as_der());
    assert!(value(&oid::EXTENDED_KEY_USAGE).ends_with(oid::CLIENT_AUTH.as_bytes()));
    // The leaf names its issuer's key.
    assert!(value(&oid::AUTHORITY_KEY_ID).ends_with(pki.p256.key().id()));
}

#[test]
fn serials_are_long_and_never_repeat() {
    let pki = Pki::shared();
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let leaf = pki.p256.issue(&pki.leaf("example.test")).unwrap();
        let serial = parse(&leaf).serial.to_vec();
        assert_eq!(serial.len(), 17);
        assert!(seen.insert(serial));
    }
}

#[test]
fn a_precertificate_is_its_certificate_and_a_poison() {
    let pki = Pki::shared();
    let options = LeafOptions {
        serial: Some(vec![1, 2, 3]),
        ..pki.leaf("example.test")
    };
    let last = |poison| LeafOptions {
        poison,
        ..options.clone()
    };
    let certificate = pki.rsa.leaf_template(&last(None)).unwrap();
    for (poison, position) in [(Poison::First, 0), (Poison::Middle, 4), (Poison::Last, 9)] {
        let mut precertificate = pki.rsa.leaf_template(&last(Some(poison))).unwrap();
        let issued = pki.rsa.sign(&precertificate).unwrap();
        let extensions = parse(&issued).extensions;
        assert_eq!(
            extensions[position],
            (oid::POISON.as_bytes(), true, &[5, 0][..])
        );
        precertificate.remove_extension(&oid::POISON);
        assert_eq!(precertificate.tbs(), certificate.tbs());
    }
    let poisons = |poison| -> Vec<(bool, Vec<u8>)> {
        let issued = pki.rsa.issue(&last(Some(poison))).unwrap();
        let parsed = parse(&issued);
        let poisons = parsed
            .extensions
            .iter()
            .filter(|e| e.0 == oid::POISON.as_bytes());
        poisons.map(|e| (e.1, e.2.to_vec())).collect()
    };
    assert_eq!(poisons(Poison::NonCritical), [(false, vec![5, 0])]);
    assert_eq!(poisons(Poison::NonNull), [(true, vec![1, 1, 0xff])]);
    assert_eq!(poisons(Poison::Twice).len(), 2);
}

#[test]
fn a_precertificate_signing_certificate_issues_below_its_ca() {
    let pki = Pki::shared();
    let options = CaOptions::named("Precert Signer", KeyType::EcdsaP256);
    let signer = pki.rsa.precert_signing(&options).unwrap();
    let purposes = parse(signer.cert_der()).extensions.into_iter();
    let purposes: Vec<_> = purposes
        .filter(|e| e.0 == oid::EXTENDED_KEY_USAGE.as_bytes())
        .collect();
    assert_eq!(purposes.len(), 1);
    assert!(purposes[0].2.ends_with(oid::PRECERT_SIGNING.as_bytes()));
    let chain = pki.precertificate(&signer, "example.test").unwrap();
    assert_eq!(chain.certificates().len(), 3); // leaf, signer, its CA
}

#[test]
fn odd_certificates_are_as_odd_as_asked() {
    let pki = Pki::shared();
    let mut template = pki.p256.leaf_template(&pki.leaf("example.test")).unwrap();
    template.lengths = Lengths::Long;
    template.serial = vec![0xff];
    template.not_before = Time::from_unix(0).with_form(TimeForm::Generalized);
    let md5 = lucarne_mint::algorithm(&oid::MD5_WITH_RSA, Der::null);
    template.outer_algorithm = Some(md5.clone());
    template.extensions.push(Extension {
        oid: "1.2.3.4".parse().unwrap(),
        critical: true,
        value: vec![],
    });
    let odd = pki.p256.sign(&template).unwrap();
    let parsed = parse(&odd);
    assert_eq!(parsed.serial, [0xff]);
    assert_eq!(parsed.outer, md5);
    assert_ne!(parsed.inner, md5);
    assert_eq!(parsed.validity[..5], [0x30, 0x81, 0x22, 0x18, 0x81]);
    assert_eq!(parsed.extensions.last().unwrap().2, b"");
    assert!(verifies(
        &odd,
        pki.p256.cert_der(),
        &signature::ECDSA_P256_SHA256_ASN1
    ));
}

#[test]
fn a_version_1_intermediate_can_be_made() {
    let pki = Pki::shared();
    let key = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let options = CaOptions::named("Old CA", KeyType::EcdsaP256);
    let mut template = pki.root.ca_template(&options, &key).unwrap();
    template.version = Version::V1;
    template.extensions.clear();
    let old = pki.root.subordinate(key, &template).unwrap();
    assert!(parse(old.cert_der()).extensions.is_empty());
    let leaf = old.issue(&pki.leaf("example.test")).unwrap();
    let has_aki = parse(&leaf)
        .extensions
        .iter()
        .any(|e| e.0 == oid::AUTHORITY_KEY_ID.as_bytes());
    assert!(!has_aki, "an issuer without SKI is not named by key");
}

#[test]
fn a_foreign_key_or_broken_file_is_refused() {
    let pki = Pki::shared();
    let other = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let certificates = pki.rsa.certificates().to_vec();
    let error = Authority::new(other, certificates).unwrap_err();
    assert!(error.to_string().contains("does not belong"));
    assert!(Authority::from_pem("").is_err());
    assert!(Authority::from_pem(&pki.rsa.certificate_pem()).is_err());
    assert!(KeyPair::generate(KeyType::Rsa(1024)).is_err());
}

#[test]
fn rsa_leaves_and_empty_extensions_are_possible() {
    let pki = Pki::shared();
    let key = Arc::new(KeyPair::generate(KeyType::Rsa(2048)).unwrap());
    let leaf = pki
        .rsa
        .issue(&LeafOptions::with_key(["a.test"], key.clone()))
        .unwrap();
    assert_eq!(parse(&leaf).extensions[0].2, [3, 2, 5, 0xa0]);
    let again = KeyPair::from_pkcs8(&key.to_pkcs8().unwrap()).unwrap();
    assert_eq!(
        (again.spki(), again.kind()),
        (key.spki(), KeyType::Rsa(2048))
    );
    assert!(!extension::poison().value.is_empty());
}
