//! HTTP client for the instances.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

/// Maximum size of a body in bytes.
pub(super) const MAX_BODY: usize = 4 << 20;
/// Timeout of a local connection, and of a response to `/health`.
const SOON: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Client(pub(super) Pool<HttpConnector, Full<Bytes>>);

impl Client {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(SOON));
        Client(Pool::builder(TokioExecutor::new()).build(connector))
    }

    /// Returns the body of a response of any status, or `None` after [`SOON`] or an error.
    pub(super) async fn get(&self, url: &str) -> Option<Bytes> {
        let response = async {
            let response = self.0.get(url.parse().ok()?).await.ok()?;
            let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
            Some(body.ok()?.to_bytes())
        };
        timeout(SOON, response).await.ok()?
    }
}
