//! The replacement for processors other than x86-64, which lack the vector instructions.

use std::convert::Infallible;

use crate::curve::Curve;
use crate::digits::Digits;
use crate::point::{Affine, XCoordinate};

/// Number of signatures in a batch on x86-64.
pub(crate) const LANES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma(Infallible);

impl Ifma {
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    pub(crate) fn sums<C, const N: usize, const L: usize>(
        self,
        _: &[Vec<Affine<C, N>>; LANES],
    ) -> [Option<XCoordinate<C, N>>; LANES]
    where
        C: Curve<N>,
        C::Field: Digits<N, L>,
    {
        match self.0 {}
    }
}
