//! Connections of the client.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::NoProxy;

/// TCP connections, through a proxy if the environment names one.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    pub(super) tcp: HttpConnector,
    pub(super) proxies: Option<Arc<Proxies>>,
}

/// The proxies of the environment.
#[derive(Debug)]
pub(super) struct Proxies {
    matcher: Matcher,
    excepted: NoProxy,
}

impl Proxies {
    pub(super) fn of_environment() -> Self {
        Proxies {
            matcher: Matcher::from_env(),
            excepted: NoProxy::of_environment(|name| std::env::var(name).ok()),
        }
    }

    fn intercept(&self, to: &Uri) -> Option<Intercept> {
        let usual = match to.scheme_str() {
            Some("https") => 443,
            _ => 80,
        };
        let port = to.port_u16().unwrap_or(usual);
        if self.excepted.contains(to.host()?, port) {
            return None;
        }
        self.matcher.intercept(to)
    }
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
    use super::*;

    #[test]
    fn hosts_of_no_proxy_are_reached_directly() {
        let list = "10.0.0.0/8, [::1]:8080, a.example:8443, b.example.";
        let proxies = Proxies {
            matcher: Matcher::builder().all("http://proxy.example:3128").build(),
            excepted: NoProxy::of_environment(|name| (name == "NO_PROXY").then(|| list.to_owned())),
        };
        for (url, direct) in [
            ("http://10.1.2.3/", true),
            ("https://11.1.2.3/", false),
            ("http://[::1]:8080/", true),
            ("http://[::1]/", false),
            ("https://a.example:8443/", true),
            ("https://a.example/", false),
            ("https://www.b.example/", true),
        ] {
            let proxy = proxies.intercept(&Uri::from_static(url));
            assert_eq!(proxy.is_none(), direct, "{url}");
        }
    }
}
