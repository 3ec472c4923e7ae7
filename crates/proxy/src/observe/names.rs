//! The names that a certificate is for (RFC 5280 section 4.2.1.6).

use std::net::{Ipv4Addr, Ipv6Addr};

use lucarne_ct::Certificate;
use lucarne_mint::der::read;

/// subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// More are not shown.
const MOST_NAMES: usize = 100;

/// DNS names and IP addresses, as they stand there.
pub(crate) fn dns_names(certificate: &Certificate<'_>) -> Vec<String> {
    let Some(extension) = certificate.extension(SUBJECT_ALT_NAME) else {
        return Vec::new();
    };
    let list = read(&mut { extension.value });
    let mut list = list.map_or(&[][..], |list| list.content);
    let mut names = Vec::new();
    while let Some(name) = read(&mut list).filter(|_| names.len() < MOST_NAMES) {
        match (name.tag, name.content) {
            (DNS_NAME, text) => names.push(String::from_utf8_lossy(text).into_owned()),
            (IP_ADDRESS, address) => names.extend(ip(address)),
            _ => {}
        }
    }
    names
}

fn ip(octets: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(v4).to_string());
    }
    let v6 = <[u8; 16]>::try_from(octets).ok()?;
    Some(Ipv6Addr::from(v6).to_string())
}
