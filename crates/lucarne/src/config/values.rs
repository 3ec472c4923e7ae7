//! Parsers of a server's single values: addresses, URLs, names, OIDs. Numbers and times are parsed
//! as in all configuration files.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::ParseIntError;

use lucarne_ct::{Oid, OidError};
use rustls::pki_types::DnsName;
use url::Url;

pub(crate) use crate::prefix::{Prefix, PrefixError, checkpoint_url, prefix};

pub(crate) use lucarne_settings::values::{rfc3339, time};

/// An address to listen on: `host:port`, `[::1]:port`, or `:port` for all addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    text: String,
    /// Resolved addresses. The server listens on the first usable address.
    pub addresses: Vec<SocketAddr>,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reasons why a text is not a [`Listen`]. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("is a URL: write the address alone, as host:port")]
    Url,
    #[error("is more than one address: write a list, such as [\"127.0.0.1:80\", \"[::1]:80\"]")]
    Several,
    #[error("has no port; write host:port, or :port for every address")]
    NoPort,
    #[error("does not end in a port number (0 to 65535)")]
    Port(#[source] ParseIntError),
    #[error("has a host that cannot be resolved: {0}")]
    Host(#[source] io::Error),
}

/// Parses a [`Listen`]. As in Sunlight's file, `http` and `https` are valid ports.
pub(crate) fn listen(text: &str) -> Result<Listen, ListenError> {
    if text.contains("://") {
        return Err(ListenError::Url);
    }
    if text.contains([',', ' ']) {
        return Err(ListenError::Several);
    }
    let (host, port) = text.rsplit_once(':').ok_or(ListenError::NoPort)?;
    let port: u16 = match port {
        "http" => 80,
        "https" => 443,
        port => port.parse().map_err(ListenError::Port)?,
    };
    let addresses: Vec<SocketAddr> = if host.is_empty() {
        vec![
            SocketAddr::from(([0u16; 8], port)),
            SocketAddr::from(([0u8; 4], port)),
        ]
    } else {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (host, port)
            .to_socket_addrs()
            .map_err(ListenError::Host)?
            .collect()
    };
    Ok(Listen {
        text: text.to_owned(),
        addresses,
    })
}

impl Listen {
    /// Returns `:port` for all addresses; `None` for the address of a host.
    pub(crate) fn everywhere(&self) -> Option<String> {
        let first = self
            .addresses
            .first()
            .filter(|_| self.text.starts_with(':'))?;
        Some(format!(":{}", first.port()))
    }
}

/// Reasons why a value is refused. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpellingError {
    #[error("is not a short name: expected letters, digits, `-`, `_` and `.`")]
    Shortname,
    #[error("is not an object identifier such as 1.3.6.1.5.5.7.1.1")]
    Oid(#[from] OidError),
    #[error(
        "is not an e-mail address such as ct@example.com: expected letters, digits, `.`, `_`, `+` \
         and `-`, then `@` and a domain"
    )]
    Email,
    #[error("is not the URL of a log's metadata such as https://ct.example.com/2027h1/log.v3.json")]
    MetadataUrl,
}

/// Parses a log's short name, which labels metrics and messages.
pub(crate) fn shortname(text: &str) -> Result<String, SpellingError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(allowed) {
        return Err(SpellingError::Shortname);
    }
    Ok(text.to_owned())
}

/// Parses an object identifier such as `1.3.6.1.5.5.7.1.1`.
pub(crate) fn oid(text: &str) -> Result<Oid, SpellingError> {
    Ok(text.parse()?)
}

/// Parses an e-mail address. Only characters that need no escapes in links are allowed.
pub(crate) fn email(text: &str) -> Result<String, SpellingError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    let (name, domain) = text.split_once('@').ok_or(SpellingError::Email)?;
    let mut words = name.split('.');
    let is_name = words.all(|word| !word.is_empty() && word.chars().all(allowed));
    let has_labels = domain.contains('.') && !domain.ends_with('.');
    if !is_name || !has_labels || DnsName::try_from(domain).is_err() {
        return Err(SpellingError::Email);
    }
    Ok(text.to_owned())
}

/// Parses the URL of a log's `log.v3.json` in another process.
pub(crate) fn metadata_url(text: &str) -> Result<String, SpellingError> {
    let url = Url::parse(text).map_err(|_| SpellingError::MetadataUrl)?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    let is_metadata = plain && url.path().ends_with(".json");
    // Readers compare URLs as text: only the normal form is unique.
    if !matches!(url.scheme(), "http" | "https") || !is_metadata || url.as_str() != text {
        return Err(SpellingError::MetadataUrl);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_metadata() {
        for text in [
            "https://ct.example.com/2027h1/log.v3.json",
            "http://[::1]:6962/log.v3.json",
        ] {
            assert_eq!(metadata_url(text).unwrap(), text);
        }
        for text in [
            "",
            "ct.example.com/log.v3.json",
            "/log.v3.json",
            "file:///log.v3.json",
            "https://ct.example.com/2027h1/",
            "https://ct.example.com/log.v3.json?x",
            "https://ct.example.com/log.v3.json#x",
            "https://ops@ct.example.com/log.v3.json",
            "https://CT.example.com/log.v3.json",
            "https://ct.example.com:443/log.v3.json",
            "https://ct.example.com/ log.v3.json",
        ] {
            assert!(metadata_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn email_addresses() {
        for text in [
            "ct@example.com",
            "ct-ops.2+log_a@mail.xn--bcher-kva.example",
        ] {
            assert_eq!(email(text).unwrap(), text);
        }
        for text in [
            "",
            "ct",
            "@example.com",
            "ct@",
            "ct@localhost",
            "ct@example.",
            "ct@192.0.2.1",
            "ct.@example.com",
            "ct@example..com",
            "ct@example.com, ops@example.com",
            "ct@ops@example.com",
            "mailto:ct@example.com",
            "CT <ct@example.com>",
            "ct?subject=x@example.com",
            "ct\u{202e}@example.com",
            "ct@b\u{fc}cher.example",
        ] {
            assert!(email(text).is_err(), "{text}");
        }
    }

    #[test]
    fn listening_addresses() {
        assert_eq!(listen(":80").unwrap().addresses.len(), 2);
        assert_eq!(listen(":https").unwrap().addresses[0].port(), 443);
        assert_eq!(listen("[::1]:0").unwrap().addresses.len(), 1);
        assert!(listen("127.0.0.1").is_err());
        assert!(listen("127.0.0.1:x").is_err());
        for (text, why) in [
            ("http://127.0.0.1:80", "is a URL: write the address alone"),
            (
                "127.0.0.1:80,[::1]:80",
                "is more than one address: write a list",
            ),
        ] {
            let said = listen(text).unwrap_err().to_string();
            assert!(said.starts_with(why), "{said}");
        }
    }
}
