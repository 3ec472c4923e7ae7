//! Subject names of a certificate (RFC 5280, section 4.2.1.6).

use std::net::{Ipv4Addr, Ipv6Addr};

use lucarne_ct::Certificate;
use lucarne_mint::der::Reader;
use lucarne_mint::oid::content::SUBJECT_ALT_NAME;

const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// Limit of the names that are shown.
const MAX_NAMES: usize = 100;

/// Returns the DNS names and IP addresses in the order of the certificate.
pub(crate) fn dns_names(certificate: &Certificate<'_>) -> Vec<String> {
    let Some(extension) = certificate.extension(SUBJECT_ALT_NAME) else {
        return Vec::new();
    };
    let Ok(list) = Reader::new(extension.value).any("GeneralNames") else {
        return Vec::new();
    };
    let mut list = list.reader();
    let mut names = Vec::new();
    while names.len() < MAX_NAMES
        && let Ok(name) = list.any("GeneralName")
    {
        match (name.tag, name.value) {
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
