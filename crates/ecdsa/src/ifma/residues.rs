//! Eight integers modulo a prime, in Montgomery form with R = 2^(52·L).
//!
//! There are several forms. [`Residues`] have digits of 52 bits; only these can be multiplied. A
//! [`Product`], its reduction ([`Columns`]) and their differences have columns of 64 bits with a
//! sign, each less than 2^59 from zero. Columns become digits once, at the end.

use std::arch::x86_64::{
    __m512i, _mm_cvtsi64_si128, _mm256_extract_epi64, _mm512_add_epi64, _mm512_and_si512,
    _mm512_extracti64x4_epi64, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_mov_epi64,
    _mm512_mullo_epi64, _mm512_or_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_sllv_epi64, _mm512_sra_epi64, _mm512_srai_epi64, _mm512_srlv_epi64, _mm512_sub_epi64,
};
use std::marker::PhantomData;

use super::LANES;
use crate::digits::{BITS, Digits, MASK, join};
use crate::residue::Residue;

/// Integers below R whose digits are below 2^52.
///
/// The integers may exceed the prime, but each has a bound. The product of a and b is below a·b/R +
/// p. Because p is below R/16, the product of two numbers below 4·p is below 2·p, and the product
/// of any number and one below 2·p is below 3·p.
#[derive(Clone, Copy)]
pub(super) struct Residues<M, const N: usize, const L: usize> {
    digits: [__m512i; L],
    modulus: PhantomData<M>,
}

/// The product of two residues, or the difference of two products, in twice as many columns.
#[derive(Clone, Copy)]
pub(super) struct Product<M, const N: usize, const L: usize> {
    low: [__m512i; L],
    high: [__m512i; L],
    modulus: PhantomData<M>,
}

/// Integers less than 64·2^(64·N) from zero.
#[derive(Clone, Copy)]
pub(super) struct Columns<M, const N: usize, const L: usize> {
    columns: [__m512i; L],
    modulus: PhantomData<M>,
}

impl<M: Digits<N, L>, const N: usize, const L: usize> Residues<M, N, L> {
    fn new(digits: [__m512i; L]) -> Self {
        let modulus = PhantomData;
        Self { digits, modulus }
    }

    /// Loads residues from the limbs of their Montgomery forms. The loaded integers are below
    /// 2^[`SPARE`](Digits::SPARE) times the prime.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn load(limbs: &[__m512i; N]) -> Self {
        let mut digits = [_mm512_setzero_si512(); L];
        for (i, digit) in digits.iter_mut().enumerate() {
            for (j, limb) in limbs.iter().enumerate() {
                // Bit position of the limb in the digit.
                let at = (64 * j + M::SPARE) as i64 - (BITS * i) as i64;
                let part = match at {
                    0..52 => _mm512_sllv_epi64(*limb, _mm512_set1_epi64(at)),
                    -63..0 => _mm512_srlv_epi64(*limb, _mm512_set1_epi64(-at)),
                    _ => continue,
                };
                *digit = _mm512_or_si512(*digit, part);
            }
            *digit = _mm512_and_si512(*digit, splat(MASK));
        }
        Self::new(digits)
    }

    /// Returns the residues of all lanes.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    pub(super) fn store(&self) -> [Residue<M, N>; LANES] {
        // Multiplying by 2^(64·N) and dividing by R gives the Montgomery form of `Residue`, below
        // 2·p.
        let mut power = [_mm512_setzero_si512(); L];
        power[L - 1] = splat(1 << M::TOP);
        let digits = self.times(&Self::new(power)).carry().digits;
        let mut by_lane = [[0; L]; LANES];
        for (i, digit) in digits.into_iter().enumerate() {
            for (lane, digit) in lanes(digit).into_iter().enumerate() {
                by_lane[lane][i] = digit;
            }
        }
        by_lane.map(|digits| {
            let (limbs, above) = join(&digits);
            Residue::from_montgomery(limbs, above)
        })
    }

    /// Returns the Montgomery product.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn times(&self, other: &Self) -> Columns<M, N, L> {
        self.product(other).montgomery()
    }

    /// Returns the square, not divided by R. The product of two different digits is computed once
    /// and doubled.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn square(&self) -> Product<M, N, L> {
        let mut product = Product::zero();
        for i in 0..L {
            for j in i + 1..L {
                product.add(self.digits[i], self.digits[j], i + j);
            }
        }
        for at in 0..2 * L {
            let column = product.column(at);
            *column = _mm512_add_epi64(*column, *column);
        }
        for i in 0..L {
            product.add(self.digits[i], self.digits[i], 2 * i);
        }
        product
    }

    /// Returns the product, not divided by R.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn product(&self, other: &Self) -> Product<M, N, L> {
        let mut product = Product::zero();
        for i in 0..L {
            for j in 0..L {
                product.add(self.digits[i], other.digits[j], i + j);
            }
        }
        product
    }

    /// Returns the difference, column by column.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn minus(&self, other: &Self) -> Columns<M, N, L> {
        Columns::new(self.digits).minus(other)
    }

    /// Selects these values for set bits of the mask, and `others` for clear bits.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn or(mut self, others: &Self, mask: u8) -> Self {
        for (digit, other) in self.digits.iter_mut().zip(others.digits) {
            *digit = _mm512_mask_mov_epi64(other, mask, *digit);
        }
        self
    }
}

impl<M: Digits<N, L>, const N: usize, const L: usize> Product<M, N, L> {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn zero() -> Self {
        let zero = [_mm512_setzero_si512(); L];
        Self {
            low: zero,
            high: zero,
            modulus: PhantomData,
        }
    }

