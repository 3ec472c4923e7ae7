//! Upstream proxies: other proxies on the way to servers.

use std::fmt;
use std::str::FromStr;

use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::pattern::HostPattern;
use crate::target::Target;

/// Upstream proxy of some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRoute {
    /// Hosts that the route applies to.
    pub hosts: HostPattern,
    /// Upstream proxy for these hosts; `None` connects directly.
    pub through: Option<UpstreamProxy>,
}

/// An upstream proxy. Its [`Display`](fmt::Display) is the URL without user name and password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamProxy {
    /// Whether the connection to the proxy uses TLS.
    pub(crate) tls: bool,
    pub(crate) target: Target,
    user: Option<String>,
    /// Basic credentials for this proxy only.
    pub(crate) authorization: Option<HeaderValue>,
}

/// Reasons why the URL of an upstream proxy is invalid. The message follows the name of the
/// setting; the URL itself may contain a password and is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamProxyError {
    /// The text is not a URL, or has no host.
    #[error("is not the URL of a proxy, such as http://proxy.example:3128")]
    Url,
    /// The scheme is neither `http` nor `https`.
    #[error("has the scheme {0}://, which is not supported: write http:// or https://")]
    Scheme(String),
    /// The URL has more than scheme, user, host and port.
    #[error("has a path, a query or a fragment: write scheme, host and port only")]
    Path,
    /// Basic authentication cannot send the user name.
    #[error("has a user name with a colon, which Basic authentication cannot send")]
    User,
    /// The URL has a password but no user.
    #[error("has a password, but no user name")]
    NoUser,
    /// The URL has a password, and the configuration has another password.
    #[error("has a password already: remove one of the two passwords")]
    Passwords,
}

impl UpstreamProxy {
    /// Returns the proxy with this password for the user of the URL.
    ///
    /// # Errors
    /// If the URL has no user, has a password already, or has a user name with a colon.
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

    /// Returns whether the URL names a user without a password.
    pub fn lacks_password(&self) -> bool {
        self.user.is_some() && self.authorization.is_none()
    }
}

/// Encodes the credentials for Basic authentication (RFC 7617).
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
            // `proxy.example:3128` parses as a URL with the scheme `proxy.example`.
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
            // Decodes to `anna:p@ss`.
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
