//! Address blocks, and addresses outside the public internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    length: u8,
}

/// Text that is not an address block. The message follows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an address block such as 10.0.0.0/8, fd00::/8 or 192.0.2.1")]
pub struct NetworkError;

impl Network {
    /// Returns the address if the block has only one.
    pub fn single(&self) -> Option<IpAddr> {
        let whole = if self.base.is_ipv4() { 32 } else { 128 };
        (self.length == whole).then_some(self.base)
    }

    /// Returns whether the block contains `ip`.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => shared(
                u32::from(base).into(),
                u32::from(ip).into(),
                32,
                self.length,
            ),
            (IpAddr::V6(base), IpAddr::V6(ip)) => shared(base.into(), ip.into(), 128, self.length),
            _ => false,
        }
    }
}

/// Returns whether two numbers of `bits` bits have the same first `length` bits.
fn shared(a: u128, b: u128, bits: u32, length: u8) -> bool {
    let below = bits - u32::from(length);
    (a ^ b).checked_shr(below).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (base, length) = text.split_once('/').unwrap_or((text, ""));
        let base = base.parse::<IpAddr>().map_err(|_| NetworkError)?;
        let max = if base.is_ipv4() { 32 } else { 128 };
        let length = match length {
            "" if !text.contains('/') => max,
            length => length.parse().map_err(|_| NetworkError)?,
        };
        if length > max {
            return Err(NetworkError);
        }
        // IPv4-mapped addresses are converted to IPv4.
        Ok(match (base.to_canonical(), length) {
            (ipv4 @ IpAddr::V4(_), 96..) if base.is_ipv6() => Network {
                base: ipv4,
                length: length - 96,
            },
            _ => Network { base, length },
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}

/// Returns the kind of `ip` if it is outside the public internet: an address of this machine or
/// network, or a reserved one (IANA's special-purpose registries). An IPv6 address that embeds an
/// IPv4 address has the kind of that address.
pub fn special(ip: IpAddr) -> Option<&'static str> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => special_v4(ip),
        IpAddr::V6(ip) => special_v6(ip),
    }
}

fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = ip.octets();
    Some(match (a, b, c) {
        (127, ..) => "a loopback address",
        (0, ..) => "an address of this host",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (169, 254, _) => "a link-local address",
        (100, 64..=127, _) => "an address of a carrier's network",
        (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) => "a reserved address",
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => "an address of documentation",
        (224..=239, ..) => "a multicast address",
        (240..=255, ..) => "a reserved address",
        _ => return None,
    })
}

fn special_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let words = ip.segments();
    if ip.is_loopback() {
        return Some("a loopback address");
    }
    if ip.is_unspecified() {
        return Some("an address of this host");
    }
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        special_v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xfe80..=0xfeff, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        // Embedded IPv4: compatible, NAT64 (RFC 6052, RFC 8215), 6to4.
        [0, 0, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Some("an address of a local translator"),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x100, 0, 0, 0, ..] => Some("a discard address"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address of documentation"),
        [0x5f00, ..] => Some("a reserved address"),
        [0x2001, 0, ..] => Some("a Teredo address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_contain_what_shares_their_prefix() {
        let contains = |block: &str, ip: &str| {
            block
                .parse::<Network>()
                .unwrap()
                .contains(ip.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1"));
        assert!(contains("0.0.0.0/0", "203.0.113.1"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(contains("192.0.2.1", "192.0.2.1"));
        assert!(!contains("192.0.2.1", "192.0.2.2"));
        assert!(!contains("10.0.0.0/9", "10.128.0.1"));
        assert!(!contains("fd00::/8", "fe80::1"));
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "example.com",
            "::/129",
            "10/8",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_way_of_writing_an_inner_address_is_public() {
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "192.0.2.1",
            "2001:db8::1",
            "100::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(special(ip.parse().unwrap()).is_some(), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "2002:101:101::1",
        ] {
            assert_eq!(special(ip.parse().unwrap()), None, "{ip}");
        }
    }
}
