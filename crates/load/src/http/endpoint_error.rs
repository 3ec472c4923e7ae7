//! Errors of an endpoint.

use std::path::Path;

/// Reasons why requests cannot be sent to a URL.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The text is not the URL of a server.
    #[error("`{url}` is not the URL of a server: {reason}")]
    Url {
        /// Configured text.
        url: String,
        /// Error in the text.
        reason: String,
    },
    /// Certificates or keys cannot be used.
    #[error("{0}")]
    Trust(String),
    /// A name in the TLS settings is unknown, or the settings contradict each other.
    #[error("{0}")]
    Tls(String),
    /// The environment names a proxy for the host.
    #[error(
        "`{host}` would be reached through the proxy of {variable}, which load tests do not \
         use: unset {variable}, or add the host to NO_PROXY"
    )]
    Proxy {
        /// Host name.
        host: String,
        /// Name of the environment variable.
        variable: &'static str,
    },
    /// The host has no address.
    #[error("cannot find the address of `{host}`: {reason}")]
    Dns {
        /// Name or address of the host.
        host: String,
        /// Error of the resolver.
        reason: String,
    },
}

impl EndpointError {
    /// Returns the error for the certificates in `file`.
    pub(super) fn certificates(file: &Path, reason: &dyn std::fmt::Display) -> Self {
        let file = file.display();
        Self::Trust(format!("cannot use the certificates in {file}: {reason}"))
    }
}
