//! Comparison and formatting of X.501 Names.
//!
//! Two names match if their bytes are equal, or if they have the same text in another string type
//! or with other white space: authorities changed from PrintableString to UTF8String without
//! reissuing their own certificates. Letter case matters, although RFC 5280, section 7.1 would
//! ignore it. No chain in use depends on that rule, and every other log refuses these chains.

use std::fmt::Write;

use lucarne_x509::der::{DerError, Reader, Tlv, tag};
use lucarne_x509::oid;
use lucarne_x509::text::is_control;

/// Returns `true` if two DER Names (including tag and length) name the same entity.
pub fn names_match(a: &[u8], b: &[u8]) -> bool {
    a == b || canonical(a) == canonical(b)
}

/// Returns a form of the name that is equal for matching names; invalid names stay as they are.
pub(crate) fn canonical(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 16);
    if push_canonical(name, &mut out).is_err() {
        out.clear();
        out.extend_from_slice(name);
    }
    out
}

fn push_canonical(name: &[u8], out: &mut Vec<u8>) -> Result<(), DerError> {
    let mut sets = Reader::new(name).expect(tag::SEQUENCE, "Name")?.reader();
    while !sets.is_empty() {
        let mut attributes = sets.expect(tag::SET, "RelativeDistinguishedName")?.reader();
        let mut folded = Vec::new();
        while !attributes.is_empty() {
            folded.push(fold_attribute(Attribute::read(&mut attributes)?));
        }
        folded.sort_unstable();
        out.push(tag::SET);
        out.extend_from_slice(&(folded.len() as u32).to_be_bytes());
        for attribute in folded {
            out.extend_from_slice(&(attribute.len() as u32).to_be_bytes());
            out.extend_from_slice(&attribute);
        }
    }
    Ok(())
}

/// An AttributeTypeAndValue.
struct Attribute<'a> {
    oid: Tlv<'a>,
    value: Tlv<'a>,
}

impl<'a> Attribute<'a> {
    fn read(attributes: &mut Reader<'a>) -> Result<Self, DerError> {
        let mut fields = attributes
            .expect(tag::SEQUENCE, "AttributeTypeAndValue")?
            .reader();
        Ok(Self {
            oid: fields.expect(tag::OID, "AttributeType")?,
            value: fields.any("AttributeValue")?,
        })
    }
}

fn fold_attribute(attribute: Attribute<'_>) -> Vec<u8> {
    let mut out = attribute.oid.raw.to_vec();
    match text(attribute.value) {
        Some(text) => {
            out.push(tag::UTF8_STRING);
            out.extend_from_slice(fold(&text).as_bytes());
        }
        None => out.extend_from_slice(attribute.value.raw),
    }
    out
}

/// Removes white space at the ends, and replaces other runs of it by one space.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(word);
    }
    folded
}

/// Returns the text of a string type; `None` for other types and for invalid octets.
fn text(value: Tlv<'_>) -> Option<String> {
    let octets = value.value;
    match value.tag {
        tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::IA5_STRING | tag::VISIBLE_STRING => {
            String::from_utf8(octets.to_vec()).ok()
        }
        // T.61 in theory, but Latin-1 in all certificates that use this type.
        tag::TELETEX_STRING => Some(octets.iter().map(|octet| char::from(*octet)).collect()),
        tag::BMP_STRING => {
            let units = octets.chunks_exact(2);
            let whole = units.remainder().is_empty();
            let units = units.map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            text.ok().filter(|_| whole)
        }
        tag::UNIVERSAL_STRING => {
            let points = octets.chunks_exact(4);
            let whole = points.remainder().is_empty();
            let text: Option<String> = points
                .map(|point| char::from_u32(u32::from_be_bytes(point.try_into().ok()?)))
                .collect();
            text.filter(|_| whole)
        }
        _ => None,
    }
}

/// Maximum length of a formatted name in characters.
const SHOWN: usize = 400;

