use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lucarne_net::without_secrets;
use rustls::pki_types::ServerName;
use url::Url;

use super::endpoint_error::EndpointError;
use super::{ClientOptions, proxies, tls};

/// A server with its address and TLS settings; resolved once, shared by its clients.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Host name or address, without the port.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Value of `host` in requests: without the port if it is the scheme's default.
    pub authority: String,
    /// Path of the URL without its final slash; empty for the root. Requests contain complete
    /// paths, so the caller must prepend the prefix.
    pub prefix: String,
    /// Addresses to connect to, in the order of the name server. Attempts alternate between the
    /// address families.
    pub addresses: Vec<SocketAddr>,
    /// TLS settings and server name; `None` for plain HTTP.
    pub tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

impl Endpoint {
    /// Resolves the server at `url` (`https://host[:port][/prefix]`).
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub async fn resolve(url: &str, options: &ClientOptions) -> Result<Arc<Self>, EndpointError> {
        Self::locate(url, options, |name| std::env::var(name).ok()).await
    }

    /// Resolves the server, and ignores proxies of the environment.
    pub(super) async fn direct(
        url: &str,
        options: &ClientOptions,
    ) -> Result<Arc<Self>, EndpointError> {
        Self::locate(url, options, |_| None).await
    }

    async fn locate(
        url: &str,
        options: &ClientOptions,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Arc<Self>, EndpointError> {
        let wrong = |reason: &str| EndpointError::Url {
            url: without_secrets(url),
            reason: reason.to_owned(),
        };
        let parsed = Url::parse(url).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => {
                wrong("it has no scheme: write https:// or http:// before the host")
            }
            error => wrong(&error.to_string()),
        })?;
        let secure = match parsed.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(wrong("it begins with neither http:// nor https://")),
        };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong(
                "it has a user name or a password, which requests would not send",
            ));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wrong("it has a query or a fragment"));
        }
        let host = parsed.host_str().ok_or_else(|| wrong("it names no host"))?;
        let port = parsed
            .port_or_known_default()
            .ok_or_else(|| wrong("it names no port"))?;
        let authority = match parsed.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        // Only URLs have brackets around an IPv6 address.
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        // Before the lookup, because machines behind a proxy often cannot resolve the host.
        if let Some(variable) = proxies::named(secure, bare, port, environment) {
            let host = bare.to_owned();
            return Err(EndpointError::Proxy { host, variable });
        }
        let tls = if secure {
            let name = options.tls.server_name.as_deref().unwrap_or(bare);
            let name = ServerName::try_from(name.to_owned())
                .map_err(|_| wrong(&format!("`{name}` is not a valid server name in TLS")))?;
            Some((tls::tls_settings(options)?, name))
        } else {
            None
        };
        Ok(Arc::new(Self {
            host: bare.to_owned(),
            port,
            authority,
            prefix: parsed.path().trim_end_matches('/').to_owned(),
            addresses: addresses(bare, port, options).await?,
            tls,
        }))
    }

    /// Returns the same server with separate TLS sessions, for a user whose handshakes must not
    /// depend on other users.
    pub(super) fn with_own_sessions(&self) -> Arc<Self> {
        let own =
            |(config, name): &(Arc<_>, _)| (tls::with_own_sessions(config), Clone::clone(name));
        Arc::new(Self {
            tls: self.tls.as_ref().map(own),
            ..self.clone()
        })
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

async fn addresses(
    host: &str,
    port: u16,
    options: &ClientOptions,
) -> Result<Vec<SocketAddr>, EndpointError> {
    let given = |(name, address): &(String, IpAddr)| {
        (name.eq_ignore_ascii_case(host)).then(|| SocketAddr::new(*address, port))
    };
    let given: Vec<_> = options.resolve.iter().filter_map(given).collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let failed = |reason: String| EndpointError::Dns {
        host: host.to_owned(),
        reason,
    };
    let found = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| failed(error.to_string()))?;
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        return Err(failed("the host has no address".to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn endpoint(url: &str) -> Result<Arc<Endpoint>, EndpointError> {
        let options = ClientOptions {
            resolve: vec![("Log.Example".into(), [127, 0, 0, 7].into())],
            insecure: true,
            ..ClientOptions::default()
        };
        Endpoint::resolve(url, &options).await
    }

    #[tokio::test]
    async fn urls_are_taken_apart() {
        let it = endpoint("https://log.example/2026h1/").await.unwrap();
        assert_eq!(
            (it.authority.as_str(), it.prefix.as_str()),
            ("log.example", "/2026h1")
        );
        assert_eq!(it.addresses, ["127.0.0.7:443".parse().unwrap()]);
        assert_eq!(it.scheme(), "https");
        let it = endpoint("http://[::1]:81").await.unwrap();
        assert_eq!(
            (it.host.as_str(), it.authority.as_str(), it.prefix.as_str()),
            ("::1", "[::1]:81", "")
        );
        assert_eq!(it.addresses, ["[::1]:81".parse().unwrap()]);
        assert!(it.tls.is_none());
    }

    #[tokio::test]
    async fn what_is_no_server_is_refused() {
        for url in [
            "",
            "log.example",
            "ftp://log.example/",
            "http://",
            "http://u:p@h/",
            "http://h/?a",
        ] {
            let error = endpoint(url).await.unwrap_err();
            assert!(matches!(error, EndpointError::Url { .. }), "{url}: {error}");
        }
    }
}
