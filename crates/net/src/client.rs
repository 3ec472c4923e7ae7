//! HTTP client for our own requests: CCADB's report, log lists, chains for a log, secrets.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, RETRY_AFTER,
    USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tower_service::Service;
use url::Url;

use crate::tls::{Trust, explain, tls_error, trusting};

/// Value of User-Agent.
const AGENT: &str = concat!("lucarne/", env!("CARGO_PKG_VERSION"));
/// Limit of consecutive redirects.
const REDIRECTS: usize = 10;
/// Size limit of a response to a POST, in bytes.
const MOST_ANSWER: usize = 1 << 20;

/// HTTP/1.1 client with TLS for `https` URLs, which keeps connections. Clones are cheap and share
/// the connections.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<HttpsConnector<Dialer>, Full<Bytes>>,
    timeout: Duration,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status of the response.
    pub status: StatusCode,
    /// Time to wait before the next request, if the server requests it (RFC 9110, section 10.2.3).
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

/// Validators of a response, with which a server detects changes (RFC 9110, section 8.8).
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
    /// The server was not reached, or did not speak HTTP.
    #[error("{}", with_causes(.0))]
    Exchange(#[source] hyper_util::client::legacy::Error),
    /// The response was interrupted, or is too long.
    #[error("the response was interrupted, or is longer than {limit} bytes: {error}")]
    Body {
        /// Limit of the body in bytes.
        limit: usize,
        /// Error of the connection, or the excess of the limit.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
    /// The response has another status than the expected one.
    #[error("the server responded with status {0}")]
    Status(StatusCode),
    /// The server redirects too often, or from TLS to plain HTTP.
    #[error("the server responded with status {0}: the redirect to {1} is not followed")]
    Redirect(StatusCode, String),
    /// The response took too long.
    #[error("no response within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

impl Client {
    /// Creates a client with these TLS settings that connects directly.
    pub fn new(tls: &ClientConfig, timeout: Duration) -> Self {
        Self::through(None, tls.clone(), timeout)
    }

    /// Creates a client that trusts the system's certificates, and uses the proxies of the
    /// environment, like curl (`HTTPS_PROXY`, `NO_PROXY`, …).
    pub fn of_system(timeout: Duration) -> Self {
        let proxies = Arc::new(Matcher::from_env());
        let tls = trusting(Trust::system());
        Self::through(Some(proxies), tls, timeout)
    }

    fn through(proxies: Option<Arc<Matcher>>, mut tls: ClientConfig, timeout: Duration) -> Self {
        tls.alpn_protocols.clear(); // the connector sets its own
        let mut tcp = HttpConnector::new();
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
            None => Err(ClientError::Status(StatusCode::NOT_MODIFIED)),
        }
    }

    /// Returns the body if it has changed since the response with these `known` validators;
    /// otherwise `None` (RFC 9110, section 13).
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub async fn get_if_changed(
        &self,
        url: &str,
        limit: usize,
        known: &Validators,
    ) -> Result<Option<(Bytes, Validators)>, ClientError> {
        let followed = async {
            let mut at = Url::parse(url).map_err(|error| unusable(url, &error))?;
            for _ in 0..=REDIRECTS {
                let mut request = request(Method::GET, at.as_str(), None)?;
                known.put(request.headers_mut());
                let (answer, headers) = self.exchange(request, limit).await?;
                match answer.status {
                    StatusCode::OK => {
                        return Ok(Some((answer.body, Validators::of(&headers))));
                    }
                    StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
                    status if status.is_redirection() => at = redirected(&at, status, &headers)?,
                    status => return Err(ClientError::Status(status)),
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
    ) -> Result<Answer, ClientError> {
        let request = request(Method::POST, url, Some(json.into()))?;
        let (answer, _) = self.in_time(self.exchange(request, MOST_ANSWER)).await?;
        Ok(answer)
    }

    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let answer = timeout(self.timeout, exchange).await;
        answer.unwrap_or(Err(ClientError::Timeout(self.timeout)))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        limit: usize,
    ) -> Result<(Answer, HeaderMap), ClientError> {
        let response = self.pool.request(request).await;
        let (head, body) = response.map_err(ClientError::Exchange)?.into_parts();
        let body = Limited::new(body, limit).collect().await;
        let body = body.map_err(|error| ClientError::Body { limit, error })?;
        let retry_after = head.headers.get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        let answer = Answer {
            status: head.status,
            retry_after: retry_after.and_then(|value| wait(value, jiff::Timestamp::now())),
            body: body.to_bytes(),
        };
        Ok((answer, head.headers))
    }
}

/// Client for synchronous code: the demo, startup, commands.
///
/// May be called and dropped inside another runtime. A call blocks its thread.
#[derive(Debug)]
pub struct BlockingClient {
    client: Client,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        // An ordinary drop panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl BlockingClient {
    /// Creates a client with its own runtime.
    ///
    /// # Errors
    /// The runtime cannot be created.
    pub fn new(client: Client) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(BlockingClient {
            client,
            runtime: Some(runtime),
        })
    }

    /// Runs `request` to its end on a separate thread, because `block_on` panics on a thread that
    /// runs another runtime.
    fn wait<T: Send>(
        &self,
        request: impl Future<Output = Result<T, ClientError>> + Send,
    ) -> Result<T, ClientError> {
        let Some(runtime) = &self.runtime else {
            unreachable!("a client that is being dropped sends nothing");
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| runtime.block_on(request));
            match waiting.join() {
                Ok(response) => response,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Requests a body, see [`Client::get`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&self, url: &str, limit: usize) -> Result<Bytes, ClientError> {
        self.wait(self.client.get(url, limit))
    }

    /// Requests a changed body, see [`Client::get_if_changed`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_if_changed(
        &self,
        url: &str,
        limit: usize,
        known: &Validators,
    ) -> Result<Option<(Bytes, Validators)>, ClientError> {
        self.wait(self.client.get_if_changed(url, limit, known))
    }

    /// Posts JSON, see [`Client::post_json`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn post_json(&self, url: &str, json: impl Into<Bytes>) -> Result<Answer, ClientError> {
        let json: Bytes = json.into();
        self.wait(self.client.post_json(url, json))
    }
}

fn request(
    method: Method,
    url: &str,
    json: Option<Bytes>,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .header(USER_AGENT, AGENT);
    if json.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let request = request.body(Full::from(json.unwrap_or_default()));
    request.map_err(|error| unusable(url, &error))
}

fn unusable(url: &str, error: &dyn Error) -> ClientError {
    ClientError::Url(url.to_owned(), error.to_string())
}

/// Returns the target of a redirect.
fn redirected(from: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Url, ClientError> {
    let location = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    let Some(location) = location else {
        return Err(ClientError::Status(status));
    };
    match from.join(location) {
        // A client that uses TLS must not be redirected to a server without it.
        Ok(to) if to.scheme() == from.scheme() || to.scheme() == "https" => Ok(to),
        _ => Err(ClientError::Redirect(status, location.to_owned())),
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

/// TCP connections, through a proxy if the environment names one.
#[derive(Clone, Debug)]
struct Dialer {
    tcp: HttpConnector,
    proxies: Option<Arc<Matcher>>,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let proxies = self.proxies.as_ref();
        let Some(proxy) = proxies.and_then(|proxies| proxies.intercept(&to)) else {
            let connecting = self.tcp.call(to);
            return Box::pin(async { Ok(connecting.await?) });
        };
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        Box::pin(async move { Ok(tunnel.call(to).await?) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server that sends these responses, each on a separate connection. Returns the first
    /// lines of the requests.
    async fn server(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let (address, asked) = whole(answers).await;
        let first = |request: &String| request.lines().next().unwrap_or_default().to_owned();
        let lines = async move { asked.await.unwrap().iter().map(first).collect() };
        (address, tokio::spawn(lines))
    }

    /// Starts a server that sends these responses. Returns the complete requests.
    async fn whole(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                asked.push(request);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        (address, serving)
    }

    fn found(location: &str) -> String {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
    }

    fn ok(body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
    }

    fn client() -> Client {
        Client::new(&trusting(Trust::system()), Duration::from_secs(10))
    }

    #[tokio::test]
    async fn what_has_not_changed_is_not_sent_again() {
        let answers = [
            "HTTP/1.1 200 OK\r\netag: \"7\"\r\ncontent-length: 3\r\nconnection: close\r\n\r\nnew",
            "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n",
        ];
        let (address, asked) = whole(answers.map(str::to_owned).to_vec()).await;
        let client = client();
        let url = format!("http://{address}/report");
        let none = Validators::default();
        let first = client.get_if_changed(&url, 10, &none).await.unwrap();
        let (body, validators) = first.unwrap();
        assert_eq!(&body[..], b"new");
        let again = client.get_if_changed(&url, 10, &validators).await.unwrap();
        assert!(again.is_none());
        // Status 304 for a request without validators is an error.
        assert!(client.get(&url, 10).await.is_err());
        let asked = asked.await.unwrap();
        assert!(!asked[0].contains("if-none-match"), "{}", asked[0]);
        assert!(asked[1].contains("if-none-match: \"7\""), "{}", asked[1]);
    }

    #[tokio::test]
    async fn redirects_are_followed_and_end() {
        let (address, serving) = server(vec![found("/elsewhere?a=1"), ok("roots")]).await;
        let body = client()
            .get(&format!("http://{address}/here"), 100)
            .await
            .unwrap();
        assert_eq!(&body[..], b"roots");
        let asked = serving.await.unwrap();
        assert_eq!(asked, ["GET /here HTTP/1.1", "GET /elsewhere?a=1 HTTP/1.1"]);

        let (address, serving) = server(vec![found("/again"); REDIRECTS + 1]).await;
        let error = client()
            .get(&format!("http://{address}/"), 100)
            .await
            .unwrap_err();
        assert!(matches!(error, ClientError::Redirect(..)), "{error}");
        serving.await.unwrap();
    }

    #[test]
    fn tls_is_not_left() {
        let from = Url::parse("https://ccadb.example/report").unwrap();
        let to = |location: &'static str| {
            let headers = HeaderMap::from_iter([(LOCATION, location.parse().unwrap())]);
            redirected(&from, StatusCode::FOUND, &headers).map(String::from)
        };
        assert_eq!(to("/b").unwrap(), "https://ccadb.example/b");
        assert_eq!(
            to("https://other.example/").unwrap(),
            "https://other.example/"
        );
        for plain in ["http://ccadb.example/report", "file:///etc/passwd"] {
            assert!(
                matches!(to(plain), Err(ClientError::Redirect(..))),
                "{plain}"
            );
        }
    }

    #[tokio::test]
    async fn answers_are_bounded() {
        let (address, _serving) = server(vec![ok("0123456789")]).await;
        let error = client()
            .get(&format!("http://{address}/"), 9)
            .await
            .unwrap_err();
        assert!(
            matches!(error, ClientError::Body { limit: 9, .. }),
            "{error}"
        );
    }

    #[test]
    fn several_threads_ask_at_once() {
        let runtime = Runtime::new().unwrap();
        let (address, _serving) = runtime.block_on(server(vec![ok("1"), ok("1"), ok("1")]));
        let client = BlockingClient::new(client()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let answer = client
                        .post_json(&format!("http://{address}/"), "{}")
                        .unwrap();
                    assert_eq!(
                        (answer.status, &answer.body[..]),
                        (StatusCode::OK, &b"1"[..])
                    );
                });
            }
        });
    }

    #[tokio::test]
    async fn a_blocking_client_works_inside_a_runtime() {
        let other = Runtime::new().unwrap();
        let (address, _serving) = other.spawn(server(vec![ok("1")])).await.unwrap();
        let client = BlockingClient::new(client()).unwrap();
        let body = client.get(&format!("http://{address}/"), 9).unwrap();
        assert_eq!(body, "1");
        drop(client);
        other.shutdown_background();
    }

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
