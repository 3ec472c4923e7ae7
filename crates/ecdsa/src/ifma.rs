//! Eight sums of points at once, with AVX-512 IFMA. Each vector has the same digit of eight numbers
//! in its lanes. No lane depends on the carries of another lane.
//!
//! Integers modulo a prime have Montgomery form with R = 2^(52·L), and several forms of digits.
//! [`Residues`] have digits of 52 bits; only these can be multiplied. A [`Product`], its reduction
//! ([`Columns`]) and their differences have columns of 64 bits with a sign, each less than 2^59
//! from zero. Columns become digits once, at the end.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm_cvtsi64_si128, _mm256_extract_epi64, _mm512_add_epi64, _mm512_and_si512,
    _mm512_extracti64x4_epi64, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64, _mm512_mask_mov_epi64,
    _mm512_mullo_epi64, _mm512_or_si512, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_sllv_epi64, _mm512_sra_epi64, _mm512_srai_epi64, _mm512_srlv_epi64, _mm512_sub_epi64,
};
use std::array::from_fn;
use std::marker::PhantomData;

use crate::curve::Curve;
use crate::digits::{BITS, Digits, MASK, join};
use crate::point::{Affine, XCoordinate};
use crate::residue::Residue;

/// Number of lanes in a vector.
pub(crate) const LANES: usize = 8;

/// Proof that the processor has the required instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma(());

impl Ifma {
    /// Returns the proof if the processor has the instructions.
    pub(crate) fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma");
        has_all.then_some(Self(()))
    }

    /// Returns the sum of each lane's terms; `None` if there are no terms, or if an addition met an
    /// exception.
    pub(crate) fn sums<C, const N: usize, const L: usize>(
        self,
        terms: &[Vec<Affine<C, N>>; LANES],
    ) -> [Option<XCoordinate<C, N>>; LANES]
    where
        C: Curve<N>,
        C::Field: Digits<N, L>,
    {
        // SAFETY: an `Ifma` exists only if the processor has all three features.
        unsafe { sums(terms) }
    }
}

/// The eight x or y coordinates.
type Coordinates<C, const N: usize, const L: usize> = Residues<<C as Curve<N>>::Field, N, L>;

/// Points in affine coordinates.
struct Affines<C: Curve<N>, const N: usize, const L: usize> {
    x: Coordinates<C, N, L>,
    y: Coordinates<C, N, L>,
}

/// Points in the coordinates of [`Xyzz`](crate::point::Xyzz).
struct Xyzzs<C: Curve<N>, const N: usize, const L: usize> {
    x: Coordinates<C, N, L>,
    y: Coordinates<C, N, L>,
    zz: Coordinates<C, N, L>,
    zzz: Coordinates<C, N, L>,
}

/// See [`Ifma::sums`].
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sums<C, const N: usize, const L: usize>(
    terms: &[Vec<Affine<C, N>>; LANES],
) -> [Option<XCoordinate<C, N>>; LANES]
where
    C: Curve<N>,
    C::Field: Digits<N, L>,
{
    let mut sums = Xyzzs::<C, N, L>::from(&Affines::load(terms, 0));
    let longest = terms.iter().map(Vec::len).max().unwrap_or(0);
    for place in 1..longest {
        let sum = sums.add(&Affines::load(terms, place));
        let mut mask = 0;
        for (lane, terms) in terms.iter().enumerate() {
            mask |= u8::from(place < terms.len()) << lane;
        }
        sums = sum.or(&sums, mask);
    }
    let (x, zz) = (sums.x.store(), sums.zz.store());
    from_fn(|lane| {
        let (x, zz) = (x[lane], zz[lane]);
        let is_sum = !terms[lane].is_empty() && !zz.is_zero();
        is_sum.then_some(XCoordinate { x, zz })
    })
}

impl<C, const N: usize, const L: usize> Affines<C, N, L>
where
    C: Curve<N>,
    C::Field: Digits<N, L>,
{
    /// Loads the term at this position of each lane; zeros for a lane without this term.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn load(terms: &[Vec<Affine<C, N>>; LANES], place: usize) -> Self {
        let none = Affine {
            x: Residue::ZERO,
            y: Residue::ZERO,
        };
        let terms: [&Affine<C, N>; LANES] = from_fn(|lane| terms[lane].get(place).unwrap_or(&none));
        Self {
            x: load(&terms.map(|term| &term.x)),
            y: load(&terms.map(|term| &term.y)),
        }
    }
}

