//! Frequently used issuing keys, prepared for cheap verification, and their signatures, which are
//! cheaper to verify in batches.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{self, Digest};
use parking_lot::{Mutex, RwLock};

use crate::entry::sha256;

/// Maximum memory of all tables of a process in bytes: 64 P-384 keys or 145 P-256 keys. The web has
/// fewer CAs with ECDSA keys that issue certificates every day. Signatures of the other CAs are
/// verified without a table.
pub(crate) const TABLE_BYTES: usize = 22_000_000;

/// Number of valid signatures after which all counts are halved, so that counts reflect recent use.
///
/// The period also bounds the number of counts: a count that survives a halving was at least 2, so
/// that there are never more than 1.5 times this number of counts.
const PERIOD: u32 = 1 << 15;

/// The longest ECDSA-Sig-Value, in bytes: two integers of 49, on P-384.
const LONGEST_SIGNATURE: usize = 2 + 2 * (2 + 49);

/// The kinds of keys that our own arithmetic supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    P256,
    P384,
    Rsa,
}

impl Kind {
    /// Returns the number of valid signatures after which a key is prepared. This is twice the
    /// number that pays for the preparation: a table costs as much as it saves in 16 or 17
    /// verifications, the constants of an RSA key in three.
    pub(crate) fn often(self) -> u32 {
        match self {
            Self::P256 | Self::P384 => 32,
            Self::Rsa => 6,
        }
    }

    /// Returns the maximum memory of a key in bytes.
    fn bytes(self) -> usize {
        match self {
            Self::P256 => lucarne_ecdsa::KnownKey::P256_SIZE,
            Self::P384 => lucarne_ecdsa::KnownKey::P384_SIZE,
            Self::Rsa => lucarne_rsa::KnownKey::MAX_SIZE,
        }
    }
}

/// The name of a public key: its kind, and SHA-256 of the BIT STRING in the SubjectPublicKeyInfo.
///
/// A key has the same name in all certificates and logs. Of the encodings of a key (compressed
/// points, long forms of DER), only one can be prepared: SEC 1's uncompressed point with
/// coordinates below the prime, and the DER of RSA's two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyName {
    pub(crate) kind: Kind,
    hash: [u8; 32],
}

impl KeyName {
    pub(crate) fn new(kind: Kind, bits: &[u8]) -> Self {
        let hash = sha256(&[&[kind as u8], bits]);
        Self { kind, hash }
    }
}

/// A key prepared for our own arithmetic.
#[derive(Debug)]
pub(crate) enum Prepared {
    Ecdsa(lucarne_ecdsa::KnownKey),
    Rsa(lucarne_rsa::KnownKey),
}

impl Prepared {
    /// Prepares a key; `None` for other encodings, and if the processor lacks the instructions.
    pub(crate) fn new(kind: Kind, bits: &[u8]) -> Option<Self> {
        match kind {
            Kind::P256 => lucarne_ecdsa::KnownKey::p256(bits).map(Self::Ecdsa),
            Kind::P384 => lucarne_ecdsa::KnownKey::p384(bits).map(Self::Ecdsa),
            Kind::Rsa => lucarne_rsa::KnownKey::new(bits).map(Self::Rsa),
        }
    }

    fn accepts(&self, digest: &Digest, signature: &[u8]) -> bool {
        match self {
            Self::Ecdsa(key) => key.accepts(digest.as_ref(), signature),
            Self::Rsa(key) => {
                rsa_hash(digest).is_some_and(|hash| key.accepts(hash, digest.as_ref(), signature))
            }
        }
    }
}

fn rsa_hash(digest: &Digest) -> Option<lucarne_rsa::Hash> {
    match digest.algorithm() {
        algorithm if *algorithm == digest::SHA256 => Some(lucarne_rsa::Hash::Sha256),
        algorithm if *algorithm == digest::SHA384 => Some(lucarne_rsa::Hash::Sha384),
        algorithm if *algorithm == digest::SHA512 => Some(lucarne_rsa::Hash::Sha512),
        _ => None,
    }
}

