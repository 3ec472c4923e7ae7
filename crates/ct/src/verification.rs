//! The choice of the verifier: our own arithmetic for frequent keys, aws-lc-rs for all other keys,
//! and for a sample as a check.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::Digest;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::known::{KeyName, Known, KnownKeys, KnownSignature, Prepared, TABLE_BYTES};

/// The number of signatures, accepted by our own arithmetic, of which aws-lc-rs verifies one. A
/// general verification costs four to five times as much as our own, so that the overhead is less
/// than 0.5 %.
const RECHECK_ONE_IN: u64 = 1000;

/// The verification of signatures for all logs of a process: the prepared issuing keys, and whether
/// our own arithmetic may be used. All logs share the prepared keys, because all logs get
/// certificates of the same issuing keys.
///
/// Our own arithmetic either accepts a signature or leaves the decision to aws-lc-rs. aws-lc-rs
/// also verifies an unpredictable sample of the accepted signatures, and the first signature of
/// each key. If aws-lc-rs ever disagrees, the signature is refused, our own arithmetic is disabled,
/// and the [`Disagreement`] is reported.
pub struct Verification {
    by_own: AtomicBool,
    keys: KnownKeys,
    /// Seed of the sample.
    seed: u64,
    accepted: AtomicU64,
    rechecked: AtomicU64,
    disagreements: AtomicU64,
    first: OnceLock<Disagreement>,
    alarm: Box<dyn Fn(&Disagreement) + Send + Sync>,
}

/// Counters of verified signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationStats {
    /// Whether our own arithmetic is used.
    pub by_own: bool,
    /// Number of prepared keys.
    pub keys: usize,
    /// Memory of the prepared keys in bytes.
    pub key_bytes: usize,
    /// Signatures that our own arithmetic accepted.
    pub accepted: u64,
    /// Accepted signatures that aws-lc-rs has verified as well.
    pub rechecked: u64,
    /// Accepted signatures that aws-lc-rs refused.
    pub disagreements: u64,
}

/// A signature that our own arithmetic accepted and aws-lc-rs refused, with all data to verify it
/// elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The public key: the content of the BIT STRING in its SubjectPublicKeyInfo.
    pub key: Vec<u8>,
    /// The signed digest.
    pub digest: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [key, digest, signature] = [&self.key, &self.digest, &self.signature].map(hex::encode);
        write!(f, "key {key}, digest {digest}, signature {signature}")
    }
}

impl Default for Verification {
    fn default() -> Self {
        Self::by_own_arithmetic()
    }
}

impl Verification {
    /// Creates a verification that uses our own arithmetic for frequent keys.
    pub fn by_own_arithmetic() -> Self {
        Self::new(true, TABLE_BYTES)
    }

    /// Creates a verification that uses aws-lc-rs alone.
    pub fn general() -> Self {
        Self::new(false, 0)
    }

    fn new(by_own: bool, capacity: usize) -> Self {
        let mut seed = [0; 8];
        // Without random numbers the sample is predictable; the first signature of each key is
        // still verified.
        let _ = aws_lc_rs::rand::fill(&mut seed);
        Self {
            by_own: AtomicBool::new(by_own),
            keys: KnownKeys::new(capacity),
            seed: u64::from_ne_bytes(seed),
            accepted: AtomicU64::new(0),
            rechecked: AtomicU64::new(0),
            disagreements: AtomicU64::new(0),
            first: OnceLock::new(),
            alarm: Box::new(|_| {}),
        }
    }

    /// Sets the function that is called for every disagreement.
    pub fn with_alarm(self, alarm: impl Fn(&Disagreement) + Send + Sync + 'static) -> Self {
        Self {
            alarm: Box::new(alarm),
            ..self
        }
    }

    /// Returns the first disagreement, if any: our own arithmetic has been disabled since.
    pub fn disagreement(&self) -> Option<&Disagreement> {
        self.first.get()
    }

    /// Returns the counters, and the number and size of the prepared keys.
    pub fn stats(&self) -> VerificationStats {
        let (keys, key_bytes) = self.keys.size();
        VerificationStats {
            by_own: self.by_own.load(Relaxed),
            keys,
            key_bytes,
            accepted: self.accepted.load(Relaxed),
            rechecked: self.rechecked.load(Relaxed),
            disagreements: self.disagreements.load(Relaxed),
        }
    }

