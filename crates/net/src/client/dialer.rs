//! Connections of the client.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// TCP connections, through a proxy if the environment names one.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    pub(super) tcp: HttpConnector,
    pub(super) proxies: Option<Arc<Matcher>>,
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
