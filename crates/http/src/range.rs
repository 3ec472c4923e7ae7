//! Byte ranges (RFC 9110, 14): one range of the plain bytes, or all of them.

use std::ops::Range;

/// What a `Range` header asks of a body of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Everything: no range, several ranges, or one that makes no sense. A
    /// server may always ignore the header, and whoever asks for several
    /// ranges of a tile is not worth a multipart body.
    All,
    /// These bytes (206).
    Part(Range<usize>),
    /// Nothing that there is (416).
    Nothing,
}

/// Reads a `Range` header for a body of `length` bytes.
pub(crate) fn wanted(header: &[u8], length: usize) -> Wanted {
    let Some(spec) = strip_unit(header) else {
        return Wanted::All;
    };
    let Some(dash) = spec.iter().position(|&b| b == b'-') else {
        return Wanted::All;
    };
    let (first, last) = (spec[..dash].trim_ascii(), spec[dash + 1..].trim_ascii());
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Wanted::All,
        (Some(first), _) if first >= length => match last {
            [] => Wanted::Nothing,
            _ if number(last).is_some() => Wanted::Nothing,
            _ => Wanted::All,
        },
        (Some(first), Some(last)) => Wanted::Part(first..last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => Wanted::Part(first..length),
        (None, Some(0)) if first.is_empty() => Wanted::Nothing,
        (None, Some(_)) if first.is_empty() && length == 0 => Wanted::Nothing,
        (None, Some(suffix)) if first.is_empty() => {
            Wanted::Part(length.saturating_sub(suffix)..length)
        }
        _ => Wanted::All,
    }
}

fn strip_unit(header: &[u8]) -> Option<&[u8]> {
    let (unit, spec) = header.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(spec)
}

/// Decimal digits; a number beyond `usize` is as good as its maximum.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0usize, |n, d| {
        n.saturating_mul(10).saturating_add(usize::from(d - b'0'))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_hash_tile() {
        let cases: [(&str, Wanted); 16] = [
            ("bytes=0-31", Wanted::Part(0..32)),
            ("bytes=32-63", Wanted::Part(32..64)),
            ("Bytes=32-63", Wanted::Part(32..64)),
            ("bytes=8160-", Wanted::Part(8160..8192)),
            ("bytes=8160-99999", Wanted::Part(8160..8192)),
            ("bytes=-32", Wanted::Part(8160..8192)),
            ("bytes=-99999", Wanted::Part(0..8192)),
            ("bytes=8192-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=0-1,4-5", Wanted::All),
            ("bytes=5-4", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=9999-x", Wanted::All),
            ("items=0-1", Wanted::All),
            ("byte", Wanted::All),
        ];
        for (header, expected) in cases {
            assert_eq!(wanted(header.as_bytes(), 8192), expected, "{header}");
        }
    }

    #[test]
    fn nothing_of_nothing() {
        assert_eq!(wanted(b"bytes=0-", 0), Wanted::Nothing);
        assert_eq!(wanted(b"bytes=-5", 0), Wanted::Nothing);
    }
}
