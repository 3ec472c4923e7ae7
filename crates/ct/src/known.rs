//! Frequently used issuing keys, prepared for cheap verification.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

impl Known {
    fn new(prepared: Prepared, kind: Kind) -> Self {
        Self {
            prepared,
            kind,
            proven: AtomicBool::new(false),
        }
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

#[cfg(test)]
mod tests;
