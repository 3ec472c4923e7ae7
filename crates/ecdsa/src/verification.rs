//! Verification (FIPS 186-5, section 6.4.2) of one signature in DER, or of a batch.

use crate::curve::{Curve, P256, P384};
use crate::ifma::{Ifma, LANES};
use crate::integer::{from_bytes, less};
use crate::point::{Affine, Multiples, Tabulated, XCoordinate, Xyzz};
use crate::residue::{Modulus, Residue};

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

/// ECDSA-Sig-Value (RFC 3279, section 2.2.3): the integers r and s.
struct Signature<const N: usize> {
    r: [u64; N],
    s: [u64; N],
}

impl<const N: usize> Signature<N> {
    /// Parses DER; returns `None` for other encodings. An r or s of more than N limbs is not a
    /// signature on a curve of N limbs.
    fn parse(der: &[u8]) -> Option<Self> {
        // On these curves every signature is shorter than 128 bytes.
        let (&[0x30, length], body) = der.split_first_chunk()? else {
            return None;
        };
        if length >= 0x80 || body.len() != usize::from(length) {
            return None;
        }
        let (r, rest) = integer(body)?;
        let (s, rest) = integer(rest)?;
        rest.is_empty().then_some(Self { r, s })
    }
}

/// Parses a positive INTEGER of minimal length, and returns the rest.
fn integer<const N: usize>(der: &[u8]) -> Option<([u64; N], &[u8])> {
    let (&[0x02, length], rest) = der.split_first_chunk()? else {
        return None;
    };
    let (value, rest) = rest.split_at_checked(usize::from(length))?;
    match value {
        [] | [0x80..=0xff, ..] | [0, 0..=0x7f, ..] => None,
        _ => Some((from_bytes(value)?, rest)),
    }
}

#[cfg(test)]
mod tests {
    //! Valid signatures with extreme numbers, which signing never produces: the key is computed to
    //! fit.

