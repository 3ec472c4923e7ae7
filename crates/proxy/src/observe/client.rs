//! The few requests of the observer itself: log lists, and chains for a log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A small client over HTTP/1.1, with TLS where the URL says so.
#[derive(Debug, Clone)]
pub(crate) struct Client(Pool<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// An answer in full.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The time to wait before the next request, if the server says.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

impl Client {
    /// A client that trusts what `tls` trusts.
    pub(crate) fn new(tls: &Arc<rustls::ClientConfig>) -> Self {
        let mut tls = rustls::ClientConfig::clone(tls);
        tls.alpn_protocols.clear(); // the connector says its own
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        Client(Pool::builder(TokioExecutor::new()).build(connector))
    }

    /// The body at `url`, at most `most` bytes. Redirects are not followed.
    ///
    /// # Errors
    /// In words.
    pub(crate) async fn get(&self, url: &str, most: usize) -> Result<Bytes, String> {
        let request = Request::get(url).header(USER_AGENT, AGENT);
        let request = request.body(Full::default()).map_err(text)?;
        let answer = self.send(request, most).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(format!("the server answered {status}")),
        }
    }

    /// Posts JSON.
    ///
    /// # Errors
    /// In words: there was no answer.
    pub(crate) async fn post(&self, url: &str, json: Vec<u8>) -> Result<Answer, String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(USER_AGENT, AGENT)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(json))
            .map_err(text)?;
        self.send(request, 64 << 10).await
    }

    async fn send(&self, request: Request<Full<Bytes>>, most: usize) -> Result<Answer, String> {
        let exchange = async {
            let response = self.0.request(request).await.map_err(text)?;
            let (head, body) = response.into_parts();
            let retry_after = head.headers.get(RETRY_AFTER);
            let retry_after = retry_after.and_then(|value| value.to_str().ok());
            let body = Limited::new(body, most).collect().await.map_err(|error| {
                format!("the answer could not be read, or is longer than {most} bytes: {error}")
            })?;
            Ok(Answer {
                status: head.status,
                retry_after: retry_after.and_then(|value| wait(value, jiff::Timestamp::now())),
                body: body.to_bytes(),
            })
        };
        let answer = timeout(TIMEOUT, exchange).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())))
    }
}

const AGENT: &str = concat!("lucarne/", env!("CARGO_PKG_VERSION"));

/// An error with what caused it: hyper's own says only that something failed.
fn text(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Retry-After (RFC 9110 section 10.2.3): seconds, or a date.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_to_wait() {
        let now = "2026-07-01T00:00:00Z".parse().unwrap();
        for (value, seconds) in [
            ("0", Some(0)),
            (" 17 ", Some(17)),
            ("Wed, 01 Jul 2026 00:01:00 GMT", Some(60)),
            ("Wed, 01 Jul 2020 00:01:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(
                wait(value, now),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
