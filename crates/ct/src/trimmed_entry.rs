//! TrimmedEntry: the names of an entry as a line of JSON in a names tile
//! (<https://github.com/FiloSottile/sunlight/blob/main/names-tiles.md>).
//!
//! The lines equal those of Sunlight byte for byte, so the JSON is written by the rules of
//! Sunlight's encoder. If Sunlight cannot parse a certificate, it omits the line, which shifts all
//! later entries. Here such a certificate has a line with all readable names.

use std::net::{Ipv4Addr, Ipv6Addr};

use lucarne_x509::der::{Reader, Tlv, tag};
use lucarne_x509::oid;

use crate::certificate::Certificate;
use crate::entry::EntryKind;
use crate::leaf::{SignedEntryRef, TileLeafRef};

/// Tag numbers of DNS names and addresses in GeneralNames (RFC 5280, section 4.2.1.6).
const DNS_NAME: u8 = 2;
const IP_ADDRESS: u8 = 7;

/// The subject attributes in the line: the last arc of `2.5.4.` in their identifiers, and their
/// keys.
const ATTRIBUTES: [(u8, &str); 7] = [
    (6, "Country"),
    (10, "Organization"),
    (11, "OrganizationalUnit"),
    (7, "Locality"),
    (8, "Province"),
    (9, "StreetAddress"),
    (17, "PostalCode"),
];

/// The names of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrimmedEntry {
    /// Timestamp of the entry in milliseconds since 1970.
    pub timestamp: u64,
    /// The values of each subject attribute as octets, mostly UTF-8.
    subject: [Vec<Vec<u8>>; ATTRIBUTES.len()],
    /// The last common name of the subject.
    common_name: Vec<u8>,
    /// The DNS names without changes.
    dns: Vec<Vec<u8>>,
    /// The IP addresses.
    ip: Vec<String>,
}

impl TrimmedEntry {
    /// Returns the names of an entry, from the submitted precertificate or the certificate.
    pub fn of(leaf: &TileLeafRef<'_>) -> Self {
        let mut entry = TrimmedEntry {
            timestamp: leaf.timestamp,
            ..TrimmedEntry::default()
        };
        let submitted = leaf.submitted().map(Certificate::parse);
        if let Some(Ok(certificate)) = submitted {
            entry.read(&certificate);
        }
        entry
    }

    /// Returns DNS names and IP addresses as text, or the common name if there are none.
    pub fn names(&self) -> Vec<String> {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        let mut names: Vec<_> = self.dns.iter().map(text).collect();
        names.extend(self.ip.iter().cloned());
        if names.is_empty() && !self.common_name.is_empty() {
            names.push(text(&self.common_name));
        }
        names
    }

    fn read(&mut self, certificate: &Certificate<'_>) {
        // Names before an unreadable part are kept.
        let _ = self.read_subject(certificate.subject());
        let names = certificate
            .extensions()
            .filter(|extension| extension.oid == oid::content::SUBJECT_ALT_NAME);
        if let Some(extension) = names.last() {
            let _ = self.read_names(extension.value);
        }
    }

    fn read_subject(&mut self, name: &[u8]) -> Option<()> {
        let mut sets = Reader::new(name)
            .expect(tag::SEQUENCE, "Name")
            .ok()?
            .reader();
        while !sets.is_empty() {
            let set = sets.expect(tag::SET, "RelativeDistinguishedName").ok()?;
            let mut attributes = set.reader();
            while !attributes.is_empty() {
                let attribute = attributes.expect(tag::SEQUENCE, "AttributeTypeAndValue");
                let mut fields = attribute.ok()?.reader();
                let oid = fields.expect(tag::OID, "AttributeType").ok()?;
                let value = fields.any("AttributeValue").ok()?;
                self.add_attribute(oid.value, value);
            }
        }
        Some(())
    }

    fn add_attribute(&mut self, oid: &[u8], value: Tlv<'_>) {
        let (&[0x55, 4, number], Some(text)) = (oid, text(value)) else {
            return;
        };
        if oid == oid::content::COMMON_NAME {
            self.common_name = text;
            return;
        }
        let known = ATTRIBUTES.iter().position(|(n, _)| *n == number);
        if let Some(place) = known {
            self.subject[place].push(text);
        }
    }

