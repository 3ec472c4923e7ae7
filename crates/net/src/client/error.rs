//! Errors of the client.

use std::error::Error;
use std::time::Duration;

use http::StatusCode;
use http_body_util::LengthLimitError;

use crate::shown::url_without_secrets;
use crate::tls::{explain, tls_error};

/// Reasons why there is no response, or not the expected one.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not usable for a request.
    #[error("`{0}` is not a usable URL: {1}")]
    Url(String, String),
    /// The server was not reached, or did not speak HTTP. The text contains all causes, so the
    /// error has no source.
    #[error("{}", with_causes(.0))]
    Exchange(hyper_util::client::legacy::Error),
    /// The response was interrupted, or is too long.
    #[error("the response was interrupted, or is longer than {limit} bytes: {error}")]
    Body {
        /// Limit of the body in bytes.
        limit: usize,
        /// Error of the connection, or the error of a body beyond the limit.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
    /// The response has an unexpected status, and may request a wait (RFC 9110, section 10.2.3).
    #[error("the server responded with status {0}")]
    Status(StatusCode, Option<Duration>),
    /// The server redirects too often, from TLS to plain HTTP, or to a text that is not the URL of
    /// an HTTP server.
    #[error(
        "the server responded with status {0}: the redirect to {to} is one too many, leaves TLS, \
         or is not to an HTTP URL",
        to = url_without_secrets(.1)
    )]
    Redirect(StatusCode, String),
    /// The response took too long.
    #[error("no response within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

impl ClientError {
    /// Returns whether the response has more bytes than the limit.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Body { error, .. } if error.is::<LengthLimitError>())
    }
}

/// Formats an error with its causes, because hyper's own text has no details.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    if let Some(reason) = tls_error(error) {
        return format!("{error}: {}", explain(reason));
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
