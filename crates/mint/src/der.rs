//! A DER writer (ITU-T X.690), and the few lines of reader that a CA needs to
//! find its own name and key identifier again.

use crate::Oid;

/// The forms in which lengths are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lengths {
    /// As DER demands: the shortest form.
    #[default]
    Minimal,
    /// One length byte more than needed, everywhere: valid BER, forbidden in
    /// DER, found in the wild.
    Long,
}

/// Tags of the universal class, with the constructed bit where it belongs.
pub mod tag {
    #![allow(missing_docs)]
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OID: u8 = 0x06;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const PRINTABLE_STRING: u8 = 0x13;
    pub const IA5_STRING: u8 = 0x16;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
}

/// Writes DER front to back into one buffer. Lengths are put in once the
/// content is known, so no length is ever computed by a caller.
#[derive(Clone, Debug, Default)]
pub struct Der {
    bytes: Vec<u8>,
    lengths: Lengths,
}

impl Der {
    /// An empty writer of proper DER.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer with the given form of lengths.
    pub fn with_lengths(lengths: Lengths) -> Self {
        Self {
            bytes: Vec::with_capacity(1536),
            lengths,
        }
    }

    /// Returns what `write` writes, as bytes.
    pub fn build(write: impl FnOnce(&mut Der)) -> Vec<u8> {
        let mut der = Der::new();
        write(&mut der);
        der.bytes
    }

    /// The bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes as they are, no tag, no length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// One element whose content is what `content` writes.
    pub fn nest(&mut self, tag: u8, content: impl FnOnce(&mut Der)) {
        self.bytes.push(tag);
        let start = self.bytes.len();
        content(self);
        let (length, used) = self.length_bytes(self.bytes.len() - start);
        let skip = length.len() - used;
        // Content moves up by one to four bytes: cheaper than measuring first.
        self.bytes
            .splice(start..start, length[skip..].iter().copied());
    }

    /// One element with the given content.
    pub fn put(&mut self, tag: u8, content: &[u8]) {
        let (length, used) = self.length_bytes(content.len());
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&length[length.len() - used..]);
        self.bytes.extend_from_slice(content);
    }

    /// The length octets, right-aligned, and how many of them count.
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

    /// SEQUENCE.
    pub fn sequence(&mut self, content: impl FnOnce(&mut Der)) {
        self.nest(tag::SEQUENCE, content);
    }

    /// SET.
    pub fn set(&mut self, content: impl FnOnce(&mut Der)) {
        self.nest(tag::SET, content);
    }

    /// `[number]` EXPLICIT (or IMPLICIT of a constructed type).
    pub fn context(&mut self, number: u8, content: impl FnOnce(&mut Der)) {
        self.nest(0xa0 | number, content);
    }

    /// `[number]` IMPLICIT of a primitive type.
    pub fn context_primitive(&mut self, number: u8, content: &[u8]) {
        self.put(0x80 | number, content);
    }

    /// OCTET STRING with the given content.
    pub fn octet_string(&mut self, content: &[u8]) {
        self.put(tag::OCTET_STRING, content);
    }

    /// BIT STRING of whole bytes.
    pub fn bit_string(&mut self, content: &[u8]) {
        self.nest(tag::BIT_STRING, |der| {
            der.raw(&[0]);
            der.raw(content);
        });
    }

    /// OBJECT IDENTIFIER.
    pub fn oid(&mut self, oid: &Oid) {
        self.put(tag::OID, oid.as_bytes());
    }

    /// BOOLEAN.
    pub fn boolean(&mut self, value: bool) {
        self.put(tag::BOOLEAN, &[if value { 0xff } else { 0 }]);
    }

    /// NULL.
    pub fn null(&mut self) {
        self.put(tag::NULL, &[]);
    }

    /// INTEGER with exactly this two's-complement content, proper or not.
    pub fn integer_bytes(&mut self, content: &[u8]) {
        self.put(tag::INTEGER, content);
    }

    /// A small non-negative INTEGER.
    pub fn integer(&mut self, value: u8) {
        let padded = [0, value];
        self.put(tag::INTEGER, &padded[usize::from(value < 0x80)..]);
    }
}

/// Takes one element off the front of `input`: its tag and content, and the
/// whole element as it was encoded. `None` where there is no whole element of
/// single-byte tag and definite length.
pub fn read<'a>(input: &mut &'a [u8]) -> Option<Element<'a>> {
    let (&tag, rest) = input.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (octets, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if octets.is_empty() || octets.len() > 4 {
            return None;
        }
        length = octets.iter().fold(0, |n, &b| n << 8 | usize::from(b));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    let encoded = &input[..input.len() - after.len()];
    *input = after;
    Some(Element {
        tag,
        content,
        encoded,
    })
}

/// One DER element, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The identifier octet.
    pub tag: u8,
    /// The content octets.
    pub content: &'a [u8],
    /// Tag, length and content.
    pub encoded: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let mut rest = &bytes[..];
                let element = read(&mut rest).unwrap();
                assert_eq!(element.tag, tag::OCTET_STRING);
                assert_eq!(element.content, content);
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn reading_stops_at_what_is_not_whole() {
        for bytes in [
            &[][..],
            &[4],
            &[4, 1],
            &[4, 0x80],
            &[4, 0x81],
            &[4, 0x85, 0, 0, 0, 0, 0],
        ] {
            let mut rest = bytes;
            assert!(read(&mut rest).is_none());
            assert_eq!(rest, bytes);
        }
    }

    #[test]
    fn small_integers_stay_positive() {
        assert_eq!(Der::build(|der| der.integer(0)), [2, 1, 0]);
        assert_eq!(Der::build(|der| der.integer(127)), [2, 1, 127]);
        assert_eq!(Der::build(|der| der.integer(128)), [2, 2, 0, 128]);
    }
}
