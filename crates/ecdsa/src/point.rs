//! Points of a curve, and the two operations that tables and verification need.

use crate::curve::Curve;
use crate::residue::Residue;

pub(crate) type Coordinate<C, const N: usize> = Residue<<C as Curve<N>>::Field, N>;

/// A point by its coordinates; the point at infinity has none.
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

    /// An uncompressed point (SEC 1, section 2.3.4). None if it is anything else, or not on the
    /// curve. The order of both curves is prime, so that no further check is needed.
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

/// A point (X/Z², Y/Z³), not the one at infinity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jacobian<C: Curve<N>, const N: usize> {
    pub(crate) x: Coordinate<C, N>,
    pub(crate) y: Coordinate<C, N>,
    pub(crate) z: Coordinate<C, N>,
}

impl<C: Curve<N>, const N: usize> From<Affine<C, N>> for Jacobian<C, N> {
    fn from(point: Affine<C, N>) -> Self {
        Self {
            x: point.x,
            y: point.y,
            z: Residue::ONE,
        }
    }
}

impl<C: Curve<N>, const N: usize> Jacobian<C, N> {
    /// Twice this point, by a = -3. No point of a curve of odd order is its own negative.
    pub(crate) fn double(&self) -> Self {
        let delta = self.z.square();
        let gamma = self.y.square();
        let beta = self.x.mul(&gamma);
        let product = self.x.sub(&delta).mul(&self.x.add(&delta));
        let alpha = product.double().add(&product);
        let four_beta = beta.double().double();
        let x = alpha.square().sub(&four_beta.double());
        let z = self.y.add(&self.z).square().sub(&gamma).sub(&delta);
        let eight_gamma_squared = gamma.square().double().double().double();
        let y = alpha.mul(&four_beta.sub(&x)).sub(&eight_gamma_squared);
        Self { x, y, z }
    }

    /// The sum with a point of another x; None if x is the same, where the sum is the double or
    /// the point at infinity, and these formulas fail.
    #[inline]
    pub(crate) fn add(&self, other: &Affine<C, N>) -> Option<Self> {
        let z_squared = self.z.square();
        let h = other.x.mul(&z_squared).sub(&self.x);
        if h.is_zero() {
            return None;
        }
        let r = other.y.mul(&z_squared.mul(&self.z)).sub(&self.y);
        let h_squared = h.square();
        let h_cubed = h_squared.mul(&h);
        let v = self.x.mul(&h_squared);
        let x = r.square().sub(&h_cubed).sub(&v.double());
        let y = r.mul(&v.sub(&x)).sub(&self.y.mul(&h_cubed));
        let z = self.z.mul(&h);
        Some(Self { x, y, z })
    }
}

/// The coordinates of many points by one inversion (Montgomery's trick).
pub(crate) fn normalise<C: Curve<N>, const N: usize>(
    points: &[Jacobian<C, N>],
) -> Vec<Affine<C, N>> {
    // What each product was before the point's own Z came in.
    let mut products = Vec::with_capacity(points.len());
    let mut product = Residue::ONE;
    for point in points {
        products.push(product);
        product = product.mul(&point.z);
    }
    let mut inverse = product.invert();
    let mut affine: Vec<_> = points
        .iter()
        .zip(products)
        .rev()
        .map(|(point, before)| {
            let z = inverse.mul(&before);
            inverse = inverse.mul(&point.z);
            let z_squared = z.square();
            Affine {
                x: point.x.mul(&z_squared),
                y: point.y.mul(&z_squared.mul(&z)),
            }
        })
        .collect();
    affine.reverse();
    affine
}
