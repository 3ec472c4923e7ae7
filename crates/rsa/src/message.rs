//! The encoded message of a signature (EMSA-PKCS1-v1_5, RFC 8017, section 9.2).

/// The hash functions of current signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Returns the DER of a DigestInfo before the digest (section 9.2, note 1), and the length of
    /// the digest.
    fn prefix(self) -> ([u8; 19], usize) {
        let (last_arc, length) = match self {
            Self::Sha256 => (1, 32),
            Self::Sha384 => (2, 48),
            Self::Sha512 => (3, 64),
        };
        let prefix = [
            0x30,
            17 + length,
            0x30,
            13,
            6,
            9,
            0x60,
            0x86,
            0x48,
            1,
            0x65,
            3,
            4,
            2,
            last_arc,
            5,
            0,
            4,
            length,
        ];
        (prefix, usize::from(length))
    }
}

/// Writes the only encoded message of a digest for keys of this length, big-endian. Returns `false`
/// if the digest has the wrong length for this hash.
pub(crate) fn encode(hash: Hash, digest: &[u8], encoded: &mut [u8]) -> bool {
    let (prefix, length) = hash.prefix();
    if digest.len() != length {
        return false;
    }
    let padding = encoded.len() - prefix.len() - length;
    encoded[..padding].fill(0xff);
    encoded[..2].copy_from_slice(&[0, 1]);
    encoded[padding - 1] = 0;
    encoded[padding..padding + prefix.len()].copy_from_slice(&prefix);
    encoded[padding + prefix.len()..].copy_from_slice(digest);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_padding_name_and_digest() {
        let mut encoded = [0; 256];
        assert!(encode(Hash::Sha256, &[0xab; 32], &mut encoded));
        assert_eq!(encoded[..3], [0, 1, 0xff]);
        assert_eq!(encoded[203..205], [0xff, 0]);
        assert_eq!(encoded[205..209], [0x30, 0x31, 0x30, 0x0d]);
        assert_eq!(encoded[222..225], [4, 32, 0xab]);
        assert!(!encode(Hash::Sha384, &[0xab; 32], &mut encoded));
    }
}
