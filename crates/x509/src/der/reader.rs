//! A tolerant DER parser over borrowed slices.
//!
//! The WebPKI contains certificates that strict parsers refuse: lengths in more octets than needed,
//! negative serial numbers, booleans of 01. A log stores bytes and verifies signatures, so it only
//! needs the positions of fields. This parser never recurses, never allocates and never panics. It
//! refuses only forms without a clear extent: indefinite lengths, tags in several octets, and
//! lengths that exceed the enclosing structure. Unsigned bytes have stricter rules:
//! [`Tlv::check_shortest`] requires the shortest length.

use super::length::{length_octets, read_length};

/// The reason why bytes are not the expected DER, with the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct DerError {
    /// Name of the field in RFC 5280.
    pub field: &'static str,
    /// Offset in bytes from the beginning of the certificate.
    pub offset: usize,
    problem: Problem,
}

/// The reason of a [`DerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The enclosing structure ends before the field.
    #[error("missing, the enclosing structure ends here")]
    Missing,
    /// Another field is at this position.
    #[error("expected tag {expected:#04x}, found {found:#04x}")]
    Tag {
        /// The expected tag.
        expected: u8,
        /// The tag found.
        found: u8,
    },
    /// The tag number is above 30.
    #[error("the tag has several octets; expected one")]
    LongTag,
    /// The length is indefinite, or too large.
    #[error("the length is indefinite or too large")]
    Length,
    /// The element exceeds the enclosing one.
    #[error("expected {announced} bytes, found {left}")]
    Truncated {
        /// Length of the element according to its header.
        announced: usize,
        /// Number of bytes left.
        left: usize,
    },
    /// There are bytes after the last field.
    #[error("{0} extra bytes follow")]
    Trailing(usize),
    /// The length is not in its shortest form.
    #[error("the length has {found} octets, but its shortest form has {shortest}")]
    LongLength {
        /// Number of octets of the length.
        found: usize,
        /// Minimum number of octets.
        shortest: usize,
    },
    /// A NULL has a long length or a value.
    #[error("expected a NULL without contents (05 00), found one of {0} bytes")]
    LongNull(usize),
    /// The BIT STRING is empty.
    #[error("the BIT STRING is empty; expected a signature")]
    NoSignature,
    /// The BIT STRING does not end at a byte boundary.
    #[error("expected whole bytes, found {0} unused bits")]
    UnusedBits(u8),
}

/// An element: tag, length, value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// The identifier octet.
    pub tag: u8,
    /// Tag, length and value with their original bytes.
    pub raw: &'a [u8],
    /// The content octets.
    pub value: &'a [u8],
    /// Offset of `raw` in the buffer of the outermost reader.
    offset: usize,
}

impl<'a> Tlv<'a> {
    /// Returns a reader of the elements inside this element.
    #[inline]
    pub fn reader(&self) -> Reader<'a> {
        Reader {
            rest: self.value,
            offset: self.offset + self.raw.len() - self.value.len(),
        }
    }

    /// Returns the offset of the first byte after this element.
    #[inline]
    pub fn end(&self) -> usize {
        self.offset + self.raw.len()
    }

    /// Returns the offset of the tag.
    #[inline]
    pub fn start(&self) -> usize {
        self.offset
    }

    /// Fails for a length with superfluous octets, which DER forbids (X.690, section 10.1) and the
    /// parser tolerates.
    pub fn check_shortest(&self, field: &'static str) -> Result<(), DerError> {
        let found = self.raw.len() - self.value.len() - 1;
        match length_octets(self.value.len()) {
            shortest if shortest == found => Ok(()),
            shortest => Err(self.error(field, Problem::LongLength { found, shortest })),
        }
    }

    /// Creates an error about `field` at the position of this element.
    pub fn error(&self, field: &'static str, problem: Problem) -> DerError {
        DerError {
            field,
            offset: self.offset,
            problem,
        }
    }
}

/// A parser of consecutive elements.
///
/// # Examples
///
/// ```
/// use lucarne_x509::der::{Reader, tag};
///
/// let mut reader = Reader::new(&[0x02, 1, 5, 0x30, 0]);
/// let serial = reader.expect(tag::INTEGER, "serialNumber")?;
/// assert_eq!((serial.value, serial.end()), (&[5][..], 3));
///
/// let error = reader.expect(tag::INTEGER, "version").unwrap_err();
/// assert_eq!((error.field, error.offset), ("version", 3));
/// # Ok::<(), lucarne_x509::DerError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`. Offsets are counted from the first of these bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            offset: 0,
        }
    }

    /// Returns `true` if there is no further element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next element with any tag.
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

    /// Returns the next element, which must have this tag.
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

    /// Returns the next element if it has this tag.
    #[inline]
    pub fn optional(&mut self, tag: u8, field: &'static str) -> Result<Option<Tlv<'a>>, DerError> {
        match self.rest.first() {
            Some(&found) if found == tag => self.any(field).map(Some),
            _ => Ok(None),
        }
    }

    /// Fails if there are bytes left after `field`.
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
            "element at byte 0: the length has 3 octets, but its shortest form has 1"
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
