use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{error::Elapsed, timeout},
};

/// Timeout of a whole response. No server of a test needs longer.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns `true` if a request had no complete response in time, although the connection was
/// established.
pub fn is_silence(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Elapsed>().is_some()
}

/// A plain HTTP/1.1 client with kept-alive connections, for one base URL.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    base: String,
    limit: Duration,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body as sent, without decoding.
    pub body: Bytes,
}

impl Response {
    /// Returns a header as text; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// If the body is not JSON; the message has the body.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{}: not JSON: {}", self.status, self.text()))
    }

    /// Returns the body of a response with status 200.
    ///
    /// # Errors
    /// If the status is not 200; the message has status and body.
    pub fn ok(self) -> Result<Bytes> {
        ensure!(
            self.status == StatusCode::OK,
            "{}: {}",
            self.status,
            self.text()
        );
        Ok(self.body)
    }
}

impl Client {
    /// Creates a client for URLs that begin with `base` (`http://127.0.0.1:6962/`).
    pub fn new(base: impl Into<String>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            pool: Pool::builder(TokioExecutor::new()).build(connector),
            base: base.into().trim_end_matches('/').to_owned(),
            limit: LIMIT,
        }
    }

    /// Sends GET `base/path`.
    ///
    /// # Errors
    /// If there is no complete response.
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.request(Method::GET, path, &[], Bytes::new()).await
    }

    /// Sends GET with headers.
    ///
    /// # Errors
    /// If there is no complete response.
    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        self.request(Method::GET, path, headers, Bytes::new()).await
    }

    /// Sends POST with a JSON body.
    ///
    /// # Errors
    /// If there is no complete response.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        let json = [(header::CONTENT_TYPE.as_str(), "application/json")];
        self.request(Method::POST, path, &json, body.into()).await
    }

    /// Sends any request.
    ///
    /// # Errors
    /// If there is no complete response, or none within 30 s ([`is_silence`]). The message has
    /// method and URL.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response> {
        let url = format!("{}/{}", self.base, path.trim_start_matches('/'));
        let context = || format!("{method} {url}");
        let mut request = Request::builder().method(&method).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).with_context(context)?;
        let whole = timeout(self.limit, self.whole_response(request)).await;
        let silence = || format!("{method} {url}: no whole response within {:?}", self.limit);
        whole.with_context(silence)?.with_context(context)
    }

    async fn whole_response(&self, request: Request<Full<Bytes>>) -> Result<Response> {
        let response = self.pool.request(request).await?;
        let (parts, body) = response.into_parts();
        Ok(Response {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await?.to_bytes(),
        })
    }
}

/// Sends `bytes` on a separate connection, and returns the received bytes until the server closes
/// or is silent for `patience`. Used for requests that no client would send.
///
/// # Errors
/// If the connection fails. A server that closes early is not an error.
pub async fn raw_exchange(
    address: SocketAddr,
    bytes: &[u8],
    patience: Duration,
) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("cannot connect to {address}"))?;
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    // The server may respond and close before it has read everything. Writing and reading are
    // therefore concurrent, and a broken pipe is no error.
    let write = async {
        let _ = timeout(patience, writer.write_all(bytes)).await;
    };
    let read =
        async { while let Ok(Ok(1..)) = timeout(patience, reader.read_buf(&mut answer)).await {} };
    futures_util::future::join(write, read).await;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_silent_server_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = Client::new(format!("http://{address}/log"));
        client.limit = Duration::from_millis(20);
        let error = client.get("checkpoint").await.unwrap_err();
        assert!(is_silence(&error));
        let text = format!("{error:#}");
        let url = format!("GET http://{address}/log/checkpoint: no whole response within 20ms");
        assert!(text.starts_with(&url), "{text}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_not_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let client = Client::new(format!("http://{address}"));
        let error = client.get("checkpoint").await.unwrap_err();
        assert!(!is_silence(&error), "{error:#}");
    }
}
