//! A lax DER walker over borrowed slices.
//!
//! The WebPKI contains certificates that strict parsers refuse: lengths in more octets than
//! needed, negative serial numbers, booleans of 01. A log keeps bytes and checks signatures,
//! so it only needs to know where things are. This walker never recurses, never allocates
//! and never panics; it refuses only what has no place: indefinite lengths, tags in several
//! octets, and lengths that reach past their parent. What nobody signed is held to more: that a
//! length is the shortest ([`Tlv::check_shortest`]).

use super::length::{length_octets, read_length};

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

/// The fault that was found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing is left where the field should be.
    #[error("missing, the enclosing structure ends here")]
    Missing,
    /// Another field, or none of this place.
    #[error("expected tag {expected:#04x}, found {found:#04x}")]
    Tag {
        /// The tag of the field.
        expected: u8,
        /// The tag that stands there.
        found: u8,
    },
    /// A tag number above 30.
    #[error("a tag of several octets")]
    LongTag,
    /// An indefinite length, or one beyond all memory.
    #[error("a length that DER does not have")]
    Length,
    /// An element that reaches past the one around it.
    #[error("{announced} bytes announced, {left} left")]
    Truncated {
        /// Bytes by its length.
        announced: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// Something follows what should be last.
    #[error("{0} bytes too many after it")]
    Trailing(usize),
    /// A length that is not in its shortest form.
    #[error("a length of {found} octets where {shortest} would do")]
    LongLength {
        /// Octets of the length.
        found: usize,
        /// Octets that would do.
        shortest: usize,
    },
    /// A NULL with a long length or a value.
    #[error("a NULL of {0} bytes, not 05 00")]
    LongNull(usize),
    /// A BIT STRING without a bit.
    #[error("no signature in it")]
    NoSignature,
    /// A BIT STRING that does not end with a byte.
    #[error("{0} unused bits")]
    UnusedBits(u8),
}

/// One element: tag, length, value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// The identifier octet.
    pub tag: u8,
    /// Tag, length and value, as they stand.
    pub raw: &'a [u8],
    /// The content octets.
    pub value: &'a [u8],
    /// Place of `raw` in the buffer that the outermost reader was given.
    offset: usize,
}

impl<'a> Tlv<'a> {
    /// A reader over the elements inside this one.
    #[inline]
    pub fn reader(&self) -> Reader<'a> {
        Reader {
            rest: self.value,
            offset: self.offset + self.raw.len() - self.value.len(),
        }
    }

    /// Place of the first byte after this element.
    #[inline]
    pub fn end(&self) -> usize {
        self.offset + self.raw.len()
    }

    /// Place of the tag.
    #[inline]
    pub fn start(&self) -> usize {
        self.offset
    }

    /// Refuses a length in more octets than it needs, which DER forbids and the walker passes
    /// over (X.690 section 10.1).
    pub fn check_shortest(&self, field: &'static str) -> Result<(), DerError> {
        let found = self.raw.len() - self.value.len() - 1;
        match length_octets(self.value.len()) {
            shortest if shortest == found => Ok(()),
            shortest => Err(self.error(field, Problem::LongLength { found, shortest })),
        }
    }

    /// This problem of `field`, with the place of this element.
    pub fn error(&self, field: &'static str, problem: Problem) -> DerError {
        DerError {
            field,
            offset: self.offset,
            problem,
        }
    }
}

/// Reads elements one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`, whose places are counted from their beginning.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            offset: 0,
        }
    }

    /// Returns whether there is no further element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever its tag.
    #[inline]
    pub fn any(&mut self, field: &'static str) -> Result<Tlv<'a>, DerError> {
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
    #[inline]
    pub fn expect(&mut self, tag: u8, field: &'static str) -> Result<Tlv<'a>, DerError> {
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
    #[inline]
    pub fn optional(&mut self, tag: u8, field: &'static str) -> Result<Option<Tlv<'a>>, DerError> {
        match self.rest.first() {
            Some(&found) if found == tag => self.any(field).map(Some),
            _ => Ok(None),
        }
    }

    /// Refuses anything left over after `field`.
    #[inline]
    pub fn finish(&self, field: &'static str) -> Result<(), DerError> {
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

#[cfg(test)]
mod tests {
    use super::super::tag;
    use super::*;

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
    fn reading_stops_at_what_is_not_whole() {
        for bytes in [
            &[][..],
            &[4],
            &[4, 1],
            &[4, 0x80],
            &[4, 0x81],
            &[4, 0x85, 1, 0, 0, 0, 0],
        ] {
            let mut reader = Reader::new(bytes);
            let error = reader.any("element").unwrap_err();
            assert_eq!(error.offset, 0);
            assert_eq!(reader.any("element"), Err(error), "{bytes:?}");
            assert_eq!(reader.is_empty(), bytes.is_empty());
        }
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