/// Formats a Name, most specific part first: `CN=Example CA, O=Example, C=DE`. Control characters,
/// line separators and marks of direction are left out.
pub fn display_name(name: &[u8]) -> String {
    let mut parts = Vec::new();
    // Parts before an error are still shown.
    let _ = push_parts(name, &mut parts);
    if parts.is_empty() {
        return "(empty name)".to_owned();
    }
    parts.reverse();
    let mut shown = parts.join(", ");
    if let Some((cut, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(cut);
        shown.push('…');
    }
    shown
}

fn push_parts(name: &[u8], parts: &mut Vec<String>) -> Result<(), DerError> {
    let mut sets = Reader::new(name).expect(tag::SEQUENCE, "Name")?.reader();
    while !sets.is_empty() {
        let mut attributes = sets.expect(tag::SET, "RelativeDistinguishedName")?.reader();
        while !attributes.is_empty() {
            let attribute = Attribute::read(&mut attributes)?;
            let mut part = short_name(attribute.oid.value);
            part.push('=');
            match text(attribute.value) {
                Some(text) => part.extend(text.chars().filter(|c| !is_control(*c))),
                None => {
                    let _ = write!(part, "#{}", hex::encode(attribute.value.raw));
                }
            }
            parts.push(part);
        }
    }
    Ok(())
}

fn short_name(attribute: &[u8]) -> String {
    let short = match attribute {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 5] => "serialNumber",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        other => return oid::display(other),
    };
    short.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_x509::der::push_header;

    fn element(tag: u8, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_header(tag, value.len(), &mut out);
        out.extend_from_slice(value);
        out
    }

    fn attribute(last: u8, string: u8, value: &[u8]) -> Vec<u8> {
        let fields = [element(tag::OID, &[0x55, 4, last]), element(string, value)].concat();
        element(tag::SEQUENCE, &fields)
    }

    fn name(sets: &[&[Vec<u8>]]) -> Vec<u8> {
        let sets: Vec<u8> = sets
            .iter()
            .flat_map(|set| element(tag::SET, &set.concat()))
            .collect();
        element(tag::SEQUENCE, &sets)
    }

    #[test]
    fn space_and_string_type_do_not_count_and_case_does() {
        let one = name(&[&[attribute(3, tag::UTF8_STRING, b"Example  CA ")]]);
        for (string, value) in [
            (tag::PRINTABLE_STRING, &b" Example CA"[..]),
            (tag::TELETEX_STRING, b"Example\tCA"),
            (tag::BMP_STRING, b"\0E\0x\0a\0m\0p\0l\0e\0 \0C\0A"),
        ] {
            assert!(names_match(&one, &name(&[&[attribute(3, string, value)]])));
        }
        for other in [&b"ExampleCA"[..], b"Example ca"] {
            let other = name(&[&[attribute(3, tag::UTF8_STRING, other)]]);
            assert!(!names_match(&one, &other));
        }
        assert!(!names_match(
            &one,
            &name(&[&[attribute(10, tag::UTF8_STRING, b"Example CA")]])
        ));
    }

    #[test]
    fn sets_have_no_order_and_sequences_do() {
        let cn = attribute(3, tag::UTF8_STRING, b"a");
        let o = attribute(10, tag::UTF8_STRING, b"b");
        let both = name(&[&[cn.clone(), o.clone()]]);
        assert!(names_match(&both, &name(&[&[o.clone(), cn.clone()]])));
        let sequence = name(&[std::slice::from_ref(&cn), std::slice::from_ref(&o)]);
        assert!(!names_match(&both, &sequence));
        assert!(!names_match(&sequence, &name(&[&[o], &[cn]])));
    }

    #[test]
    fn what_is_no_name_only_equals_itself() {
        assert!(names_match(b"\x30\x05", b"\x30\x05"));
        assert!(!names_match(b"\x30\x05", b"\x30\x06"));
        assert_eq!(display_name(b"\x30\x05"), "(empty name)");
    }

    #[test]
    fn shown_from_the_most_specific_part() {
        let shown = name(&[
            &[attribute(6, tag::PRINTABLE_STRING, b"DE")],
            &[attribute(
                3,
                tag::UTF8_STRING,
                "Exa\u{202e}mple\n\u{2028}CA".as_bytes(),
            )],
            &[attribute(99, tag::INTEGER, b"\x01")],
        ]);
        assert_eq!(display_name(&shown), "2.5.4.99=#020101, CN=ExampleCA, C=DE");
    }
}
