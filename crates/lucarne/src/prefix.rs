//! Submission and monitoring prefixes: URLs that clients can reach during the whole life of the
//! log.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a DNS host name.
const MAX_HOST: usize = 253;
/// Maximum length of a label of a host name.
const MAX_LABEL: usize = 63;
/// Characters of a path besides letters and digits. Clients and proxies do not change these
/// characters, and the key name of a signed note may contain them.
const PATH_CHARACTERS: &str = "-._~!$&'()*,;=:";

/// A submission or monitoring prefix: an `http://` or `https://` URL with an optional trailing
/// slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// URL with scheme and trailing slash.
    pub url: String,
}

impl Prefix {
    /// Returns the URL without scheme and trailing slash. For the submission prefix, this is the
    /// checkpoint origin (static-ct-api, "Checkpoints").
    pub fn origin(&self) -> &str {
        let (_, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        rest.trim_end_matches('/')
    }

    /// Returns the host with the port, if given.
    pub fn authority(&self) -> &str {
        self.origin().split('/').next().unwrap_or_default()
    }

    /// Returns why a new log must not have this prefix. Clients omit a part of the prefix, but
    /// the log's origin would contain that part forever.
    pub(crate) fn oddity(&self) -> Option<&'static str> {
        let (host, port) = split(self.authority());
        let default = if self.url.starts_with("https:") {
            "443"
        } else {
            "80"
        };
        if port == Some(default) {
            return Some("has the default port of its scheme: remove the port");
        }
        host.ends_with('.')
            .then_some("has a dot at the end of its host name: remove the dot")
    }
}

/// Reasons why a text is not a [`Prefix`]. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrefixError {
    #[error("does not begin with https:// or http://")]
    Scheme,
    #[error("has a query, a fragment or a user name, which a prefix cannot have")]
    Parts,
    /// A character that the key name of a signed note must not contain.
    #[error(
        "has a space, a control character or a plus sign, which a checkpoint's origin cannot have"
    )]
    Characters,
    #[error("has no host name")]
    NoHost,
    #[error("has a port that is not a number from 1 to 65535")]
    Port,
    #[error("has capital letters in its host name: write the host name in lower case")]
    Capitals,
    #[error("has a host name with non-ASCII characters: write the DNS form (`xn--…`)")]
    International,
    #[error(
        "has an invalid host name: expected letters, digits, `-` and `_`, in parts of 1 to 63 \
         characters between dots"
    )]
    HostName,
    #[error("has a number as its host: expected a host name or an IP address")]
    Address,
    #[error("has an empty path element (`//`)")]
    EmptyElement,
    #[error("has the path element `{0}`, which clients remove from their requests")]
    DotElement(String),
    #[error(
        "has `{0}` in its path, which some clients change in their requests: use only letters, \
         digits and -._~!$&'()*,;=:"
    )]
    PathCharacter(char),
}

/// Parses the URL of a [`Prefix`]. Adds the slash at the end, if it is missing.
pub(crate) fn prefix(text: &str) -> Result<Prefix, PrefixError> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .ok_or(PrefixError::Scheme)?;
    if rest.contains(['?', '#', '@']) {
        return Err(PrefixError::Parts);
    }
    if rest
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || c == '+')
    {
        return Err(PrefixError::Characters);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, port) = split(authority);
    host(name)?;
    if port.is_some_and(|port| !is_port(port)) {
        return Err(PrefixError::Port);
    }
    if rest.contains("//") {
        return Err(PrefixError::EmptyElement);
    }
    elements(path)?;
    Ok(Prefix {
        url: format!("{}/", text.trim_end_matches('/')),
    })
}

/// Parses the URL of a log's checkpoint, or the prefix above it. Returns the URL of the checkpoint.
pub(crate) fn checkpoint_url(text: &str) -> Result<String, PrefixError> {
    let under = prefix(text.strip_suffix("/checkpoint").unwrap_or(text))?;
    Ok(format!("{}checkpoint", under.url))
}

/// Splits an authority into host and port.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

fn is_port(text: &str) -> bool {
    let canonical = |port: u16| port > 0 && port.to_string() == text;
    text.parse().is_ok_and(canonical)
}

