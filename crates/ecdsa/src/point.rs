//! Points of a curve, and the two operations for tables and verification: doubling and addition.

use crate::curve::Curve;
use crate::integer::{add, less};
use crate::modulus::Modulus;
use crate::residue::Residue;

pub(crate) type Coordinate<C, const N: usize> = Residue<<C as Curve<N>>::Field, N>;

/// A point in affine coordinates; the point at infinity has no affine coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine<C: Curve<N>, const N: usize> {
    pub(crate) x: Coordinate<C, N>,
    pub(crate) y: Coordinate<C, N>,
}

impl<C: Curve<N>, const N: usize> Affine<C, N> {
    pub(crate) fn generator() -> Self {
        let (x, y) = C::GENERATOR;
        Self {
            x: Residue::new(x),
            y: Residue::new(y),
        }
    }

    /// Parses an uncompressed point (SEC 1, section 2.3.4). Returns `None` for other encodings, and
    /// for points that are not on the curve. Both curves have prime order, so that no further check
    /// is needed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&4, coordinates) = bytes.split_first()? else {
            return None;
        };
        if coordinates.len() != 16 * N {
            return None;
        }
        let (x, y) = coordinates.split_at(8 * N);
        let (x, y) = (Residue::from_bytes(x)?, Residue::from_bytes(y)?);
        let three_x = x.double().add(&x);
        let right = x.square().mul(&x).sub(&three_x).add(&Residue::new(C::B));
        (y.square() == right).then_some(Self { x, y })
    }

    pub(crate) fn negate_if(&self, negative: bool) -> Self {
        Self {
            x: self.x,
            y: if negative { self.y.negate() } else { self.y },
        }
    }
}

/// A point (X/ZZ, Y/ZZZ) with ZZ³ = ZZZ², not the point at infinity. Storing two powers of Z
/// instead of Z saves one product in an addition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Xyzz<C: Curve<N>, const N: usize> {
    pub(crate) x: Coordinate<C, N>,
    pub(crate) y: Coordinate<C, N>,
    pub(crate) zz: Coordinate<C, N>,
    pub(crate) zzz: Coordinate<C, N>,
}

impl<C: Curve<N>, const N: usize> From<Affine<C, N>> for Xyzz<C, N> {
    fn from(point: Affine<C, N>) -> Self {
        Self {
            x: point.x,
            y: point.y,
            zz: Residue::ONE,
            zzz: Residue::ONE,
        }
    }
}

impl<C: Curve<N>, const N: usize> Xyzz<C, N> {
    /// Returns the doubled point, using a = -3. On a curve of odd order no point is its own
    /// negative.
    pub(crate) fn double(&self) -> Self {
        let u = self.y.double();
        let v = u.square();
        let w = u.mul(&v);
        let s = self.x.mul(&v);
        let product = self.x.sub(&self.zz).mul(&self.x.add(&self.zz));
        let m = product.double().add(&product);
        let x = m.square().sub(&s.double());
        Self {
            x,
            y: m.mul(&s.sub(&x)).sub(&w.mul(&self.y)),
            zz: v.mul(&self.zz),
            zzz: w.mul(&self.zzz),
        }
    }

    /// Returns the sum with a point of another x. Returns `None` if x is equal: the sum is then the
    /// double or the point at infinity, and these formulas fail.
    #[inline]
    pub(crate) fn add(&self, other: &Affine<C, N>) -> Option<Self> {
        let p = other.x.mul(&self.zz).sub(&self.x);
        if p.is_zero() {
            return None;
        }
        let r = other.y.mul(&self.zzz).sub(&self.y);
        let pp = p.square();
        let ppp = p.mul(&pp);
        let q = self.x.mul(&pp);
        let x = r.square().sub(&ppp).sub(&q.double());
        Some(Self {
            x,
            y: r.mul(&q.sub(&x)).sub(&self.y.mul(&ppp)),
            zz: self.zz.mul(&pp),
            zzz: self.zzz.mul(&ppp),
        })
    }
}

/// Returns the affine coordinates of many points with one inversion.
pub(crate) fn normalise<C: Curve<N>, const N: usize>(points: &[Xyzz<C, N>]) -> Vec<Affine<C, N>> {
    let inverses = Residue::invert_all(points.iter().map(|point| point.zzz));
    let coordinates = |(point, by_zzz): (&Xyzz<C, N>, &Coordinate<C, N>)| {
        let by_z = by_zzz.mul(&point.zz);
        Affine {
            x: point.x.mul(&by_z.square()),
            y: point.y.mul(by_zzz),
        }
    };
    points.iter().zip(&inverses).map(coordinates).collect()
}

/// The x coordinate of a point, X/ZZ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XCoordinate<C: Curve<N>, const N: usize> {
    pub(crate) x: Coordinate<C, N>,
    pub(crate) zz: Coordinate<C, N>,
}

impl<C: Curve<N>, const N: usize> From<Xyzz<C, N>> for XCoordinate<C, N> {
    fn from(point: Xyzz<C, N>) -> Self {
        let Xyzz { x, zz, .. } = point;
        Self { x, zz }
    }
}

impl<C: Curve<N>, const N: usize> XCoordinate<C, N> {
    /// Returns `true` if x is `r` modulo the order n. Because x is below the field's prime p, x
    /// must be r, or r + n if r + n is below p. The comparison avoids the division by ZZ.
    pub(crate) fn is(&self, r: &[u64; N]) -> bool {
        let is = |x: [u64; N]| Residue::new(x).mul(&self.zz) == self.x;
        if is(*r) {
            return true;
        }
        let (larger, carry) = add(r, &C::Order::PRIME);
        carry == 0 && less(&larger, &C::Field::PRIME) && is(larger)
    }
}
