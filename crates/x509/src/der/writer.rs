//! A DER writer that can also write lengths that DER forbids.

use super::tag;
use crate::Oid;

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

#[cfg(test)]
mod tests {
    use super::super::Reader;
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
}
