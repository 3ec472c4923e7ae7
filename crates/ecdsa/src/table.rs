//! The multiples of a point.

use std::sync::LazyLock;

use crate::curve::{Curve, P256, P384};
use crate::integer::bits;
use crate::point::{Affine, Xyzz, normalise};

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