impl<C, const N: usize, const L: usize> Xyzzs<C, N, L>
where
    C: Curve<N>,
    C::Field: Digits<N, L>,
{
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn from(points: &Affines<C, N, L>) -> Self {
        let one = load(&[&Residue::ONE; LANES]);
        Self {
            x: points.x.times(&one).carry(),
            y: points.y.times(&one).carry(),
            zz: one,
            zzz: one,
        }
    }

    /// Adds points like [`Xyzz::add`](crate::point::Xyzz::add). If x is equal, P and therefore ZZ
    /// become zero, and stay zero in further additions: one check at the end is enough.
    ///
    /// Loaded values are only multiplied. All stored values are below 2·p, so that no product
    /// exceeds 3·p, and no value to be reduced is further than 10·p from zero.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn add(&self, other: &Affines<C, N, L>) -> Self {
        let p = other.x.times(&self.zz).minus(&self.x).reduce();
        let r = other.y.times(&self.zzz).minus(&self.y).reduce();
        let pp = p.square().montgomery().carry();
        let ppp = p.times(&pp).carry();
        let q = self.x.times(&pp).carry();
        let x = r
            .square()
            .montgomery()
            .minus(&ppp)
            .minus(&q)
            .minus(&q)
            .reduce();
        let y = r.product(&q.minus(&x).reduce());
        Self {
            x,
            y: y.minus(&self.y.product(&ppp)).montgomery().reduce(),
            zz: self.zz.times(&pp).carry(),
            zzz: self.zzz.times(&ppp).carry(),
        }
    }

    /// Selects these values for set bits of the mask, and `others` for clear bits.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn or(self, others: &Self, mask: u8) -> Self {
        Self {
            x: self.x.or(&others.x, mask),
            y: self.y.or(&others.y, mask),
            zz: self.zz.or(&others.zz, mask),
            zzz: self.zzz.or(&others.zzz, mask),
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn load<M: Digits<N, L>, const N: usize, const L: usize>(
    residues: &[&Residue<M, N>; LANES],
) -> Residues<M, N, L> {
    let mut limbs: [__m512i; N] = [_mm512_setzero_si512(); N];
    let [a, b, c, d, e, f, g, h] = residues.map(Residue::montgomery);
    for (i, limb) in limbs.iter_mut().enumerate() {
        *limb = _mm512_set_epi64(
            h[i].cast_signed(),
            g[i].cast_signed(),
            f[i].cast_signed(),
            e[i].cast_signed(),
            d[i].cast_signed(),
            c[i].cast_signed(),
            b[i].cast_signed(),
            a[i].cast_signed(),
        );
    }
    Residues::load(&limbs)
}

/// Integers below R whose digits are below 2^52.
///
/// The integers may exceed the prime, but each has a bound. The product of a and b is below a·b/R +
/// p. Because p is below R/16, the product of two numbers below 4·p is below 2·p, and the product
/// of any number and one below 2·p is below 3·p.
#[derive(Clone, Copy)]
struct Residues<M, const N: usize, const L: usize> {
    digits: [__m512i; L],
    modulus: PhantomData<M>,
}

/// The product of two residues, or the difference of two products, in twice as many columns.
#[derive(Clone, Copy)]
struct Product<M, const N: usize, const L: usize> {
    low: [__m512i; L],
    high: [__m512i; L],
    modulus: PhantomData<M>,
}

/// Integers less than 64·2^(64·N) from zero.
#[derive(Clone, Copy)]
struct Columns<M, const N: usize, const L: usize> {
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
    fn load(limbs: &[__m512i; N]) -> Self {
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
    fn store(&self) -> [Residue<M, N>; LANES] {
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
    fn times(&self, other: &Self) -> Columns<M, N, L> {
        self.product(other).montgomery()
    }

    /// Returns the square, not divided by R. The product of two different digits is computed once
    /// and doubled.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn square(&self) -> Product<M, N, L> {
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
    fn product(&self, other: &Self) -> Product<M, N, L> {
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
    fn minus(&self, other: &Self) -> Columns<M, N, L> {
        Columns::new(self.digits).minus(other)
    }

    /// Selects these values for set bits of the mask, and `others` for clear bits.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn or(mut self, others: &Self, mask: u8) -> Self {
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
    fn minus(mut self, other: &Self) -> Self {
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
    fn montgomery(mut self) -> Columns<M, N, L> {
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
    fn minus(mut self, other: &Residues<M, N, L>) -> Self {
        for (column, other) in self.columns.iter_mut().zip(other.digits) {
            *column = _mm512_sub_epi64(*column, other);
        }
        self
    }

    /// Returns the digits of integers from 0 to R.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn carry(self) -> Residues<M, N, L> {
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
    fn reduce(mut self) -> Residues<M, N, L> {
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::curve::{P256Field, P384Field};
    use crate::digits::split;
    use crate::integer::{add, bits, less, sub};
    use crate::residue::{Modulus, reduce_once};

    fn small<const N: usize>(number: u64) -> [u64; N] {
        std::array::from_fn(|i| if i == 0 { number } else { 0 })
    }

    /// Returns a + b modulo the prime, for numbers below it.
    fn plus<M: Modulus<N>, const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
        let (sum, carry) = add(a, b);
        reduce_once(sum, carry, &M::PRIME)
    }

    /// Returns the product modulo the prime, computed bit by bit.
    fn product<M: Modulus<N>, const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
        (0..64 * N).rev().fold([0; N], |product, bit| {
            let double = plus::<M, N>(&product, &product);
            match bits(b, bit, 1) {
                0 => double,
                _ => plus::<M, N>(&double, a),
            }
        })
    }

    /// Returns the sum of columns modulo the prime, starting with the most significant column.
    fn value<M: Modulus<N>, const N: usize>(columns: &[i64]) -> [u64; N] {
        columns.iter().rev().fold([0; N], |sum, column| {
            let shifted = (0..BITS).fold(sum, |sum, _| plus::<M, N>(&sum, &sum));
            let size = small(column.unsigned_abs());
            if column.is_negative() {
                plus::<M, N>(&shifted, &sub(&M::PRIME, &size).0)
            } else {
                plus::<M, N>(&shifted, &size)
            }
        })
    }

    /// Generates limbs, mostly at the ends of their range.
    fn limb() -> impl Strategy<Value = u64> {
        let near = |number: u64| (0..3_u64).prop_map(move |by| number.wrapping_sub(by));
        prop_oneof![near(1), near(u64::MAX), near(1 << 32), any::<u64>()]
    }

    /// Generates numbers in each lane, all below the prime.
    fn residues<M: Modulus<N>, const N: usize>() -> impl Strategy<Value = Vec<[u64; N]>> {
        let below = |mut limbs: [u64; N]| {
            while !less(&limbs, &M::PRIME) {
                limbs = sub(&limbs, &M::PRIME).0;
            }
            limbs
        };
        let near = (1..4_u64).prop_map(|by| sub(&M::PRIME, &small(by)).0);
        let any = prop::array::uniform::<_, N>(limb());
        prop::collection::vec(prop_oneof![4 => any, 1 => near].prop_map(below), LANES)
    }

    /// Generates columns up to their maximum size. The top column is first a multiple of 2^(64·N).
    fn columns<M: Digits<N, L>, const N: usize, const L: usize>()
    -> impl Strategy<Value = Vec<[i64; L]>> {
        const LARGEST: i64 = (1 << 59) - 1;
        let column = prop_oneof![Just(LARGEST), Just(-LARGEST), Just(0), -LARGEST..=LARGEST];
        let multiple = prop_oneof![Just(-63), Just(62), Just(0), Just(-1), -63..=62_i64];
        let rest = prop_oneof![
            Just(0),
            Just((1 << M::TOP) - 1),
            Just(1 << (M::TOP / 2)),
            0..1_i64 << M::TOP
        ];
        let lanes = (prop::array::uniform::<_, L>(column), multiple, rest);
        let lanes = lanes.prop_map(|(mut columns, multiple, rest)| {
            columns[L - 1] = (multiple << M::TOP) + rest;
            columns
        });
        prop::collection::vec(lanes, LANES)
    }

    #[target_feature(enable = "avx512f")]
    fn vector(number: impl Fn(usize) -> u64) -> __m512i {
        let of = |lane| number(lane).cast_signed();
        _mm512_set_epi64(of(7), of(6), of(5), of(4), of(3), of(2), of(1), of(0))
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn load<M: Digits<N, L>, const N: usize, const L: usize>(
        all: &[[u64; N]],
    ) -> Residues<M, N, L> {
        let mut limbs = [_mm512_setzero_si512(); N];
        for (i, limb) in limbs.iter_mut().enumerate() {
            *limb = vector(|lane| all[lane][i]);
        }
        Residues::load(&limbs)
    }

    /// Returns the unreduced numbers by lane.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn digits<M, const N: usize, const L: usize>(
        residues: &Residues<M, N, L>,
    ) -> [[u64; L]; LANES] {
        let by_digit = residues.digits.map(|digit| lanes(digit));
        std::array::from_fn(|lane| by_digit.map(|digit| digit[lane]))
    }

    /// A loaded number is shifted, and a stored number is the original. R times a product equals
    /// the result of long multiplication. Values computed from products agree, too.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn products_agree<M: Digits<N, L>, const N: usize, const L: usize>(
        a: &[[u64; N]],
        b: &[[u64; N]],
    ) {
        let (loaded, one) = (
            load::<M, N, L>(a),
            load(&[*Residue::<M, N>::ONE.montgomery(); LANES]),
        );
        let (x, y) = (loaded.times(&one).carry(), load(b).times(&one).carry());
        let product_of_all = loaded.times(&y).carry().store();
        let times = x.times(&y);
        // Values as large and as small as in point additions.
        let less = times.minus(&x).minus(&x).minus(&y).reduce().store();
        let squared = x.minus(&y).reduce();
        let squared = squared.square().minus(&x.product(&y));
        let squared = squared.montgomery().reduce().store();
        let power: [u64; N] = sub(&[0; N], &M::PRIME).0;
        let stored = loaded.store();
        for lane in 0..LANES {
            let (a, b) = (&a[lane], &b[lane]);
            let negative =
                |number: &[u64; N]| product::<M, N>(number, &sub(&M::PRIME, &small(1)).0);
            let of = |residue: &Residue<M, N>| product::<M, N>(residue.montgomery(), &power);
            assert_eq!(stored[lane].montgomery(), a);
            let ab = product::<M, N>(a, b);
            assert_eq!(of(&product_of_all[lane]), ab);
            let [a_less, b_less] = [a, b].map(|number| negative(&product::<M, N>(number, &power)));
            let expected =
                plus::<M, N>(&plus::<M, N>(&a_less, &a_less), &plus::<M, N>(&ab, &b_less));
            assert_eq!(of(&less[lane]), expected);
            let difference = plus::<M, N>(a, &negative(b));
            let square = product::<M, N>(&difference, &difference);
            assert_eq!(of(&squared[lane]), plus::<M, N>(&square, &negative(&ab)));
        }
    }

    /// The product of the largest digits has the largest permitted columns.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn largest_product<M: Digits<N, L>, const N: usize, const L: usize>() {
        let largest = Residues::<M, N, L>::new([splat(MASK); L]);
        let product = largest.product(&largest);
        for difference in [product, Product::zero().minus(&product)] {
            for column in difference.montgomery().columns {
                let size = |column: &u64| column.cast_signed().unsigned_abs();
                assert!(lanes(column).iter().all(|column| size(column) < 1 << 59));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn reductions_agree<M: Digits<N, L>, const N: usize, const L: usize>(all: &[[i64; L]]) {
        let mut columns = [_mm512_setzero_si512(); L];
        for (i, column) in columns.iter_mut().enumerate() {
            *column = vector(|lane| all[lane][i].cast_unsigned());
        }
        let reduced = digits(&Columns::<M, N, L>::new(columns).reduce());
        for (digits, columns) in reduced.iter().zip(all) {
            assert!(digits.iter().all(|digit| *digit <= MASK), "{columns:x?}");
            let top = 1 << M::TOP;
            assert!(digits[L - 1] < top + top / 500, "{columns:x?}");
            let signed = digits.map(u64::cast_signed);
            assert_eq!(
                value::<M, N>(&signed),
                value::<M, N>(columns),
                "{columns:x?}"
            );
            let (limbs, above) = join::<N, L>(digits);
            assert!(above <= 1);
            assert_eq!(split::<N, L>(&limbs)[..L - 1], digits[..L - 1]);
        }
    }

    /// Runs a test if the processor supports it.
    fn with_ifma(test: impl FnOnce()) {
        match Ifma::detect() {
            Some(_) => test(),
            None => eprintln!("not tested: this processor has no AVX-512 IFMA"),
        }
    }

    #[test]
    fn no_product_is_too_large() {
        // SAFETY: the processor has the instructions.
        with_ifma(|| unsafe {
            largest_product::<P256Field, 4, 5>();
            largest_product::<P384Field, 6, 8>();
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn products_are_those_of_long_multiplication(
            a in residues::<P256Field, 4>(), b in residues::<P256Field, 4>(),
        ) {
            // SAFETY: the processor has the instructions.
            with_ifma(|| unsafe { products_agree::<P256Field, 4, 5>(&a, &b) });
        }

        #[test]
        fn products_are_those_of_long_multiplication_for_p384(
            a in residues::<P384Field, 6>(), b in residues::<P384Field, 6>(),
        ) {
            // SAFETY: as above.
            with_ifma(|| unsafe { products_agree::<P384Field, 6, 8>(&a, &b) });
        }

        #[test]
        fn columns_of_any_size_are_reduced(all in columns::<P256Field, 4, 5>()) {
            // SAFETY: as above.
            with_ifma(|| unsafe { reductions_agree::<P256Field, 4, 5>(&all) });
        }

        #[test]
        fn columns_of_any_size_are_reduced_for_p384(all in columns::<P384Field, 6, 8>()) {
            // SAFETY: as above.
            with_ifma(|| unsafe { reductions_agree::<P384Field, 6, 8>(&all) });
        }
    }
}
