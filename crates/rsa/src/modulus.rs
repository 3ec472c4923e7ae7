//! The parts of a key: its modulus, and the constants of the Montgomery form.

use crate::ifma::Ifma;
use crate::number::{self, BITS, MASK, Number};
use crate::{Hash, encode};

/// An RSA modulus of less than `V` times 416 bits.
#[derive(Debug)]
pub(crate) struct Modulus<const V: usize> {
    ifma: Ifma,
    n: Number<V>,
    /// R² modulo n, for R = 2^(416·V).
    r_squared: Number<V>,
    /// -1/n modulo 2^52.
    inverse: u64,
    /// The modulus in big-endian bytes, as in the key.
    big_endian: Box<[u8]>,
}

/// Maximum length of a modulus in bytes.
const LONGEST: usize = 512;

impl<const V: usize> Modulus<V> {
    /// Prepares a modulus. Returns `None` if the number is even, if it has leading zeros
    /// ([`Self::r_squared`] starts with its highest bit), or if the processor lacks the
    /// instructions.
    pub(crate) fn new(big_endian: &[u8]) -> Option<Box<Self>> {
        let ifma = Ifma::detect()?;
        let n: Number<V> = number::read(big_endian);
        let is_long = big_endian.first().is_some_and(|byte| byte & 0x80 != 0);
        let fits = big_endian.len() <= LONGEST && 8 * big_endian.len() + 2 < Self::R_BITS;
        if !is_long || !fits || n[0][0] & 1 == 0 {
            return None;
        }
        let mut modulus = Box::new(Self {
            ifma,
            n,
            r_squared: [[0; 8]; V],
            inverse: negative_inverse(n[0][0]),
            big_endian: big_endian.into(),
        });
        modulus.r_squared = modulus.r_squared();
        Some(modulus)
    }

    const R_BITS: usize = 8 * V * BITS as usize;

    /// See [`KnownKey::accepts`](crate::KnownKey::accepts).
    pub(crate) fn accepts(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        let length = self.big_endian.len();
        // A signature must be less than the modulus (RFC 8017, section 5.2.2).
        if signature.len() != length || *signature >= *self.big_endian {
            return false;
        }
        let mut encoded = [0; LONGEST];
        let encoded = &mut encoded[..length];
        encode(hash, digest, encoded)
            && self.raise(&number::read(signature)) == number::read(encoded)
    }

    /// Returns the number to the power 65537, modulo n.
    fn raise(&self, number: &Number<V>) -> Number<V> {
        // The value is R times too large until the multiplication by `number`, which is not in
        // Montgomery form.
        let mut power = self.multiply(number, &self.r_squared);
        for _ in 0..16 {
            power = self.multiply(&power, &power);
        }
        self.reduced(self.multiply(&power, number))
    }

    /// Returns R² modulo n, which is R in Montgomery form: 2 in that form, to the power of
    /// `R_BITS`.
    fn r_squared(&self) -> Number<V> {
        // The highest power of two that is always below n, as the bit of its digit.
        let highest = 8 * self.big_endian.len() - 1;
        let mut power = [[0; 8]; V];
        power.as_flattened_mut()[highest / BITS as usize] = 1 << (highest % BITS as usize);
        for _ in highest..=Self::R_BITS {
            power = self.doubled(power);
        }
        // The value is 2R now: the first bit of the exponent. Each further bit squares it.
        for bit in (0..Self::R_BITS.ilog2()).rev() {
            power = self.reduced(self.multiply(&power, &power));
            if Self::R_BITS >> bit & 1 == 1 {
                power = self.doubled(power);
            }
        }
        power
    }

    fn multiply(&self, a: &Number<V>, b: &Number<V>) -> Number<V> {
        self.ifma.multiply(a, b, &self.n, self.inverse)
    }

    /// Returns the doubled number modulo n, for a number below n.
    fn doubled(&self, mut number: Number<V>) -> Number<V> {
        let digits = number.as_flattened_mut();
        digits.iter_mut().for_each(|digit| *digit *= 2);
        number::carry(&mut number);
        self.reduced(number)
    }

