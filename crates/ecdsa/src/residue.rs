//! Prime moduli, and integers modulo a prime in Montgomery form: x is stored as x·R mod p,
//! R = 2^(64·N).

use std::fmt::Debug;
use std::marker::PhantomData;

use crate::integer::{adc, add, from_bytes, less, mac, sub};
use crate::inverse::invert;

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

/// An integer modulo `M`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residue<M, const N: usize> {
    /// x·R mod p, below p.
    limbs: [u64; N],
    modulus: PhantomData<M>,
}

impl<M, const N: usize> PartialEq for Residue<M, N> {
    fn eq(&self, other: &Self) -> bool {
        self.limbs == other.limbs
    }
}

impl<M: Modulus<N>, const N: usize> Residue<M, N> {
    pub(crate) const ZERO: Self = Self::raw([0; N]);
    pub(crate) const ONE: Self = Self::raw(sub(&[0; N], &M::PRIME).0);

    const fn raw(limbs: [u64; N]) -> Self {
        Self {
            limbs,
            modulus: PhantomData,
        }
    }

    /// Returns the residue of any integer: R is below 2p, so that one subtraction is enough.
    pub(crate) fn new(integer: [u64; N]) -> Self {
        Self::raw(reduce_once(integer, 0, &M::PRIME)).mul(&Self::raw(M::R_SQUARED))
    }

    /// Returns the residue with this Montgomery form, which is below 2p.
    pub(crate) fn from_montgomery(limbs: [u64; N], above: u64) -> Self {
        Self::raw(reduce_once(limbs, above, &M::PRIME))
    }

    /// Returns the Montgomery form.
    pub(crate) fn montgomery(&self) -> &[u64; N] {
        &self.limbs
    }

    /// Parses bytes that encode an integer below the prime.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let integer = from_bytes(bytes)?;
        less(&integer, &M::PRIME).then(|| Self::new(integer))
    }

    /// Returns the integer below the prime.
    pub(crate) fn integer(&self) -> [u64; N] {
        self.mul(&Self::raw(std::array::from_fn(|i| u64::from(i == 0))))
            .limbs
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.limbs == [0; N]
    }

    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        let (sum, carry) = add(&self.limbs, &other.limbs);
        Self::raw(reduce_once(sum, carry, &M::PRIME))
    }

    #[inline(always)]
    pub(crate) fn double(&self) -> Self {
        self.add(self)
    }

    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        let (difference, borrow) = sub(&self.limbs, &other.limbs);
        let correction: [u64; N] = std::array::from_fn(|i| M::PRIME[i] & borrow.wrapping_neg());
        Self::raw(add(&difference, &correction).0)
    }

    pub(crate) fn negate(&self) -> Self {
        Self::ZERO.sub(self)
    }

    /// Returns the Montgomery product by coarsely integrated operand scanning: after each limb of
    /// `other`, a multiple of the prime clears one limb of the sum, which is dropped. The lower
    /// halves of the products are added first, then the higher halves: two long chains of carries
    /// instead of many short chains.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        let (mut sum, mut high) = ([0; N], 0);
        for limb in other.limbs {
            let products: [u128; N] =
                std::array::from_fn(|i| u128::from(self.limbs[i]) * u128::from(limb));
            let mut carry = 0;
            for i in 0..N {
                (sum[i], carry) = adc(sum[i], products[i] as u64, carry);
            }
            let (middle, overflow) = adc(high, 0, carry);
            let mut carry = 0;
            for i in 1..N {
                (sum[i], carry) = adc(sum[i], (products[i - 1] >> 64) as u64, carry);
            }
            let (middle, more) = adc(middle, (products[N - 1] >> 64) as u64, carry);
            let carry;
            (sum, carry) = M::drop_limb(sum);
            (sum[N - 1], high) = adc(middle, carry, 0);
            high += overflow + more;
        }
        Self::raw(reduce_once(sum, high, &M::PRIME))
    }

    #[inline(always)]
    pub(crate) fn square(&self) -> Self {
        self.mul(self)
    }

    /// Returns the inverses of nonzero residues with one inversion (Montgomery's trick).
    pub(crate) fn invert_all(residues: impl DoubleEndedIterator<Item = Self> + Clone) -> Vec<Self> {
        // The product of the preceding residues, for each residue.
        let (mut products, mut product) = (Vec::new(), Self::ONE);
        for residue in residues.clone() {
            products.push(product);
            product = product.mul(&residue);
        }
        let mut inverse = product.invert();
        for (product, residue) in products.iter_mut().rev().zip(residues.rev()) {
            *product = inverse.mul(product);
            inverse = inverse.mul(&residue);
        }
        products
    }

    /// Returns the inverse of a nonzero residue.
    pub(crate) fn invert(&self) -> Self {
        let (inverse, fours) = invert::<M, N>(&self.integer());
        // At most 15 rounds for 384 bits, so that 4^rounds fits a limb.
        let power = std::array::from_fn(|i| u64::from(i == 0) << (2 * fours));
        Self::new(inverse).mul(&Self::new(power))
    }
}

#[cfg(test)]
mod tests {
    use super::{Modulus, Residue};
    use crate::curve::{P256Field, P256Order, P384Field, P384Order};

    fn inverses<M: Modulus<N>, const N: usize>() {
        let largest = Residue::<M, N>::ZERO.sub(&Residue::ONE);
        let mut residue = Residue::<M, N>::ONE;
        for _ in 0..200 {
            assert_eq!(residue.mul(&residue.invert()), Residue::ONE);
            // Covers all magnitudes and their negatives.
            residue = residue.mul(&residue).double().add(&Residue::ONE);
            let negative = residue.mul(&largest);
            assert_eq!(negative, residue.negate());
            assert_eq!(negative.mul(&negative.invert()), Residue::ONE);
        }
        // All powers of two, their neighbours, and the negatives.
        let mut power = Residue::<M, N>::ONE;
        for _ in 0..64 * N {
            for near in [power, power.sub(&Residue::ONE), power.add(&Residue::ONE)] {
                // As limbs in Montgomery form, and as the integers that inversion gets.
                for residue in [near, Residue::raw(near.integer()), near.negate()] {
                    let one = residue.mul(&residue.invert());
                    assert!(residue.is_zero() || one == Residue::ONE, "{residue:?}");
                }
            }
            power = power.double();
        }
    }

    #[test]
    fn a_residue_times_its_inverse_is_one() {
        inverses::<P256Field, 4>();
        inverses::<P256Order, 4>();
        inverses::<P384Field, 6>();
        inverses::<P384Order, 6>();
    }

    #[test]
    fn integers_come_back() {
        let large = [u64::MAX; 4];
        let reduced = Residue::<P256Order, 4>::new(large).integer();
        assert_eq!(reduced, crate::integer::sub(&large, &P256Order::PRIME).0);
        for small in [0, 1, 2, u64::MAX] {
            let integer = [small, 0, 0, 7];
            assert_eq!(Residue::<P256Field, 4>::new(integer).integer(), integer);
        }
    }
}