/// A prepared key, and whether aws-lc-rs has verified its first signature, too.
#[derive(Debug)]
pub(crate) struct Known {
    prepared: Prepared,
    kind: Kind,
    proven: AtomicBool,
}

impl Known {
    fn new(prepared: Prepared, kind: Kind) -> Self {
        Self {
            prepared,
            kind,
            proven: AtomicBool::new(false),
        }
    }

    /// Returns `true` only if the signature over this digest is valid. The result for a valid
    /// signature may be `false`.
    pub(crate) fn accepts(&self, digest: &Digest, signature: &[u8]) -> bool {
        self.prepared.accepts(digest, signature)
    }

    /// Returns the key if it is an ECDSA key.
    pub(crate) fn ecdsa(&self) -> Option<&lucarne_ecdsa::KnownKey> {
        match &self.prepared {
            Prepared::Ecdsa(key) => Some(key),
            Prepared::Rsa(_) => None,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns `true` only at the first call. aws-lc-rs then verifies the signature as well.
    pub(crate) fn is_new(&self) -> bool {
        !self.proven.swap(true, Ordering::Relaxed)
    }
}

/// The prepared keys of a process, in bounded memory: the keys that verified most signatures
/// recently.
///
/// A key keeps its place while it is used. To replace the keys of busy CAs, an attacker needs more
/// verified signatures below accepted roots than these CAs, and loses the places again afterwards.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    capacity: usize,
    keys: RwLock<HashMap<[u8; 32], Arc<Known>>>,
    uses: Mutex<Uses>,
    /// Held by the thread that prepares a key; no other thread waits for this lock.
    making: Mutex<()>,
}

impl KnownKeys {
    /// Creates a set of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            keys: RwLock::default(),
            uses: Mutex::default(),
            making: Mutex::default(),
        }
    }

    pub(crate) fn find(&self, name: &KeyName) -> Option<Arc<Known>> {
        self.keys.read().get(&name.hash).cloned()
    }

    /// Records that the key verified a signature. If the key is used often, `prepare` is called,
    /// and the result is kept.
    pub(crate) fn used(&self, name: &KeyName, prepare: impl FnOnce() -> Option<Prepared>) {
        let uses = self.uses.lock().note(&name.hash);
        let (often, over) = (uses / name.kind.often(), uses % name.kind.often());
        // Continues only at 1, 2, 4, 8, … times the threshold. This is rare, but sufficient,
        // because counts are halved regularly.
        if over != 0 || !often.is_power_of_two() || self.keys.read().contains_key(&name.hash) {
            return;
        }
        let Some(_making) = self.making.try_lock() else {
            return;
        };
        if let Some(victims) = self.room_for(name.kind.bytes(), uses)
            && let Some(prepared) = prepare()
        {
            let mut keys = self.keys.write();
            victims.iter().for_each(|victim| drop(keys.remove(victim)));
            keys.insert(name.hash, Arc::new(Known::new(prepared, name.kind)));
        }
    }

    /// Returns the keys to remove, so that this number of bytes becomes free. Returns `None` if
    /// these keys together have verified more than half as many signatures as the new key. Without
    /// this margin, two keys would replace each other repeatedly.
    fn room_for(&self, bytes: usize, uses: u32) -> Option<Vec<[u8; 32]>> {
        let keys = self.keys.read();
        let held: usize = keys.values().map(|known| known.kind.bytes()).sum();
        let mut free = self.capacity.checked_sub(held)?;
        if free >= bytes {
            return Some(Vec::new());
        }
        let counts = self.uses.lock();
        let mut by_use: Vec<_> = keys
            .iter()
            .map(|(hash, known)| (counts.of(hash), known.kind.bytes(), *hash))
            .collect();
        drop(counts);
        by_use.sort_unstable();
        let (mut victims, mut lost) = (Vec::new(), 0);
        for (count, size, hash) in by_use {
            if free >= bytes {
                break;
            }
            victims.push(hash);
            free += size;
            lost += count;
        }
        (free >= bytes && lost <= uses / 2).then_some(victims)
    }

    /// Returns the number of prepared keys and their memory in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let keys = self.keys.read();
        (
            keys.len(),
            keys.values().map(|known| known.kind.bytes()).sum(),
        )
    }

    /// Removes all keys.
    pub(crate) fn clear(&self) {
        self.keys.write().clear();
    }
}