    /// Returns the number modulo n, for a number below 2n.
    fn reduced(&self, number: Number<V>) -> Number<V> {
        number::subtract(&number, &self.n).unwrap_or(number)
    }
}

/// Computes the inverse by Newton iteration: each step doubles the number of correct bits, which
/// starts at three for an odd number.
fn negative_inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        let error = odd.wrapping_mul(inverse);
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(error));
    }
    inverse.wrapping_neg() & MASK
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the product, computed bit by bit.
    fn times<const V: usize>(modulus: &Modulus<V>, a: Number<V>, b: &Number<V>) -> Number<V> {
        let mut product = [[0; 8]; V];
        for digit in b.as_flattened().iter().rev() {
            for bit in (0..BITS).rev() {
                product = modulus.doubled(product);
                if digit >> bit & 1 == 1 {
                    let sum = product.as_flattened_mut().iter_mut();
                    sum.zip(a.as_flattened()).for_each(|(sum, a)| *sum += a);
                    number::carry(&mut product);
                    product = modulus.reduced(product);
                }
            }
        }
        product
    }

    /// Multiplies with the vectors and with [`times`], and compares the results.
    fn agree<const V: usize>(modulus: &[u8], a: &[u8], b: &[u8]) {
        let Some(modulus) = Modulus::<V>::new(modulus) else {
            eprintln!("not tested: this processor has no AVX-512 IFMA");
            return;
        };
        let (a, b) = (number::read(a), number::read(b));
        let (a_reduced, b_reduced) = (modulus.reduced(a), modulus.reduced(b));
        let ours = modulus.multiply(&modulus.multiply(&a, &modulus.r_squared), &b);
        let theirs = times(&modulus, a_reduced, &b_reduced);
        assert_eq!(modulus.reduced(ours), theirs);
    }

    /// Generates bytes, mostly at the ends of the range: a number below twice every modulus of this
    /// length.
    fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(0xff), any::<u8>()];
        proptest::collection::vec(byte, length)
    }

    fn modulus(length: usize) -> impl Strategy<Value = Vec<u8>> {
        bytes(length).prop_map(move |mut bytes| {
            bytes[0] |= 0x80;
            bytes[length - 1] |= 1;
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn products_are_those_of_long_multiplication(
            n in modulus(256), a in bytes(256), b in bytes(256),
        ) {
            agree::<5>(&n, &a, &b);
        }

        #[test]
        fn longer_ones_too(n in modulus(384), a in bytes(384), b in bytes(384)) {
            agree::<8>(&n, &a, &b);
        }

        #[test]
        fn the_longest_too(n in modulus(512), a in bytes(512), b in bytes(512)) {
            agree::<10>(&n, &a, &b);
        }
    }

    #[test]
    fn the_inverse_clears_a_digit() {
        for odd in [1, 3, MASK, 0x8000_0000_0001, 0xf_edcb_a987_6543] {
            assert_eq!(
                odd.wrapping_mul(negative_inverse(odd)).wrapping_add(1) & MASK,
                0
            );
        }
    }

    #[test]
    fn the_longest_is_as_large_as_documented() {
        assert!(size_of::<Modulus<10>>() + LONGEST <= crate::KnownKey::MAX_SIZE);
    }

    #[test]
    fn what_is_even_or_short_is_no_modulus() {
        let mut bytes = [0xff; 256];
        assert_eq!(
            Modulus::<5>::new(&bytes).is_some(),
            Ifma::detect().is_some()
        );
        bytes[255] = 0xfe;
        assert!(Modulus::<5>::new(&bytes).is_none());
        bytes[255] = 0xff;
        bytes[0] = 0x7f;
        assert!(Modulus::<5>::new(&bytes).is_none());
        assert!(
            Modulus::<5>::new(&[0xff; 261]).is_none(),
            "more digits than a number has"
        );
        assert!(Modulus::<5>::new(&[]).is_none());
    }
}
