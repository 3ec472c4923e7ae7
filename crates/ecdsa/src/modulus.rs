//! Prime moduli, and their constants for the Montgomery form: R = 2^(64·N).

use std::fmt::Debug;

use crate::integer::{add, mac, sub};

/// An odd prime with its highest bit set.
pub(crate) trait Modulus<const N: usize>: Copy + Debug {
    /// The prime.
    const PRIME: [u64; N];
    /// -p⁻¹ mod 2^64.
    const NEGATED_INVERSE: u64 = negated_inverse(Self::PRIME[0]);
    /// R² mod p.
    const R_SQUARED: [u64; N] = r_squared(&Self::PRIME);

    /// Adds the multiple of the prime, below 2^64·p, that clears the lowest limb, and drops this
    /// limb. Returns the other limbs, and the limb above them.
    #[inline(always)]
    fn drop_limb(sum: [u64; N]) -> ([u64; N], u64) {
        let factor = sum[0].wrapping_mul(Self::NEGATED_INVERSE);
        let (_, mut carry) = mac(sum[0], factor, Self::PRIME[0], 0);
        let mut rest = [0; N];
        for i in 1..N {
            (rest[i - 1], carry) = mac(sum[i], factor, Self::PRIME[i], carry);
        }
        (rest, carry)
    }
}

/// Computes the inverse by Newton iteration: each step doubles the number of correct bits, and an
/// odd number is its own inverse modulo 8.
const fn negated_inverse(odd: u64) -> u64 {
    let (mut inverse, mut bits) = (odd, 3);
    while bits < 64 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse.wrapping_neg()
}

/// Computes R² mod p from R mod p, which is R - p because p has its highest bit set, doubled once
/// for each bit of R.
const fn r_squared<const N: usize>(prime: &[u64; N]) -> [u64; N] {
    let (mut value, mut doubled) = (sub(&[0; N], prime).0, 0);
    while doubled < 64 * N {
        let (sum, carry) = add(&value, &value);
        value = reduce_once(sum, carry, prime);
        doubled += 1;
    }
    value
}

/// Reduces `carry`·R + value, below 2p, modulo p. There is no branch, because neither case is
/// predictable.
#[inline(always)]
pub(crate) const fn reduce_once<const N: usize>(
    value: [u64; N],
    carry: u64,
    prime: &[u64; N],
) -> [u64; N] {
    let (mut reduced, borrow) = sub(&value, prime);
    let (keep, mut i) = (carry.wrapping_sub(borrow), 0);
    while i < N {
        reduced[i] ^= (reduced[i] ^ value[i]) & keep;
        i += 1;
    }
    reduced
}
