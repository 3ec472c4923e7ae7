//! Host and port of a request's server.

use std::fmt;

use lucarne_mint::store::{Host, HostError};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Name or address of the host.
    pub host: Host,
    /// TCP port.
    pub port: u16,
}

/// Reasons why an authority is invalid. The message follows the client's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The host name is invalid.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The port is invalid.
    #[error("{0:?} is not a valid port: it must be a number from 1 to 65535")]
    Port(String),
}

impl Target {
    /// Parses `host:port`, or a host alone, with the port `default`.
    ///
    /// # Errors
    /// If the host or the port is invalid.
    pub fn parse(authority: &str, default: u16) -> Result<Self, TargetError> {
        let (host, port) = split(authority);
        let port = match port {
            None => default,
            Some(text) => match text.parse() {
                // `+443` parses, but is not a valid port.
                Ok(port @ 1..) if text.bytes().all(|b| b.is_ascii_digit()) => port,
                _ => return Err(TargetError::Port(text.chars().take(20).collect())),
            },
        };
        let host = Host::parse(host)?;
        Ok(Target { host, port })
    }

    /// Formats the target for URLs and Host headers: IPv6 in brackets, and without the `default`
    /// port.
    pub fn authority(&self, default: u16) -> String {
        match (self.port == default, self.host.ip()) {
            (true, Some(std::net::IpAddr::V6(ip))) => format!("[{ip}]"),
            (true, _) => self.host.to_string(),
            (false, _) => self.to_string(),
        }
    }
}

fn split(authority: &str) -> (&str, Option<&str>) {
    if let Some(end) = authority.rfind(']') {
        let (host, after) = authority.split_at(end + 1);
        return match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => (authority, None),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (authority, None),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.ip() {
            Some(std::net::IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_and_written() {
        for (written, shown, short) in [
            ("Example.com:443", "example.com:443", "example.com"),
            ("example.com", "example.com:443", "example.com"),
            ("example.com:8443", "example.com:8443", "example.com:8443"),
            ("[2001:DB8::1]:443", "[2001:db8::1]:443", "[2001:db8::1]"),
            ("[::1]", "[::1]:443", "[::1]"),
            ("192.0.2.1:80", "192.0.2.1:80", "192.0.2.1:80"),
        ] {
            let target = Target::parse(written, 443).unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(target.authority(443), short);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "",
            ":443",
            "a:b:c",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:+443",
            "example.com: 443",
            "[::1]x",
            "[::1",
            "a b:443",
            "user@a:443",
        ] {
            assert!(Target::parse(wrong, 443).is_err(), "{wrong}");
        }
    }
}
