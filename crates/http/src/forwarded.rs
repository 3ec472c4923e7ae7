//! The client behind a proxy: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Any client can send these fields, so only fields from configured proxies are trusted. Each proxy
//! appends the address of its peer at the right. The client is therefore the rightmost address that
//! is not a configured proxy. The addresses to the left of the client may be forged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{FORWARDED, HeaderMap, HeaderName};
use lucarne_net::{Network, special};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Maximum number of proxies in a chain.
const MAX_HOPS: usize = 32;

/// The configured proxies.
#[derive(Clone, Debug)]
pub(crate) struct Proxies(Option<Vec<Network>>);

impl Proxies {
    /// Creates the set of proxies. `None` means "not configured"; an empty list means that there
    /// are no proxies.
    pub(crate) fn new(named: Option<Vec<Network>>) -> Self {
        Proxies(named)
    }

    /// Returns the address of the client whose request came from `peer`. Returns `None` if no
    /// proxies are configured and the request may have come through a proxy: a field is present, or
    /// `peer` is not a public address.
    ///
    /// If the fields of a configured proxy are missing or invalid, the proxy itself counts as the
    /// client.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        match &self.0 {
            None if is_forwarded(headers) || self.may_be(peer) => None,
            Some(named) if self.may_be(peer) => Some(forwarded(headers, named).unwrap_or(peer)),
            _ => Some(peer),
        }
    }

    /// Returns `true` if `peer` is a configured proxy or, if no proxies are configured, may be one:
    /// it is not a public address.
    pub(crate) fn may_be(&self, peer: IpAddr) -> bool {
        match &self.0 {
            None => special(peer).is_some(),
            Some(named) => is_named(named, peer),
        }
    }
}

fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED)
}

fn is_named(named: &[Network], address: IpAddr) -> bool {
    named.iter().any(|network| network.contains(address))
}

/// Returns the client's address according to the configured proxies. If both fields exist, the
/// client may have sent one of them. Therefore the fields count only if they agree.
fn forwarded(headers: &HeaderMap, named: &[Network]) -> Option<IpAddr> {
    let standard = headers.contains_key(FORWARDED);
    let usual = headers.contains_key(X_FORWARDED_FOR);
    let by_standard = || client_of(&in_forwarded(headers)?, named);
    let by_usual = || client_of(&in_x_forwarded_for(headers)?, named);
    match (standard, usual) {
        (true, false) => by_standard(),
        (false, true) => by_usual(),
        (true, true) => by_standard().filter(|address| by_usual() == Some(*address)),
        (false, false) => None,
    }
}

/// Returns the rightmost hop that is not a configured proxy. `None` in `hops` is a hop without an
/// address.
fn client_of(hops: &[Option<IpAddr>], named: &[Network]) -> Option<IpAddr> {
    let hops = hops.iter().rev().take(MAX_HOPS);
    let mut beyond = hops.skip_while(|hop| hop.is_some_and(|hop| is_named(named, hop)));
    beyond.next().copied().flatten()
}

/// Parses the hops of `X-Forwarded-For`; `None` if the field is not valid text.
fn in_x_forwarded_for(headers: &HeaderMap) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    for line in headers.get_all(X_FORWARDED_FOR) {
        let items = line.to_str().ok()?.split(',').map(trim);
        hops.extend(items.map(|item| item.parse().ok().or_else(|| node(item))));
    }
    Some(hops)
}

/// Parses the hops of `Forwarded`; `None` if the field violates RFC 7239, section 4.
fn in_forwarded(headers: &HeaderMap) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    for line in headers.get_all(FORWARDED) {
        let mut rest = line.to_str().ok()?;
        loop {
            let (hop, after) = element(rest)?;
            hops.push(hop);
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None if after.is_empty() => break,
                None => return None,
            }
        }
    }
    Some(hops)
}

