//! Object identifiers, kept as their DER content octets.

use std::fmt;
use std::str::FromStr;

/// An object identifier, for configuration: `"1.3.6.1.5.5.7.1.24".parse()`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Oid(Box<[u8]>);

/// A string that is not an object identifier in dotted notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an object identifier such as 1.3.6.1.5.5.7.1.24")]
pub struct OidError(String);

impl Oid {
    /// The identifier whose DER content octets (without tag and length) are `content`.
    pub fn from_der_content(content: &[u8]) -> Self {
        Self(content.into())
    }

    /// The DER content octets, without tag and length.
    pub fn as_der_content(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        parse_dotted(text).ok_or_else(|| OidError(text.to_owned()))
    }
}

fn parse_dotted(text: &str) -> Option<Oid> {
    let mut arcs = text.split('.').map(|arc| {
        let digits = !arc.is_empty() && arc.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| arc.parse::<u64>().ok()).flatten()
    });
    let (first, second) = (arcs.next()??, arcs.next()??);
    if first > 2 || (first < 2 && second > 39) {
        return None;
    }
    let mut content = Vec::new();
    push_base128(first.checked_mul(40)?.checked_add(second)?, &mut content);
    for arc in arcs {
        push_base128(arc?, &mut content);
    }
    Some(Oid(content.into()))
}

fn push_base128(value: u64, out: &mut Vec<u8>) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let more = if group == 0 { 0 } else { 0x80 };
        out.push((value >> (7 * group)) as u8 & 0x7f | more);
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_content(&self.0, f)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_content(&self.0, f)
    }
}

/// Writes the DER content octets of an identifier in dotted notation; arcs over 64 bits,
/// and octets that end in the middle of an arc, show as `?`.
fn fmt_content(content: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut first = true;
    for group in content.split_inclusive(|byte| byte & 0x80 == 0) {
        let whole = group.last().is_some_and(|byte| byte & 0x80 == 0) && group.len() <= 9;
        let arc = group
            .iter()
            .fold(0u64, |arc, byte| arc << 7 | u64::from(byte & 0x7f));
        match (whole, first) {
            (false, _) => f.write_str(if first { "?" } else { ".?" })?,
            (true, true) => write!(f, "{}.{}", (arc / 40).min(2), arc - 40 * (arc / 40).min(2))?,
            (true, false) => write!(f, ".{arc}")?,
        }
        first = false;
    }
    Ok(())
}

/// The content octets of an identifier from outside, in dotted notation.
pub(crate) fn display(content: &[u8]) -> String {
    Oid::from_der_content(content).to_string()
}

/// Precertificate poison, 1.3.6.1.4.1.11129.2.4.3 (RFC 6962 section 3.1).
pub(crate) const POISON: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 3];
/// SCT list in a certificate, 1.3.6.1.4.1.11129.2.4.2 (RFC 6962 section 3.3).
pub(crate) const SCT_LIST: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 2];
/// SCT list in an OCSP response, 1.3.6.1.4.1.11129.2.4.5 (RFC 6962 section 3.3).
pub(crate) const OCSP_SCT_LIST: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 5];
/// EKU of a Precertificate Signing Certificate, 1.3.6.1.4.1.11129.2.4.4 (RFC 6962 section 3.1).
pub(crate) const PRECERT_SIGNING: &[u8] = &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 4];
/// basicConstraints, 2.5.29.19.
pub(crate) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
/// authorityKeyIdentifier, 2.5.29.35.
pub(crate) const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 35];
/// extKeyUsage, 2.5.29.37.
pub(crate) const EXT_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
/// anyExtendedKeyUsage, 2.5.29.37.0.
pub(crate) const ANY_EXT_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37, 0];
/// id-kp-serverAuth, 1.3.6.1.5.5.7.3.1.
pub(crate) const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// id-kp-OCSPSigning, 1.3.6.1.5.5.7.3.9.
pub(crate) const OCSP_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 9];
/// id-pkix-ocsp-basic, 1.3.6.1.5.5.7.48.1.1.
pub(crate) const OCSP_BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1];
/// SHA-1, 1.3.14.3.2.26, and SHA-256, 2.16.840.1.101.3.4.2.1.
pub(crate) const SHA1: &[u8] = &[0x2b, 14, 3, 2, 26];
pub(crate) const SHA256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_and_back() {
        for text in [
            "2.5.29.37",
            "1.3.6.1.4.1.11129.2.4.3",
            "0.0",
            "2.999.1",
            "1.39.0",
        ] {
            assert_eq!(text.parse::<Oid>().unwrap().to_string(), text);
        }
        assert_eq!(display(POISON), "1.3.6.1.4.1.11129.2.4.3");
        assert_eq!(display(PRECERT_SIGNING), "1.3.6.1.4.1.11129.2.4.4");
        assert_eq!(display(ANY_EXT_KEY_USAGE), "2.5.29.37.0");
        assert_eq!(display(SERVER_AUTH), "1.3.6.1.5.5.7.3.1");
    }

    #[test]
    fn refuses_what_is_not_one() {
        for text in [
            "",
            "1",
            "3.1",
            "1.40",
            "1.2.",
            "1..2",
            "1.+2",
            "1.2.99999999999999999999",
        ] {
            assert!(text.parse::<Oid>().is_err(), "{text}");
        }
    }

    #[test]
    fn odd_octets_never_panic() {
        assert_eq!(display(&[]), "");
        assert_eq!(display(&[0x2b, 0x80]), "1.3.?");
        assert_eq!(display(&[0xff; 20]), "?");
    }
}
