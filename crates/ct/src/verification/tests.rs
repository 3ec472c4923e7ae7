use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use lucarne_mint::testing::Pki;
use lucarne_mint::{Authority, CaOptions, KeyType};
use parking_lot::Mutex;

use super::*;
use crate::known::Kind;
use crate::{Chain, Code, EntryKind, Policy, Rejection, Roots, Validator};

struct Signer {
    pair: EcdsaKeyPair,
    name: KeyName,
}

impl Signer {
    fn new() -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let name = KeyName::new(Kind::P256, pair.public_key().as_ref());
        Self { pair, name }
    }

    fn sign(&self, message: &[u8]) -> (Digest, Vec<u8>) {
        let signature = self.pair.sign(&SystemRandom::new(), message).unwrap();
        (digest(&SHA256, message), signature.as_ref().to_vec())
    }

    fn key(&self) -> KeyInUse<'_> {
        KeyInUse {
            name: &self.name,
            bits: self.pair.public_key().as_ref(),
        }
    }

    /// Returns a signer whose key is prepared, after the prepared key has verified one signature.
    fn met_often(verification: &Verification) -> Self {
        let signer = Self::new();
        let (digest, signature) = signer.sign(b"message");
        let mut asked = 0;
        while verification.stats().accepted == 0 {
            let complete = || {
                asked += 1;
                true
            };
            assert!(verification.verify(&signer.key(), &digest, &signature, complete));
            assert!(asked < 100);
        }
        // The first signature of a prepared key is verified twice.
        assert_eq!(verification.stats().rechecked, 1);
        signer
    }
}

#[test]
fn a_known_key_needs_no_complete_verifier_but_for_the_sample() {
    let verification = Verification::by_own_arithmetic();
    let signer = Signer::met_often(&verification);
    let mut seen = [false; 2];
    for number in 0_u32.. {
        let (digest, signature) = signer.sign(&number.to_be_bytes());
        let sampled = verification.is_sampled(&digest, &signature);
        if !std::mem::replace(&mut seen[usize::from(sampled)], true) {
            let mut asked = false;
            let complete = || {
                asked = true;
                true
            };
            assert!(verification.verify(&signer.key(), &digest, &signature, complete));
            assert_eq!(asked, sampled);
        }
        if seen == [true; 2] {
            break;
        }
    }
    let stats = verification.stats();
    assert_eq!((stats.accepted, stats.rechecked), (3, 2));
    assert_eq!((stats.keys, stats.disagreements), (1, 0));
}

#[test]
fn the_sample_is_one_in_a_thousand() {
    let verification = Verification::by_own_arithmetic();
    let sampled = |number: u32| {
        let digest = digest(&SHA256, &number.to_be_bytes());
        verification.is_sampled(&digest, b"signature")
    };
    let count = (0..200_000).filter(|number| sampled(*number)).count();
    // Five standard deviations to either side.
    assert!((130..270).contains(&count), "{count}");
    let other = Verification::by_own_arithmetic();
    let foreseen = |number: u32| {
        let digest = digest(&SHA256, &number.to_be_bytes());
        sampled(number) && other.is_sampled(&digest, b"signature")
    };
    assert!((0..200_000).filter(|number| foreseen(*number)).count() < 20);
}

/// Simulates a fault of our own arithmetic: the signature of another key is accepted.
#[test]
fn a_disagreement_refuses_raises_the_alarm_and_ends_our_arithmetic() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = heard.clone();
    let verification = Verification::by_own_arithmetic()
        .with_alarm(move |disagreement| ears.lock().push(disagreement.clone()));
    let (signer, other) = (Signer::new(), Signer::new());
    let wrong = Prepared::new(Kind::P256, other.pair.public_key().as_ref());
    let mut wrong = wrong;
    for _ in 0..100 {
        verification.keys.used(&signer.name, || wrong.take());
    }
    let (digest, signature) = other.sign(b"message");
    assert!(!verification.verify(&signer.key(), &digest, &signature, || false));
    let stats = verification.stats();
    assert_eq!(
        (stats.accepted, stats.rechecked, stats.disagreements),
        (1, 1, 1)
    );
    assert_eq!((stats.by_own, stats.keys), (false, 0));
    let expected = Disagreement {
        key: signer.pair.public_key().as_ref().to_vec(),
        digest: digest.as_ref().to_vec(),
        signature: signature.clone(),
    };
    assert_eq!(verification.disagreement(), Some(&expected));
    assert_eq!(*heard.lock(), [expected]);

    // From now on aws-lc-rs verifies all signatures.
    for verdict in [false, true, false] {
        let mut asked = false;
        let complete = || {
            asked = true;
            verdict
        };
        assert_eq!(
            verification.verify(&signer.key(), &digest, &signature, complete),
            verdict
        );
        assert!(asked);
    }
    assert_eq!(verification.stats().accepted, 1);
}

