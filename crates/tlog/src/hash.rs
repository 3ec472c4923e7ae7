//! Leaf and node hashes (RFC 6962, section 2.1).

use std::fmt;

use aws_lc_rs::digest::{self, SHA256};
use base64_simd::STANDARD;

/// A SHA-256 hash of the Merkle tree.
///
/// `Display` writes standard base64, as in a checkpoint; `Debug` writes hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; Hash::LENGTH]);

/// The root of the empty tree: SHA-256 of the empty string (RFC 6962, section 2.1).
pub const EMPTY_ROOT: Hash = Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

const LEAF_PREFIX: u8 = 0;
const NODE_PREFIX: u8 = 1;

/// Returns the hash of a leaf: SHA-256(`00` ‖ leaf) (RFC 6962, section 2.1).
#[must_use]
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    let mut context = digest::Context::new(&SHA256);
    context.update(&[LEAF_PREFIX]);
    context.update(leaf);
    Hash::of_digest(&context.finish())
}

/// Returns the hash of an inner node: SHA-256(`01` ‖ left ‖ right) (RFC 6962, section 2.1).
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut node = [NODE_PREFIX; 1 + 2 * Hash::LENGTH];
    node[1..=Hash::LENGTH].copy_from_slice(&left.0);
    node[1 + Hash::LENGTH..].copy_from_slice(&right.0);
    Hash::of_digest(&digest::digest(&SHA256, &node))
}

impl Hash {
    /// Length of a hash in bytes.
    pub const LENGTH: usize = 32;

    /// Returns the hash with these bytes; `None` unless there are exactly 32.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Parses standard base64 with padding, as written by `Display`. Other encodings of the same
    /// bytes are refused.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        Self::from_slice(&STANDARD.decode_to_vec(text).ok()?)
    }

    fn of_digest(digest: &digest::Digest) -> Self {
        let mut hash = [0; Self::LENGTH];
        hash.copy_from_slice(digest.as_ref());
        Self(hash)
    }
}

impl AsRef<[u8]> for Hash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; Hash::LENGTH]> for Hash {
    fn from(bytes: [u8; Hash::LENGTH]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&STANDARD.encode_to_string(self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_root_is_the_hash_of_nothing() {
        assert_eq!(EMPTY_ROOT, Hash::of_digest(&digest::digest(&SHA256, b"")));
    }

    /// The test vectors of all RFC 6962 implementations: the empty leaf, and the node of the empty
    /// leaf and the leaf `00`.
    #[test]
    fn known_vectors() {
        let empty = leaf_hash(b"");
        assert_eq!(
            format!("{empty:?}"),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
        assert_eq!(
            format!("{:?}", node_hash(&empty, &leaf_hash(&[0]))),
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
        );
    }

    #[test]
    fn base64_has_one_spelling() {
        let hash = leaf_hash(b"x");
        let text = hash.to_string();
        assert_eq!(Hash::from_base64(&text), Some(hash));
        // 32 bytes leave two unused bits in the last symbol, which must be zero.
        let stretched = Hash([0; 32]).to_string().replace("A=", "B=");
        assert_eq!(Hash::from_base64(&stretched), None);
        for wrong in [
            "",
            "====",
            &text[1..],
            text.trim_end_matches('='),
            &format!("{text}\n"),
        ] {
            assert_eq!(Hash::from_base64(wrong), None, "{wrong:?}");
        }
    }
}
