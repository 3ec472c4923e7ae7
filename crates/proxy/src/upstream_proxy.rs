//! Other proxies on the way to servers.

use std::fmt;
use std::str::FromStr;

use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::pattern::HostPattern;
use crate::target::Target;

/// The way to some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRoute {
    /// The hosts.
    pub hosts: HostPattern,
    /// The proxy that is asked for them; `None`: directly.
    pub through: Option<UpstreamProxy>,
}

/// A proxy that this one asks for connections to servers. Its
/// [`Display`](fmt::Display) is its URL without the password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamProxy {
    /// True if it is spoken to by TLS.
    pub(crate) tls: bool,
    pub(crate) target: Target,
    user: Option<String>,
    /// Basic, for it alone.
    pub(crate) authorization: Option<HeaderValue>,
}

/// The reasons why text is no URL of an upstream proxy. Reads after the text,
/// which may hold a password and is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamProxyError {
    /// Not a URL at all, or one without a host.
    #[error("is no URL of a proxy such as http://proxy.example:3128")]
    Url,
    /// A scheme that is none of HTTP's.
    #[error("is {0}://, which is not spoken here: write http:// or https://")]
    Scheme(String),
    /// More than scheme, user, host and port.
    #[error("has a path, which no proxy has: write scheme, host and port alone")]
    Path,
    /// A user's name that cannot be sent.
    #[error("has a user name with a colon, which Basic authentication cannot send")]
    User,
    /// A password without a user.
    #[error("has a password, but no user name")]
    NoUser,
    /// Two passwords.
    #[error("has a password already")]
    Passwords,
}

impl UpstreamProxy {
    /// The same, with this password for the user that the URL names.
    ///
    /// # Errors
    /// A URL without a user, or one that had a password.
    pub fn with_password(self, password: &str) -> Result<Self, UpstreamProxyError> {
        let Some(user) = &self.user else {
            return Err(UpstreamProxyError::NoUser);
        };
        if self.authorization.is_some() {
            return Err(UpstreamProxyError::Passwords);
        }
        let authorization = Some(basic(user, password)?);
        Ok(UpstreamProxy {
            authorization,
            ..self
        })
    }

    /// Returns whether it names a user whose password has not been given.
    pub fn lacks_password(&self) -> bool {
        self.user.is_some() && self.authorization.is_none()
    }
}

/// Basic authentication (RFC 7617).
fn basic(user: &str, password: &str) -> Result<HeaderValue, UpstreamProxyError> {
    if user.contains(':') {
        return Err(UpstreamProxyError::User);
    }
    let pair = format!("{user}:{password}");
    let encoded = base64_simd::STANDARD.encode_to_string(pair);
    let value = HeaderValue::try_from(format!("Basic {encoded}"));
    let mut value = value.map_err(|_| UpstreamProxyError::User)?;
    value.set_sensitive(true);
    Ok(value)
}

impl FromStr for UpstreamProxy {
    type Err = UpstreamProxyError;

    fn from_str(text: &str) -> Result<Self, UpstreamProxyError> {
        let url = Url::parse(text).map_err(|_| UpstreamProxyError::Url)?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            // `proxy.example:3128` reads as a scheme.
            _ if !text.contains("://") => return Err(UpstreamProxyError::Url),
            other => return Err(UpstreamProxyError::Scheme(other.to_owned())),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(UpstreamProxyError::Path);
        }
        let host = url.host_str().ok_or(UpstreamProxyError::Url)?;
        let default = if tls { 443 } else { 80 };
        let port = url.port().unwrap_or(default);
        let target = Target::parse(host, port).map_err(|_| UpstreamProxyError::Url)?;
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = Some(decoded(url.username())).filter(|user| !user.is_empty());
        let authorization = match (&user, url.password()) {
            (_, None) => None,
            (Some(user), Some(password)) => Some(basic(user, &decoded(password))?),
            (None, Some(_)) => return Err(UpstreamProxyError::NoUser),
        };
        Ok(UpstreamProxy {
            tls,
            target,
            user,
            authorization,
        })
    }
}

impl fmt::Display for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(text: &str) -> Result<UpstreamProxy, UpstreamProxyError> {
        text.parse()
    }

    #[test]
    fn urls_are_read_and_shown_without_their_secrets() {
        for (written, shown, sent) in [
            (
                "http://proxy.example:3128",
                "http://proxy.example:3128",
                None,
            ),
            ("http://proxy.example", "http://proxy.example:80", None),
            ("https://Proxy.example/", "https://proxy.example:443", None),
            ("http://[::1]:3128", "http://[::1]:3128", None),
            // anna:p@ss
            (
                "http://anna:p%40ss@192.0.2.1:8080",
                "http://192.0.2.1:8080",
                Some("Basic YW5uYTpwQHNz"),
            ),
        ] {
            let proxy = proxy(written).unwrap();
            assert_eq!(proxy.to_string(), shown);
            let value = proxy.authorization.as_ref();
            assert_eq!(value.map(|value| value.to_str().unwrap()), sent);
            assert!(!format!("{proxy:?}").contains("YW5u"), "{proxy:?}");
        }
    }

    #[test]
    fn a_password_from_elsewhere_joins_the_user() {
        let anna = proxy("http://anna@proxy.example:3128").unwrap();
        assert!(anna.lacks_password());
        let whole = proxy("http://anna:p%40ss@proxy.example:3128").unwrap();
        assert_eq!(anna.with_password("p@ss"), Ok(whole.clone()));
        let twice = whole.with_password("other");
        assert_eq!(twice, Err(UpstreamProxyError::Passwords));
        let nobody = proxy("http://proxy.example:3128").unwrap();
        assert_eq!(nobody.with_password("x"), Err(UpstreamProxyError::NoUser));
    }

    #[test]
    fn what_is_no_proxy_is_refused() {
        use UpstreamProxyError as E;
        for (wrong, why) in [
            ("", E::Url),
            ("proxy.example:3128", E::Url),
            ("http://", E::Url),
            (
                "socks5://proxy.example:1080",
                E::Scheme("socks5".to_owned()),
            ),
            ("http://proxy.example:3128/path", E::Path),
            ("http://:secret@proxy.example:3128", E::NoUser),
            ("http://a%3Ab:secret@proxy.example:3128", E::User),
        ] {
            let refused = proxy(wrong).unwrap_err();
            assert!(!refused.to_string().contains("secret"), "{refused}");
            assert_eq!(refused, why, "{wrong}");
        }
    }
}