    #[inline(always)]
    fn column(&mut self, at: usize) -> &mut __m512i {
        if at < L {
            &mut self.low[at]
        } else {
            &mut self.high[at - L]
        }
    }

    /// Adds the product of two digits to this column and the next column.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn add(&mut self, a: __m512i, b: __m512i, at: usize) {
        let low = self.column(at);
        *low = _mm512_madd52lo_epu64(*low, a, b);
        let high = self.column(at + 1);
        *high = _mm512_madd52hi_epu64(*high, a, b);
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn subtract(&mut self, less: __m512i, at: usize) {
        let column = self.column(at);
        *column = _mm512_sub_epi64(*column, less);
    }

    /// Returns the difference, column by column.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn minus(mut self, other: &Self) -> Self {
        for at in 0..L {
            self.low[at] = _mm512_sub_epi64(self.low[at], other.low[at]);
            self.high[at] = _mm512_sub_epi64(self.high[at], other.high[at]);
        }
        self
    }

    /// Returns the product divided by R modulo the prime (Montgomery reduction). Column by column,
    /// the multiple of the prime is added that clears the lowest 52 bits, and the rest is carried.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn montgomery(mut self) -> Columns<M, N, L> {
        let zero = _mm512_setzero_si512();
        for i in 0..L {
            let lowest = *self.column(i);
            let factor = match M::NEGATED_INVERSE_DIGIT {
                1 => _mm512_and_si512(lowest, splat(MASK)),
                inverse => _mm512_madd52lo_epu64(zero, lowest, splat(inverse)),
            };
            for (j, digit) in M::SIGNED_DIGITS.into_iter().enumerate() {
                let size = splat(digit.unsigned_abs());
                match digit {
                    0 => {}
                    -1 => self.subtract(factor, i + j),
                    1.. => self.add(factor, size, i + j),
                    _ => {
                        self.subtract(_mm512_madd52lo_epu64(zero, factor, size), i + j);
                        self.subtract(_mm512_madd52hi_epu64(zero, factor, size), i + j + 1);
                    }
                }
            }
            let carry = _mm512_srai_epi64::<{ BITS as u32 }>(*self.column(i));
            *self.column(i + 1) = _mm512_add_epi64(*self.column(i + 1), carry);
        }
        Columns::new(self.high)
    }
}

impl<M: Digits<N, L>, const N: usize, const L: usize> Columns<M, N, L> {
    fn new(columns: [__m512i; L]) -> Self {
        let modulus = PhantomData;
        Self { columns, modulus }
    }

    /// Returns the difference, column by column.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn minus(mut self, other: &Residues<M, N, L>) -> Self {
        for (column, other) in self.columns.iter_mut().zip(other.digits) {
            *column = _mm512_sub_epi64(*column, other);
        }
        self
    }

    /// Returns the digits of integers from 0 to R.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn carry(self) -> Residues<M, N, L> {
        let mut digits = self.columns;
        for i in 1..L {
            let carry = _mm512_srai_epi64::<{ BITS as u32 }>(digits[i - 1]);
            digits[i - 1] = _mm512_and_si512(digits[i - 1], splat(MASK));
            digits[i] = _mm512_add_epi64(digits[i], carry);
        }
        Residues::new(digits)
    }

    /// Reduces modulo the prime to a number that is not negative, and below 1.001·2^(64·N).
    ///
    /// The top column, without its lowest bits, is the nearest lower multiple k of 2^(64·N), and
    /// k·p is subtracted. The rest could be negative for two reasons: by less than 2^8 in the top
    /// column because of the other columns, and, if k is negative (k > -64), by less than
    /// 64·(2^(64·N) - p), which is 2^22 in the top column for P-256 and zero for P-384. So k is
    /// computed from a smaller top column: 2^([`TOP`](Digits::TOP)/2) is subtracted first, which is
    /// 2^24 for P-256 and 2^10 for P-384.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    pub(super) fn reduce(mut self) -> Residues<M, N, L> {
        let less = _mm512_sub_epi64(self.columns[L - 1], splat(1 << (M::TOP / 2)));
        let k = _mm512_sra_epi64(less, _mm_cvtsi64_si128(i64::from(M::TOP)));
        for (column, digit) in self.columns.iter_mut().zip(M::SIGNED_DIGITS) {
            if digit != 0 {
                let multiple = _mm512_mullo_epi64(k, _mm512_set1_epi64(digit));
                *column = _mm512_sub_epi64(*column, multiple);
            }
        }
        self.carry()
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn splat(number: u64) -> __m512i {
    _mm512_set1_epi64(number.cast_signed())
}

/// Returns the numbers in a vector.
#[target_feature(enable = "avx512f,avx512dq")]
fn lanes(vector: __m512i) -> [u64; LANES] {
    let low = _mm512_extracti64x4_epi64::<0>(vector);
    let high = _mm512_extracti64x4_epi64::<1>(vector);
    [
        _mm256_extract_epi64::<0>(low),
        _mm256_extract_epi64::<1>(low),
        _mm256_extract_epi64::<2>(low),
        _mm256_extract_epi64::<3>(low),
        _mm256_extract_epi64::<0>(high),
        _mm256_extract_epi64::<1>(high),
        _mm256_extract_epi64::<2>(high),
        _mm256_extract_epi64::<3>(high),
    ]
    .map(i64::cast_unsigned)
}

#[cfg(test)]
mod tests;