#[test]
fn general_verification_knows_no_key() {
    let verification = Verification::general();
    let signer = Signer::new();
    let (digest, signature) = signer.sign(b"message");
    for number in 0..200 {
        let verdict = number % 2 == 0;
        assert_eq!(
            verification.verify(&signer.key(), &digest, &signature, || verdict),
            verdict
        );
    }
    let stats = verification.stats();
    assert_eq!((stats.by_own, stats.keys, stats.accepted), (false, 0, 0));
    assert_eq!(verification.disagreement(), None);
}

fn validator(verification: &Arc<Verification>) -> Validator {
    let mut roots = Roots::new();
    roots.add(Pki::shared().root.cert_der()).unwrap();
    Validator::sharing(Arc::new(roots), Policy::default(), verification.clone())
}

fn submit(validator: &Validator, chain: Vec<&[u8]>) -> Result<(), Rejection> {
    let chain = Chain::from_ders(chain).unwrap();
    let now_ms = lucarne_mint::Time::now().unix() as u64 * 1000;
    let examined = validator.examine(&chain, EntryKind::X509, now_ms)?;
    validator.verify(examined).map(drop)
}

/// A key has one table, even in several certificates and two logs.
#[test]
fn a_key_is_one_in_all_certificates_and_logs() {
    let pki = Pki::shared();
    let verification = Arc::new(Verification::by_own_arithmetic());
    let (first, second) = (validator(&verification), validator(&verification));
    let options = CaOptions::named("Lucarne Test Shared", KeyType::EcdsaP256);
    let ca = pki.root.intermediate(&options).unwrap();
    // Another certificate for the same name and key.
    let template = pki.root.ca_template(&options, ca.key()).unwrap();
    let again = pki.root.sign(&template).unwrap();
    assert_ne!(again, ca.cert_der());
    let leaf = ca.issue(&pki.leaf("shared.example")).unwrap();
    for round in 1..=Kind::P256.often() / 4 {
        for certificate in [ca.cert_der(), &again] {
            submit(&first, vec![&leaf, certificate]).unwrap();
            assert_eq!(verification.stats().keys, 0, "{round}");
            submit(&second, vec![&leaf, certificate]).unwrap();
        }
    }
    let known = |verification: &Verification| verification.keys.size().0;
    assert_eq!(known(&verification), 1);
    submit(&first, vec![&leaf, &again]).unwrap();
    submit(&second, vec![&leaf, ca.cert_der()]).unwrap();
    assert_eq!(verification.stats().accepted, 2);
}

/// A key in a certificate without a valid signature is never prepared, although its own signatures
/// are valid.
#[test]
fn a_key_below_a_forged_certificate_is_not_counted() {
    let pki = Pki::shared();
    let verification = Arc::new(Verification::by_own_arithmetic());
    let log = validator(&verification);
    // A CA with the name of a real CA and another key.
    let name = CaOptions::named("Lucarne Test Forged", KeyType::EcdsaP256);
    let genuine = pki.root.intermediate(&name).unwrap();
    let forger = Authority::root(&name).unwrap();
    let below = |ca: &Authority, name| {
        let options = CaOptions::named(name, KeyType::EcdsaP256);
        ca.intermediate(&options).unwrap()
    };
    let forged = below(&forger, "Forged");
    let signer = below(&forged, "Signer");
    let leaf = signer.issue(&pki.leaf("forged.example")).unwrap();
    let chain = || {
        vec![
            &leaf[..],
            signer.cert_der(),
            forged.cert_der(),
            genuine.cert_der(),
        ]
    };
    for _ in 0..2 * Kind::P256.often() {
        let rejection = submit(&log, chain()).unwrap_err();
        assert_eq!(rejection.code, Code::InvalidSignature);
        assert_eq!(rejection.certificate_index, Some(2));
    }
    // Only the root's key, which did sign the genuine certificate, may be prepared by now.
    assert!(verification.stats().keys <= 1);
    let name = KeyName::new(Kind::P256, &forged.key().spki()[26..]);
    assert!(verification.keys.find(&name).is_none());
}

