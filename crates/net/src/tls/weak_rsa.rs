//! Signatures by RSA keys of less than 2048 bits, which aws-lc-rs does not verify.
//!
//! Old appliances have short keys. A short key is used only if a client accepts the certificate in
//! any case: by its fingerprint, because it is itself trusted, or because any certificate is
//! accepted. All numbers are public, so time and memory accesses may depend on the numbers.

use std::cmp::Ordering;

use aws_lc_rs::digest::{self, Algorithm, SHA256, SHA384, SHA512};
use rustls::SignatureScheme;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};

use super::verifier::RsaKey;

/// Length in bits of the shortest key whose signatures aws-lc-rs verifies.
pub(super) const STRONG: usize = 2048;

/// Returns the algorithm of `scheme` for weak keys, if it is an RSA scheme.
pub(super) fn algorithm(
    scheme: SignatureScheme,
) -> Option<&'static dyn SignatureVerificationAlgorithm> {
    let (_, algorithm) = ALL.iter().find(|(of, _)| *of == scheme)?;
    Some(*algorithm)
}

const ALL: [(SignatureScheme, &WeakRsa); 6] = [
    (SignatureScheme::RSA_PSS_SHA256, &WeakRsa(&SHA256, true)),
    (SignatureScheme::RSA_PSS_SHA384, &WeakRsa(&SHA384, true)),
    (SignatureScheme::RSA_PSS_SHA512, &WeakRsa(&SHA512, true)),
    (SignatureScheme::RSA_PKCS1_SHA256, &WeakRsa(&SHA256, false)),
    (SignatureScheme::RSA_PKCS1_SHA384, &WeakRsa(&SHA384, false)),
    (SignatureScheme::RSA_PKCS1_SHA512, &WeakRsa(&SHA512, false)),
];

