//! Verification (FIPS 186-5, section 6.4.2) of one signature, or of a batch.

use crate::curve::{Curve, P256, P384};
use crate::ifma::{Ifma, LANES};
use crate::integer::{from_bytes, less};
use crate::modulus::Modulus;
use crate::point::{Affine, XCoordinate, Xyzz};
use crate::residue::Residue;
use crate::signature::Signature;
use crate::table::{Multiples, Tabulated};

/// A curve whose sums can be computed in vector lanes.
pub(crate) trait Vectorised<const N: usize>: Tabulated<N> {
    /// See [`Ifma::sums`].
    fn sums(
        ifma: Ifma,
        terms: &[Vec<Affine<Self, N>>; LANES],
    ) -> [Option<XCoordinate<Self, N>>; LANES];
}

impl Vectorised<4> for P256 {
    fn sums(
        ifma: Ifma,
        terms: &[Vec<Affine<Self, 4>>; LANES],
    ) -> [Option<XCoordinate<Self, 4>>; LANES] {
        ifma.sums::<Self, 4, 5>(terms)
    }
}

impl Vectorised<6> for P384 {
    fn sums(
        ifma: Ifma,
        terms: &[Vec<Affine<Self, 6>>; LANES],
    ) -> [Option<XCoordinate<Self, 6>>; LANES] {
        ifma.sums::<Self, 6, 8>(terms)
    }
}

/// A signature with numbers in range, and the key that is claimed to have created it.
#[derive(Clone)]
pub(crate) struct Question<'q, C: Curve<N>, const N: usize> {
    key: &'q dyn Multiples<C, N>,
    /// The leftmost bits of the digest, cut to the length of the order.
    digest: [u64; N],
    r: [u64; N],
    s: Residue<C::Order, N>,
}

impl<'q, C: Vectorised<N>, const N: usize> Question<'q, C, N> {
    /// Parses a claim; `None` if the signature is not DER, or if r or s is out of range.
    pub(crate) fn read(
        key: &'q dyn Multiples<C, N>,
        digest: &[u8],
        signature: &[u8],
    ) -> Option<Self> {
        let Signature { r, s } = Signature::parse(signature)?;
        let order = C::Order::PRIME;
        if r == [0; N] || s == [0; N] || !less(&r, &order) || !less(&s, &order) {
            return None;
        }
        let digest = from_bytes(&digest[..digest.len().min(8 * N)])?;
        let s = Residue::new(s);
        Some(Self { key, digest, r, s })
    }

    /// Verifies the signature without a batch. Returns `true` if the signature is valid.
    pub(crate) fn is_yes(&self) -> bool {
        let sum = sum(&self.terms(&self.s.invert()));
        sum.is_some_and(|sum| XCoordinate::from(sum).is(&self.r))
    }

    /// Returns the results of [`Self::is_yes`] for several claims.
    pub(crate) fn are_yes(questions: &[Self], ifma: Option<Ifma>) -> Vec<bool> {
        let batches = questions.chunks(LANES);
        batches
            .flat_map(|batch| match ifma {
                // A batch costs less than two single verifications.
                Some(ifma) if batch.len() > 1 => Self::batch_is_yes(batch, ifma),
                _ => batch.iter().map(Self::is_yes).collect(),
            })
            .collect()
    }

    /// Verifies at most one signature per lane.
    fn batch_is_yes(batch: &[Self], ifma: Ifma) -> Vec<bool> {
        let inverses = Residue::invert_all(batch.iter().map(|question| question.s));
        let mut terms = [const { Vec::new() }; LANES];
        for ((terms, question), inverse) in terms.iter_mut().zip(batch).zip(&inverses) {
            *terms = question.terms(inverse);
        }
        let sums = C::sums(ifma, &terms);
        let is_yes = |(question, sum): (&Self, Option<XCoordinate<C, N>>)| {
            sum.is_some_and(|sum| sum.is(&question.r))
        };
        batch.iter().zip(sums).map(is_yes).collect()
    }

    /// Returns points. If the signature is valid, their sum has the x coordinate r. `inverse` is
    /// the inverse of s.
    fn terms(&self, inverse: &Residue<C::Order, N>) -> Vec<Affine<C, N>> {
        let by_generator = Residue::new(self.digest).mul(inverse).integer();
        let by_key = Residue::new(self.r).mul(inverse).integer();
        // Capacity: one for each window of the generator and of the key, for the usual window
        // widths.
        let mut terms = Vec::with_capacity(16 * N);
        C::generator().terms(&by_generator, &mut terms);
        self.key.terms(&by_key, &mut terms);
        terms
    }
}

/// Returns the sum; `None` if there are no terms, or if an addition met an exception.
fn sum<C: Curve<N>, const N: usize>(terms: &[Affine<C, N>]) -> Option<Xyzz<C, N>> {
    let (first, others) = terms.split_first()?;
    others
        .iter()
        .try_fold(Xyzz::from(*first), |sum, term| sum.add(term))
}

#[cfg(test)]
mod tests;
