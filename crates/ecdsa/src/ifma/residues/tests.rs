use std::arch::x86_64::_mm512_set_epi64;

use proptest::prelude::*;

use super::*;
use crate::curve::{P256Field, P384Field};
use crate::digits::split;
use crate::ifma::Ifma;
use crate::integer::{add, bits, less, sub};
use crate::modulus::{Modulus, reduce_once};

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
fn columns<M: Digits<N, L>, const N: usize, const L: usize>() -> impl Strategy<Value = Vec<[i64; L]>>
{
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
fn load<M: Digits<N, L>, const N: usize, const L: usize>(all: &[[u64; N]]) -> Residues<M, N, L> {
    let mut limbs = [_mm512_setzero_si512(); N];
    for (i, limb) in limbs.iter_mut().enumerate() {
        *limb = vector(|lane| all[lane][i]);
    }
    Residues::load(&limbs)
}

/// Returns the unreduced numbers by lane.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn digits<M, const N: usize, const L: usize>(residues: &Residues<M, N, L>) -> [[u64; L]; LANES] {
    let by_digit = residues.digits.map(|digit| lanes(digit));
    std::array::from_fn(|lane| by_digit.map(|digit| digit[lane]))
}

/// A loaded number is shifted, and a stored number is the original. R times a product equals the
/// result of long multiplication. Values computed from products agree, too.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn products_agree<M: Digits<N, L>, const N: usize, const L: usize>(a: &[[u64; N]], b: &[[u64; N]]) {
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
        let negative = |number: &[u64; N]| product::<M, N>(number, &sub(&M::PRIME, &small(1)).0);
        let of = |residue: &Residue<M, N>| product::<M, N>(residue.montgomery(), &power);
        assert_eq!(stored[lane].montgomery(), a);
        let ab = product::<M, N>(a, b);
        assert_eq!(of(&product_of_all[lane]), ab);
        let [a_less, b_less] = [a, b].map(|number| negative(&product::<M, N>(number, &power)));
        let expected = plus::<M, N>(&plus::<M, N>(&a_less, &a_less), &plus::<M, N>(&ab, &b_less));
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
