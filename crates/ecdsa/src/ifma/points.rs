//! Eight points of a curve, and their sums.

use std::arch::x86_64::{__m512i, _mm512_set_epi64, _mm512_setzero_si512};
use std::array::from_fn;

use super::LANES;
use super::residues::Residues;
use crate::curve::Curve;
use crate::digits::Digits;
use crate::point::{Affine, XCoordinate};
use crate::residue::Residue;

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

/// See [`Ifma::sums`](super::Ifma::sums).
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(super) fn sums<C, const N: usize, const L: usize>(
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
