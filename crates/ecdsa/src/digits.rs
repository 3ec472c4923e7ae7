//! Primes in digits of 52 bits, the operands of AVX-512 IFMA: R = 2^(52·L).
//!
//! A residue in the form of the limbs, x·2^(64·N), becomes one in the form of the digits,
//! x·2^(52·L), when it is shifted left by the difference. Tables therefore need only one form.

use crate::residue::Modulus;

/// Number of bits in a digit.
pub(crate) const BITS: usize = 52;

/// Largest digit.
pub(crate) const MASK: u64 = (1 << BITS) - 1;

/// A prime of N limbs as a prime of L digits.
pub(crate) trait Digits<const N: usize, const L: usize>: Modulus<N> {
    /// Number of spare bits: `R = 2^(64·N + SPARE)`.
    const SPARE: usize = {
        assert!(BITS * L >= 64 * N + 4);
        BITS * L - 64 * N
    };
    /// Number of bits of the top digit below 2^(64·N).
    const TOP: u32 = (BITS - Self::SPARE) as u32;
    /// The signed digits of the prime. Most digits are zero.
    const SIGNED_DIGITS: [i64; L] = signed(split(&Self::PRIME));
    /// -p⁻¹ mod 2^52.
    const NEGATED_INVERSE_DIGIT: u64 = Self::NEGATED_INVERSE & MASK;
}

/// Splits an integer into digits.
pub(crate) const fn split<const N: usize, const L: usize>(limbs: &[u64; N]) -> [u64; L] {
    let (mut digits, mut i) = ([0; L], 0);
    while i < L {
        let (limb, shift) = (BITS * i / 64, BITS * i % 64);
        let low = if limb < N { limbs[limb] >> shift } else { 0 };
        let high = if shift > 0 && limb + 1 < N {
            limbs[limb + 1] << (64 - shift)
        } else {
            0
        };
        digits[i] = (low | high) & MASK;
        i += 1;
    }
    digits
}

/// Returns the same integer in digits from -2^51 to 2^51; the top digit has room for the rest.
const fn signed<const L: usize>(digits: [u64; L]) -> [i64; L] {
    let (mut signed, mut carry, mut i) = ([0; L], 0, 0);
    while i < L {
        let digit = digits[i].cast_signed() + carry;
        carry = (digit > 1 << (BITS - 1)) as i64;
        signed[i] = digit - (carry << BITS);
        i += 1;
    }
    assert!(carry == 0);
    signed
}

/// Returns the lowest N limbs of an integer in digits, and the part above them.
pub(crate) fn join<const N: usize, const L: usize>(digits: &[u64; L]) -> ([u64; N], u64) {
    let (mut limbs, mut above) = ([0; N], 0);
    for (i, digit) in digits.iter().enumerate() {
        let (limb, shift) = (BITS * i / 64, BITS * i % 64);
        let wide = u128::from(*digit) << shift;
        for (place, part) in [(limb, wide as u64), (limb + 1, (wide >> 64) as u64)] {
            match limbs.get_mut(place) {
                Some(limb) => *limb |= part,
                None => above |= part,
            }
        }
    }
    (limbs, above)
}

#[cfg(test)]
mod tests {
    use super::{Digits, MASK, join, split};
    use crate::curve::{P256Field, P384Field};

    #[test]
    fn digits_of_an_integer_are_the_integer() {
        let limbs = [0x0123_4567_89ab_cdef, u64::MAX, 0, 0xfedc_ba98_7654_3210];
        let digits: [u64; 5] = split(&limbs);
        assert_eq!(digits[0], 0x3_4567_89ab_cdef);
        assert_eq!(digits[1], 0xf_ffff_ffff_f012);
        assert!(digits.iter().all(|digit| *digit <= MASK));
        assert_eq!(join(&digits), (limbs, 0));
        let limbs = [u64::MAX; 6];
        let mut digits: [u64; 8] = split(&limbs);
        assert_eq!(digits[7], 0xf_ffff);
        digits[7] |= 5 << 20;
        assert_eq!(join(&digits), (limbs, 5));
    }

    /// p = 2^256 - 2^224 + 2^192 + 2^96 - 1, and 2^384 - 2^128 - 2^96 + 2^32 - 1.
    #[test]
    fn signed_digits_are_few() {
        assert_eq!(
            P256Field::SIGNED_DIGITS,
            [-1, 1 << 44, 0, 1 << 36, (1 << 48) - (1 << 16)]
        );
        assert_eq!(
            P384Field::SIGNED_DIGITS,
            [(1 << 32) - 1, -(1 << 44), -(1 << 24), 0, 0, 0, 0, 1 << 20]
        );
    }
}