/// Parses one element and returns the rest: pairs of name and value, separated by semicolons. `for`
/// may occur once.
fn element(mut rest: &str) -> Option<(Option<IpAddr>, &str)> {
    let mut address = None;
    loop {
        let (name, after) = rest.trim_start_matches(BLANK).split_once('=')?;
        let (value, after) = value(after)?;
        if !name.bytes().all(is_token) || name.is_empty() {
            return None;
        }
        if name.eq_ignore_ascii_case("for") && address.replace(node(&value)).is_some() {
            return None;
        }
        let after = after.trim_start_matches(BLANK);
        match after.strip_prefix(';') {
            Some(after) => rest = after,
            None => return Some((address.flatten(), after)),
        }
    }
}

/// Parses a token or a quoted string (RFC 9110, section 5.6) and returns the rest.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.bytes().position(|byte| !is_token(byte));
        let (token, after) = text.split_at(end.unwrap_or(text.len()));
        return (!token.is_empty()).then(|| (token.to_owned(), after));
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(chars.next()?),
            char => value.push(char),
        }
    }
}

/// Parses the address of a node with an optional port (RFC 7239, section 6): `192.0.2.1:80`,
/// `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let address = address.parse::<Ipv6Addr>().ok()?;
        return port.then_some(address.into());
    }
    let (address, port) = match text.split_once(':') {
        Some((address, port)) => (address, Some(port)),
        None => (text, None),
    };
    let address = address.parse::<Ipv4Addr>().ok()?;
    port.is_none_or(is_port).then_some(address.into())
}

/// Returns `true` for a port or an obfuscated port.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !name.is_empty() && name.bytes().all(allowed)
        }
        None => text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

const BLANK: [char; 2] = [' ', '\t'];

