//! ECDSA-Sig-Value in DER (RFC 3279, section 2.2.3).

use crate::integer::from_bytes;

/// The integers r and s.
pub(crate) struct Signature<const N: usize> {
    pub(crate) r: [u64; N],
    pub(crate) s: [u64; N],
}

impl<const N: usize> Signature<N> {
    /// Parses DER; returns `None` for other encodings. An r or s of more than N limbs is not a
    /// signature on a curve of N limbs.
    pub(crate) fn parse(der: &[u8]) -> Option<Self> {
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
    use super::Signature;

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
