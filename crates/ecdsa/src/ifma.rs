//! Eight sums of points at once, with AVX-512 IFMA: what is one number elsewhere is a vector here,
//! which has the same digit of eight numbers in its lanes. So no lane waits for another's carries,
//! and none can change what another has.

#![allow(unsafe_code)]

mod points;
mod residues;

use crate::curve::Curve;
use crate::digits::Digits;
use crate::point::{Affine, XCoordinate};

/// Numbers in a vector.
pub(crate) const LANES: usize = 8;

/// Proof that the processor has what this module needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma(());

impl Ifma {
    /// Asks the processor.
    pub(crate) fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma");
        has_all.then_some(Self(()))
    }

    /// The sum of each lane's terms. None if there is nothing to add, or an addition met one of its
    /// exceptions.
    pub(crate) fn sums<C, const N: usize, const L: usize>(
        self,
        terms: &[Vec<Affine<C, N>>; LANES],
    ) -> [Option<XCoordinate<C, N>>; LANES]
    where
        C: Curve<N>,
        C::Field: Digits<N, L>,
    {
        // SAFETY: there is an `Ifma` only where the processor has all three features.
        unsafe { points::sums(terms) }
    }
}
