//! Connections of the client.

use std::collections::HashMap;
use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::{io, vec};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tower_service::Service;

use crate::NoProxy;

/// Lookups of host names, one at a time for each name. A lookup of the system needs a thread until
/// the lookup ends, even if the client no longer waits. Retries for a hung name must not use more
/// threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookups(Arc<Mutex<HashMap<String, Arc<Turn>>>>);

/// The right to look up a name.
type Turn = tokio::sync::Mutex<()>;

impl Lookups {
    fn turn(&self, name: &str) -> Arc<Turn> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(name.to_owned()).or_default().clone()
    }
}

impl Service<Name> for Lookups {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let turn = self.turn(name.as_str());
        Box::pin(async move {
            let turn = turn.lock_owned().await;
            let lookup = spawn_blocking(move || {
                let _until_the_end = turn;
                (name.as_str(), 0).to_socket_addrs()
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

/// TCP connections, through a proxy if the environment names one.
#[derive(Clone, Debug)]
pub(super) struct Dialer {
    pub(super) tcp: HttpConnector<Lookups>,
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

    #[tokio::test]
    async fn a_hung_lookup_delays_only_lookups_of_its_name() {
        let mut lookups = Lookups::default();
        let hung = lookups.turn("127.0.0.1").lock_owned().await;
        let mut waiting = lookups.call("127.0.0.1".parse().unwrap());
        let other = lookups.call("127.0.0.2".parse().unwrap());
        let found: Vec<_> = tokio::select! {
            biased;
            _ = &mut waiting => panic!("two lookups of one name at a time"),
            found = other => found.unwrap().collect(),
        };
        assert_eq!(found, ["127.0.0.2:0".parse().unwrap()]);
        drop(hung);
        assert_eq!(waiting.await.unwrap().count(), 1);
    }

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