/// Simulates a fault of our own arithmetic in batches: accepted signatures are sampled, too.
#[test]
fn what_is_accepted_together_is_not_believed_either() {
    let verification = Verification::by_own_arithmetic();
    let (signer, other) = (Signer::new(), Signer::new());
    let mut wrong = Prepared::new(Kind::P256, other.pair.public_key().as_ref());
    for _ in 0..100 {
        verification.keys.used(&signer.name, || wrong.take());
    }
    let (digest, signature) = other.sign(b"message");
    let known = || verification.known_signature(&signer.name, || digest, &signature);
    let Some(known) = known().map(Arc::new) else {
        eprintln!("not tested: this processor has no AVX-512 IFMA");
        return;
    };
    KnownSignature::try_all(&[known.clone(), known.clone()]);
    assert!(known.accepting().is_some());
    assert!(!verification.verify_known(&signer.key(), &known, || false));
    assert_eq!(verification.stats().disagreements, 1);
    // Earlier results no longer count, and no signature is tried any more.
    assert!(!verification.verify_known(&signer.key(), &known, || false));
    assert_eq!(verification.stats().accepted, 1);
    assert!(
        verification
            .known_signature(&signer.name, || digest, &signature)
            .is_none()
    );
}

/// aws-lc-rs decides on every signature that our own arithmetic does not accept.
#[test]
fn what_is_not_accepted_together_aws_lc_decides() {
    let verification = Verification::by_own_arithmetic();
    let signer = Signer::met_often(&verification);
    let (digest, mut signature) = signer.sign(b"message");
    signature[20] ^= 1;
    for verdict in [true, false] {
        let known = verification.known_signature(&signer.name, || digest, &signature);
        let Some(known) = known else {
            eprintln!("not tested: this processor has no AVX-512 IFMA");
            return;
        };
        let known = Arc::new(known);
        KnownSignature::try_all(std::slice::from_ref(&known));
        assert!(known.is_tried());
        let mut asked = false;
        let complete = || {
            asked = true;
            verdict
        };
        assert_eq!(
            verification.verify_known(&signer.key(), &known, complete),
            verdict
        );
        assert!(asked);
    }
    let too_long = [0x30; 200];
    let known = verification.known_signature(&signer.name, || digest, &too_long);
    assert!(known.is_none());
}

/// A submission gets the same verdict with and without a batch.
#[test]
fn a_submission_whose_signature_was_tried_beside_others() {
    let pki = Pki::shared();
    let verification = Arc::new(Verification::by_own_arithmetic());
    let log = validator(&verification);
    let now_ms = lucarne_mint::Time::now().unix() as u64 * 1000;
    for ca in [&pki.p256, &pki.p384, &pki.rsa] {
        let good = ca.issue(&pki.leaf("together.example")).unwrap();
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        for _ in 0..2 * Kind::P256.often() {
            submit(&log, vec![&good, ca.cert_der()]).unwrap();
        }
        for tried in [true, false] {
            for leaf in [&good, &bad] {
                let chain = Chain::from_ders(vec![&leaf[..], ca.cert_der()]).unwrap();
                let mut examined = log.examine(&chain, EntryKind::X509, now_ms).unwrap();
                let known = log.known_signature(&mut examined);
                let has_batches = lucarne_ecdsa::has_batches() && !std::ptr::eq(ca, &pki.rsa);
                assert_eq!(known.is_some(), has_batches);
                if let Some(known) = known.filter(|_| tried) {
                    KnownSignature::try_all(&[known]);
                }
                let verified = log.verify(examined).map_err(|rejection| rejection.code);
                if leaf == &good {
                    assert!(verified.is_ok());
                } else {
                    assert_eq!(verified.unwrap_err(), Code::InvalidSignature);
                }
            }
        }
    }
    assert_eq!(verification.stats().disagreements, 0);
}
