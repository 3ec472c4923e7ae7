//! Byte ranges (RFC 9110, section 14): one range of the unencoded bytes, or all of them.

use std::ops::Range;

/// The bytes that a `Range` header requests from a body of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    /// The whole body: there is no range, an invalid range, or several ranges. A server may always
    /// ignore the header, and several ranges of a tile are not worth a multipart body.
    All,
    /// The bytes of this range (206).
    Satisfiable(Range<usize>),
    /// A range outside the body (416).
    Unsatisfiable,
}

/// Parses a `Range` header for a body of `length` bytes.
pub(crate) fn requested(header: &[u8], length: usize) -> RequestedRange {
    let Some(spec) = strip_unit(header) else {
        return RequestedRange::All;
    };
    let Some(dash) = spec.iter().position(|&b| b == b'-') else {
        return RequestedRange::All;
    };
    let (first, last) = (spec[..dash].trim_ascii(), spec[dash + 1..].trim_ascii());
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => RequestedRange::All,
        (Some(first), _) if first >= length => match last {
            [] => RequestedRange::Unsatisfiable,
            _ if number(last).is_some() => RequestedRange::Unsatisfiable,
            _ => RequestedRange::All,
        },
        (Some(first), Some(last)) => {
            RequestedRange::Satisfiable(first..last.saturating_add(1).min(length))
        }
        (Some(first), None) if last.is_empty() => RequestedRange::Satisfiable(first..length),
        (None, Some(0)) if first.is_empty() => RequestedRange::Unsatisfiable,
        (None, Some(_)) if first.is_empty() && length == 0 => RequestedRange::Unsatisfiable,
        (None, Some(suffix)) if first.is_empty() => {
            RequestedRange::Satisfiable(length.saturating_sub(suffix)..length)
        }
        _ => RequestedRange::All,
    }
}

fn strip_unit(header: &[u8]) -> Option<&[u8]> {
    let (unit, spec) = header.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(spec)
}

/// Parses decimal digits; a number larger than `usize` becomes its maximum.
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
        let cases: [(&str, RequestedRange); 16] = [
            ("bytes=0-31", RequestedRange::Satisfiable(0..32)),
            ("bytes=32-63", RequestedRange::Satisfiable(32..64)),
            ("Bytes=32-63", RequestedRange::Satisfiable(32..64)),
            ("bytes=8160-", RequestedRange::Satisfiable(8160..8192)),
            ("bytes=8160-99999", RequestedRange::Satisfiable(8160..8192)),
            ("bytes=-32", RequestedRange::Satisfiable(8160..8192)),
            ("bytes=-99999", RequestedRange::Satisfiable(0..8192)),
            ("bytes=8192-", RequestedRange::Unsatisfiable),
            (
                "bytes=99999999999999999999999-",
                RequestedRange::Unsatisfiable,
            ),
            ("bytes=-0", RequestedRange::Unsatisfiable),
            ("bytes=0-1,4-5", RequestedRange::All),
            ("bytes=5-4", RequestedRange::All),
            ("bytes=a-b", RequestedRange::All),
            ("bytes=9999-x", RequestedRange::All),
            ("items=0-1", RequestedRange::All),
            ("byte", RequestedRange::All),
        ];
        for (header, expected) in cases {
            assert_eq!(requested(header.as_bytes(), 8192), expected, "{header}");
        }
    }

    #[test]
    fn nothing_of_nothing() {
        assert_eq!(requested(b"bytes=0-", 0), RequestedRange::Unsatisfiable);
        assert_eq!(requested(b"bytes=-5", 0), RequestedRange::Unsatisfiable);
    }
}
