//! Host patterns of rules and lists.

use std::fmt;
use std::str::FromStr;

use lucarne_mint::store::Host;
use lucarne_net::Network;

use crate::target::Target;

/// Pattern of hosts: `example.com`, `*.example.com`, `10.*`, `*`, or an address block
/// (`192.0.2.0/24`), each with an optional port (`*.example.com:8443`).
///
/// `*` matches any characters, including dots. Case is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    text: String,
    host: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// Pieces between the stars.
    Glob(Vec<String>),
    Block(Network),
}

/// Reasons why a pattern is invalid. The message follows the pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty, or has a port only.
    #[error("names no host; write a host, *.example.com, an address block, or * for all")]
    Empty,
    /// The pattern has a character that no host name has.
    #[error("has `{0}`, which no host name has; write a host alone, without scheme and path")]
    Character(char),
    /// The port is invalid.
    #[error("has a port that is not a number from 1 to 65535")]
    Port,
}

impl HostPattern {
    /// Returns the pattern that matches every host.
    pub fn all() -> Self {
        HostPattern {
            text: "*".to_owned(),
            host: Hosts::Glob(vec![String::new(), String::new()]),
            port: None,
        }
    }

    /// Returns the host if the pattern matches exactly one.
    pub fn host(&self) -> Option<Host> {
        match &self.host {
            Hosts::Glob(pieces) => match pieces.as_slice() {
                [name] => Host::parse(name).ok(),
                _ => None,
            },
            Hosts::Block(block) => block.single().map(Host::from),
        }
    }

    /// Returns the port if the pattern has one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns whether the pattern matches `target`.
    pub fn matches(&self, target: &Target) -> bool {
        self.port.is_none_or(|port| port == target.port) && self.matches_host(&target.host)
    }

    /// Returns whether the pattern matches `host`, at any port.
    pub fn matches_host(&self, host: &Host) -> bool {
        match &self.host {
            Hosts::Glob(pieces) => glob(pieces, host.as_str()),
            Hosts::Block(block) => host.ip().is_some_and(|ip| block.contains(ip)),
        }
    }
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (host, port) = split_port(text)?;
        if let Ok(block) = host.parse::<Network>() {
            let host = Hosts::Block(block);
            return Ok(HostPattern {
                text: text.to_owned(),
                host,
                port,
            });
        }
        if host.is_empty() {
            return Err(PatternError::Empty);
        }
        let strange = |c: &char| !(c.is_alphanumeric() || "*.-_".contains(*c));
        if let Some(wrong) = host.chars().find(strange) {
            return Err(PatternError::Character(wrong));
        }
        let lower = host.trim_end_matches('.').to_lowercase();
        let pieces = lower.split('*').map(a_label).collect();
        Ok(HostPattern {
            text: text.to_owned(),
            host: Hosts::Glob(pieces),
            port,
        })
    }
}

/// Converts a name with letters beyond ASCII to its form in DNS.
fn a_label(piece: &str) -> String {
    match (piece.is_ascii(), Host::parse(piece.trim_matches('.'))) {
        (false, Ok(host)) => {
            let dot = |is: bool| if is { "." } else { "" };
            format!(
                "{}{host}{}",
                dot(piece.starts_with('.')),
                dot(piece.ends_with('.'))
            )
        }
        _ => piece.to_owned(),
    }
}

/// Splits the port after the last colon. An IPv6 address with a port has brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), PatternError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(PatternError::Character('['))?;
        return match after.strip_prefix(':') {
            None if after.is_empty() => Ok((host, None)),
            None => Err(PatternError::Port),
            Some(port) => Ok((host, Some(number(port)?))),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host, Some(number(port)?))),
        _ => Ok((text, None)),
    }
}

fn number(port: &str) -> Result<u16, PatternError> {
    match port.parse() {
        Ok(0) | Err(_) => Err(PatternError::Port),
        Ok(port) => Ok(port),
    }
}

/// Returns whether `text` consists of the pieces in this order, with anything between them. The
/// time is at most proportional to the sum of both lengths.
fn glob(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else {
        return pieces.first().is_some_and(|piece| piece == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    for piece in middle {
        match rest.find(piece.as_str()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, target: &str) -> bool {
        let target = Target::parse(target, 443).unwrap();
        pattern.parse::<HostPattern>().unwrap().matches(&target)
    }

    #[test]
    fn globs_match_whole_names() {
        for (pattern, target) in [
            ("*", "a.example"),
            ("*", "192.0.2.1"),
            ("example.com", "EXAMPLE.com"),
            ("Example.com.", "example.com"),
            ("*.example.com", "a.b.example.com"),
            ("*.example.com:8443", "a.example.com:8443"),
            ("a*c*e.test", "abcde.test"),
            ("10.*", "10.1.2.3"),
            ("192.0.2.0/24", "192.0.2.77"),
            ("2001:db8::/32", "[2001:db8::7]:443"),
            ("[2001:db8::7]:443", "[2001:db8::7]:443"),
            ("*.bücher.example", "www.bücher.example"),
        ] {
            assert!(matches(pattern, target), "{pattern} {target}");
        }
        for (pattern, target) in [
            ("example.com", "www.example.com"),
            ("*.example.com", "example.com"),
            ("*.example.com", "example.com.evil.test"),
            ("*.example.com:8443", "a.example.com"),
            ("aa*aa", "aaa"),
            ("192.0.2.0/24", "192.0.3.1"),
        ] {
            assert!(!matches(pattern, target), "{pattern} {target}");
        }
    }

    #[test]
    fn nonsense_is_said() {
        for (pattern, error) in [
            ("", PatternError::Empty),
            (":443", PatternError::Empty),
            ("https://a.example", PatternError::Port),
            ("a.example/x", PatternError::Character('/')),
            ("a.example:0", PatternError::Port),
        ] {
            assert_eq!(pattern.parse::<HostPattern>(), Err(error), "{pattern}");
        }
    }
}
