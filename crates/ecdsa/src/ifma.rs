//! Eight sums of points at once, with AVX-512 IFMA. Each vector has the same digit of eight numbers
//! in its lanes. No lane depends on the carries of another lane.

#![allow(unsafe_code)]

mod points;
mod residues;

use crate::curve::Curve;
use crate::digits::Digits;
use crate::point::{Affine, XCoordinate};

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
        unsafe { points::sums(terms) }
    }
}
