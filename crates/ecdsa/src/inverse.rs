//! Inverses modulo a prime by divsteps: Bernstein and Yang, "Fast constant-time gcd computation
//! and modular inversion" (2019), with the step of Pieter Wuille that begins at half a delta.
//!
//! A step depends on the lowest bits only. So 62 steps are computed on one limb as a matrix, which
//! is then applied to the long integers at once.

use crate::integer::{add, shift_right, sub};
use crate::residue::Modulus;

/// Number of steps in a matrix: its entries, up to 2^62 of either sign, fit a limb.
const STEPS: u32 = 62;

/// The combination of several steps: 2^62·f' = u·f + v·g and 2^62·g' = q·f + r·g. The absolute
/// values in a row add up to 2^62 at most, so that f and g never become longer.
struct Matrix {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// A signed integer: `limbs`, minus 2^(64·N) if negative.
#[derive(Clone, Copy)]
struct Signed<const N: usize> {
    limbs: [u64; N],
    negative: bool,
}

/// Returns a number and a count. For 0 < a < prime, the inverse of `a` modulo the prime is the
/// number times 4^count.
///
/// Invariant: f ≡ a·d·4^k and g ≡ a·e·4^k. A round reduces f and g by 62 bits, and d and e by 64.
pub(crate) fn invert<M: Modulus<N>, const N: usize>(a: &[u64; N]) -> ([u64; N], u32) {
    let positive = |limbs| Signed {
        limbs,
        negative: false,
    };
    let (mut f, mut g) = (positive(M::PRIME), positive(*a));
    let (mut d, mut e) = ([0; N], std::array::from_fn(|i| u64::from(i == 0)));
    let (mut eta, mut rounds) = (-1, 0);
    while g.negative || g.limbs != [0; N] {
        let matrix = steps(&mut eta, f.limbs[0], g.limbs[0]);
        let Matrix { u, v, q, r } = matrix;
        (f, g) = (combine(u, &f, v, &g), combine(q, &f, r, &g));
        (d, e) = (
            combine_modulo::<M, N>(u, &d, v, &e),
            combine_modulo::<M, N>(q, &d, r, &e),
        );
        rounds += 1;
    }
    // The rest is the greatest common divisor with a prime: 1 or -1.
    let inverse = if f.negative { sub(&M::PRIME, &d).0 } else { d };
    (inverse, rounds)
}

/// Performs 62 steps. If g is odd, f is added to it, after the exchange (f, g = g, -f) if `eta` was
/// negative. Then g is halved. `eta` decreases by one in each step, and is negated by an exchange.
///
/// While `eta` permits no exchange, a multiple of f that clears several bits of g replaces several
/// steps.
fn steps(eta: &mut i32, mut f: u64, mut g: u64) -> Matrix {
    let (mut u, mut v, mut q, mut r) = (1, 0, 0, 1);
    let mut left = STEPS;
    loop {
        let zeros = (g | (u64::MAX << left)).trailing_zeros();
        g >>= zeros;
        (u, v) = (u << zeros, v << zeros);
        *eta -= zeros as i32;
        left -= zeros;
        if left == 0 {
            return Matrix { u, v, q, r };
        }
        if *eta < 0 {
            *eta = -*eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, -u);
            (v, r) = (r, -v);
        }
        // The factor -g/f modulo 2^6: f is its own inverse modulo 8, and one Newton iteration
        // doubles the number of bits.
        let bits = (*eta as u32 + 1).min(left).min(6);
        let inverse = f.wrapping_mul(2u64.wrapping_sub(f.wrapping_mul(f)));
        let factor = inverse.wrapping_mul(g).wrapping_neg() & ((1 << bits) - 1);
        g = g.wrapping_add(f.wrapping_mul(factor));
        q += u * factor as i64;
        r += v * factor as i64;
    }
}

/// Returns (u·f + v·g) / 2^62, which is an integer no longer than f and g.
#[inline(always)]
fn combine<const N: usize>(u: i64, f: &Signed<N>, v: i64, g: &Signed<N>) -> Signed<N> {
    let (sum, mut top) = products(u, &f.limbs, v, &g.limbs);
    top -= u * i64::from(f.negative) + v * i64::from(g.negative);
    Signed {
        limbs: shift_right(&sum, top as u64, STEPS),
        negative: top < 0,
    }
}

/// Returns (u·d + v·e) / 2^64 modulo the prime, for d and e below it.
#[inline(always)]
fn combine_modulo<M: Modulus<N>, const N: usize>(
    u: i64,
    d: &[u64; N],
    v: i64,
    e: &[u64; N],
) -> [u64; N] {
    let (sum, top) = products(u, d, v, e);
    let (mut limbs, carry) = M::drop_limb(sum);
    // The value is from -2^62 to 2^62 times the prime, plus up to 2^64 times the prime, divided by
    // 2^64.
    let high = i128::from(top) + i128::from(carry);
    limbs[N - 1] = high as u64;
    if high < 0 {
        return add(&limbs, &M::PRIME).0;
    }
    let (difference, borrow) = sub(&limbs, &M::PRIME);
    match (high >> 64, borrow) {
        (0, 1) => limbs,
        _ => difference,
    }
}

/// Returns u·a + v·b: the lowest N limbs, and the signed limb above them.
#[inline(always)]
fn products<const N: usize>(u: i64, a: &[u64; N], v: i64, b: &[u64; N]) -> ([u64; N], i64) {
    let (mut sum, mut carry) = ([0; N], 0);
    for i in 0..N {
        let product = |x: i64, y: u64| i128::from(x) * i128::from(y);
        carry += product(u, a[i]) + product(v, b[i]);
        sum[i] = carry as u64;
        carry >>= 64;
    }
    (sum, carry as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest prime of 64 bits.
    #[derive(Clone, Copy, Debug)]
    struct Small;

    impl Modulus<1> for Small {
        const PRIME: [u64; 1] = [u64::MAX - 58];
    }

    fn is_inverted(a: u64) -> bool {
        let prime = u128::from(Small::PRIME[0]);
        let ([inverse], fours) = invert::<Small, 1>(&[a]);
        let product = u128::from(a) * u128::from(inverse) % prime;
        inverse < Small::PRIME[0] && (product << (2 * fours)) % prime == 1
    }

    #[test]
    fn small_numbers_and_large_ones_and_powers_of_two() {
        for a in 1..50_000 {
            assert!(is_inverted(a), "{a}");
            assert!(is_inverted(Small::PRIME[0] - a), "-{a}");
        }
        for shift in 0..64 {
            for a in [1 << shift, (1 << shift) + 1, u64::MAX >> shift] {
                let a = a % Small::PRIME[0];
                assert!(a == 0 || is_inverted(a), "{a}");
            }
        }
    }
}
