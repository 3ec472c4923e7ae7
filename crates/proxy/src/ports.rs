//! Ports that clients may connect to.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A port, or a range of ports: `443`, `8000-8999`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

/// Text that is not a range of ports. The message follows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is neither a port nor a range of ports such as 443 or 8000-8999")]
pub struct PortsError;

impl Ports {
    /// Returns whether the range contains `port`.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    /// Returns the default ports: 443, 80 (browsers open `ws://` with CONNECT to port 80), and the
    /// unprivileged ports from 1024. The ports of mail, SSH and Telnet are not included.
    pub fn usual() -> Vec<Ports> {
        vec![Ports(80..=80), Ports(443..=443), Ports(1024..=u16::MAX)]
    }
}

impl FromStr for Ports {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Self, PortsError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse::<u16>().map_err(|_| PortsError);
        let (first, last) = (port(first)?, port(last)?);
        if first != 0 && first <= last {
            Ok(Ports(first..=last))
        } else {
            Err(PortsError)
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let ports: Ports = "8000-8999".parse().unwrap();
        assert!(ports.contains(8000) && ports.contains(8999) && !ports.contains(9000));
        assert!("443".parse::<Ports>().unwrap().contains(443));
        for wrong in ["", "0", "9-8", "x", "1-2-3", "65536"] {
            assert!(wrong.parse::<Ports>().is_err(), "{wrong}");
        }
    }
}
