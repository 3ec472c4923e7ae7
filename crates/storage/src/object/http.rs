//! The HTTP client of `object_store`: hyper with counters, timeouts and hedged requests.
//!
//! `object_store` signs, formats and retries the requests. This module adds the other requirements
//! of a round: no request hangs, one slow response does not delay the round, and every request is
//! counted.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use http::header::{ACCEPT_ENCODING, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lucarne_net::{Trust, explain, tls_error, trusting};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpService,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::RequestPolicy;
use crate::{Operation, Outcome, Stats};

const AGENT: &str = concat!("lucarne/", env!("CARGO_PKG_VERSION"));

/// Timeout of a TCP connection attempt.
const CONNECT: Duration = Duration::from_secs(2);

/// Time after which an unused connection is closed, before the store closes it (S3: 20 s).
const IDLE: Duration = Duration::from_secs(15);

/// Marks a put whose bytes never change: it may be sent twice concurrently.
#[derive(Clone, Copy)]
pub(super) struct Immutable;

/// Marks a put with a condition on the replaced object: it may be sent again, but not twice
/// concurrently.
#[derive(Clone, Copy)]
pub(super) struct Conditional;

/// Links a request with its retries, so that retries can be counted.
#[derive(Clone, Default)]
pub(super) struct Tries(Arc<AtomicBool>);

/// Creates the transports of one store.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) policy: RequestPolicy,
    pub(crate) stats: Arc<Stats>,
    /// Request stored gzip bytes as they are. Otherwise GCS decompresses them.
    pub(crate) accept_gzip: bool,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    /// Ignores the options: the policy has all timeouts.
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Transport::new(self.clone())))
    }
}

struct Transport {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
    options: Connector,
    budget: Budget,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

impl Transport {
    fn new(options: Connector) -> Self {
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(trusting(Trust::system()))
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(https);
        Self {
            client,
            options,
            budget: Budget::default(),
        }
    }

    /// Sends one request and counts it.
    async fn attempt(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let operation = operation(&request);
        let start = Instant::now();
        let response = self.exchange(request).await;
        let outcome = match &response {
            Ok(response) => outcome(response.status()),
            Err(_) => Outcome::Lost,
        };
        let stats = &self.options.stats;
        stats.report(|observer| observer.request(operation, outcome, start.elapsed()));
        response
    }

    /// Sends one request and reads the complete response.
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.options.stats.requested();
        let harmless = repeatable(&request);
        let sent = request.body().content_length();
        let start = Instant::now() + self.options.policy.request + per_mib(sent);
        let failed = |error: &(dyn std::error::Error + 'static)| fault(harmless, error);
        let late = |_| HttpError::new(kind(harmless, HttpErrorKind::Timeout), Late);

        let response = timeout_at(start, self.client.request(request)).await;
        let response = response.map_err(late)?.map_err(|e| failed(&e))?;
        let (parts, mut body) = response.into_parts();
        self.options.stats.responded(&parts.headers);
        let mut whole = BytesMut::new();
        let mut deadline = start;
        while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(late)? {
            if let Ok(data) = frame.map_err(|e| failed(&e))?.into_data() {
                whole.extend_from_slice(&data);
                deadline = start + per_mib(whole.len());
            }
        }
        Ok(HttpResponse::from_parts(parts, Bytes::from(whole).into()))
    }