/// Recent valid signatures of each key.
#[derive(Debug, Default)]
struct Uses {
    counts: HashMap<[u8; 32], u32>,
    since_halving: u32,
}

impl Uses {
    fn note(&mut self, key: &[u8; 32]) -> u32 {
        self.since_halving += 1;
        if self.since_halving == PERIOD {
            self.since_halving = 0;
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
        let count = self.counts.entry(*key).or_default();
        *count += 1;
        *count
    }

    fn of(&self, key: &[u8; 32]) -> u32 {
        self.counts.get(key).copied().unwrap_or_default()
    }
}

/// The signature of a leaf by a prepared ECDSA key, and the result of our own arithmetic.
///
/// The signature can be tried in a batch with signatures of other submissions
/// ([`Self::try_all`]), at a quarter of the cost. The decision does not change:
/// [`Validator::verify`](crate::Validator::verify) uses the result and decides as usual.
pub struct KnownSignature {
    known: Arc<Known>,
    digest: Digest,
    signature: Box<[u8]>,
    accepted: OnceLock<bool>,
}

impl KnownSignature {
    /// Number of signatures in a batch; more signatures need several batches.
    pub const BATCH: usize = lucarne_ecdsa::BATCH;

    /// Returns `None` if a batch has no advantage: for RSA keys, for processors that verify one
    /// ECDSA signature at a time, and for values that are too long for a signature.
    pub(crate) fn new(
        known: Arc<Known>,
        digest: impl FnOnce() -> Digest,
        signature: &[u8],
    ) -> Option<Self> {
        known.ecdsa().filter(|_| lucarne_ecdsa::has_batches())?;
        (signature.len() <= LONGEST_SIGNATURE).then(|| Self {
            known,
            digest: digest(),
            signature: signature.into(),
            accepted: OnceLock::new(),
        })
    }

    /// Returns `true` if both signatures fit into one batch: their keys are on the same curve.
    pub fn goes_with(&self, other: &Self) -> bool {
        self.known.kind() == other.known.kind()
    }

    /// Returns `true` if the signature has been tried.
    pub fn is_tried(&self) -> bool {
        self.accepted.get().is_some()
    }

    /// Verifies signatures in batches with our own arithmetic, and stores the results.
    pub fn try_all(signatures: &[Arc<Self>]) {
        let (asked, claims): (Vec<_>, Vec<_>) = signatures
            .iter()
            .filter_map(|signature| Some((signature, signature.claim()?)))
            .unzip();
        for (signature, accepted) in asked.iter().zip(lucarne_ecdsa::accept_all(&claims)) {
            // An earlier result of another thread is the same.
            let _ = signature.accepted.set(accepted);
        }
    }

    fn claim(&self) -> Option<lucarne_ecdsa::Claim<'_>> {
        Some(lucarne_ecdsa::Claim {
            key: self.known.ecdsa()?,
            digest: self.digest.as_ref(),
            signature: &self.signature,
        })
    }

    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Returns the key if our own arithmetic accepts the signature. Tries the signature first, if
    /// it is still untried.
    pub(crate) fn accepting(&self) -> Option<Arc<Known>> {
        let accept = || self.known.accepts(&self.digest, &self.signature);
        self.accepted
            .get_or_init(accept)
            .then(|| self.known.clone())
    }
}

impl fmt::Debug for KnownSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownSignature({:?})", self.accepted.get())
    }
}

#[cfg(test)]
mod tests {
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
        // The RSA keys together have verified more than half as many signatures, until the new key
        // has verified enough.
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
}
