//! DER (ITU-T X.690): a tolerant reader, and a writer that can also write forms that DER forbids.
//!
//! The WebPKI contains certificates that strict parsers refuse: lengths in more octets than needed,
//! negative serial numbers, booleans of 01. A log stores bytes and verifies signatures, so it only
//! needs the positions of fields. [`Reader`] never recurses, never allocates and never panics. It
//! refuses only forms without a clear extent: indefinite lengths, tags in several octets, and
//! lengths that exceed the enclosing structure. Unsigned bytes have stricter rules:
//! [`Tlv::check_shortest`] requires the shortest length.

use crate::Oid;

/// ASN.1 tags in certificates, including the constructed bit if required.
#[allow(missing_docs)]
pub mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OID: u8 = 0x06;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const NUMERIC_STRING: u8 = 0x12;
    pub const PRINTABLE_STRING: u8 = 0x13;
    pub const TELETEX_STRING: u8 = 0x14;
    pub const IA5_STRING: u8 = 0x16;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const VISIBLE_STRING: u8 = 0x1a;
    pub const UNIVERSAL_STRING: u8 = 0x1c;
    pub const BMP_STRING: u8 = 0x1e;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;

    /// Returns the constructed context-specific tag `[number]`.
    pub const fn context(number: u8) -> u8 {
        0xa0 | number
    }
}

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

/// The forms of written lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lengths {
    /// The shortest form, as required by DER.
    #[default]
    Minimal,
    /// Lengths with one superfluous byte everywhere: valid BER, forbidden in DER, but found in real
    /// certificates.
    Long,
}

/// Writes DER front to back into one buffer. Lengths are inserted once the content is known, so
/// that callers never compute a length.
///
/// # Examples
///
/// ```
/// use lucarne_x509::Der;
///
/// let der = Der::build(|der| der.sequence(|der| der.integer(5)));
/// assert_eq!(der, [0x30, 3, 2, 1, 5]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Der {
    bytes: Vec<u8>,
    lengths: Lengths,
}

impl Der {
    /// Creates an empty writer with the shortest lengths, as DER requires.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty writer with the given form of lengths.
    pub fn with_lengths(lengths: Lengths) -> Self {
        Self {
            bytes: Vec::with_capacity(1536),
            lengths,
        }
    }

    /// Returns the bytes that `write` writes.
    pub fn build(write: impl FnOnce(&mut Der)) -> Vec<u8> {
        let mut der = Der::new();
        write(&mut der);
        der.bytes
    }

    /// Returns the bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends `bytes` unchanged, for example encoded elements.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes an element with this tag. `content` writes the content of the element.
    pub fn nest(&mut self, tag: u8, content: impl FnOnce(&mut Der)) {
        self.bytes.push(tag);
        let start = self.bytes.len();
        content(self);
        let (length, used) = self.length_bytes(self.bytes.len() - start);
        let skip = length.len() - used;
        // The content moves by a few bytes, which is cheaper than measuring first.
        self.bytes
            .splice(start..start, length[skip..].iter().copied());
    }