fn trim(text: &str) -> &str {
    text.trim_matches(BLANK)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Returns the client of a request from `peer`; the proxies are 10.0.0.0/8, fd00::/8 and
    /// 192.0.2.1.
    fn client(peer: &str, lines: &[(&HeaderName, &str)]) -> String {
        let named = ["10.0.0.0/8", "fd00::/8", "192.0.2.1"].map(|it| it.parse().unwrap());
        let mut headers = HeaderMap::new();
        for (name, line) in lines {
            headers.append(*name, HeaderValue::try_from(*line).unwrap());
        }
        let proxies = Proxies::new(Some(named.to_vec()));
        let client = proxies.client(peer.parse().unwrap(), &headers);
        client.unwrap().to_canonical().to_string()
    }

    fn usual(line: &str) -> String {
        client("10.1.1.1", &[(&X_FORWARDED_FOR, line)])
    }

    fn standard(line: &str) -> String {
        client("10.1.1.1", &[(&FORWARDED, line)])
    }

    const ITSELF: &str = "10.1.1.1";

    #[test]
    fn the_rightmost_that_is_no_named_proxy_is_the_client() {
        assert_eq!(usual("203.0.113.7"), "203.0.113.7");
        assert_eq!(usual("198.51.100.1, 203.0.113.7"), "203.0.113.7");
        assert_eq!(usual("203.0.113.7,10.2.2.2 ,\t192.0.2.1"), "203.0.113.7");
        assert_eq!(usual("garbage, 203.0.113.7, 10.2.2.2"), "203.0.113.7");
        assert_eq!(usual("2001:db8::7"), "2001:db8::7");
        assert_eq!(usual("203.0.113.7:4711"), "203.0.113.7");
        assert_eq!(usual("[2001:db8::7]:4711"), "2001:db8::7");
        assert_eq!(usual("::ffff:203.0.113.7"), "203.0.113.7");
        assert_eq!(usual("203.0.113.7, ::ffff:10.2.2.2"), "203.0.113.7");
        let two = [
            (&X_FORWARDED_FOR, "198.51.100.1"),
            (&X_FORWARDED_FOR, "203.0.113.7"),
        ];
        assert_eq!(client("fd00::1", &two), "203.0.113.7");
        assert_eq!(client("::ffff:10.1.1.1", &two), "203.0.113.7");
        assert_eq!(standard("for=203.0.113.7"), "203.0.113.7");
        assert_eq!(
            standard("for=198.51.100.1, for=203.0.113.7;proto=https"),
            "203.0.113.7"
        );
        assert_eq!(
            standard("For=\"[2001:db8::7]:4711\";by=10.1.1.1, for=10.2.2.2"),
            "2001:db8::7"
        );
        assert_eq!(
            standard("proto=https; for=203.0.113.7 ; host=a.example"),
            "203.0.113.7"
        );
        assert_eq!(standard("for=unknown, for=203.0.113.7"), "203.0.113.7");
    }

    #[test]
    fn what_a_named_proxy_does_not_say_it_asks_for_itself() {
        for line in [
            "",
            " ",
            "unknown",
            "203.0.113.7,",
            "203.0.113.7, ",
            "203.0.113.7, garbage",
            "203.0.113.7, garbage, 10.2.2.2",
            "203.0.113.256",
            "203.0.113.7:",
            "203.0.113.7:65536",
            "203.0.113.7:+1",
            "203.0.113.7;",
            "0xcb007107",
            "fe80::1%eth0",
            "[2001:db8::7",
            "[2001:db8::7]x",
            "[203.0.113.7]",
            "10.2.2.2, 10.3.3.3",
            ["10.2.2.2"; 40].join(", ").as_str(),
            format!("203.0.113.7, {}", ["10.2.2.2"; 32].join(", ")).as_str(),
        ] {
            assert_eq!(usual(line), ITSELF, "{line}");
        }
        for line in [
            "",
            "203.0.113.7",
            "for",
            "for=",
            "for=unknown",
            "for=_hidden",
            "by=203.0.113.7",
            "for=203.0.113.7:80",
            "for=[2001:db8::7]",
            "for=\"2001:db8::7\"",
            "for=203.0.113.7;for=203.0.113.8",
            "for=203.0.113.7,",
            "for=203.0.113.7, proto=https",
            "for=203.0.113.7 for=10.1.1.1",
            "for=203.0.113.7;",
            "for = 203.0.113.7",
            "for=203.0.113.7, for=\"10.2.2.2",
            "for=203.0.113.7, x y=z",
            // A value of the client inside a string that the proxy quotes.
            "for=_x;host=\"a, for=203.0.113.7\"",
        ] {
            assert_eq!(standard(line), ITSELF, "{line}");
        }
        assert_eq!(client(ITSELF, &[]), ITSELF);
    }

    #[test]
    fn two_fields_must_agree() {
        let both =
            |standard, usual| client(ITSELF, &[(&FORWARDED, standard), (&X_FORWARDED_FOR, usual)]);
        assert_eq!(both("for=203.0.113.7", "203.0.113.7"), "203.0.113.7");
        assert_eq!(both("for=198.51.100.1", "203.0.113.7"), ITSELF);
        assert_eq!(both("x", "203.0.113.7"), ITSELF);
        assert_eq!(both("for=203.0.113.7", "x"), ITSELF);
        assert_eq!(both("x", "x"), ITSELF);
    }

    #[test]
    fn others_are_believed_nothing() {
        for peer in ["203.0.113.1", "127.0.0.1", "::1", "192.0.2.2"] {
            let lines = [
                (&X_FORWARDED_FOR, "198.51.100.1"),
                (&FORWARDED, "for=198.51.100.1"),
            ];
            assert_eq!(client(peer, &lines), peer);
        }
    }

    #[test]
    fn where_nothing_is_said_of_proxies_they_are_told_by_what_they_do() {
        let proxies = Proxies::new(None);
        let mut headers = HeaderMap::new();
        let client =
            |peer: &str, headers: &HeaderMap| proxies.client(peer.parse().unwrap(), headers);
        assert_eq!(client("1.1.1.1", &headers), Some([1, 1, 1, 1].into()));
        for peer in [
            "127.0.0.1",
            "10.0.0.1",
            "::1",
            "fd00::1",
            "::ffff:192.168.0.1",
        ] {
            assert_eq!(client(peer, &headers), None, "{peer}");
        }
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("2.2.2.2"));
        assert_eq!(client("1.1.1.1", &headers), None);
        let forwarded = HeaderMap::from_iter([(FORWARDED, HeaderValue::from_static("x"))]);
        assert_eq!(client("1.1.1.1", &forwarded), None);
    }
}
