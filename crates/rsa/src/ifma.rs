//! Montgomery multiplication with AVX-512 IFMA.
//!
//! For a modulus n of L digits of 52 bits, and R = 2^(52·L), a multiplication returns a·b/R modulo
//! n. Both factors and the product are below 2n, not n: because R is above 4n, (a·b + q·n)/R, where
//! q is below R, is less than (4n² + R·n)/R < 2n, and multiplications need no comparisons in
//! between.
//!
//! For each digit of b, its product with a is added to L columns. Then the multiple q of n is added
//! that makes the lowest column divisible by 2^52, and the columns move down by one. A vector holds
//! eight columns of 64 bits. Each digit adds less than 4·2^52 to a column, and a column stays for
//! at most L ≤ 80 digits, so that no column overflows.
//!
//! The next q depends on the lowest column, and everything else depends on q. The contribution of
//! the last q to the lowest column (one digit of n, and the upper half of another) is therefore
//! computed in a register, outside the vectors, where digits 0 and 1 are zero instead. The vectors'
//! own part of that column is final one digit earlier: it is read (`next`) as soon as it includes
//! the lower halves of the products of a.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm_extract_epi64, _mm512_alignr_epi64, _mm512_castsi512_si128, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_set1_epi64, _mm512_setzero_si512,
};

use crate::number::{self, BITS, Lanes, MASK, Number};

/// Proof that the processor has the required instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma(());

impl Ifma {
    /// Returns the proof if the processor has the instructions.
    pub(crate) fn detect() -> Option<Self> {
        let has_both =
            is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        has_both.then_some(Self(()))
    }

    /// Returns `a * b / R` modulo `n`, below 2n, for `a` and `b` below 2n. `inverse` is -1/n modulo
    /// 2^52.
    #[inline]
    pub(crate) fn multiply<const V: usize>(
        self,
        a: &Number<V>,
        b: &Number<V>,
        n: &Number<V>,
        inverse: u64,
    ) -> Number<V> {
        // SAFETY: an `Ifma` exists only if the processor has both features.
        unsafe { multiply(a, b, n, inverse) }
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply<const V: usize>(
    a: &Number<V>,
    b: &Number<V>,
    n: &Number<V>,
    inverse: u64,
) -> Number<V> {
    let (a0, n0, n1) = (a[0][0], n[0][0], n[0][1]);
    let a = without(1, a).map(vector);
    let n_low = without(2, n).map(vector);
    let n_high = without(1, n).map(vector);

    let mut columns = [_mm512_setzero_si512(); V];
    // The lowest column: the part in the vectors, and the part outside them.
    let (mut lowest, mut beside) = (0, 0);
    for &digit in b.as_flattened() {
        let by = _mm512_set1_epi64(digit.cast_signed());
        for j in 0..V {
            columns[j] = _mm512_madd52lo_epu64(columns[j], a[j], by);
        }
        let next = _mm_extract_epi64::<1>(_mm512_castsi512_si128(columns[0])).cast_unsigned();

        let sum = lowest + low(a0, digit) + beside;
        let q = low(sum, inverse);
        // The product of q and n0 clears the lower digit of the sum, and carries unless it was
        // zero.
        let carried = (sum >> BITS) + u64::from(sum & MASK != 0);
        beside = carried + high(a0, digit) + (high(n0, q) + low(n1, q));
        lowest = next;

        let q = _mm512_set1_epi64(q.cast_signed());
        let mut above = _mm512_setzero_si512();
        for j in (0..V).rev() {
            let column = _mm512_madd52lo_epu64(columns[j], n_low[j], q);
            let moved = _mm512_alignr_epi64::<1>(above, column);
            let moved = _mm512_madd52hi_epu64(moved, a[j], by);
            columns[j] = _mm512_madd52hi_epu64(moved, n_high[j], q);
            above = column;
        }
    }
    let mut product = columns.map(lanes);
    product[0][0] += beside;
    number::carry(&mut product);
    product
}

/// Returns the lower digit of a product.
fn low(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) & MASK
}

/// Returns the upper digit of a product of digits.
fn high(a: u64, b: u64) -> u64 {
    // Shifted, so that the upper digit is the upper half of the 128-bit product.
    let a = u128::from(a << (u64::BITS - BITS));
    ((a * u128::from(b)) >> u64::BITS) as u64
}

/// Returns the number with its first few digits set to zero.
fn without<const V: usize>(few: usize, number: &Number<V>) -> Number<V> {
    let mut number = *number;
    number[0][..few].fill(0);
    number
}

fn vector(lanes: Lanes) -> __m512i {
    // SAFETY: both types are 64 bytes, and every value is valid.
    unsafe { std::mem::transmute(lanes) }
}

fn lanes(vector: __m512i) -> Lanes {
    // SAFETY: as above.
    unsafe { std::mem::transmute(vector) }
}