    /// Writes one element with the given content.
    pub fn put(&mut self, tag: u8, content: &[u8]) {
        let (length, used) = self.length_bytes(content.len());
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&length[length.len() - used..]);
        self.bytes.extend_from_slice(content);
    }

    /// Returns the length octets, right-aligned, and their number.
    fn length_bytes(&self, length: usize) -> ([u8; 6], usize) {
        let mut out = [0; 6];
        out[2..].copy_from_slice(&(length as u32).to_be_bytes());
        let significant = 4 - (length as u32).leading_zeros() as usize / 8;
        let octets = match self.lengths {
            Lengths::Minimal if length < 0x80 => return (out, 1),
            Lengths::Minimal => significant,
            Lengths::Long if length < 0x80 => 1,
            Lengths::Long => significant + 1,
        };
        out[5 - octets] = 0x80 | octets as u8;
        (out, octets + 1)
    }

    /// Writes a SEQUENCE.
    pub fn sequence(&mut self, content: impl FnOnce(&mut Der)) {
        self.nest(tag::SEQUENCE, content);
    }

    /// Writes a SET.
    pub fn set(&mut self, content: impl FnOnce(&mut Der)) {
        self.nest(tag::SET, content);
    }

    /// Writes `[number]` EXPLICIT (or IMPLICIT of a constructed type).
    pub fn context(&mut self, number: u8, content: impl FnOnce(&mut Der)) {
        self.nest(tag::context(number), content);
    }

    /// Writes `[number]` IMPLICIT of a primitive type.
    pub fn context_primitive(&mut self, number: u8, content: &[u8]) {
        self.put(0x80 | number, content);
    }

    /// Writes an OCTET STRING with the given content.
    pub fn octet_string(&mut self, content: &[u8]) {
        self.put(tag::OCTET_STRING, content);
    }

    /// Writes a BIT STRING of whole bytes.
    pub fn bit_string(&mut self, content: &[u8]) {
        self.nest(tag::BIT_STRING, |der| {
            der.raw(&[0]);
            der.raw(content);
        });
    }

    /// Writes an OBJECT IDENTIFIER.
    pub fn oid(&mut self, oid: &Oid) {
        self.put(tag::OID, oid.as_bytes());
    }

    /// Writes a BOOLEAN.
    pub fn boolean(&mut self, value: bool) {
        self.put(tag::BOOLEAN, &[if value { 0xff } else { 0 }]);
    }

    /// Writes NULL.
    pub fn null(&mut self) {
        self.put(tag::NULL, &[]);
    }

    /// Writes an INTEGER with exactly this two's-complement content, even if it is not minimal.
    pub fn integer_bytes(&mut self, content: &[u8]) {
        self.put(tag::INTEGER, content);
    }

    /// Writes a small non-negative INTEGER.
    pub fn integer(&mut self, value: u8) {
        let padded = [0, value];
        self.put(tag::INTEGER, &padded[usize::from(value < 0x80)..]);
    }
}

/// Encodes an AlgorithmIdentifier (RFC 5280, section 4.1.1.2) of `oid` with the parameters that
/// `parameters` writes, in DER.
pub fn algorithm(oid: &Oid, parameters: impl FnOnce(&mut Der)) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.oid(oid);
            parameters(der);
        });
    })
}

/// Parses a length and returns the rest. Superfluous leading zeros are accepted. Returns `None` for
/// the indefinite form and for lengths beyond `usize`.
#[inline]
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

/// Returns the number of octets in the shortest form of this length.
#[inline]
fn length_octets(length: usize) -> usize {
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

    #[test]
    fn lengths_are_minimal_or_one_longer() {
        for (size, minimal, long) in [
            (0, 1, 2),
            (127, 1, 2),
            (128, 2, 3),
            (255, 2, 3),
            (256, 3, 4),
            (65_536, 4, 5),
        ] {
            let content = vec![7; size];
            for (form, header) in [(Lengths::Minimal, minimal), (Lengths::Long, long)] {
                let mut put = Der::with_lengths(form);
                put.octet_string(&content);
                let mut nest = Der::with_lengths(form);
                nest.nest(tag::OCTET_STRING, |der| der.raw(&content));
                let bytes = put.into_bytes();
                assert_eq!(bytes, nest.into_bytes());
                assert_eq!(bytes.len(), 1 + header + size);
                let mut reader = Reader::new(&bytes);
                let element = reader.expect(tag::OCTET_STRING, "content").unwrap();
                assert_eq!(element.value, content);
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn small_integers_stay_positive() {
        assert_eq!(Der::build(|der| der.integer(0)), [2, 1, 0]);
        assert_eq!(Der::build(|der| der.integer(127)), [2, 1, 127]);
        assert_eq!(Der::build(|der| der.integer(128)), [2, 2, 0, 128]);
    }

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
