//! The environment variable `NO_PROXY`: hosts that clients reach without a proxy.

use std::net::IpAddr;

use crate::Network;

/// A list of hosts such as `localhost, .example.org, 10.0.0.0/8, [::1]:8080`, separated by commas
/// or spaces.
///
/// A name also stands for its subdomains, and `*` for all hosts. A port restricts an entry to this
/// port. Names are compared without their final dot, and regardless of case.
#[derive(Clone, Debug, Default)]
pub struct NoProxy(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Hosts {
    All,
    Block(Network),
    /// The name, and all names below it.
    Name(String),
}

impl NoProxy {
    /// Reads `NO_PROXY` and `no_proxy` from the environment.
    pub fn of_environment(environment: impl Fn(&str) -> Option<String>) -> Self {
        let lists = ["NO_PROXY", "no_proxy"].into_iter().filter_map(environment);
        Self::parse(&lists.collect::<Vec<_>>().join(","))
    }

    fn parse(list: &str) -> Self {
        let items = list.split([',', ' ', '\t']).filter(|item| !item.is_empty());
        NoProxy(items.map(Entry::parse).collect())
    }

    /// Returns whether the list contains `host` with this port. An IPv6 address may have brackets.
    pub fn contains(&self, host: &str, port: u16) -> bool {
        let host = name(host);
        let address = bare(&host).parse::<IpAddr>().ok();
        self.0.iter().any(|entry| {
            let on_port = entry.port.is_none_or(|only| only == port);
            on_port && entry.hosts.contain(&host, address)
        })
    }
}

impl Entry {
    fn parse(item: &str) -> Self {
        // An IPv6 address without brackets has no port.
        let split = item.rsplit_once(':');
        let split = split.filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let parsed = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parsed.map_or((item, None), |(host, port)| (host, Some(port)));
        let host = name(host);
        let hosts = if host == "*" {
            Hosts::All
        } else if let Ok(block) = bare(&host).parse() {
            Hosts::Block(block)
        } else {
            let name = host.trim_start_matches('*').trim_start_matches('.');
            Hosts::Name(name.to_owned())
        };
        Entry { hosts, port }
    }
}

impl Hosts {
    fn contain(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Hosts::All, _) => true,
            (Hosts::Block(block), Some(address)) => block.contains(address),
            (Hosts::Name(name), None) => host
                .strip_suffix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            _ => false,
        }
    }
}

/// Returns a host in lower case, without the dot of a name's root.
fn name(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns an address without the brackets of a URL.
fn bare(host: &str) -> &str {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_blocks_and_ports() {
        for (list, host, contained) in [
            ("", "a.example", false),
            ("*", "a.example", true),
            ("b.example, A.example", "a.example", true),
            (".example", "a.example", true),
            (".a.example", "a.example", true),
            ("*.example", "a.example", true),
            ("example.", "a.example", true),
            ("example", "a.example.", true),
            ("ple", "a.example", false),
            ("b.example c.example", "a.example", false),
            ("a.example:443", "a.example", true),
            ("a.example:8443", "a.example", false),
            ("*:443", "a.example", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "10.example", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3:443", "10.1.2.3", true),
            ("10.1.2.3:80", "10.1.2.3", false),
            ("0.1.2.3", "10.0.1.2.3", false),
            ("::1", "::1", true),
            ("[::1]", "::1", true),
            ("::1", "[::1]", true),
            ("[::1]:443", "::1", true),
            ("[::1]:80", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("2001:db8::443", "2001:db8::443", true),
        ] {
            let found = NoProxy::parse(list).contains(host, 443);
            assert_eq!(found, contained, "{list:?} and {host}");
        }
    }
}
