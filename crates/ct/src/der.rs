//! A lax DER walker over borrowed slices.
//!
//! The WebPKI contains certificates that strict parsers refuse: lengths in more octets than
//! needed, negative serial numbers, booleans of 01. A log keeps bytes and checks signatures,
//! so it only needs to know where things are. This walker never recurses, never allocates
//! and never panics; it refuses only what has no place: indefinite lengths, tags in several
//! octets, and lengths that reach past their parent. What nobody signed is held to more
//! ([`unsigned`](crate::unsigned)).

/// ASN.1 tags as they appear in certificates.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const NULL: u8 = 0x05;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const PRINTABLE_STRING: u8 = 0x13;
    pub(crate) const TELETEX_STRING: u8 = 0x14;
    pub(crate) const IA5_STRING: u8 = 0x16;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const VISIBLE_STRING: u8 = 0x1a;
    pub(crate) const UNIVERSAL_STRING: u8 = 0x1c;
    pub(crate) const BMP_STRING: u8 = 0x1e;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;

    /// The constructed context-specific tag `[number]`.
    pub(crate) const fn context(number: u8) -> u8 {
        0xa0 | number
    }
}

/// The place where bytes are not the DER that was expected, and the problem with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct DerError {
    /// The field, in the words of RFC 5280.
    pub field: &'static str,
    /// Its place, in bytes from the beginning of the certificate.
    pub offset: usize,
    problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("missing, the enclosing structure ends here")]
    Missing,
    #[error("expected tag {expected:#04x}, found {found:#04x}")]
    Tag { expected: u8, found: u8 },
    #[error("a tag of several octets")]
    LongTag,
    #[error("a length that DER does not have")]
    Length,
    #[error("{announced} bytes announced, {left} left")]
    Truncated { announced: usize, left: usize },
    #[error("{0} bytes too many after it")]
    Trailing(usize),
    #[error("a length of {found} octets where {shortest} would do")]
    LongLength { found: usize, shortest: usize },
    #[error("a NULL of {0} bytes, not 05 00")]
    LongNull(usize),
    #[error("no signature in it")]
    NoSignature,
    #[error("{0} unused bits")]
    UnusedBits(u8),
}

/// One element: tag, length, value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tlv<'a> {
    pub(crate) tag: u8,
    /// Tag, length and value, as they stand.
    pub(crate) raw: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Place of `raw` in the buffer that the outermost reader was given.
    offset: usize,
}

impl<'a> Tlv<'a> {
    /// A reader over the elements inside this one.
    pub(crate) fn reader(&self) -> Reader<'a> {
        Reader {
            rest: self.value,
            offset: self.offset + self.raw.len() - self.value.len(),
        }
    }

    /// Place of the first byte after this element.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.raw.len()
    }

    /// Place of the tag.
    pub(crate) fn start(&self) -> usize {
        self.offset
    }

    /// Refuses a length in more octets than it needs, which DER forbids and the walker passes
    /// over (X.690 section 10.1).
    pub(crate) fn check_shortest(&self, field: &'static str) -> Result<(), DerError> {
        let found = self.raw.len() - self.value.len() - 1;
        match length_octets(self.value.len()) {
            shortest if shortest == found => Ok(()),
            shortest => Err(self.error(field, Problem::LongLength { found, shortest })),
        }
    }

    pub(crate) fn error(&self, field: &'static str, problem: Problem) -> DerError {
        DerError {
            field,
            offset: self.offset,
            problem,
        }
    }
}

