//! HTTP client for Lucarne's own requests: the report of the CCADB, log lists, chains for a log,
//! secrets.

mod blocking;
mod dialer;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, RETRY_AFTER,
    USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use tokio::time::timeout;
use url::Url;

pub use blocking::BlockingClient;

use crate::shown::url_without_secrets;
use crate::tls::{Trust, explain, tls_error, trusting};
use dialer::{Dialer, Lookups, Proxies};

/// Value of User-Agent.
const AGENT: &str = concat!("lucarne/", env!("CARGO_PKG_VERSION"));
/// Limit of consecutive redirects.
const REDIRECTS: usize = 10;
/// Size limit of a response to a POST, in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// HTTP/1.1 client with TLS for `https` URLs, which keeps connections. Clones are cheap and share
/// the connections.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<HttpsConnector<Dialer>, Full<Bytes>>,
    timeout: Duration,
}

/// A response whose body has arrived completely.
#[derive(Clone, Debug)]
pub struct CompleteResponse {
    /// HTTP status.
    pub status: StatusCode,
    /// Time to wait before the next request, if the server requests it (RFC 9110, section 10.2.3).
    pub retry_after: Option<Duration>,
    /// The complete body.
    pub body: Bytes,
}

impl Client {
    /// Creates a client with these TLS settings that connects directly.
    pub fn new(tls: &ClientConfig, timeout: Duration) -> Self {
        Self::through(None, tls.clone(), timeout)
    }

    /// Creates a client that trusts the system's certificates, and uses the proxies of the
    /// environment, like curl (`HTTPS_PROXY`, `NO_PROXY`, …).
    pub fn of_system(timeout: Duration) -> Self {
        let proxies = Arc::new(Proxies::of_environment());
        let tls = trusting(Trust::system());
        Self::through(Some(proxies), tls, timeout)
    }

    fn through(proxies: Option<Arc<Proxies>>, mut tls: ClientConfig, timeout: Duration) -> Self {
        tls.alpn_protocols.clear(); // the connector sets its own
        let mut tcp = HttpConnector::new_with_resolver(Lookups::default());
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Dialer { tcp, proxies });
        Client {
            pool: Pool::builder(TokioExecutor::new()).build(connector),
            timeout,
        }
    }

    /// Returns the body at `url`, of at most `limit` bytes. Follows redirects, except from `https`
    /// to `http`.
    ///
    /// # Errors
    /// See [`ClientError`]; also for any status other than 200.
    pub async fn get(&self, url: &str, limit: usize) -> Result<Bytes, ClientError> {
        let unknown = Validators::default();
        match self.get_if_changed(url, limit, &unknown).await? {
            Some((body, _)) => Ok(body),
            None => Err(ClientError::Status(StatusCode::NOT_MODIFIED, None)),
        }
    }

    /// Returns the body if it has changed since the response with these `known` validators;
    /// otherwise `None` (RFC 9110, section 13).
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub async fn get_if_changed(
        &self,
        url: &str,
        limit: usize,
        known: &Validators,
    ) -> Result<Option<(Bytes, Validators)>, ClientError> {
        let followed = async {
            let mut at = Url::parse(url).map_err(|error| unusable(url, &error))?;
            for _ in 0..=REDIRECTS {
                let mut request = request(Method::GET, at.as_str(), Bytes::new())?;
                known.put(request.headers_mut());
                let (response, headers) = self.exchange(request, limit).await?;
                match response.status {
                    StatusCode::OK => {
                        return Ok(Some((response.body, Validators::of(&headers))));
                    }
                    StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
                    status if status.is_redirection() => at = redirected(&at, status, &headers)?,
                    status => return Err(ClientError::Status(status, response.retry_after)),
                }
            }
            Err(ClientError::Redirect(StatusCode::FOUND, at.into()))
        };
        self.in_time(followed).await
    }

    /// Posts JSON. The response may have any status.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post_json(
        &self,
        url: &str,
        json: impl Into<Bytes>,
    ) -> Result<CompleteResponse, ClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.post(url, headers, json).await
    }

    /// Posts a body with these header fields. The response may have any status.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<CompleteResponse, ClientError> {
        let mut request = request(Method::POST, url, body.into())?;
        request.headers_mut().extend(headers);
        let (response, _) = self.in_time(self.exchange(request, MAX_RESPONSE)).await?;
        Ok(response)
    }

    /// Posts a body with these header fields. The response may have any status, and at most `limit`
    /// bytes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post_within(
        &self,
        url: &str,
        fields: &[(&'static str, &'static str)],
        body: impl Into<Bytes>,
        limit: usize,
    ) -> Result<CompleteResponse, ClientError> {
        let mut request = request(Method::POST, url, body.into())?;
        let fields = fields.iter().map(|&(name, value)| {
            let value = HeaderValue::from_static(value);
            (HeaderName::from_static(name), value)
        });
        request.headers_mut().extend(fields);
        let (response, _) = self.in_time(self.exchange(request, limit)).await?;
        Ok(response)
    }

    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let response = timeout(self.timeout, exchange).await;
        response.unwrap_or(Err(ClientError::Timeout(self.timeout)))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        limit: usize,
    ) -> Result<(CompleteResponse, HeaderMap), ClientError> {
        let response = self.pool.request(request).await;
        let (head, body) = response.map_err(ClientError::Exchange)?.into_parts();
        let body = Limited::new(body, limit).collect().await;
        let body = body.map_err(|error| ClientError::Body { limit, error })?;
        let retry_after = head.headers.get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        let response = CompleteResponse {
            status: head.status,
            retry_after: retry_after.and_then(|value| wait(value, jiff::Timestamp::now())),
            body: body.to_bytes(),
        };
        Ok((response, head.headers))
    }
}

fn request(method: Method, url: &str, body: Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
    let request = Request::builder()
        .method(method)
        .uri(url)
        .header(USER_AGENT, AGENT)
        .body(Full::from(body));
    request.map_err(|error| unusable(url, &error))
}

fn unusable(url: &str, error: &dyn Error) -> ClientError {
    ClientError::Url(url_without_secrets(url), error.to_string())
}

/// Returns the target of a redirect.
fn redirected(from: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Url, ClientError> {
    let location = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    let Some(location) = location else {
        return Err(ClientError::Status(status, None));
    };
    match from.join(location) {
        // A client that uses TLS must not be redirected to a server without TLS.
        Ok(to) if to.scheme() == from.scheme() || to.scheme() == "https" => Ok(to),
        _ => Err(ClientError::Redirect(status, location.to_owned())),
    }
}

/// Parses Retry-After (RFC 9110, section 10.2.3): seconds, or a date.
fn wait(value: &str, now: jiff::Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(value)
        .ok()?;
    let seconds = at.as_second().saturating_sub(now.as_second());
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Validators of a response. A server compares the validators in a request with its present ones,
/// to detect a change (RFC 9110, section 8.8).
#[derive(Clone, Debug, Default)]
pub struct Validators {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl Validators {
    fn of(headers: &HeaderMap) -> Self {
        Validators {
            etag: headers.get(ETAG).cloned(),
            last_modified: headers.get(LAST_MODIFIED).cloned(),
        }
    }

    fn is_some(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    fn put(&self, headers: &mut HeaderMap) {
        let conditions = [
            (IF_NONE_MATCH, &self.etag),
            (IF_MODIFIED_SINCE, &self.last_modified),
        ];
        for (name, value) in conditions {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }
}

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

#[cfg(test)]
mod tests;
