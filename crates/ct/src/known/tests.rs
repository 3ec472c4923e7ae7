use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::*;

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

    fn prepare(&self) -> Option<Prepared> {
        Prepared::new(Kind::P256, self.pair.public_key().as_ref())
    }

    fn is_used(&self, keys: &KnownKeys, times: u32) {
        for _ in 0..times {
            keys.used(&self.name, || self.prepare());
        }
    }

    fn is_known(&self, keys: &KnownKeys) -> bool {
        keys.find(&self.name).is_some()
    }
}

/// Returns a set with room for two tables.
fn two() -> KnownKeys {
    KnownKeys::new(2 * Kind::P256.bytes() + 1000)
}

#[test]
fn a_key_is_known_once_it_has_verified_often() {
    let (keys, signer) = (two(), Signer::new());
    signer.is_used(&keys, Kind::P256.often() - 1);
    assert!(!signer.is_known(&keys));
    signer.is_used(&keys, 1);
    let signature = signer.pair.sign(&SystemRandom::new(), b"message").unwrap();
    let known = keys.find(&signer.name).unwrap();
    assert!(known.accepts(&digest(&SHA256, b"message"), signature.as_ref()));
    assert!(!known.accepts(&digest(&SHA256, b"other"), signature.as_ref()));
    assert!(known.is_new());
    assert!(!known.is_new());
}

#[test]
fn a_busier_key_takes_the_place_of_the_one_used_least() {
    let keys = two();
    let [busy, idle, newcomer] = [Signer::new(), Signer::new(), Signer::new()];
    busy.is_used(&keys, 1000);
    idle.is_used(&keys, 40);
    assert!(busy.is_known(&keys) && idle.is_known(&keys));
    // A key that is as busy as the existing one does not replace it.
    newcomer.is_used(&keys, 40);
    assert!(!newcomer.is_known(&keys));
    newcomer.is_used(&keys, 100);
    assert!(newcomer.is_known(&keys));
    assert!(!idle.is_known(&keys));
    assert!(busy.is_known(&keys));
}

/// A key that is no longer used loses its place, regardless of its former use.
#[test]
fn what_is_used_no_more_leaves() {
    let keys = two();
    let [former, other, newcomer] = [Signer::new(), Signer::new(), Signer::new()];
    former.is_used(&keys, 10_000);
    other.is_used(&keys, 10_000);
    for _ in 0..10 {
        // The keys of other CAs are never prepared, because their kind is unsupported.
        let strangers = KeyName::new(Kind::P384, b"");
        (0..PERIOD).for_each(|_| keys.used(&strangers, || None));
    }
    newcomer.is_used(&keys, Kind::P256.often());
    assert!(newcomer.is_known(&keys));
}

/// Many rarely used keys below an accepted root neither replace busy keys nor use more memory.
#[test]
fn many_keys_displace_none_that_is_busy() {
    let keys = two();
    let [first, second] = [Signer::new(), Signer::new()];
    for _ in 0..20 {
        first.is_used(&keys, 100);
        second.is_used(&keys, 100);
        Signer::new().is_used(&keys, 100);
        let (count, bytes) = keys.size();
        assert!(count <= 2 && bytes <= keys.capacity);
    }
    assert!(first.is_known(&keys) && second.is_known(&keys));
}

/// RSA keys are small and tables are large: several RSA keys make room for one table.
#[test]
fn a_table_takes_the_places_of_several_small_keys() {
    let keys = KnownKeys::new(Kind::P256.bytes());
    let constants = |number: u32| KeyName::new(Kind::Rsa, &number.to_be_bytes());
    let fit = Kind::P256.bytes() / Kind::Rsa.bytes();
    for number in 0..fit as u32 {
        // The content of the prepared key is irrelevant here.
        let any = || Signer::new().prepare();
        (0..Kind::Rsa.often()).for_each(|_| keys.used(&constants(number), any));
    }
    assert_eq!(keys.size().0, fit);
    let signer = Signer::new();
    // The RSA keys together have verified more than half as many signatures, until the new key has
    // verified enough.
    signer.is_used(&keys, 2 * Kind::P256.often());
    assert!(!signer.is_known(&keys));
    signer.is_used(&keys, 64 * Kind::P256.often());
    assert!(signer.is_known(&keys));
    assert!(keys.size().1 <= keys.capacity);
}

#[test]
fn counts_are_bounded() {
    let mut uses = Uses::default();
    let name = |number: u32| sha256(&[&number.to_be_bytes()]);
    for number in 0..4 * PERIOD {
        uses.note(&name(number / 2));
        assert!(uses.counts.len() <= 3 * PERIOD as usize / 2);
    }
}

/// Only one encoding of a point is prepared. Other encodings have other names.
#[test]
fn only_one_way_to_write_a_key_is_known() {
    let signer = Signer::new();
    let point = signer.pair.public_key().as_ref();
    let (x, y) = point[1..].split_at(32);
    let compressed = [&[2 + (y[31] & 1)], x].concat();
    let hybrid = [&[6 + (y[31] & 1)], x, y].concat();
    let longer = [point, &[0]].concat();
    // aws-lc-rs also accepts a whole SubjectPublicKeyInfo as a key.
    let nested = [
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03",
        &b"\x01\x07\x03\x42\x00"[..],
        point,
    ];
    for other in [compressed, hybrid, longer, nested.concat()] {
        assert!(Prepared::new(Kind::P256, &other).is_none());
        assert!(Prepared::new(Kind::P384, &other).is_none());
        assert_ne!(KeyName::new(Kind::P256, &other), signer.name);
    }
    assert!(Prepared::new(Kind::P384, point).is_none());
}