fn host(host: &str) -> Result<(), PrefixError> {
    if host.is_empty() {
        return Err(PrefixError::NoHost);
    }
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        let parsed: Result<Ipv6Addr, _> = address.parse();
        return parsed.map(drop).map_err(|_| PrefixError::Address);
    }
    if !host.is_ascii() {
        return Err(PrefixError::International);
    }
    if host.bytes().any(|c| c.is_ascii_uppercase()) {
        return Err(PrefixError::Capitals);
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.len() > MAX_HOST || !name.split('.').all(is_label) {
        return Err(PrefixError::HostName);
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    // Clients replace a host such as `1.2.3` or `0x7f.1` with an IP address.
    let is_number = last.bytes().all(|c| c.is_ascii_digit()) || last.starts_with("0x");
    if is_number && host.parse::<Ipv4Addr>().is_err() {
        Err(PrefixError::Address)
    } else {
        Ok(())
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Checks a path, which is compared byte by byte with the paths of requests.
fn elements(path: &str) -> Result<(), PrefixError> {
    let unfit = |c: &char| !c.is_ascii_alphanumeric() && !PATH_CHARACTERS.contains(*c);
    for element in path.trim_end_matches('/').split('/') {
        if let Some(found) = element.chars().find(unfit) {
            return Err(PrefixError::PathCharacter(found));
        }
        if matches!(element, "." | "..") {
            return Err(PrefixError::DotElement(element.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_take_ports_and_plain_http() {
        let prefix = |text| super::prefix(text).map(|p| p.url);
        for (text, url) in [
            ("http://127.0.0.1:6962/a", "http://127.0.0.1:6962/a/"),
            ("https://ct.example/a/", "https://ct.example/a/"),
            ("http://[::1]:6962/", "http://[::1]:6962/"),
            ("https://[::1]/", "https://[::1]/"),
            (
                "https://xn--bcher-kva.example/",
                "https://xn--bcher-kva.example/",
            ),
            (
                "http://ct_log:8080/2026.h1~a/_-",
                "http://ct_log:8080/2026.h1~a/_-/",
            ),
            ("https://a/(b)=c;d:e,f!$&'*", "https://a/(b)=c;d:e,f!$&'*/"),
            ("https://1a.2b/..a/b..", "https://1a.2b/..a/b../"),
        ] {
            assert_eq!(prefix(text).unwrap(), url);
        }
    }

    #[test]
    fn what_no_client_reaches_is_refused() {
        let long = format!("https://{}.example/", "a".repeat(64));
        let longer = format!("https://{}example/", "a.".repeat(130));
        for wrong in [
            "ct.example/a",
            "https:///a",
            "https://ct.example:https/",
            "https://ct.example/a?b",
            "https://CT.example/",
            "https://ct.example/a b",
            "https://ct.example//a",
            "https://bücher.example/",
            "https://ct.example/é/",
            "https://ct.example/a/../2026/",
            "https://ct.example/./a",
            "https://ct.example/a/..",
            "https://ct.example/a%2fb",
            "https://ct.example/%2e%2e/a",
            "https://ct.example/{a,b}",
            "https://ct.example/a[1]",
            "https://ct.example/a\\b",
            "https://ct.example/a|b",
            "https://ct.example/\"a\"",
            "https://ct.example:0/",
            "https://ct.example:080/",
            "https://ct.example:/",
            "https://ct.example:65536/",
            "https://ct..example/",
            "https://.ct.example/",
            "https://-ct.example/",
            "https://ct-.example/",
            "https://ct*.example/",
            "https://ct.example../",
            "https://1.2.3/",
            "https://1.2.3.256/",
            "https://127.1/",
            "https://ct.0x7f/",
            "https://[::1/",
            "https://[::1%25eth0]/",
            "https://[ct.example]/",
            &long,
            &longer,
        ] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_clients_leave_out_is_odd() {
        for (text, odd) in [
            ("https://ct.example:443/a", true),
            ("https://ct.example:80/a", false),
            ("http://ct.example:80/", true),
            ("http://[::1]:80/", true),
            ("http://[::1]:8080/", false),
            ("https://ct.example./a", true),
            ("https://ct.example.:8443/a", true),
            ("https://ct.example/443", false),
        ] {
            let prefix = prefix(text).unwrap();
            assert_eq!(prefix.oddity().is_some(), odd, "{text}");
        }
    }

    #[test]
    fn checkpoints_are_named_by_themselves_or_by_their_prefix() {
        for text in [
            "https://cdn.example/a",
            "https://cdn.example/a/",
            "https://cdn.example/a/checkpoint",
        ] {
            let url = checkpoint_url(text).unwrap();
            assert_eq!(url, "https://cdn.example/a/checkpoint", "{text}");
        }
        assert!(checkpoint_url("cdn.example/checkpoint").is_err());
    }
}
