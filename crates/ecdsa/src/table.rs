//! The multiples of a point, and sums of them.

use crate::curve::Curve;
use crate::integer::{add, bits, from_bytes, less};
use crate::point::{Affine, Xyzz, normalise};
use crate::residue::{Modulus, Residue};
use crate::signature::Signature;

/// Bits of a scalar that one addition settles. A table has 2^6 multiples for each: one bit more
/// saves an eighth of the additions and doubles the table, which then outgrows the cache.
const WINDOW: usize = 7;
/// Multiples in a window: digits are from -64 to 64, and a negative one is a subtraction.
const DIGITS: usize = 1 << (WINDOW - 1);

/// j·2^(7i)·P for every window i and 1 ≤ j ≤ 64.
#[derive(Debug)]
pub(crate) struct Table<C: Curve<N>, const N: usize>(Vec<Affine<C, N>>);

impl<C: Curve<N>, const N: usize> Table<C, N> {
    /// Neither 256 nor 384 bits fill their last window, so that the last carry has room.
    const WINDOWS: usize = (64 * N).div_ceil(WINDOW);

    pub(crate) fn new(point: Affine<C, N>) -> Self {
        let mut base = Xyzz::from(point);
        let mut bases = Vec::with_capacity(Self::WINDOWS);
        for _ in 0..Self::WINDOWS {
            bases.push(base);
            for _ in 0..WINDOW {
                base = base.double();
            }
        }
        let multiples: Vec<_> = normalise(&bases).iter().flat_map(multiples).collect();
        Self(normalise(&multiples))
    }

    /// Adds `scalar` times the point to `sum`, whose None is the point at infinity. None if an
    /// addition met one of its exceptions.
    fn add_product(
        &self,
        mut sum: Option<Xyzz<C, N>>,
        scalar: &[u64; N],
    ) -> Option<Option<Xyzz<C, N>>> {
        let mut carry = 0;
        for (window, multiples) in self.0.chunks_exact(DIGITS).enumerate() {
            let digit = bits(scalar, window * WINDOW, WINDOW) as usize + carry;
            let negative = digit > DIGITS;
            carry = usize::from(negative);
            let size = if negative { 2 * DIGITS - digit } else { digit };
            let Some(place) = size.checked_sub(1) else {
                continue;
            };
            let multiple = multiples[place].negate_if(negative);
            sum = Some(match sum {
                None => multiple.into(),
                Some(sum) => sum.add(&multiple)?,
            });
        }
        Some(sum)
    }
}

/// 1 to 64 times a point.
fn multiples<C: Curve<N>, const N: usize>(point: &Affine<C, N>) -> Vec<Xyzz<C, N>> {
    let mut multiples = Vec::with_capacity(DIGITS);
    multiples.push(Xyzz::from(*point));
    multiples.push(multiples[0].double());
    while let Some(last) = multiples.last()
        && multiples.len() < DIGITS
    {
        // The sum of j·P and P is exceptional for j = ±1 only.
        let Some(next) = last.add(point) else { break };
        multiples.push(next);
    }
    multiples
}

/// A public key, ready to verify.
#[derive(Debug)]
pub(crate) struct PublicKey<C: Curve<N>, const N: usize>(Table<C, N>);

impl<C: Curve<N>, const N: usize> PublicKey<C, N> {
    /// Memory of the table, in bytes.
    pub(crate) const SIZE: usize = Table::<C, N>::WINDOWS * DIGITS * size_of::<Affine<C, N>>();

    pub(crate) fn new(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Table::new(point)))
    }

    pub(crate) fn accepts(&self, digest: &[u8], signature: &[u8]) -> bool {
        self.try_accept(digest, signature).unwrap_or(false)
    }

    /// FIPS 186-5 section 6.4.2. None where something is out of range or exceptional.
    fn try_accept(&self, digest: &[u8], signature: &[u8]) -> Option<bool> {
        let Signature { r, s } = Signature::parse(signature)?;
        let order = C::Order::PRIME;
        if r == [0; N] || s == [0; N] || !less(&r, &order) || !less(&s, &order) {
            return None;
        }
        // The leftmost bits of the digest, as many as the order has.
        let digest = from_bytes(&digest[..digest.len().min(8 * N)])?;
        let inverse = Residue::<C::Order, N>::new(s).invert();
        let by_generator = Residue::new(digest).mul(&inverse).integer();
        let by_key = Residue::new(r).mul(&inverse).integer();
        let sum = C::generator().add_product(None, &by_generator)?;
        let sum = self.0.add_product(sum, &by_key)??;
        Some(has_x(&sum, r))
    }
}

/// Whether the x coordinate of `point` is `r` modulo the order: as x is below the field's prime,
/// it is r, or r + n where that is below the prime too. Compared without dividing by ZZ.
fn has_x<C: Curve<N>, const N: usize>(point: &Xyzz<C, N>, r: [u64; N]) -> bool {
    let is = |x: [u64; N]| Residue::new(x).mul(&point.zz) == point.x;
    if is(r) {
        return true;
    }
    let (larger, carry) = add(&r, &C::Order::PRIME);
    carry == 0 && less(&larger, &C::Field::PRIME) && is(larger)
}

#[cfg(test)]
mod tests;