    fn read_names(&mut self, value: &[u8]) -> Option<()> {
        let names = Reader::new(value)
            .expect(tag::SEQUENCE, "GeneralNames")
            .ok()?;
        let mut names = names.reader();
        while !names.is_empty() {
            let name = names.any("GeneralName").ok()?;
            match name.tag & 0x1f {
                DNS_NAME => self.dns.push(name.value.to_vec()),
                IP_ADDRESS => self.ip.extend(address(name.value)),
                _ => {}
            }
        }
        Some(())
    }

    /// Appends the line of a names tile, including its line break.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"Timestamp\":");
        out.extend_from_slice(self.timestamp.to_string().as_bytes());
        if !self.common_name.is_empty() || self.subject.iter().any(|values| !values.is_empty()) {
            out.extend_from_slice(b",\"Subject\":{");
            self.write_subject(out);
            out.push(b'}');
        }
        let ips: Vec<_> = self.ip.iter().map(String::as_bytes).collect();
        let dns: Vec<_> = self.dns.iter().map(Vec::as_slice).collect();
        for (key, values) in [("DNS", dns), ("IP", ips)] {
            if !values.is_empty() {
                out.push(b',');
                write_list(key, values.into_iter(), out);
            }
        }
        out.extend_from_slice(b"}\n");
    }

    fn write_subject(&self, out: &mut Vec<u8>) {
        let mut first = true;
        let mut comma = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
        };
        for ((_, key), values) in ATTRIBUTES.iter().zip(&self.subject) {
            if !values.is_empty() {
                comma(out);
                write_list(key, values.iter().map(Vec::as_slice), out);
            }
        }
        if !self.common_name.is_empty() {
            comma(out);
            out.extend_from_slice(b"\"CommonName\":");
            write_string(&self.common_name, out);
        }
    }
}

impl<'a> TileLeafRef<'a> {
    /// Returns the kind of entry.
    pub fn kind(&self) -> EntryKind {
        match self.signed {
            SignedEntryRef::X509 { .. } => EntryKind::X509,
            SignedEntryRef::Precert { .. } => EntryKind::Precert,
        }
    }

    /// Returns the submitted certificate or precertificate in DER; `None` if an entry for a
    /// precertificate lacks it.
    pub fn submitted(&self) -> Option<&'a [u8]> {
        match self.signed {
            SignedEntryRef::X509 { certificate } => Some(certificate),
            SignedEntryRef::Precert { .. } => self.precertificate,
        }
    }
}

/// Returns the octets of a string, converted to UTF-8 if its type defines the encoding; `None` for
/// other types, which are omitted.
fn text(value: Tlv<'_>) -> Option<Vec<u8>> {
    let octets = value.value;
    match value.tag {
        tag::UTF8_STRING | tag::IA5_STRING | tag::TELETEX_STRING | tag::NUMERIC_STRING => {
            Some(octets.to_vec())
        }
        tag::PRINTABLE_STRING if octets.is_ascii() || !is_latin(octets) => Some(octets.to_vec()),
        tag::PRINTABLE_STRING => {
            let latin: String = octets.iter().map(|octet| char::from(*octet)).collect();
            Some(latin.into_bytes())
        }
        tag::BMP_STRING => {
            let units = octets.chunks_exact(2);
            let units = units.map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            let decoded = char::decode_utf16(units);
            let decoded = decoded.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
            let text: String = decoded.collect();
            Some(text.strip_suffix('\0').unwrap_or(&text).as_bytes().to_vec())
        }
        _ => None,
    }
}

/// Returns `true` if the octets may be ISO 8859-1, which some authorities put into a
/// PrintableString.
fn is_latin(octets: &[u8]) -> bool {
    !octets
        .iter()
        .any(|octet| matches!(octet, ..0x20 | 0x7f..0xa0))
}

/// Formats an address of four or sixteen octets.
fn address(octets: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(v4).to_string());
    }
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?);
    let mapped = v6.to_ipv4_mapped();
    Some(mapped.map_or_else(|| v6.to_string(), |v4| v4.to_string()))
}

fn write_list<'a>(key: &str, values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":[");
    for (n, value) in values.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write_string(value, out);
    }
    out.push(b']');
}

/// Appends a JSON string with the escapes of Go's `encoding/json`: characters with a meaning in
/// HTML are escaped, and each octet that is not UTF-8 becomes U+FFFD.
fn write_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            write_char(c, out);
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

