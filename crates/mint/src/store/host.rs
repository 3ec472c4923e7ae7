//! Names of hosts in certificates.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use idna::AsciiDenyList;
use rustls_pki_types::DnsName;

/// A host in the form of certificates and store keys: a DNS name in lower-case A-labels without a
/// final dot, a wildcard of one level, or an IP address in its canonical form. Different spellings
/// of the same host are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Dns(Arc<str>),
    Ip(IpAddr, Arc<str>),
}

/// A name that cannot have a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a host name: {reason}")]
pub struct HostError {
    /// Name, shortened to 80 characters.
    name: String,
    reason: &'static str,
}

impl Host {
    /// Parses a DNS name (Unicode or A-labels, in any case, with an optional final dot) or an IP
    /// address (IPv6 with optional brackets), without a port.
    ///
    /// # Errors
    /// If the name is impossible in DNS: the name is empty or longer than 253 octets; a label is
    /// empty, longer than 63 octets, or begins or ends with a hyphen; a character is not a letter,
    /// digit, hyphen or underscore; the last label has digits only (a broken IP address); or the
    /// name violates IDNA (UTS 46).
    pub fn parse(name: &str) -> Result<Self, HostError> {
        let refused = |reason| HostError::new(name, reason);
        let bare = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(name).parse::<IpAddr>() {
            return Ok(ip.into());
        }
        // A character takes at most four bytes in Unicode and at least one in an A-label, so a
        // longer name cannot become short enough and is not parsed.
        if name.len() > 4 * 254 {
            return Err(refused("the name is longer than 253 octets"));
        }
        let ascii = idna::domain_to_ascii_cow(name.as_bytes(), AsciiDenyList::URL)
            .map_err(|_| refused("IDNA does not allow the name"))?;
        let ascii = ascii.strip_suffix('.').unwrap_or(&ascii);
        DnsName::try_from(ascii).map_err(|_| refused("DNS does not allow the name"))?;
        Ok(Host(Kind::Dns(ascii.into())))
    }

    /// Returns the host that a client requests: the name in its ClientHello or, without one, the
    /// host of its CONNECT request (which may be an address that several names share).
    ///
    /// # Errors
    /// If the applicable name is not a host name.
    pub fn choose(sni: Option<&str>, connect: &str) -> Result<Self, HostError> {
        Self::parse(sni.unwrap_or(connect))
    }

    /// Returns the name, or the address without brackets.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Kind::Dns(name) | Kind::Ip(_, name) => name,
        }
    }

    /// Returns the address, if the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.0 {
            Kind::Dns(_) => None,
            Kind::Ip(ip, _) => Some(ip),
        }
    }

    /// Returns the wildcard that covers this host and its siblings: `*.example.com` for
    /// `www.example.com`.
    ///
    /// Returns `None` for addresses, and if browsers would refuse the wildcard: directly below a
    /// top-level domain, or below a probable second level of a registry (`co.uk`, `com.au`: two
    /// letters of a country below at most three letters).
    pub fn wildcard(&self) -> Option<Self> {
        let Kind::Dns(name) = &self.0 else {
            return None;
        };
        let (label, parent) = name.split_once('.')?;
        let (second, top) = parent.split_once('.')?;
        let registry = top.len() == 2 && second.len() <= 3;
        if label == "*" || registry {
            return None;
        }
        Some(Host(Kind::Dns(format!("*.{parent}").into())))
    }

    /// Returns the names for the host's certificate: the host and, for a wildcard, the domain
    /// above.
    pub fn names(&self) -> Vec<String> {
        let name = self.as_str();
        let parent = name.strip_prefix("*.");
        std::iter::once(name)
            .chain(parent)
            .map(str::to_owned)
            .collect()
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        Host(Kind::Ip(ip, ip.to_string().into()))
    }
}

impl std::str::FromStr for Host {
    type Err = HostError;

    fn from_str(name: &str) -> Result<Self, HostError> {
        Self::parse(name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl HostError {
    fn new(name: &str, reason: &'static str) -> Self {
        const SHOWN: usize = 80;
        let mut shown: String = name.chars().take(SHOWN).collect();
        if shown.len() < name.len() {
            shown.push('…');
        }
        HostError {
            name: shown,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        Host::parse(text).unwrap().to_string()
    }

    #[test]
    fn spellings_of_one_host_are_one() {
        for (written, canonical) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("Bücher.example", "xn--bcher-kva.example"),
            ("XN--bcher-KVA.example", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            (
                "_service.r3---sn-4g5.example",
                "_service.r3---sn-4g5.example",
            ),
            ("localhost", "localhost"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8:0:0::1]", "2001:db8::1"),
            ("2001:db8::0001", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(name(written), canonical);
        }
    }

    #[test]
    fn what_dns_cannot_have_is_refused() {
        let label = "a".repeat(64);
        let long = vec!["a"; 128].join(".");
        let endless = "a.".repeat(32_768);
        for wrong in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "-a.example",
            "a-.example",
            "a b",
            "a/b",
            "a:443",
            "user@a",
            "*.example.com",
            "a\0b",
            "192.0.2.256",
            "1.2.3",
            "[::1",
            "fe80::1%eth0",
            "xn--a",
            "[example.com]",
            &label,
            &long,
            &endless,
        ] {
            let refused = Host::parse(wrong).unwrap_err().to_string();
            assert!(refused.len() < 200, "{refused}");
        }
        assert!(Host::parse(&"a".repeat(63)).is_ok());
    }

    #[test]
    fn the_name_a_client_sends_counts_before_the_one_it_connects_to() {
        let of = |sni, connect| Host::choose(sni, connect).unwrap().to_string();
        assert_eq!(of(Some("a.example"), "192.0.2.1"), "a.example");
        assert_eq!(of(None, "192.0.2.1"), "192.0.2.1");
    }

    #[test]
    fn wildcards_cover_one_level_where_browsers_take_them() {
        let of = |host| Host::parse(host).unwrap().wildcard();
        let www = of("www.example.com").unwrap();
        assert_eq!(www.as_str(), "*.example.com");
        assert_eq!(www.names(), ["*.example.com", "example.com"]);
        assert_eq!(Some(www.clone()), of("mail.example.com"));
        assert_eq!(
            of("a.b.example.co.uk").unwrap().as_str(),
            "*.b.example.co.uk"
        );
        assert_eq!(www.wildcard(), None);
        for exact in [
            "example.com",
            "localhost",
            "example.co.uk",
            "192.0.2.1",
            "::1",
        ] {
            assert_eq!(of(exact), None, "{exact}");
        }
    }
}
