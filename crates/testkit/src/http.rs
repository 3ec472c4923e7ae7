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

/// The longest time that a client waits for a whole response. No server of a test needs it.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns whether this is the error of a request to which no whole response came in time,
/// although the connection was there.
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

/// A whole response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body, as sent: content encodings are left alone.
    pub body: Bytes,
}

impl Response {
    /// A header as text, empty if absent.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// A body that is not; it is in the message.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{}: not JSON: {}", self.status, self.text()))
    }

    /// The body of a 200.
    ///
    /// # Errors
    /// Any other status; status and body are in the message.
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
    /// For URLs that begin with `base` (`http://127.0.0.1:6962/`).
    pub fn new(base: impl Into<String>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            pool: Pool::builder(TokioExecutor::new()).build(connector),
            base: base.into().trim_end_matches('/').to_owned(),
            limit: LIMIT,
        }
    }

    /// GET `base/path`.
    ///
    /// # Errors
    /// No whole response.
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.request(Method::GET, path, &[], Bytes::new()).await
    }

    /// GET with headers.
    ///
    /// # Errors
    /// No whole response.
    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        self.request(Method::GET, path, headers, Bytes::new()).await
    }

    /// POST of a JSON body.
    ///
    /// # Errors
    /// No whole response.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        let json = [(header::CONTENT_TYPE.as_str(), "application/json")];
        self.request(Method::POST, path, &json, body.into()).await
    }

    /// Any request.
    ///
    /// # Errors
    /// No whole response, or none within 30 s ([`is_silence`]): method and URL are in the message.
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

/// Sends `bytes` as they are on a connection of their own, and returns what
/// comes back until the server closes or is silent for `patience`: for
/// requests that no client would send.
///
/// # Errors
/// No connection. A server that closes early is not an error.
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
    // The server may answer and close before it has read everything: writing
    // and reading go on side by side, and a broken pipe is its right.
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