fn write_char(c: char, out: &mut Vec<u8>) {
    let short = match c {
        '"' | '\\' => c as u8,
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
            out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes());
            return;
        }
        _ => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_mint::testing::Pki;
    use lucarne_mint::{Extension, Name, Oid, oid};

    /// Returns the line of a certificate with this subject and these GeneralNames.
    fn line(subject: &[(&Oid, u8, &[u8])], names: &[(u8, &[u8])]) -> String {
        let pki = Pki::shared();
        let mut template = pki.p256.leaf_template(&pki.leaf("a.example")).unwrap();
        let der = lucarne_mint::Der::build(|der| {
            der.sequence(|der| {
                for (oid, tag, value) in subject {
                    der.set(|der| {
                        der.sequence(|der| {
                            der.oid(oid);
                            der.put(*tag, value);
                        });
                    });
                }
            });
        });
        template.subject = Name::from_der(&der);
        template.remove_extension(&oid::SUBJECT_ALT_NAME);
        if !names.is_empty() {
            let extension = Extension::new(oid::SUBJECT_ALT_NAME, false, |der| {
                der.sequence(|der| names.iter().for_each(|(tag, value)| der.put(*tag, value)));
            });
            template.extensions.push(extension);
        }
        let certificate = pki.p256.sign(&template).unwrap();
        of_certificate(&certificate)
    }

    fn of_certificate(certificate: &[u8]) -> String {
        let leaf = TileLeafRef {
            timestamp: 7,
            signed: SignedEntryRef::X509 { certificate },
            extensions: &[],
            precertificate: None,
            index: 0,
            fingerprints: Default::default(),
        };
        let mut out = Vec::new();
        TrimmedEntry::of(&leaf).write_line(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        assert_eq!(line(&[], &[]), "{\"Timestamp\":7}\n");
        assert_eq!(of_certificate(b"no certificate"), "{\"Timestamp\":7}\n");
        assert_eq!(
            line(&[], &[(0x82, b"a.example")]),
            "{\"Timestamp\":7,\"DNS\":[\"a.example\"]}\n"
        );
    }

    #[test]
    fn subjects_have_their_order_and_the_last_common_name() {
        let attribute = |n: u8| Oid::from_static(Box::leak(Box::new([0x55, 4, n])));
        let [cn, o, c, serial] = [3, 10, 6, 5].map(attribute);
        let utf8 = tag::UTF8_STRING;
        let printable = tag::PRINTABLE_STRING;
        assert_eq!(
            line(
                &[
                    (&cn, utf8, b"first"),
                    (&o, utf8, "R\u{e4}der & <S\u{f6}hne>".as_bytes()),
                    (&o, tag::TELETEX_STRING, b"R\xe4der"),
                    (&o, printable, b"R\xe4der"),
                    (&o, tag::BMP_STRING, b"\0R\0\xe4\0\0"),
                    (&serial, printable, b"1"),
                    (&c, printable, b"DE"),
                    (&cn, utf8, b"last"),
                    (&cn, tag::OCTET_STRING, b"none"),
                ],
                &[]
            ),
            "{\"Timestamp\":7,\"Subject\":{\"Country\":[\"DE\"],\"Organization\":[\"R\u{e4}der \
             \\u0026 \\u003cS\u{f6}hne\\u003e\",\"R\\ufffdder\",\"R\u{e4}der\",\"R\u{e4}\"],\
             \"CommonName\":\"last\"}}\n"
        );
    }

    #[test]
    fn addresses_and_odd_names() {
        let mapped = [&[0; 10][..], &[0xff, 0xff, 192, 0, 2, 1]].concat();
        let v6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1]].concat();
        assert_eq!(
            line(
                &[],
                &[
                    (0x87, &[192, 0, 2, 7]),
                    (0x87, &v6),
                    (0x87, &mapped),
                    (0x87, &[1, 2, 3]),
                    (0x81, b"mail@example"),
                    (0x82, b"q\"\\\x08\x0c\n\r\t\x01\x7f\xe2\x82"),
                    (0x82, "\u{2028}\u{fffd}".as_bytes()),
                ]
            ),
            "{\"Timestamp\":7,\"DNS\":[\"q\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\\ufffd\\ufffd\",\
             \"\\u2028\u{fffd}\"],\"IP\":[\"192.0.2.7\",\"2001:db8::1\",\"192.0.2.1\"]}\n"
        );
    }
}