    /// Records that aws-lc-rs refused a signature that our own arithmetic had accepted, calls the
    /// alarm, and disables our own arithmetic.
    pub fn disagree(&self, disagreement: Disagreement) {
        self.by_own.store(false, Relaxed);
        self.keys.clear();
        self.disagreements.fetch_add(1, Relaxed);
        (self.alarm)(&disagreement);
        // Later disagreements are only reported and counted.
        let _ = self.first.set(disagreement);
    }

    /// Returns the signature for a batch. `None` if the key is not prepared, or if batches are not
    /// supported.
    pub(crate) fn known_signature(
        &self,
        key: &KeyName,
        digest: impl FnOnce() -> Digest,
        signature: &[u8],
    ) -> Option<KnownSignature> {
        let known = self.keys.find(key)?;
        KnownSignature::new(known, digest, signature)
    }

    /// Returns `true` if the signature over this digest is valid for this key. `complete` is the
    /// verdict of aws-lc-rs, computed only if needed.
    ///
    /// A valid signature counts as a use of the key. The key must therefore be below an accepted
    /// root: do not call this before the signature on the key's own certificate has been verified.
    pub(crate) fn verify(
        &self,
        key: &KeyInUse<'_>,
        digest: &Digest,
        signature: &[u8],
        complete: impl FnOnce() -> bool,
    ) -> bool {
        let accepting = || {
            let known = self.keys.find(key.name);
            known.filter(|known| known.accepts(digest, signature))
        };
        self.decide(key, digest, signature, accepting, complete)
    }

    /// Verifies a signature of this key that may have been tried in a batch.
    pub(crate) fn verify_known(
        &self,
        key: &KeyInUse<'_>,
        known: &KnownSignature,
        complete: impl FnOnce() -> bool,
    ) -> bool {
        let (digest, signature) = (known.digest(), known.signature());
        self.decide(key, digest, signature, || known.accepting(), complete)
    }

    /// Decides on a signature; `accepting` returns the key if our own arithmetic accepts the
    /// signature.
    fn decide(
        &self,
        key: &KeyInUse<'_>,
        digest: &Digest,
        signature: &[u8],
        accepting: impl FnOnce() -> Option<Arc<Known>>,
        complete: impl FnOnce() -> bool,
    ) -> bool {
        if !self.by_own.load(Relaxed) {
            return complete();
        }
        let is_good = match accepting() {
            None => complete(),
            Some(known) => {
                self.accepted.fetch_add(1, Relaxed);
                let is_rechecked = known.is_new() || self.is_sampled(digest, signature);
                !is_rechecked || self.recheck(key, digest, signature, complete)
            }
        };
        if is_good {
            let prepare = || Prepared::new(key.name.kind, key.bits);
            self.keys.used(key.name, prepare);
        }
        is_good
    }

    /// Returns the verdict of `complete` for a signature that our own arithmetic accepted.
    fn recheck(
        &self,
        key: &KeyInUse<'_>,
        digest: &Digest,
        signature: &[u8],
        complete: impl FnOnce() -> bool,
    ) -> bool {
        self.rechecked.fetch_add(1, Relaxed);
        let is_good = complete();
        if !is_good {
            self.disagree(Disagreement {
                key: key.bits.to_vec(),
                digest: digest.as_ref().to_vec(),
                signature: signature.to_vec(),
            });
        }
        is_good
    }

    /// Selects the sample by a hash with a secret seed, so that the sample is unpredictable.
    fn is_sampled(&self, digest: &Digest, signature: &[u8]) -> bool {
        let seed = xxh3_64_with_seed(digest.as_ref(), self.seed);
        xxh3_64_with_seed(signature, seed).is_multiple_of(RECHECK_ONE_IN)
    }
}

/// A key used for a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyInUse<'k> {
    pub(crate) name: &'k KeyName,
    /// The content of the BIT STRING in the SubjectPublicKeyInfo.
    pub(crate) bits: &'k [u8],
}

impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verification({:?})", self.stats())
    }
}

#[cfg(test)]
mod tests {
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

        /// Returns a signer whose key is prepared, after the prepared key has verified one
        /// signature.
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

    /// A key in a certificate without a valid signature is never prepared, although its own
    /// signatures are valid.
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
}
