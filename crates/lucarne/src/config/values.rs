//! The spelling of a server's single values: addresses, URLs, names, OIDs.
//! Numbers and times are as in every file of settings.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::ParseIntError;

use lucarne_ct::{Oid, OidError};

use crate::verification::VerifyBy;

pub(crate) use lucarne_settings::values::{
    boolean, date, duration, duration_within, milliseconds, number, rfc3339, time,
};

/// An address to listen on: `host:port`, `[::1]:port`, or `:port` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    text: String,
    /// The addresses that it resolves to; the first that can be bound is used.
    pub addresses: Vec<SocketAddr>,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The fault of a text that is no [`Listen`], in words that follow it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("has no port; write host:port, or :port for every address")]
    NoPort,
    #[error("does not end in a port number (0 to 65535)")]
    Port(#[source] ParseIntError),
    #[error("names a host that cannot be resolved: {0}")]
    Host(#[source] io::Error),
}

/// See [`Listen`]. `:http` and `:https` are ports too, as in Sunlight's file.
pub(crate) fn listen(text: &str) -> Result<Listen, ListenError> {
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

/// A submission or monitoring prefix: an `http://` or `https://` URL, whose
/// trailing slash may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// With scheme and trailing slash.
    pub url: String,
}

impl Prefix {
    /// Without scheme and trailing slash: for the submission prefix this is
    /// the checkpoint origin (static-ct-api, "Checkpoints").
    pub fn origin(&self) -> &str {
        let (_, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        rest.trim_end_matches('/')
    }

    /// Host and, if given, port.
    pub fn authority(&self) -> &str {
        self.origin().split('/').next().unwrap_or_default()
    }
}

/// The fault of a text that is no [`Prefix`], in words that follow it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrefixError {
    #[error("does not begin with https:// or http://")]
    Scheme,
    #[error("has a query, a fragment or a user name, which a prefix cannot have")]
    Parts,
    /// What would not survive as a signed note's key name.
    #[error("has a space or a plus sign, which a checkpoint's origin cannot have")]
    Characters,
    #[error("has no host name")]
    NoHost,
    #[error("has a port that is not a number from 0 to 65535")]
    Port,
    #[error("has capital letters in its host name; write it in small letters")]
    Capitals,
    #[error("has an empty path element (`//`)")]
    EmptyElement,
}

/// See [`Prefix`].
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
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if host.is_empty() {
        return Err(PrefixError::NoHost);
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(PrefixError::Port);
    }
    if host.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(PrefixError::Capitals);
    }
    if rest.contains("//") {
        return Err(PrefixError::EmptyElement);
    }
    Ok(Prefix {
        url: format!("{}/", text.trim_end_matches('/')),
    })
}

/// The URL of a log's checkpoint: itself, or the prefix that it is under.
pub(crate) fn checkpoint_url(text: &str) -> Result<String, PrefixError> {
    let under = prefix(text.strip_suffix("/checkpoint").unwrap_or(text))?;
    Ok(format!("{}checkpoint", under.url))
}

/// The fault of a text that is not spelled as its value is, in words that follow
/// it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpellingError {
    #[error("is not a short name: letters, digits, `-`, `_` and `.`")]
    Shortname,
    #[error("is neither `fast` nor `general`")]
    VerifyBy,
    #[error("is not an object identifier such as 1.3.6.1.5.5.7.1.1")]
    Oid(#[from] OidError),
}

/// A log's short name: it labels metrics and messages.
pub(crate) fn shortname(text: &str) -> Result<String, SpellingError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(allowed) {
        return Err(SpellingError::Shortname);
    }
    Ok(text.to_owned())
}

/// See [`VerifyBy`].
pub(crate) fn verify_by(text: &str) -> Result<VerifyBy, SpellingError> {
    match text {
        "fast" => Ok(VerifyBy::Fast),
        "general" => Ok(VerifyBy::General),
        _ => Err(SpellingError::VerifyBy),
    }
}

/// An object identifier such as `1.3.6.1.5.5.7.1.1`.
pub(crate) fn oid(text: &str) -> Result<Oid, SpellingError> {
    Ok(text.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_take_ports_and_plain_http() {
        let prefix = |text| super::prefix(text).map(|p| p.url);
        assert_eq!(
            prefix("http://127.0.0.1:6962/a").unwrap(),
            "http://127.0.0.1:6962/a/"
        );
        assert_eq!(
            prefix("https://ct.example/a/").unwrap(),
            "https://ct.example/a/"
        );
        assert_eq!(prefix("http://[::1]:80/").unwrap(), "http://[::1]:80/");
        assert_eq!(prefix("https://[::1]/").unwrap(), "https://[::1]/");
        for wrong in [
            "ct.example/a",
            "https:///a",
            "https://ct.example:https/",
            "https://ct.example/a?b",
            "https://CT.example/",
            "https://ct.example/a b",
            "https://ct.example//a",
        ] {
            assert!(prefix(wrong).is_err(), "{wrong}");
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

    #[test]
    fn listening_addresses() {
        assert_eq!(listen(":80").unwrap().addresses.len(), 2);
        assert_eq!(listen(":https").unwrap().addresses[0].port(), 443);
        assert_eq!(listen("[::1]:0").unwrap().addresses.len(), 1);
        assert!(listen("127.0.0.1").is_err());
        assert!(listen("127.0.0.1:x").is_err());
    }
}
