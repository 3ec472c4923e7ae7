//! Lengths: every definite form is read, the shortest is written.

/// Parses a length and returns the rest. Superfluous leading zeros are accepted. Returns `None` for
/// the indefinite form and for lengths beyond `usize`.
#[inline]
pub(super) fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), rest));
    }
    let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
    if octets.is_empty() {
        return None;
    }
    let length = octets.iter().try_fold(0usize, |length, &octet| {
        Some(length.checked_mul(256)? | usize::from(octet))
    })?;
    Some((length, rest))
}

/// Returns the number of octets in the shortest form of this length.
#[inline]
pub(super) fn length_octets(length: usize) -> usize {
    match length {
        0..0x80 => 1,
        _ => 1 + size_of::<usize>() - length.leading_zeros() as usize / 8,
    }
}

/// Appends the tag and the minimal length of an element whose value has `length` bytes.
#[inline]
pub fn push_header(tag: u8, length: usize, out: &mut Vec<u8>) {
    out.push(tag);
    let more = length_octets(length) - 1;
    if more > 0 {
        out.push(0x80 | more as u8);
    }
    let octets = length.to_be_bytes();
    out.extend_from_slice(&octets[octets.len() - more.max(1)..]);
}

#[cfg(test)]
mod tests {
    use super::super::tag;
    use super::*;

    #[test]
    fn lengths_of_every_form() {
        for (bytes, length) in [
            (&[0x05][..], 5),
            (&[0x81, 0x05], 5),
            (&[0x84, 0, 0, 1, 0], 256),
            (&[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], 7),
        ] {
            assert_eq!(read_length(bytes), Some((length, &[][..])), "{bytes:?}");
        }
        for bytes in [
            &[][..],
            &[0x80],
            &[0x82, 1],
            &[0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xff; 3],
        ] {
            assert_eq!(read_length(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn written_headers_read_back() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 24] {
            let mut out = Vec::new();
            push_header(tag::SEQUENCE, length, &mut out);
            assert_eq!(read_length(&out[1..]), Some((length, &[][..])));
            assert_eq!(out.len(), 1 + length_octets(length));
        }
    }
}
