//! Points of a curve, the two operations for tables and verification (doubling and addition), and
//! tables of multiples.

use std::sync::LazyLock;

use crate::curve::{Curve, P256, P384};
use crate::integer::{add, bits, less};
use crate::residue::{Modulus, Residue};

type Coordinate<C, const N: usize> = Residue<<C as Curve<N>>::Field, N>;

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

/// Number of scalar bits per addition, for one key among many. A table has 2^6 multiples for each
/// window. An additional bit saves an eighth of the additions, and nearly doubles the table.
pub(crate) const MANY: usize = 7;

/// Number of scalar bits per addition, for the generator and for a key whose table stays in the
/// cache.
pub(crate) const FEW: usize = 10;

/// The multiples j·2^(wi)·P for every window i of w bits and 1 ≤ j ≤ 2^(w - 1). Digits are from 1 -
/// 2^(w - 1) to 2^(w - 1), and a negative digit is a subtraction.
#[derive(Debug)]
pub(crate) struct Table<C: Curve<N>, const N: usize, const W: usize>(Vec<Affine<C, N>>);

impl<C: Curve<N>, const N: usize, const W: usize> Table<C, N, W> {
    /// Memory of the table in bytes.
    pub(crate) const SIZE: usize = Self::WINDOWS * Self::DIGITS * size_of::<Affine<C, N>>();

    const DIGITS: usize = 1 << (W - 1);
    /// The last window has unused bits for both 256 and 384 bits, so that the last carry has room.
    const WINDOWS: usize = {
        assert!(!(64 * N).is_multiple_of(W));
        (64 * N).div_ceil(W)
    };

    pub(crate) fn new(point: Affine<C, N>) -> Self {
        let mut base = Xyzz::from(point);
        let mut bases = Vec::with_capacity(Self::WINDOWS);
        for _ in 0..Self::WINDOWS {
            bases.push(base);
            for _ in 0..W {
                base = base.double();
            }
        }
        let bases = normalise(&bases);
        let multiples: Vec<_> = bases
            .iter()
            .flat_map(|base| multiples(base, Self::DIGITS))
            .collect();
        Self(normalise(&multiples))
    }
}

/// A table of any window width.
pub(crate) trait Multiples<C: Curve<N>, const N: usize> {
    /// Collects the multiples whose sum is the product with `scalar`. All multiples are read at
    /// once, because the table is rarely in the nearest cache: additions in between would wait for
    /// each read.
    fn terms(&self, scalar: &[u64; N], terms: &mut Vec<Affine<C, N>>);
}

impl<C: Curve<N>, const N: usize, const W: usize> Multiples<C, N> for Table<C, N, W> {
    fn terms(&self, scalar: &[u64; N], terms: &mut Vec<Affine<C, N>>) {
        let mut carry = 0;
        for (window, multiples) in self.0.chunks_exact(Self::DIGITS).enumerate() {
            let digit = bits(scalar, window * W, W) as usize + carry;
            let negative = digit > Self::DIGITS;
            carry = usize::from(negative);
            let size = if negative {
                2 * Self::DIGITS - digit
            } else {
                digit
            };
            if let Some(place) = size.checked_sub(1) {
                terms.push(multiples[place].negate_if(negative));
            }
        }
    }
}

/// A curve with a table of its generator.
pub(crate) trait Tabulated<const N: usize>: Curve<N> {
    /// Returns the multiples of the generator, computed at first use.
    fn generator() -> &'static Table<Self, N, FEW>;
}

impl Tabulated<4> for P256 {
    fn generator() -> &'static Table<Self, 4, FEW> {
        static TABLE: LazyLock<Table<P256, 4, FEW>> =
            LazyLock::new(|| Table::new(Affine::generator()));
        &TABLE
    }
}

impl Tabulated<6> for P384 {
    fn generator() -> &'static Table<Self, 6, FEW> {
        static TABLE: LazyLock<Table<P384, 6, FEW>> =
            LazyLock::new(|| Table::new(Affine::generator()));
        &TABLE
    }
}

/// Returns 1 to `count` times a point.
fn multiples<C: Curve<N>, const N: usize>(point: &Affine<C, N>, count: usize) -> Vec<Xyzz<C, N>> {
    let mut multiples = Vec::with_capacity(count);
    multiples.push(Xyzz::from(*point));
    multiples.push(multiples[0].double());
    while let Some(last) = multiples.last()
        && multiples.len() < count
    {
        // The sum of j·P and P is exceptional for j = ±1 only.
        let Some(next) = last.add(point) else { break };
        multiples.push(next);
    }
    multiples
}