/// Reads elements one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            offset: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever its tag.
    pub(crate) fn any(&mut self, field: &'static str) -> Result<Tlv<'a>, DerError> {
        let fail = |problem| DerError {
            field,
            offset: self.offset,
            problem,
        };
        let (&tag, after_tag) = self.rest.split_first().ok_or(fail(Problem::Missing))?;
        if tag & 0x1f == 0x1f {
            return Err(fail(Problem::LongTag));
        }
        let (length, after_length) = read_length(after_tag).ok_or(fail(Problem::Length))?;
        let Some((value, rest)) = after_length.split_at_checked(length) else {
            return Err(fail(Problem::Truncated {
                announced: length,
                left: after_length.len(),
            }));
        };
        let raw = &self.rest[..self.rest.len() - rest.len()];
        let offset = self.offset;
        self.offset += raw.len();
        self.rest = rest;
        Ok(Tlv {
            tag,
            raw,
            value,
            offset,
        })
    }

    /// The next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8, field: &'static str) -> Result<Tlv<'a>, DerError> {
        match self.rest.first() {
            Some(&found) if found != tag => Err(DerError {
                field,
                offset: self.offset,
                problem: Problem::Tag {
                    expected: tag,
                    found,
                },
            }),
            _ => self.any(field),
        }
    }

    /// The next element if it has this tag.
    pub(crate) fn optional(
        &mut self,
        tag: u8,
        field: &'static str,
    ) -> Result<Option<Tlv<'a>>, DerError> {
        match self.rest.first() {
            Some(&found) if found == tag => self.any(field).map(Some),
            _ => Ok(None),
        }
    }

    /// Refuses anything left over after `field`.
    pub(crate) fn finish(&self, field: &'static str) -> Result<(), DerError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DerError {
                field,
                offset: self.offset,
                problem: Problem::Trailing(left),
            }),
        }
    }
}

/// A length and what follows it. Superfluous leading zeros are accepted.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
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

/// Returns how many octets the shortest form of this length has.
fn length_octets(length: usize) -> usize {
    match length {
        0..0x80 => 1,
        _ => 1 + size_of::<usize>() - length.leading_zeros() as usize / 8,
    }
}

/// Appends tag and minimal length of an element whose value has `length` bytes.
pub(crate) fn push_header(tag: u8, length: usize, out: &mut Vec<u8>) {
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

    #[test]
    fn the_shortest_length_is_one_form() {
        let read = |header: &[u8], length| {
            let bytes = [header, &vec![0; length]].concat();
            let element = Reader::new(&bytes).any("element").unwrap();
            element.check_shortest("element")
        };
        for (header, length) in [
            (&[4, 0][..], 0),
            (&[4, 0x7f], 127),
            (&[4, 0x81, 0x80], 128),
            (&[4, 0x82, 1, 0], 256),
            (&[4, 0x83, 1, 0, 0], 65_536),
        ] {
            assert_eq!(read(header, length), Ok(()), "{header:?}");
        }
        for (header, length) in [
            (&[4, 0x81, 0][..], 0),
            (&[4, 0x81, 0x7f], 127),
            (&[4, 0x82, 0, 0x80], 128),
            (&[4, 0x83, 0, 1, 0], 256),
            (&[4, 0x88, 0, 0, 0, 0, 0, 1, 0, 0], 65_536),
        ] {
            assert!(read(header, length).is_err(), "{header:?}");
        }
        assert_eq!(
            read(&[4, 0x82, 0, 1], 1).unwrap_err().to_string(),
            "element at byte 0: a length of 3 octets where 1 would do"
        );
    }

    #[test]
    fn offsets_point_into_the_outermost_buffer() {
        let bytes = [0x30, 0x05, 0x02, 0x01, 0x07, 0x05, 0x00];
        let mut inner = Reader::new(&bytes).any("outer").unwrap().reader();
        assert_eq!(inner.any("integer").unwrap().start(), 2);
        let null = inner.any("null").unwrap();
        assert_eq!((null.start(), null.end()), (5, 7));
        assert!(inner.is_empty());
        let error = inner.expect(tag::INTEGER, "serialNumber").unwrap_err();
        assert_eq!(
            error.to_string(),
            "serialNumber at byte 7: missing, the enclosing structure ends here"
        );
    }
}