    /// Sends the request a second time, concurrently with the first, if there is no response within
    /// `after`. The first good response wins.
    async fn hedged(
        &self,
        request: HttpRequest,
        after: Duration,
    ) -> Result<HttpResponse, HttpError> {
        let after = after + per_mib(request.body().content_length());
        let mut first = pin!(self.attempt(request.clone()));
        if let Ok(response) = timeout(after, &mut first).await {
            return response;
        }
        if !self.budget.take() {
            return first.await;
        }
        self.options.stats.hedged();
        let second = pin!(self.attempt(request));
        let (response, other) = match select(first, second).await {
            Either::Left((response, other)) => (response, other),
            Either::Right((response, other)) => (response, other),
        };
        if good(&response) {
            response
        } else {
            Some(other.await).filter(good).unwrap_or(response)
        }
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.budget.earn();
        if let Some(Tries(tried)) = request.extensions().get::<Tries>()
            && tried.swap(true, Relaxed)
        {
            self.options.stats.report(|observer| observer.retry());
        }
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if self.options.accept_gzip {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        match self.options.policy.hedge {
            Some(after) if hedgeable(&request) => self.hedged(request, after).await,
            _ => self.attempt(request).await,
        }
    }
}

/// Returns the operation of a request of S3, Google's XML API or Azure.
fn operation<B>(request: &Request<B>) -> Operation {
    let query = request.uri().query().unwrap_or_default();
    let listing = query.contains("list-type=") || query.contains("comp=list");
    match *request.method() {
        Method::GET if listing => Operation::List,
        Method::GET | Method::HEAD => Operation::Get,
        Method::PUT => Operation::Put,
        Method::DELETE => Operation::Delete,
        Method::POST if query.starts_with("delete") || query.contains("comp=batch") => {
            Operation::Delete
        }
        _ => Operation::Other,
    }
}

/// Returns the outcome for the status of a response.
fn outcome(status: StatusCode) -> Outcome {
    match status.as_u16() {
        ..300 => Outcome::Done,
        404 => Outcome::Absent,
        304 | 409 | 412 => Outcome::Conflict,
        408 | 429 | 500.. => Outcome::Unavailable,
        _ => Outcome::Refused,
    }
}

/// Returns `true` for reads, and for writes of immutable objects.
fn hedgeable<B>(request: &Request<B>) -> bool {
    match *request.method() {
        Method::GET | Method::HEAD => true,
        Method::PUT => request.extensions().get::<Immutable>().is_some(),
        _ => false,
    }
}

/// Returns `true` for a batch deletion, which is a `POST`, and for a put whose condition makes
/// repetition harmless. `object_store` itself repeats other puts, but cannot know that these
/// requests are repeatable.
fn repeatable<B>(request: &Request<B>) -> bool {
    if request.extensions().get::<Conditional>().is_some() {
        return true;
    }
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST && query.starts_with("delete")
}

fn good(response: &Result<HttpResponse, HttpError>) -> bool {
    matches!(response, Ok(response) if !response.status().is_server_error())
}

/// Adds one second for each MiB: a request that transfers data is not stuck.
fn per_mib(bytes: usize) -> Duration {
    Duration::from_secs((bytes >> 20) as u64)
}

/// Prefix of the error text for an untrusted certificate. `object_store` does not pass on the error
/// itself.
pub(super) const UNTRUSTED: &str = "untrusted certificate";

#[derive(Debug, thiserror::Error)]
#[error("no response in time")]
struct Late;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);

/// Returns the kind of the error. With `Request`, `object_store` may send the request again.
fn kind(harmless: bool, kind: HttpErrorKind) -> HttpErrorKind {
    if harmless {
        HttpErrorKind::Request
    } else {
        kind
    }
}

/// Classifies an error of hyper and describes it by its innermost cause, which is the most
/// specific.
fn fault(harmless: bool, error: &(dyn std::error::Error + 'static)) -> HttpError {
    type Legacy = hyper_util::client::legacy::Error;
    let connecting = error
        .downcast_ref::<Legacy>()
        .is_some_and(Legacy::is_connect);
    let (mut words, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    match tls_error(error) {
        Some(wrong @ rustls::Error::InvalidCertificate(_)) => {
            words = format!("{UNTRUSTED}: {}", explain(wrong));
        }
        Some(other) => words = explain(other),
        None => {}
    }
    let sort = if connecting {
        HttpErrorKind::Connect
    } else {
        kind(harmless, HttpErrorKind::Interrupted)
    };
    HttpError::new(sort, Fault(words))
}

/// Limits hedging to rare slow responses: in the long run at most one request in ten is sent twice,
/// even if the whole store is slow.
struct Budget(AtomicI64);

impl Budget {
    const PRICE: i64 = 10;
    const MAX_SAVED: i64 = 10 * Self::PRICE;

    fn earn(&self) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |saved| {
            (saved < Self::MAX_SAVED).then_some(saved + 1)
        });
    }

    fn take(&self) -> bool {
        let pay = |saved| (saved >= Self::PRICE).then_some(saved - Self::PRICE);
        self.0.fetch_update(Relaxed, Relaxed, pay).is_ok()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicI64::new(Self::MAX_SAVED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let of = |method: &str, uri: &str| {
            operation(&Request::builder().method(method).uri(uri).body(()).unwrap())
        };
        assert_eq!(
            of("GET", "http://h/b?list-type=2&prefix=x"),
            Operation::List
        );
        assert_eq!(
            of("GET", "http://h/c?restype=container&comp=list"),
            Operation::List
        );
        assert_eq!(of("GET", "http://h/b/checkpoint"), Operation::Get);
        assert_eq!(of("PUT", "http://h/b/checkpoint"), Operation::Put);
        assert_eq!(of("POST", "http://h/b?delete"), Operation::Delete);
        assert_eq!(
            of("POST", "http://h/c?restype=container&comp=batch"),
            Operation::Delete
        );
        assert_eq!(of("POST", "http://h/token"), Operation::Other);
    }
}