/// Hash of a scheme, and whether the scheme is RSASSA-PSS with a salt as long as the hash, instead
/// of RSASSA-PKCS1-v1_5.
#[derive(Debug)]
struct WeakRsa(&'static Algorithm, bool);

impl SignatureVerificationAlgorithm for WeakRsa {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = RsaKey::read(public_key).map_err(|_| InvalidSignature)?;
        if key.bits() >= STRONG || signature.len() != key.modulus.len() {
            return Err(InvalidSignature);
        }
        let encoded = raise(signature, &key).ok_or(InvalidSignature)?;
        let digest = digest::digest(self.0, message);
        let valid = if self.1 {
            self.pss(&encoded, key.bits() - 1, digest.as_ref())
        } else {
            self.pkcs1(encoded.len(), digest.as_ref()) == Some(encoded)
        };
        valid.then_some(()).ok_or(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    /// Required for chains of certificates. This algorithm is never used for chains.
    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        if self.1 {
            alg_id::RSA_PSS_SHA256
        } else {
            alg_id::RSA_PKCS1_SHA256
        }
    }
}

impl WeakRsa {
    /// Returns the encoded message of a digest (EMSA-PKCS1-v1_5, RFC 8017, section 9.2).
    fn pkcs1(&self, length: usize, digest: &[u8]) -> Option<Vec<u8>> {
        let last_arc = match digest.len() {
            32 => 1,
            48 => 2,
            _ => 3,
        };
        let size = u8::try_from(digest.len()).ok()?;
        let mut info = vec![0x30, 17 + size, 0x30, 13, 6, 9];
        info.extend([0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, last_arc, 5, 0, 4, size]);
        info.extend(digest);
        let padding = length.checked_sub(info.len() + 3)?;
        let mut encoded = vec![0, 1];
        encoded.resize(2 + padding, 0xff);
        encoded.push(0);
        encoded.extend(info);
        (padding >= 8).then_some(encoded)
    }

    /// Verifies an encoded message of `bits` bits (EMSA-PSS, RFC 8017, section 9.1.2).
    fn pss(&self, encoded: &[u8], bits: usize, digest: &[u8]) -> bool {
        let size = digest.len();
        // A modulus of 8n + 1 bits has one byte more than the encoded message.
        let (above, encoded) = encoded.split_at(encoded.len() - bits.div_ceil(8));
        let Some(database) = encoded.len().checked_sub(size + 1) else {
            return false;
        };
        let Some(padding) = database.checked_sub(size + 1) else {
            return false;
        };
        let (masked, rest) = encoded.split_at(database);
        let (hash, trailer) = rest.split_at(size);
        let unused = 0xff_u8.checked_shl((8 - (8 * encoded.len() - bits)) as u32);
        if trailer != [0xbc] || above.iter().any(|byte| *byte != 0) {
            return false;
        }
        if masked[0] & unused.unwrap_or(0) != 0 {
            return false;
        }
        let mask = self.mask(hash, database);
        let mut block: Vec<u8> = masked.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        block[0] &= !unused.unwrap_or(0);
        let (zeros, salt) = block.split_at(padding + 1);
        let message = [&[0; 8], digest, salt].concat();
        zeros[..padding].iter().all(|byte| *byte == 0)
            && zeros[padding] == 1
            && digest::digest(self.0, &message).as_ref() == hash
    }

    /// Computes MGF1 (RFC 8017, appendix B.2.1).
    fn mask(&self, seed: &[u8], length: usize) -> Vec<u8> {
        let block = |counter: u32| digest::digest(self.0, &[seed, &counter.to_be_bytes()].concat());
        let blocks = (0..).flat_map(|counter| block(counter).as_ref().to_vec());
        blocks.take(length).collect()
    }
}

/// A number in digits of 64 bits, the least significant first, with a spare digit at the end for
/// the carry of doubling.
type Number = Vec<u64>;

/// Computes `base` to the power of the key's exponent, modulo its modulus, in the length of the
/// modulus. Returns `None` if the key is not a valid RSA key, or the base is not below the modulus.
fn raise(base: &[u8], key: &RsaKey<'_>) -> Option<Vec<u8>> {
    /// Limit of the exponent in bytes. Longer exponents would only cost the client time.
    const LONGEST_EXPONENT: usize = 4;
    let odd = |number: &[u8]| number.last().is_some_and(|byte| byte & 1 == 1);
    if !odd(key.modulus) || !odd(key.exponent) || key.exponent.len() > LONGEST_EXPONENT {
        return None;
    }
    let length = key.modulus.len();
    let modulus = read(key.modulus, length);
    let base = read(base, length);
    if compare(&base, &modulus) != Ordering::Less {
        return None;
    }
    let mut power = read(&[1], length);
    for bit in key
        .exponent
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
    {
        power = multiply(&power, &power, &modulus);
        if bit == 1 {
            power = multiply(&power, &base, &modulus);
        }
    }
    let bytes: Vec<u8> = power
        .iter()
        .rev()
        .flat_map(|digit| digit.to_be_bytes())
        .collect();
    Some(bytes[bytes.len() - length..].to_vec())
}

fn read(bytes: &[u8], length: usize) -> Number {
    let digit = |chunk: &[u8]| {
        chunk
            .iter()
            .fold(0, |digit, byte| digit << 8 | u64::from(*byte))
    };
    let mut number: Number = bytes.rchunks(8).map(digit).collect();
    number.resize(length.div_ceil(8) + 1, 0);
    number
}

fn compare(a: &Number, b: &Number) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

/// Multiplies two numbers below the modulus, modulo the modulus. The loop over the bits is slow,
/// but simple.
fn multiply(a: &Number, b: &Number, modulus: &Number) -> Number {
    let mut product = vec![0; modulus.len()];
    for digit in b.iter().rev() {
        for bit in (0..64).rev() {
            let double = product.clone();
            add(&mut product, &double, modulus);
            if digit >> bit & 1 == 1 {
                add(&mut product, a, modulus);
            }
        }
    }
    product
}

/// Adds `number` to `sum`, modulo the modulus. Both numbers must be below the modulus.
fn add(sum: &mut Number, number: &Number, modulus: &Number) {
    let mut carry = false;
    for (digit, more) in sum.iter_mut().zip(number) {
        let (partial, first) = digit.overflowing_add(*more);
        let (whole, second) = partial.overflowing_add(carry.into());
        (*digit, carry) = (whole, first || second);
    }
    if compare(sum, modulus) == Ordering::Less {
        return;
    }
    let mut borrow = false;
    for (digit, less) in sum.iter_mut().zip(modulus) {
        let (partial, first) = digit.overflowing_sub(*less);
        let (whole, second) = partial.overflowing_sub(borrow.into());
        (*digit, borrow) = (whole, first || second);
    }
}