    use aws_lc_rs::digest::{Digest, SHA256, SHA384};
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, UnparsedPublicKey};

    use super::*;
    use crate::integer::{add, bits, shift_right, sub};
    use crate::point::{FEW, MANY, Table, normalise};

    /// Computes a root of y² = x³ - 3x + b with the exponent (p + 1)/4, because both primes are 3
    /// modulo 4.
    fn lift<C: Curve<N>, const N: usize>(x: [u64; N]) -> Option<Affine<C, N>> {
        let (x, one): (Residue<C::Field, N>, [u64; N]) = (Residue::new(x), small(1));
        let three_x = x.double().add(&x);
        let square = x.square().mul(&x).sub(&three_x).add(&Residue::new(C::B));
        let exponent = shift_right(&add(&C::Field::PRIME, &one).0, 0, 2);
        let mut y = Residue::ONE;
        for bit in (0..64 * N).rev() {
            y = y.square();
            if bits(&exponent, bit, 1) == 1 {
                y = y.mul(&square);
            }
        }
        (y.square() == square).then_some(Affine { x, y })
    }

    fn small<const N: usize>(number: u64) -> [u64; N] {
        std::array::from_fn(|i| if i == 0 { number } else { 0 })
    }

    fn to_bytes<const N: usize>(integer: &[u64; N]) -> Vec<u8> {
        integer
            .iter()
            .rev()
            .flat_map(|it| it.to_be_bytes())
            .collect()
    }

    fn der<const N: usize>(numbers: [[u64; N]; 2]) -> Vec<u8> {
        let body = numbers.iter().flat_map(|number| {
            let bytes = to_bytes(number);
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let pad = (bytes[zeros] >= 0x80).then_some(0);
            let value: Vec<u8> = pad.into_iter().chain(bytes[zeros..].to_vec()).collect();
            [vec![2, value.len() as u8], value].concat()
        });
        let body: Vec<u8> = body.collect();
        [vec![0x30, body.len() as u8], body].concat()
    }

    /// Returns the key that verifies (r, s) for the digest `e`, if R has x: (s·R - e·G)/r. Returns
    /// `None` if no point has this x.
    fn key<C: Tabulated<N>, const N: usize>(
        x: [u64; N],
        s: [u64; N],
        e: [u64; N],
    ) -> Option<Affine<C, N>> {
        let by_r = Residue::<C::Order, N>::new(x).invert();
        let by_generator = Residue::new(e).negate().mul(&by_r).integer();
        let by_point = Residue::new(s).mul(&by_r).integer();
        let mut terms = Vec::new();
        C::generator().terms(&by_generator, &mut terms);
        Table::<C, N, FEW>::new(lift(x)?).terms(&by_point, &mut terms);
        Some(normalise(&[sum(&terms)?])[0])
    }

    fn extremes<C: Vectorised<N>, const N: usize>(theirs: impl Fn(&[u8], &[u8], &[u8]) -> bool) {
        let n = C::Order::PRIME;
        let less = |by: u64| sub(&n, &small(by)).0;
        let half = shift_right(&n, 0, 1);
        // An x that is not below the order: r is the excess.
        let beyond = (1..).map(|more| add(&n, &small(more)).0);
        let xs = (1..).map(small).filter(|x| lift::<C, N>(*x).is_some());
        let beyond = beyond.filter(|x| lift::<C, N>(*x).is_some());
        let high: [u64; N] = std::array::from_fn(|i| if i + 1 == N { 1 << 62 } else { 0 });
        for x in xs.take(2).chain(beyond.take(2)) {
            let r = Residue::<C::Order, N>::new(x).integer();
            for s in [
                small(1),
                small(2),
                small(1 << 63),
                high,
                half,
                less(2),
                less(1),
            ] {
                for e in [small(0), small(1), less(1), n, [u64::MAX; N]] {
                    let key = key::<C, N>(x, s, e).unwrap();
                    let point = [
                        &[4],
                        &to_bytes(&key.x.integer())[..],
                        &to_bytes(&key.y.integer()),
                    ];
                    let (point, digest, signature) = (point.concat(), to_bytes(&e), der([r, s]));
                    let table = Table::<C, N, MANY>::new(Affine::parse(&point).unwrap());
                    assert!(theirs(&point, &digest, &signature), "{x:x?} {s:x?} {e:x?}");
                    // Not s + 1, which may be -s and therefore valid.
                    let other = der([r, add(&s, &small(3)).0]);
                    let both = [&signature, &other];
                    let both = both.map(|signature| Question::read(&table, &digest, signature));
                    let alone = both
                        .each_ref()
                        .map(|it| it.as_ref().is_some_and(Question::is_yes));
                    assert_eq!(alone, [true, false], "{x:x?} {s:x?} {e:x?}");
                    // Both signatures alternate in the lanes; s + 3 is not always in range.
                    let (questions, expected): (Vec<_>, Vec<_>) = (0..2 * LANES + 1)
                        .filter_map(|lane| Some((both[lane % 2].clone()?, lane % 2 == 0)))
                        .unzip();
                    let together = Question::are_yes(&questions, Ifma::detect());
                    assert_eq!(together, expected, "{x:x?} {s:x?} {e:x?}");
                }
            }
        }
    }

    #[test]
    fn extreme_numbers_of_p256() {
        extremes::<P256, 4>(|point, digest, signature| {
            let digest = Digest::import_less_safe(digest, &SHA256).unwrap();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
                .verify_digest(&digest, signature)
                .is_ok()
        });
    }

    #[test]
    fn extreme_numbers_of_p384() {
        extremes::<P384, 6>(|point, digest, signature| {
            let digest = Digest::import_less_safe(digest, &SHA384).unwrap();
            UnparsedPublicKey::new(&ECDSA_P384_SHA384_ASN1, point)
                .verify_digest(&digest, signature)
                .is_ok()
        });
    }

    /// Terms with ordinary sums, and terms that lead to every exception, in every lane.
    fn exceptions<C: Vectorised<N>, const N: usize>() {
        let Some(ifma) = Ifma::detect() else {
            eprintln!("not tested: this processor has no AVX-512 IFMA");
            return;
        };
        let multiple = |number| {
            let mut terms = Vec::new();
            C::generator().terms(&small(number), &mut terms);
            normalise(&[sum(&terms).unwrap()])[0]
        };
        let points: Vec<_> = (1..=40).map(multiple).collect();
        let minus = |place: usize| points[place].negate_if(true);
        let of = |places: &[usize]| {
            places
                .iter()
                .map(|place| points[*place])
                .collect::<Vec<_>>()
        };
        let lists = [
            vec![],
            of(&[3]),
            points.clone(),
            // The double, and larger sums.
            of(&[3, 3]),
            of(&[3, 3, 7, 9, 11]),
            // The point at infinity.
            vec![points[3], minus(3)],
            [of(&[3]), vec![minus(3)], of(&[4, 5, 6])].concat(),
            // 1 + 2 = 3: an exception late in the sum.
            of(&[20, 0, 1, 30]),
            of(&[0, 1, 2]),
            [of(&[0, 1]), vec![minus(2)], points[5..].to_vec()].concat(),
            of(&[10, 20, 30]),
            [of(&[10, 20]), vec![minus(4)]].concat(),
        ];
        for first in 0..lists.len() {
            let lane = |lane: usize| lists[(first + lane) % lists.len()].clone();
            let terms: [_; LANES] = std::array::from_fn(lane);
            let sums = C::sums(ifma, &terms);
            for (lane, (terms, ours)) in terms.iter().zip(sums).enumerate() {
                let expected = sum(terms).map(XCoordinate::from);
                assert_eq!(ours.is_some(), expected.is_some(), "list {}", first + lane);
                if let (Some(ours), Some(expected)) = (ours, expected) {
                    assert_eq!(ours.x.mul(&expected.zz), expected.x.mul(&ours.zz));
                }
            }
        }
    }

    #[test]
    fn exceptions_of_additions_give_nothing_in_their_lanes_alone() {
        exceptions::<P256, 4>();
        exceptions::<P384, 6>();
    }

    #[test]
    fn only_der() {
        let parse = |der: &[u8]| Signature::<4>::parse(der).map(|it| (it.r[0], it.s[0]));
        assert_eq!(parse(&[0x30, 6, 2, 1, 1, 2, 1, 2]), Some((1, 2)));
        assert_eq!(parse(&[0x30, 7, 2, 2, 0, 0x80, 2, 1, 2]), Some((128, 2)));
        for bad in [
            &[][..],
            &[0x30],
            &[0x30, 0],
            &[0x31, 6, 2, 1, 1, 2, 1, 2],
            &[0x30, 0x81, 6, 2, 1, 1, 2, 1, 2],
            &[0x30, 5, 2, 1, 1, 2, 1, 2],
            &[0x30, 7, 2, 1, 1, 2, 1, 2],
            &[0x30, 7, 2, 1, 1, 2, 1, 2, 0],
            &[0x30, 7, 2, 2, 0, 1, 2, 1, 2],
            &[0x30, 6, 2, 1, 0x81, 2, 1, 2],
            &[0x30, 5, 2, 0, 2, 1, 2],
            &[0x30, 3, 2, 1, 1],
            &[0x30, 6, 2, 1, 1, 2, 9, 2],
            &[0x30, 0x80, 2, 1, 1, 2, 1, 2, 0, 0],
        ] {
            assert!(parse(bad).is_none(), "{bad:x?}");
        }
    }
}
